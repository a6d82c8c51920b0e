//! One of four replicas is stopped by SIGSTOP: it accepts connections and requests, and answers
//! nothing.

use super::{CALM, NOTHING, REPLICAS, SECOND, busy_percent, main_stream, of_each, plain, times};
use crate::loopback::behaviour::Behaviour;
use crate::troubles::columns::Column;
use crate::troubles::options::Options;
use crate::troubles::plan::{Case, Claim, Round, Span, Step, Variant};
use crate::troubles::results::Results;
use core::time::Duration;
use rustix::process::Signal;

pub(super) const NAME: &str = "stopped";

const POLICIES: [&str; 2] = ["round_robin", "prequal"];

const PROBATION: &str = "latency probation";
const HEDGING: &str = "hedging";
const BOTH: &str = "both";

const PROBATION_ON: &str = "[latency_probation]\nenabled = true\n";
const PROBATION_OFF: &str = "[latency_probation]\nenabled = false\n";
const HEDGING_ON: &str = "[hedge]\nenabled = true\n";

/// Time until delayed requests have been answered.
const TAIL: Duration = Duration::from_secs(5);

pub(super) fn case(options: &Options) -> Case {
    let rounds = if options.short {
        vec![round(options, Who::ReplicaAlone)]
    } else {
        vec![
            round(options, Who::ReplicaAndAgent),
            round(options, Who::ReplicaAlone),
        ]
    };
    Case {
        name: NAME,
        title: "a replica that is stopped by SIGSTOP",
        about: format!(
            "One of {REPLICAS} replicas is stopped for {} s; {} requests/s of 10 ms, {} % of what the four can do. Clients wait for 5 s, and\n\
             a request without a response by then is an error that took 5 s. Its share is that after the first second. With its agent\n\
             stopped, too, probes show that it is gone; alone, its agent goes on answering them, until all its\n\
             connections wait there.",
            options.seconds,
            options.rate,
            busy_percent(options)
        ),
        columns: &[
            Column::Errors,
            Column::P50,
            Column::P99,
            Column::P999,
            Column::Max,
            Column::Share,
            Column::Copies,
            Column::Late,
        ],
        rounds,
        claims: if options.short { certain } else { claims },
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    ReplicaAndAgent,
    ReplicaAlone,
}

fn round(options: &Options, who: Who) -> Round {
    let goes_on = CALM + options.trouble();
    let measured = Span {
        from: CALM,
        to: goes_on + if options.short { SECOND } else { TAIL },
    };
    let mut main = main_stream(options.rate, measured);
    let variants = if options.short {
        // Longer than the replica is stopped.
        main.arguments = &["--timeout", "60s"];
        vec![plain("round_robin", PROBATION, PROBATION_ON)]
    } else {
        POLICIES.into_iter().flat_map(variants).collect()
    };
    let mut steps = vec![
        (CALM, Step::Replica(Signal::STOP)),
        (goes_on, Step::Replica(Signal::CONT)),
    ];
    if who == Who::ReplicaAndAgent {
        steps.push((CALM, Step::Agent(Signal::STOP)));
        steps.push((goes_on, Step::Agent(Signal::CONT)));
    }
    let (id, name) = match who {
        Who::ReplicaAndAgent => ("both", "The replica and its agent are stopped"),
        Who::ReplicaAlone => ("replica", "The replica alone is stopped"),
    };
    Round {
        id,
        name: name.to_owned(),
        replicas: REPLICAS,
        behaviour: Behaviour::default(),
        steps,
        streams: vec![main],
        during: Span {
            from: CALM + SECOND,
            to: goes_on,
        },
        after: None,
        variants,
    }
}

fn variants(policy: &'static str) -> [Variant; 4] {
    [
        plain(policy, NOTHING, PROBATION_OFF),
        plain(policy, PROBATION, PROBATION_ON),
        plain(policy, HEDGING, &format!("{PROBATION_OFF}{HEDGING_ON}")),
        plain(policy, BOTH, &format!("{PROBATION_ON}{HEDGING_ON}")),
    ]
}

fn claims(results: &Results) -> Vec<Claim> {
    vec![
        of_each(
            "with latency probation, it gets less than 2 % of the requests after the first second",
            results.with(PROBATION),
            Column::Share,
            |_, share| share < 2.0,
        ),
        fewer_errors(results, PROBATION),
        fewer_errors(results, BOTH),
        of_each(
            "with both, there are at most 2 % more requests",
            results.with(BOTH),
            Column::Copies,
            |_, copies| copies <= 2.0,
        ),
    ]
}

fn fewer_errors(results: &Results, means: &str) -> Claim {
    let says = format!(
        "with {means}, there are at most a fifth of the errors, or fewer than one in a thousand requests"
    );
    of_each(&says, results.with(means), Column::Errors, |row, errors| {
        errors < 0.1 || times(results, row, NOTHING, Column::Errors) <= 0.2
    })
}

/// Claims that hold under any other load of the machine.
fn certain(results: &Results) -> Vec<Claim> {
    vec![
        of_each(
            "every request was answered",
            results.with(PROBATION),
            Column::Errors,
            |_, errors| errors == 0.0,
        ),
        of_each(
            "a replica that answers nothing gets less than a tenth of the requests after the first second",
            results.with(PROBATION),
            Column::Share,
            |_, share| share < 10.0,
        ),
    ]
}
