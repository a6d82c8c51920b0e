//! One answer in a hundred stalls for a second, at every replica.

use super::{NOTHING, REPLICAS, SECOND, main_stream, of_each, plain, times};
use crate::loopback::behaviour::Behaviour;
use crate::troubles::columns::Column;
use crate::troubles::options::Options;
use crate::troubles::plan::{Case, Claim, Round, Span};
use crate::troubles::results::Results;
use core::time::Duration;

pub(super) const NAME: &str = "hedged";

const HEDGED: &str = "hedging";
const HEDGED_MORE: &str = "hedging, budget 5 %";

/// Time until the delay of late requests has been learned.
const LEARNS_FOR: Duration = Duration::from_secs(5);

pub(super) fn case(options: &Options) -> Case {
    Case {
        name: NAME,
        title: "one answer in a hundred stalls",
        about: format!(
            "Each of {REPLICAS} replicas answers within 10 ms, and one request in a hundred takes a second longer, as in [the example of\n\
             The Tail at Scale](https://research.google/pubs/the-tail-at-scale/); {} requests/s, four at a time at a replica.",
            options.rate
        ),
        columns: &[
            Column::Errors,
            Column::P50,
            Column::P99,
            Column::P999,
            Column::Max,
            Column::Copies,
            Column::Begun,
            Column::Work,
            Column::Late,
        ],
        rounds: vec![round(options)],
        claims,
    }
}

fn round(options: &Options) -> Round {
    let measured = Span {
        from: LEARNS_FOR,
        to: LEARNS_FOR + options.trouble() * 2,
    };
    let on = "[hedge]\nenabled = true\n";
    Round {
        id: "stalls",
        name: "One in a hundred takes a second longer".to_owned(),
        replicas: REPLICAS,
        behaviour: Behaviour {
            room: 4,
            stalls_percent: 1,
            ..Behaviour::default()
        },
        steps: Vec::new(),
        streams: vec![main_stream(options.rate, measured)],
        during: Span {
            from: LEARNS_FOR + SECOND,
            to: measured.to,
        },
        after: None,
        variants: vec![
            plain("prequal", NOTHING, ""),
            plain("prequal", HEDGED, on),
            plain("prequal", HEDGED_MORE, &format!("{on}budget = 0.05\n")),
        ],
    }
}

fn claims(results: &Results) -> Vec<Claim> {
    let fifth = |means: &'static str, claim| {
        of_each(claim, results.with(means), Column::P999, |row, _| {
            times(results, row, NOTHING, Column::P999) <= 0.2
        })
    };
    let copies = |means: &'static str, most: f64| {
        let claim = format!("with {means}, there are at most {most} % more requests");
        of_each(&claim, results.with(means), Column::Copies, |_, copies| {
            copies <= most
        })
    };
    vec![
        fifth(HEDGED, "with hedging, p99.9 falls to a fifth or less"),
        copies(HEDGED, 2.0),
        fifth(
            HEDGED_MORE,
            "with a budget of 5 %, p99.9 falls to a fifth or less",
        ),
        copies(HEDGED_MORE, 5.0),
    ]
}
