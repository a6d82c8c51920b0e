//! One of four replicas is killed with its agent, and comes back cold.

use super::{CALM, REPLICAS, SECOND, main_stream, of_each, plain, times};
use crate::loopback::behaviour::Behaviour;
use crate::troubles::columns::Column;
use crate::troubles::options::Options;
use crate::troubles::plan::{Case, Claim, Round, Span, Step};
use crate::troubles::results::Results;

pub(super) const NAME: &str = "restart";

const POLICIES: [&str; 2] = ["round_robin", "prequal"];

const BY_CLOCK: &str = "nothing";
const BY_EVIDENCE: &str = "warm-up by evidence";

/// How many times as long requests take at first.
const COLD_SLOWER: u64 = 10;

pub(super) fn case(options: &Options) -> Case {
    Case {
        name: NAME,
        title: "a replica that restarts cold",
        about: format!(
            "One of {REPLICAS} replicas is killed, with its agent, and started again a second later. Its requests take {COLD_SLOWER} times as long\n\
             at first, and ever less until it is warm after {} s; {} requests/s, half of what the four can do. Error aversion is on\n\
             throughout. Its share is that from the start on until it is warm.",
            options.seconds,
            options.rate()
        ),
        columns: &[
            Column::Errors,
            Column::P50,
            Column::P99,
            Column::P999,
            Column::Max,
            Column::Share,
        ],
        rounds: vec![round(options)],
        claims,
    }
}

fn round(options: &Options) -> Round {
    let back_at = CALM + SECOND;
    let warm_at = back_at + options.trouble();
    let measured = Span {
        from: CALM,
        to: warm_at + SECOND,
    };
    let cold = Behaviour {
        cold_slower: COLD_SLOWER,
        warm_ms: options.seconds * 1_000,
        ..Behaviour::default()
    };
    let variants = POLICIES.into_iter().flat_map(|policy| {
        let off = "[warm_up]\nby_evidence = false\n";
        [plain(policy, BY_CLOCK, off), plain(policy, BY_EVIDENCE, "")]
    });
    Round {
        id: "cold",
        name: "It is killed and comes back cold".to_owned(),
        replicas: REPLICAS,
        behaviour: Behaviour::default(),
        steps: vec![(CALM, Step::Kill), (back_at, Step::Start(cold))],
        streams: vec![main_stream(options.rate(), measured)],
        during: Span {
            from: back_at,
            to: warm_at,
        },
        after: None,
        variants: variants.collect(),
    }
}

fn claims(results: &Results) -> Vec<Claim> {
    vec![
        of_each(
            "with warm-up by evidence, p99.9 is lower than without",
            results.with(BY_EVIDENCE),
            Column::P999,
            |row, _| times(results, row, BY_CLOCK, Column::P999) < 1.0,
        ),
        of_each(
            "with warm-up by evidence, p99 is no higher than without",
            results.with(BY_EVIDENCE),
            Column::P99,
            |row, _| times(results, row, BY_CLOCK, Column::P99) <= 1.05,
        ),
    ]
}
