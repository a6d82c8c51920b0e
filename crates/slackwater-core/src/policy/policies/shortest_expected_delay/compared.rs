//! What replicas are compared by, for explanations of choices.

use super::ONE_RIF;
use crate::fixed::ONE;
use crate::policy::comparison::{Comparison, Equals, Factor, Step};
use crate::policy::turns::FINE;

/// How replicas are compared while none reports a capacity. Requests in flight include this one,
/// and reports of little load count less with age.
pub(super) const BY_LATENCY: Comparison = Comparison {
    name: "expected_delay",
    formula: "expected delay = (requests in flight + turn surcharge) × mean latency",
    shared: &[],
    factors: &[
        Factor::requests("in_flight", "requests in flight", ONE as u64),
        Factor::time("mean_latency_us", "mean latency", FINE * 1_000),
        Factor::requests("turn_surcharge", "turn surcharge", FINE),
        Factor::time("expected_delay_us", "expected delay", FINE * 1_000),
        Factor::count("last_turn", "last turn"),
    ],
    order: &[Step::lowest("expected_delay_us"), Step::lowest("last_turn")],
    equals: Equals::Draw,
};

/// How they are compared while some do. The share in use is that of 85 % of the capacity. It
/// includes this request and the turn surcharge, and reports of little load count less with age.
/// "Times longer" follows from the share and the capacity.
pub(super) const BY_CAPACITY: Comparison = Comparison {
    name: "capacity_in_use",
    formula: "score = time alone × times longer(in use, capacity)",
    shared: &[],
    factors: &[
        Factor::requests("in_flight", "requests in flight", FINE),
        Factor::requests("capacity", "capacity", ONE_RIF),
        Factor::share("in_use", "in use"),
        Factor::time("alone_us", "time alone", FINE * 1_000),
        Factor::time("score_us", "score", FINE * 1_000),
        Factor::count("last_turn", "last turn"),
    ],
    order: &[Step::lowest("score_us"), Step::lowest("last_turn")],
    equals: Equals::Draw,
};
