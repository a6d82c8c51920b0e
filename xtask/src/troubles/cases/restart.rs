//! One of four replicas is killed with its agent, and comes back cold.

use super::{CALM, NOTHING, REPLICAS, SECOND, busy_percent, main_stream, of_each, plain, times};
use crate::loopback::behaviour::Behaviour;
use crate::troubles::columns::Column;
use crate::troubles::options::Options;
use crate::troubles::plan::{Case, Claim, Round, Span, Step};
use crate::troubles::results::Results;

pub(super) const NAME: &str = "restart";

const PROBES: &str = "prequal";
const POLICIES: [&str; 2] = ["round_robin", PROBES];

const BY_EVIDENCE: &str = "warm-up by evidence";

/// Factor on the time of the first requests.
const COLD_SLOWER: u64 = 10;

pub(super) fn case(options: &Options) -> Case {
    Case {
        name: NAME,
        title: "a replica that restarts cold",
        about: format!(
            "One of {REPLICAS} replicas is killed, with its agent, and started again a second later. Its requests take {COLD_SLOWER} times as long\n\
             at first, and ever less until it is warm after {} s; {} requests/s, {} % of what the four can do. Its share is that\n\
             from the start on until it is warm. Error aversion is on throughout: who has been away and failed comes back step by step\n\
             by that alone. That it has restarted is seen in its probes, which round robin does not send.",
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
            Column::Late,
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
        [plain(policy, NOTHING, off), plain(policy, BY_EVIDENCE, "")]
    });
    Round {
        id: "cold",
        name: "It is killed and comes back cold".to_owned(),
        replicas: REPLICAS,
        behaviour: Behaviour::default(),
        steps: vec![(CALM, Step::Kill), (back_at, Step::Start(cold))],
        streams: vec![main_stream(options.rate, measured)],
        during: Span {
            from: back_at,
            to: warm_at,
        },
        after: None,
        variants: variants.collect(),
    }
}

/// Claims about policies with probes: the others cannot find out that a replica has restarted.
fn claims(results: &Results) -> Vec<Claim> {
    let no_higher = |column: Column, says| {
        let rows = results.with(BY_EVIDENCE);
        let probing = rows.filter(|row| row.variant.policy == PROBES);
        of_each(says, probing, column, |row, _| {
            times(results, row, NOTHING, column) <= 1.0
        })
    };
    vec![
        no_higher(
            Column::P99,
            "with Prequal and warm-up by evidence, p99 is no higher than without",
        ),
        no_higher(
            Column::P999,
            "with Prequal and warm-up by evidence, p99.9 is no higher than without",
        ),
    ]
}
