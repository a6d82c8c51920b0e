//! Health: replicas that fail fast, lie, pause, are suspended or start cold, under each policy with
//! and without each means.
//!
//! It reproduces no paper. Prequal has heuristics against sinkholes "omitted in the interest of
//! brevity", and its peers are vulnerable to them. `[Prequal §4]` `[E1]` to `[E5]` `[H4]`
//! `[Decision 0008]`

mod cases;
mod findings;
#[cfg(test)]
mod tests;

use super::cells::whole;
use super::{Cell, Effort, Figure, Findings, Played, Words};
use crate::{PolicyChoice, Scenario};
use cases::Means;
use core::time::Duration;
use std::sync::Arc;

/// The experiment on health, which limits the replicas that may be chosen.
#[derive(Debug)]
pub(super) struct Health;

/// The policies that the claims are about.
const CLAIMED: [&str; 4] = ["prequal", "least_loaded", "power_of_d", "peak_ewma"];
const ROUND_ROBIN: &str = "round_robin";
const PREQUAL: &str = "prequal";
/// The policies with one failing replica: the ones above and others.
const POLICIES: [&str; 9] = [
    PREQUAL,
    "least_loaded",
    "power_of_d",
    "peak_ewma",
    ROUND_ROBIN,
    "rif_then_latency",
    "weighted_round_robin",
    "c3",
    "els",
];
/// The policies of the fleets in trouble.
const IN_TROUBLE: [&str; 6] = [
    PREQUAL,
    "rif_then_latency",
    "least_loaded",
    "power_of_d",
    "peak_ewma",
    ROUND_ROBIN,
];

/// Loads for four machines of which one fails half of its queries at once, as shares of the
/// capacity of all four.
const LOADS: [f64; 9] = [0.05, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 1.0];
/// Loads of the same experiment where a replica has several cores.
const WEB_LOADS: [f64; 3] = [0.3, 0.6, 0.9];
const MACHINES: usize = 4;
const FLEET: usize = 20;
const SERVICES: usize = 10;
/// Queries of one run, and of its warm-up.
const QUERIES: f64 = 40_000.0;
const WARMUP_QUERIES: f64 = 8_000.0;
/// Numbers of clients that share nothing.
const CLIENTS: [usize; 3] = [1, 10, 100];
/// Clients of the fleets in trouble.
const SOME_CLIENTS: usize = 10;

impl Figure for Health {
    fn words(&self) -> Words {
        Words {
            name: "health",
            title: "Replicas that fail fast, stall or come up cold: each policy with and without health",
            about: "Ours. Errors: one of ELS's four machines fails half of its queries at once, from 5 % to all of what the four can do; the same with web \
         replicas of four cores; one of twenty machines fails every query in a millisecond; all fail a quarter; one heals, and one says that it has. \
         Trouble: ten replicas of four cores and queries of 20 ms at 70 % load, of which one pauses for 2 s of every 20, stands still for 30 s, or joins \
         ten times as slow and warms within 20 s; or all are restarted in turn, drained or killed, every 6 s, coming up five times as slow. \
         Means: errors (error aversion), probation (of slow replicas), warm_up (by evidence), all of these, off; and hedging, a second copy of queries that take \
         longer than 19 of 20, of 2 % of all at most. Each client learns alone, by its own queries; \
         nothing that fails is tried again. The least error share possible where one of four fails half is (1 - 0.75/load)/2 past 75 % load, as the others are full then, \
         and nothing below. Trials are queries sent to a replica that is out of the choice.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = cases::failing_fast(effort);
        cells.extend(cases::everything_else_that_fails(effort));
        cells.extend(cases::in_trouble(effort));
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        Findings::of(played, findings::of)
    }
}

/// Returns a scenario for this many queries, after this many of warm-up, unless the user asked for
/// other times.
fn for_queries(effort: &Effort, scenario: Scenario) -> Arc<Scenario> {
    let seconds = |queries: f64| whole((queries / scenario.load.rate).ceil());
    let (warmup, span) = (seconds(WARMUP_QUERIES), seconds(QUERIES));
    effort.spend_on(scenario, warmup, span)
}

/// Returns the cells of a step: these policies, with each of these means.
fn cells_of(
    step: &str,
    load: f64,
    policies: &[&str],
    means: &[Means],
    scenario: &Arc<Scenario>,
) -> Vec<Cell> {
    let pairs = policies
        .iter()
        .flat_map(|policy| means.iter().map(move |means| (policy, means)));
    pairs
        .filter_map(|(policy, means)| {
            let policy = PolicyChoice::named(policy)?;
            let policy = match means.config() {
                Some(config) => policy.guarded(config),
                None => policy,
            };
            let scenario = means.applied(scenario);
            Some(Cell::of(step, load, policy, &scenario).with_param(means.param()))
        })
        .collect()
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
