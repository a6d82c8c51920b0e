//! One of four replicas answers 500 at once, which looks like speed.

use super::{CALM, NOTHING, REPLICAS, SECOND, busy_percent, main_stream, of_each, plain};
use crate::loopback::behaviour::Behaviour;
use crate::troubles::columns::Column;
use crate::troubles::options::Options;
use crate::troubles::plan::{Case, Claim, Round, Span, Step, Stream};
use crate::troubles::results::Results;
use core::time::Duration;
use rustix::process::Signal;

pub(super) const NAME: &str = "fail-fast";

const POLICIES: [&str; 5] = [
    "round_robin",
    "least_loaded",
    "power_of_d",
    "peak_ewma",
    "prequal",
];

/// The policies that CI checks.
const POLICIES_SHORT: [&str; 2] = ["least_loaded", "prequal"];

const AVERSION: &str = "error aversion";

/// Time after which a replica that has recovered is measured, and for how long.
const HEALED_FOR: Duration = Duration::from_secs(10);
const LOOKED_AT: Duration = Duration::from_secs(3);

pub(super) fn case(options: &Options) -> Case {
    let shares: &[u64] = if options.short { &[100] } else { &[50, 100] };
    let rate = options.rate;
    Case {
        name: NAME,
        title: "a replica that fails at once",
        about: format!(
            "One of {REPLICAS} replicas answers 500 in less than a millisecond for {} s, the others answer within 10 ms, one at\n\
             a time; {rate} requests/s, which is {} % of what the four can do. *Errors* are those after the first second;\n\
             *afterwards* is {} to {} s after it has healed.",
            options.seconds,
            busy_percent(options),
            HEALED_FOR.as_secs(),
            (HEALED_FOR + LOOKED_AT).as_secs()
        ),
        columns: &[
            Column::Errors,
            Column::FirstSecond,
            Column::Share,
            Column::P99,
            Column::ErrorsAfter,
            Column::ShareAfter,
        ],
        rounds: shares.iter().map(|share| round(options, *share)).collect(),
        claims: if options.short { certain } else { claims },
    }
}

fn round(options: &Options, fails_percent: u64) -> Round {
    let healed_at = CALM + options.trouble();
    let during = Span {
        from: CALM + SECOND,
        to: healed_at,
    };
    let mut streams = vec![main_stream(options.rate, during)];
    let mut variants = Vec::new();
    if options.short {
        variants.extend(POLICIES_SHORT.map(|policy| plain(policy, AVERSION, "")));
    } else {
        streams.push(Stream {
            name: "healed",
            at: healed_at,
            warmup: HEALED_FOR,
            measured: LOOKED_AT,
            ..main_stream(options.rate, during)
        });
        for policy in POLICIES {
            let off = "[error_aversion]\nenabled = false\n";
            variants.push(plain(policy, NOTHING, off));
            variants.push(plain(policy, AVERSION, ""));
        }
    }
    let from = healed_at + HEALED_FOR;
    Round {
        id: if fails_percent == 100 { "all" } else { "some" },
        name: format!("It fails {fails_percent} % of its requests"),
        replicas: REPLICAS,
        behaviour: Behaviour {
            fails_percent,
            ..Behaviour::default()
        },
        steps: vec![
            (CALM, Step::Replica(Signal::USR1)),
            (healed_at, Step::Replica(Signal::USR2)),
        ],
        streams,
        during,
        after: Some(Span {
            from,
            to: from + LOOKED_AT,
        }),
        variants,
    }
}

fn claims(results: &Results) -> Vec<Claim> {
    vec![
        of_each(
            "with error aversion, fewer than 2 % of the requests fail after the first second",
            results.with(AVERSION),
            Column::Errors,
            |_, errors| errors < 2.0,
        ),
        of_each(
            "with error aversion, a replica that has healed has three quarters of its share again within 10 s",
            results.with(AVERSION),
            Column::ShareAfter,
            |_, share| share >= 100.0 / REPLICAS as f64 * 0.75,
        ),
        of_each(
            "nothing fails any more then",
            results.with(AVERSION),
            Column::ErrorsAfter,
            |_, errors| errors == 0.0,
        ),
    ]
}

/// Claims that hold under any other load of the machine.
fn certain(results: &Results) -> Vec<Claim> {
    vec![
        of_each(
            "every request was answered",
            results.with(AVERSION),
            Column::Unanswered,
            |_, unanswered| unanswered == 0.0,
        ),
        of_each(
            "a replica that fails all of its requests gets less than a tenth of them after the first second",
            results.with(AVERSION),
            Column::Share,
            |_, share| share < 10.0,
        ),
    ]
}
