//! Beyond Prequal: replicas that learn their capacity, and the default policy, which uses it,
//! compared with Prequal. The fleets are those of the papers and those that should be hardest for
//! the policy.

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
use slackwater_core::policy::{PolicySettings, Settings, ShortestExpectedDelaySettings};
use std::sync::Arc;

/// The comparison of the default policy with others.
#[derive(Debug)]
pub(super) struct Beyond;

/// A policy as it is played here. Its name and its parameter identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Player {
    policy: &'static str,
    param: &'static str,
}

const fn player(policy: &'static str, param: &'static str) -> Player {
    Player { policy, param }
}

const PREQUAL: &str = "prequal";
const DEFAULT: &str = "shortest_expected_delay";

/// The clairvoyants. Other policies are compared with the better of the two.
const CLAIRVOYANTS: [Player; 2] = [player("jsq_weighted", ""), player("greedy", "")];
/// Prequal with the paper's settings, and the same with another Q.
const PAPER: Player = player(PREQUAL, "Q=0.84");
const RIF_ONLY: Player = player(PREQUAL, "Q=0");
const OUR_DEFAULTS: Player = player(PREQUAL, "");
const C3: Player = player("c3", "");
const PEAK_EWMA: Player = player("peak_ewma", "");
/// The recommended policy for small fleets, played only there.
const RIF_THEN_LATENCY: Player = player("rif_then_latency", "");
/// The default policy where no capacity is reported.
const NO_CAPACITIES: Player = player(DEFAULT, "");
/// The player that is judged: the default policy where replicas report their capacity. Its
/// parameter is the probe rate.
const OURS: Player = player(DEFAULT, "probe_rate=0.5");
/// The judged player with other probe rates, and without one of its signals.
const VARIANTS: [Player; 6] = [
    player(DEFAULT, "probe_rate=3"),
    player(DEFAULT, "probe_rate=1"),
    OURS,
    player(DEFAULT, "probe_rate=0.1"),
    player(DEFAULT, "probe_rate=0.5, none carried"),
    player(DEFAULT, "probe_rate=0.5, no CPU"),
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
    NO_CAPACITIES,
];

/// Seconds of a run of a large fleet.
const WARMUP_SECONDS: u64 = 20;
const SPAN_SECONDS: u64 = 30;
/// A run of a small fleet has at least this many queries and this length.
const QUERIES: f64 = 40_000.0;
const SPAN_MIN_SECONDS: f64 = 6.0;
/// Length of the warm-up as a share of the span.
const WARMUP: f64 = 0.25;

impl Player {
    /// Returns whether the policy is played in this case.
    fn plays(self, case: &Case) -> bool {
        self != RIF_THEN_LATENCY || matches!(case.kind, Kind::Small { .. })
    }

    /// Returns the probes for each query, if the parameter has them.
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
            (DEFAULT, param) if !param.is_empty() => default_at(self.probe_rate()?)?,
            _ => return PolicyChoice::named(self.policy),
        };
        PolicyChoice::with_settings(self.policy, settings)
    }

    /// Returns the scenario for this player. Its replicas learn and report capacities for the
    /// judged player and its variants, and none for others.
    fn scenario(self, scenario: &Arc<Scenario>) -> Arc<Scenario> {
        if self.probe_rate().is_none() {
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

fn default_at(probe_rate: f64) -> Option<PolicySettings> {
    let at_rate = ShortestExpectedDelaySettings {
        probe_rate: rate(probe_rate),
        ..ShortestExpectedDelaySettings::default()
    };
    let mut settings = default_settings(|_| {})?;
    settings.shortest_expected_delay = at_rate.validate().ok()?;
    Some(settings)
}

impl Figure for Beyond {
    fn words(&self) -> Words {
        Words {
            name: "beyond",
            title: "Beyond Prequal: replicas that learn what they can carry",
            about: "The default policy, shortest_expected_delay, against Prequal with the paper's settings (Q = 0.84), with RIF alone (Q = 0) and with our defaults, C3 (told \
         the clients) and peak EWMA. The default plays twice. Once, and only there, replicas learn what they can carry and what a query costs them, from \
         CPU time and latency, and report it in their answers to probes and with each response; two variants do without the responses, or without \
         CPU time. The other time they report no capacity. 100 replicas of the testbed: all alike; with a half that burns twice the CPU (unequal); among busier \
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

/// Returns the scenario of a case, with the length of its run.
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
