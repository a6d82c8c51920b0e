//! The fleets in which policies are compared.

use crate::Scenario;
use crate::presets::{
    at_load, one_slow_fifo, packed, rolling_restart, sized, testbed, tight, unequal_halves, web,
};
use crate::scenario::{Antagonists, Cost, Group, Mix, Stall};
use core::time::Duration;

/// A fleet under a load.
#[derive(Clone, Debug)]
pub(super) struct Case {
    name: &'static str,
    pub(super) load: f64,
    pub(super) kind: Kind,
    fleet: Fleet,
}

/// The size of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A hundred replicas.
    Large,
    /// A small fleet of one of many sizes.
    Small { replicas: usize, clients: usize },
}

#[derive(Clone, Copy, Debug)]
enum Fleet {
    Large(fn() -> Scenario),
    Small(fn(usize, usize, f64) -> Scenario),
}

/// Name, load and fleet.
type LargeCase = (&'static str, f64, fn() -> Scenario);

const LARGE: [LargeCase; 21] = [
    ("homogeneous-1.03", 1.03, testbed),
    ("homogeneous-1.27", 1.27, testbed),
    ("homogeneous-1.57", 1.57, testbed),
    ("homogeneous-1.74", 1.74, testbed),
    ("unequal-1.03", 1.03, unequal),
    ("unequal-1.27", 1.27, unequal),
    ("unequal-1.57", 1.57, unequal),
    ("tight", 0.9, tight),
    ("tight-unequal", 0.9, || unequal_halves(tight())),
    ("packed-unequal", 0.9, || unequal_halves(packed())),
    ("fast-antagonists", 1.27, fast_antagonists),
    ("lognormal-1.5", 1.27, || costing(lognormal(28_017, 1.5))),
    ("lognormal-2", 1.27, || costing(lognormal(11_680, 2.0))),
    ("pareto-1.5", 1.27, || costing(pareto())),
    ("io-waits", 1.27, || {
        each(testbed(), |group| group.io_wait = ms(200))
    }),
    ("10-clients", 1.27, || sized(100, 10, testbed())),
    ("400-clients", 1.27, || sized(100, 400, testbed())),
    ("mix", 1.27, mixed),
    ("restarting", 1.27, || {
        rolling_restart(testbed(), Duration::ZERO)
    }),
    ("noisy-reports", 1.27, || {
        each(unequal(), |group| group.report_noise = 0.3)
    }),
    ("stalls", 1.27, || {
        each(testbed(), |group| group.stall = Some(STALL))
    }),
];

/// The workloads of small fleets, with their load as a share of the capacity.
pub(super) const WORKLOADS: [(&str, f64); 3] = [("web0.85", 0.85), (HOBBLED, 0.6), (FIFO, 0.75)];
const HOBBLED: &str = "web0.60hob";
const FIFO: &str = "fifo0.75";
const REPLICAS: [usize; 5] = [2, 4, 8, 16, 32];
const CLIENTS: [usize; 3] = [1, 4, 20];

const STALL: Stall = Stall {
    every: Duration::from_secs(10),
    regular: false,
    lasts: Duration::from_millis(200),
};

/// Returns every case, in the order of the report.
pub(super) fn all() -> Vec<Case> {
    let large = LARGE.map(|(name, load, fleet)| Case {
        name,
        load,
        kind: Kind::Large,
        fleet: Fleet::Large(fleet),
    });
    let mut cases = large.to_vec();
    for (name, load) in WORKLOADS {
        for replicas in REPLICAS {
            for clients in CLIENTS {
                cases.push(Case {
                    name,
                    load,
                    kind: Kind::Small { replicas, clients },
                    fleet: Fleet::Small(if name == FIFO { one_slow_fifo } else { web }),
                });
            }
        }
    }
    cases
}

impl Case {
    /// Returns the name of the step in the results.
    pub(super) fn step(&self) -> String {
        match self.kind {
            Kind::Large => self.name.to_owned(),
            Kind::Small { replicas, clients } => format!("{} {replicas}x{clients}", self.name),
        }
    }

    /// Returns whether the fleet has this workload.
    pub(super) fn does(&self, workload: &str) -> bool {
        self.name == workload
    }

    /// Returns whether one of its replicas has less capacity in the middle of the run.
    pub(super) fn is_hobbled(&self) -> bool {
        self.does(HOBBLED)
    }

    /// Returns the fleet at its load.
    pub(super) fn scenario(&self) -> Scenario {
        match (self.fleet, self.kind) {
            (Fleet::Large(fleet), _) => at_load(self.load, fleet()),
            (Fleet::Small(fleet), Kind::Small { replicas, clients }) => {
                fleet(replicas, clients, self.load)
            }
            (Fleet::Small(fleet), Kind::Large) => fleet(100, 100, self.load),
        }
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn unequal() -> Scenario {
    unequal_halves(testbed())
}

fn each(mut scenario: Scenario, change: impl Fn(&mut Group)) -> Scenario {
    scenario.fleet.iter_mut().for_each(change);
    scenario
}

fn costing(cost: Cost) -> Scenario {
    Scenario { cost, ..testbed() }
}

/// A log-normal cost with the testbed's mean, 86.3 ms, if median and σ are set accordingly: the
/// mean is median · exp(σ² / 2).
fn lognormal(median_us: u64, sigma: f64) -> Cost {
    Cost::Lognormal {
        median: Duration::from_micros(median_us),
        sigma,
    }
}

/// A Pareto cost with the same mean, which is three times the least cost.
fn pareto() -> Cost {
    Cost::Pareto {
        least: Duration::from_micros(28_770),
        alpha: 1.5,
    }
}

/// Half of the neighbours' variance changes three times as fast as the faster tenth in the testbed.
fn fast_antagonists() -> Scenario {
    let mut scenario = testbed();
    scenario.antagonists = scenario.antagonists.map(|neighbours| Antagonists {
        fast: ms(100),
        fast_share: 0.5,
        ..neighbours
    });
    scenario
}

/// In turn, half of the queries and seven in ten of them mostly wait: for 200 ms in the mean, and
/// at a tenth of the cost.
fn mixed() -> Scenario {
    let mut scenario = testbed();
    scenario.load.mix = Some(Mix {
        shares: [0.5, 0.7],
        turn: Duration::from_secs(5),
        io_wait: ms(400),
        cost: 0.1,
    });
    scenario
}
