//! Contests: scenarios that many policies play, and how far one of them is from the best of the
//! others.

use super::cells::{Plays, c3_settings, latency_ms, prequal_of_the_paper};
use super::{Cell, Played};
use crate::{Measured, PolicyChoice, Scenario};
use slackwater_core::policy::{DEFAULT_POLICY, POLICIES};
use std::sync::Arc;

/// The weight of the share of errors: errors of 1 % count as 20 % more time.
const ERROR_WEIGHT: f64 = 20.0;
/// The policy that is judged, which is the default.
pub(super) const JUDGED: &str = DEFAULT_POLICY.name;
/// Prequal with the paper's settings.
pub(super) const PAPER: &str = "paper";
/// Bounds that no client could reach. They are played and shown, but not compared with.
pub(super) const BOUNDS: [&str; 2] = ["jsq", "jsq_weighted"];

/// Returns all policies that users can select, and Prequal with the paper's settings, each with the
/// parameter that distinguishes it. C3 has the number of clients.
pub(super) fn players(clients: usize) -> Vec<(PolicyChoice, &'static str)> {
    let shipped = POLICIES.iter().filter_map(|entry| match entry.name {
        "c3" => PolicyChoice::with_settings("c3", c3_settings(clients)?),
        name => PolicyChoice::shipped(name),
    });
    let paper = prequal_of_the_paper().map(|policy| (policy, PAPER));
    shipped.map(|policy| (policy, "")).chain(paper).collect()
}

/// Returns the cell of a player. If the policy uses capacities and `learns`, all replicas learn
/// their own, and responses carry them.
pub(super) fn cell(
    step: &str,
    load: f64,
    (policy, param): (PolicyChoice, &str),
    scenario: &Arc<Scenario>,
) -> Cell {
    Cell::of(step, load, policy, scenario).with_param(param)
}

/// Returns a quantile of the latency in milliseconds, in which errors count as time.
pub(super) fn score_ms(run: &Measured, q: f64) -> f64 {
    latency_ms(run, q) * (1.0 + ERROR_WEIGHT * run.error_share())
}
