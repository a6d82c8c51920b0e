//! Workers: a proxy of several threads that have separate pools or share what they know.
//!
//! A worker that shares nothing is a client: a proxy of 16 workers is 16 clients with a sixteenth
//! of the load each. One pool for all of them, as with a lock, is one client. In between, workers
//! share the replicas' answers, where they send queries, or both. `[Decision 0006]`

mod findings;

use super::cells::{default_settings, rate, whole};
use super::small_fleets::small_testbed;
use super::{Cell, Effort, Figure, Findings, Played, Words};
use crate::PolicyChoice;
use crate::presets::{hobbled, web};
use crate::scenario::{Scenario, Siblings};
use slackwater_core::policy::prequal::PrequalSettings;
use std::sync::Arc;

/// Proxies with one to 64 workers.
#[derive(Debug)]
pub(super) struct Workers;

/// A fleet: the kind and number of replicas, and their load.
struct Fleet {
    name: &'static str,
    load: f64,
    replicas: usize,
    make: fn(replicas: usize, clients: usize, load: f64) -> Scenario,
    /// Whether one replica has less capacity for a while.
    hobbled: bool,
    /// Whether other policies and designs are played, too.
    compared: bool,
}

impl Fleet {
    const fn web(replicas: usize, compared: bool) -> Self {
        Self {
            name: "web0.85",
            load: 0.85,
            replicas,
            make: web,
            hobbled: false,
            compared,
        }
    }

    const fn hobbled(replicas: usize) -> Self {
        Self {
            name: "web0.60hob",
            load: 0.6,
            hobbled: true,
            ..Self::web(replicas, true)
        }
    }

    const fn testbed(name: &'static str, load: f64, replicas: usize, compared: bool) -> Self {
        Self {
            name,
            load,
            make: small_testbed,
            ..Self::web(replicas, compared)
        }
    }

    fn label(&self) -> String {
        format!("{} {}", self.name, self.replicas)
    }

    fn step(&self, clients: usize) -> String {
        format!("{}x{clients}", self.label())
    }

    fn scenario(&self, clients: usize, effort: &Effort) -> Scenario {
        let scenario = (self.make)(self.replicas, clients, self.load);
        let span = (QUERIES / scenario.load.rate).ceil().max(SPAN_MIN_SECONDS);
        let warmup = (span * WARMUP).ceil();
        let scenario = effort.spend_on(scenario, whole(warmup), whole(span));
        let scenario = Arc::unwrap_or_clone(scenario);
        if self.hobbled {
            hobbled(scenario)
        } else {
            scenario
        }
    }
}

const FLEETS: [Fleet; 17] = [
    Fleet::web(4, true),
    Fleet::web(10, true),
    Fleet::web(100, false),
    Fleet::hobbled(4),
    Fleet::hobbled(10),
    Fleet::testbed("tb0.70", 0.7, 4, false),
    Fleet::testbed("tb0.70", 0.7, 10, false),
    Fleet::testbed("tb0.70", 0.7, 100, false),
    Fleet::testbed("tb1.03", 1.03, 4, false),
    Fleet::testbed("tb1.03", 1.03, 10, false),
    Fleet::testbed("tb1.03", 1.03, 100, false),
    Fleet::testbed("tb1.27", 1.27, 4, false),
    Fleet::testbed("tb1.27", 1.27, 10, true),
    Fleet::testbed("tb1.27", 1.27, 100, true),
    Fleet::testbed("tb1.74", 1.74, 4, false),
    Fleet::testbed("tb1.74", 1.74, 10, true),
    Fleet::testbed("tb1.74", 1.74, 100, true),
];

const PREQUAL: &str = "prequal";
const OTHERS: [&str; 5] = [
    "rif_then_latency",
    "least_loaded",
    "peak_ewma",
    "power_of_d",
    "round_robin",
];
const PROXIES: [usize; 3] = [1, 2, 10];
const WORKERS: [usize; 6] = [1, 2, 4, 8, 16, 64];
/// Proxies and workers for other policies, and for other designs of one proxy.
const SOME_PROXIES: [usize; 2] = [1, 10];
const SOME_WORKERS: [usize; 3] = [4, 16, 64];

/// A run has at least this many queries, and lasts at least this long.
const QUERIES: f64 = 20_000.0;
const SPAN_MIN_SECONDS: f64 = 1.0;
/// Length of the warm-up as a share of the span.
const WARMUP: f64 = 0.3;

/// What workers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shared {
    Nothing,
    /// The replicas' answers to probes.
    Answers,
    /// The replicas that they send queries to.
    Queries,
    Both,
}

/// What one proxy's workers share, besides their replicas.
#[derive(Debug)]
struct Design {
    param: &'static str,
    shared: Shared,
    /// Whether clients' connections are uneven: the first worker has the most and the last the
    /// fewest, as W to 1.
    uneven: bool,
    /// Probes for each query.
    probe_rate: f64,
    /// Whether idle probes and the least interval to a replica are those of one client, over all
    /// workers.
    paced: bool,
}

