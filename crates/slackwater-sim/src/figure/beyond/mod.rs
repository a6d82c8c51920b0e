//! Beyond Prequal: replicas that learn what they can carry, and the policy that goes by it, held
//! against Prequal, in the fleets of the papers and in those that should be hardest for it.

mod cases;
mod findings;
#[cfg(test)]
mod tests;

use super::cells::{c3_settings, default_settings, paper_settings, rate, whole};
use super::{Cell, Effort, Figure, Findings, Played, Words};
use crate::presets::hobbled;
use crate::{PolicyChoice, Scenario};
use cases::{Case, Kind};
use slackwater_core::Quantile;
use slackwater_core::policy::{CapacitySettings, PolicySettings, Settings};
use std::sync::Arc;

/// The comparison of `capacity` with the others.
#[derive(Debug)]
pub(super) struct Beyond;

/// A policy as it is played here, told from the others by its name and its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Player {
    policy: &'static str,
    param: &'static str,
}

const fn player(policy: &'static str, param: &'static str) -> Player {
    Player { policy, param }
}

const PREQUAL: &str = "prequal";
const CAPACITY: &str = "capacity";

/// Those that know everything; the better of the two is what others are measured by.
const CLAIRVOYANTS: [Player; 2] = [player("jsq_weighted", ""), player("greedy", "")];
/// Prequal with the paper's settings, and with them but for Q.
const PAPER: Player = player(PREQUAL, "Q=0.84");
const RIF_ONLY: Player = player(PREQUAL, "Q=0");
const OUR_DEFAULTS: Player = player(PREQUAL, "");
const C3: Player = player("c3", "");
const PEAK_EWMA: Player = player("peak_ewma", "");
/// What is recommended for small fleets; played in these alone.
const RIF_THEN_LATENCY: Player = player("rif_then_latency", "");
/// Ours where no capacity is reported.
const SHORTEST_DELAY: Player = player("shortest_expected_delay", "");
/// What is judged.
const OURS: Player = player(CAPACITY, "probe_rate=0.5");
/// The same with other numbers of probes, and without one of its signals.
const VARIANTS: [Player; 6] = [
    player(CAPACITY, "probe_rate=3"),
    player(CAPACITY, "probe_rate=1"),
    OURS,
    player(CAPACITY, "probe_rate=0.1"),
    player(CAPACITY, "probe_rate=0.5, none carried"),
    player(CAPACITY, "probe_rate=0.5, no CPU"),
];
const OTHERS: [Player; 9] = [
    CLAIRVOYANTS[0],
    CLAIRVOYANTS[1],
    PAPER,
    RIF_ONLY,
    OUR_DEFAULTS,
    C3,
    PEAK_EWMA,
    RIF_THEN_LATENCY,
    SHORTEST_DELAY,
];

/// A run of a large fleet, in seconds.
const WARMUP_SECONDS: u64 = 20;
const SPAN_SECONDS: u64 = 30;
/// One of a small fleet has so many queries at the least, and is so long.
const QUERIES: f64 = 40_000.0;
const SPAN_MIN_SECONDS: f64 = 6.0;
/// Its warm-up's share of the span.
const WARMUP: f64 = 0.25;

impl Player {
    /// Whether it is played there.
    fn plays(self, case: &Case) -> bool {
        self != RIF_THEN_LATENCY || matches!(case.kind, Kind::Small { .. })
    }

    /// Probes for each query, where the parameter says it.
    fn probe_rate(self) -> Option<f64> {
        let (_, rate) = self.param.split_once("probe_rate=")?;
        rate.split(',').next()?.parse().ok()
    }

    fn choice(self, clients: usize) -> Option<PolicyChoice> {
        let settings = match (self.policy, self.param) {
            (PREQUAL, "Q=0.84") => paper_settings(|_| {})?,
            (PREQUAL, "Q=0") => paper_settings(|prequal| {
                prequal.rif_limit_quantile = Quantile::ZERO;
            })?,
            ("c3", _) => c3_settings(clients)?,
            (CAPACITY, _) => capacity_settings(self.probe_rate()?)?,
            _ => return PolicyChoice::named(self.policy),
        };
        PolicyChoice::with_settings(self.policy, settings)
    }