const OWN: Design = Design {
    param: "",
    shared: Shared::Nothing,
    uneven: false,
    probe_rate: 3.0,
    paced: false,
};

const DESIGNS: [Design; 8] = [
    Design {
        param: "uneven",
        uneven: true,
        ..OWN
    },
    Design {
        param: "paced",
        paced: true,
        ..OWN
    },
    Design {
        param: "answers",
        shared: Shared::Answers,
        ..OWN
    },
    Design {
        param: "queries",
        shared: Shared::Queries,
        ..OWN
    },
    Design {
        param: "answers and queries",
        shared: Shared::Both,
        ..OWN
    },
    Design {
        param: "probe_rate=1",
        probe_rate: 1.0,
        ..OWN
    },
    Design {
        param: "queries, probe_rate=1",
        shared: Shared::Queries,
        probe_rate: 1.0,
        ..OWN
    },
    Design {
        param: "probe_rate=0.5",
        probe_rate: 0.5,
        ..OWN
    },
];

impl Design {
    /// Returns the policy of each of this many workers.
    fn policy(&self, workers: usize) -> Option<PolicyChoice> {
        let workers = u32::try_from(workers).ok().filter(|_| self.paced);
        let change = |prequal: &mut PrequalSettings| {
            prequal.probe_rate = rate(self.probe_rate);
            prequal.probe_idle_max *= workers.unwrap_or(1);
            prequal.probe_interval_min *= workers.unwrap_or(1);
        };
        PolicyChoice::with_settings(PREQUAL, default_settings(change)?)
    }

    fn apply(&self, workers: usize, mut scenario: Scenario) -> Scenario {
        if self.uneven {
            let shares = (1..=workers).rev();
            scenario.load.clients = shares.map(|share| share as f64).collect();
        }
        if self.shared != Shared::Nothing {
            scenario.load.siblings = Some(Siblings {
                workers,
                answers: matches!(self.shared, Shared::Answers | Shared::Both),
                queries: matches!(self.shared, Shared::Queries | Shared::Both),
            });
        }
        scenario
    }
}

/// Returns the resulting numbers of clients, each once, in order.
fn clients(proxies: &[usize], workers: &[usize]) -> Vec<usize> {
    let products = proxies
        .iter()
        .flat_map(|proxies| workers.iter().map(move |workers| proxies * workers));
    let mut clients: Vec<usize> = products.collect();
    clients.sort_unstable();
    clients.dedup();
    clients
}

/// Returns the numbers of clients for other policies, including one worker for comparison.
fn some_clients() -> Vec<usize> {
    let workers: Vec<usize> = core::iter::once(1).chain(SOME_WORKERS).collect();
    clients(&SOME_PROXIES, &workers)
}

impl Figure for Workers {
    fn words(&self) -> Words {
        Words {
            name: "workers",
            title: "Proxies of 1 to 64 workers: a pool for each, one for all, or shared state",
            about: "1, 2 and 10 proxies of 1 to 64 workers before 4, 10 and 100 replicas: small web replicas (4 cores, 5 ms exponential) at 85 %, \
         or at 60 % with one at a quarter of its capacity for the middle third of the run (hob), and the testbed at 0.70 to 1.74 times its \
         allocation. A worker that shares nothing is a client, so a step is named by replicas x clients; one pool for all workers of a \
         proxy is one client. Of one proxy, other designs are played beside: workers tell each other what replicas answer, where they \
         send queries, or both, at once and without a lock's wait; connections spread unevenly over workers, W to 1 (40, 30, 20 and \
         10 % of four); idle probes and the least interval between probes of one client for all workers together (paced); fewer probes a query. \
         A run has 20,000 queries and 1 s at the least; differences in p99 of less than 5 % mean little, and on four replicas of the \
         testbed the few seconds in which one of their machines is full decide.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        FLEETS
            .iter()
            .flat_map(|fleet| fleet_cells(fleet, effort))
            .collect()
    }

    fn findings(&self, played: &[Played]) -> Findings {
        findings::findings(played)
    }
}

fn fleet_cells(fleet: &Fleet, effort: &Effort) -> Vec<Cell> {
    let mut cells = Vec::new();
    let others: &[&str] = if fleet.compared { &OTHERS } else { &[] };
    for clients in clients(&PROXIES, &WORKERS) {
        let scenario = Arc::new(fleet.scenario(clients, effort));
        let others = others.iter().filter(|_| some_clients().contains(&clients));
        let policies = core::iter::once(&PREQUAL).chain(others);
        let policies = policies.filter_map(|policy| PolicyChoice::named(policy));
        cells.extend(
            policies.map(|policy| Cell::of(fleet.step(clients), fleet.load, policy, &scenario)),
        );
    }
    if fleet.compared {
        for workers in SOME_WORKERS {
            for design in &DESIGNS {
                let scenario = design.apply(workers, fleet.scenario(workers, effort));
                let policy = design.policy(workers);
                cells.extend(policy.map(|policy| {
                    let step = fleet.step(workers);
                    Cell::of(step, fleet.load, policy, &Arc::new(scenario)).with_param(design.param)
                }));
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests;