    /// What it is played with: replicas that learn and tell as it needs it, or that know nothing of
    /// capacities.
    fn scenario(self, scenario: &Arc<Scenario>) -> Arc<Scenario> {
        if self.policy != CAPACITY {
            return Arc::clone(scenario);
        }
        let mut scenario = Scenario::clone(scenario);
        for group in &mut scenario.fleet {
            group.learns_capacity = true;
            group.tells_cpu = !self.param.ends_with("no CPU");
            group.carries_reports = !self.param.ends_with("none carried");
        }
        Arc::new(scenario)
    }

    fn cell(self, case: &Case, scenario: &Arc<Scenario>) -> Option<Cell> {
        let policy = self.choice(scenario.load.clients.len())?;
        let cell = Cell::of(case.step(), case.load, policy, &self.scenario(scenario));
        Some(cell.with_param(self.param))
    }
}

fn capacity_settings(probe_rate: f64) -> Option<PolicySettings> {
    let capacity = CapacitySettings {
        probe_rate: rate(probe_rate),
        ..CapacitySettings::default()
    };
    let mut settings = default_settings(|_| {})?;
    settings.capacity = capacity.validate().ok()?;
    Some(settings)
}

impl Figure for Beyond {
    fn words(&self) -> Words {
        Words {
            name: "beyond",
            title: "Beyond Prequal: replicas that learn what they can carry",
            about: "The policy capacity against Prequal with the paper's settings (Q = 0.84), with RIF alone (Q = 0) and with our defaults, C3 (told \
         the clients), peak EWMA and shortest_expected_delay. Under capacity, and only there, replicas learn what they can carry and what a query costs them, from \
         CPU time and latency, and say so in their answers to probes and with each response; two variants do without the responses, or without \
         CPU time. 100 replicas of the testbed: all alike; with a half that burns twice the CPU (unequal); among busier \
         neighbours (tight, packed); among neighbours of which half the variance has a time constant of 100 ms (fast-antagonists); with costs of heavy \
         tails and the same mean; with up to 200 ms of I/O before each query's work; with 10 and 400 clients; with queries of which half, or seven in ten, by turns of 5 s, mostly \
         wait (mix); with replicas restarted one after another, each cold for 10 s; with reports off by 30 % of unequal replicas (noisy-reports); with pauses of 200 ms \
         every 10 s. Loads are multiples of the allocation. And small fleets: web replicas at 85 %, or at 60 % with one at a quarter of its capacity for the middle third (hob), and \
         single-threaded ones at 75 % of which one is four times as slow (fifo); a run there has 40,000 queries and 6 s at the least. \
         Ratios are seed by seed, the geometric mean and its 95 % interval; clairvoyant is the better of jsq_weighted and greedy.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        for case in cases::all() {
            let scenario = scenario(&case, effort);
            let players = OTHERS.into_iter().chain(VARIANTS);
            let players = players.filter(|player| player.plays(&case));
            cells.extend(players.filter_map(|player| player.cell(&case, &scenario)));
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        findings::findings(played)
    }
}

/// A case for as long as it is played.
fn scenario(case: &Case, effort: &Effort) -> Arc<Scenario> {
    let scenario = case.scenario();
    if case.kind == Kind::Large {
        return effort.spend_on(scenario, WARMUP_SECONDS, SPAN_SECONDS);
    }
    let span = (QUERIES / scenario.load.rate).max(SPAN_MIN_SECONDS);
    let scenario = effort.spend_on(scenario, whole((span * WARMUP).ceil()), whole(span.ceil()));
    if case.is_hobbled() {
        Arc::new(hobbled(Arc::unwrap_or_clone(scenario)))
    } else {
        scenario
    }
}
