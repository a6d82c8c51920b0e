//! The fleets, and what is done there after or beside the choice of a replica.

use crate::Scenario;
use crate::presets::{at_load, cores, hedged, hedged_with_room, testbed, tied};
use crate::scenario::{
    ClassHandling, Classes, Cost, Group, Order, Queueing, Service, Stall, Swing,
};
use core::time::Duration;

/// A fleet under a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct World {
    /// Its name.
    pub(super) name: &'static str,
    /// What it is, in a phrase.
    pub(super) about: &'static str,
    pub(super) load: f64,
    pub(super) warmup_seconds: u64,
    pub(super) span_seconds: u64,
    pub(super) kind: Kind,
    fleet: fn() -> Scenario,
}

/// What can be done in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Replicas whose capacity varies beyond their allocation, so that no limit of theirs fits.
    Testbed,
    /// Replicas of constant capacity.
    Constant,
    /// Replicas of constant capacity, with short and long queries.
    Classes {
        long_from: Duration,
        /// The mean cost of a long query, as a multiple of a short one's.
        long_counts_as: u32,
        /// Replicas for long queries, by their share of the work.
        long_replicas: usize,
    },
    /// Replicas that are overloaded at times.
    Overload,
}

/// What is done after or beside the choice of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Nothing.
    Once,
    /// Long queries have replicas of their own.
    Apart,
    /// Requests in flight count by class.
    Charged,
    /// The replica serves as many queries as it has cores, in this order.
    Queue(Order),
    /// A queue in this order, which rejects queries that would be late.
    Rejecting(Order),
    /// Two tied copies of each query, with queues in order of arrival.
    Tied,
    /// Two tied copies, and queues that reject those that would be late.
    TiedRejecting,
    /// The client cancels a query at its deadline.
    Cancelled,
    /// A second copy of the latest 5 % of queries.
    Hedged,
    /// A second copy of the latest 5 %, which replicas without room drop.
    WithRoom,
}

/// Second copies leave after this quantile of recent latencies.
const HEDGE_QUANTILE: f64 = 0.95;

/// Every world.
pub(super) const WORLDS: [World; 7] = [
    World {
        name: "testbed-0.75",
        about: "the paper's testbed below its allocation",
        load: 0.75,
        warmup_seconds: 8,
        span_seconds: 8,
        kind: Kind::Testbed,
        fleet: testbed,
    },
    World {
        name: "testbed-1.27",
        about: "the paper's testbed above its allocation",
        load: 1.27,
        warmup_seconds: 8,
        span_seconds: 8,
        kind: Kind::Testbed,
        fleet: testbed,
    },
    World {
        name: "short-and-long",
        about: "40 replicas of two cores, 5 % of queries cost 100 ms and the others 5 ms",
        load: 0.8,
        warmup_seconds: 5,
        span_seconds: 20,
        kind: Kind::Classes {
            long_from: ms(50),
            long_counts_as: 20,
            long_replicas: 21,
        },
        fleet: || {
            let cost = Cost::Bimodal {
                cheap: ms(5),
                dear: ms(100),
                dear_share: 0.05,
            };
            cores(40, 2.0, 20, cost)
        },
    },
    World {
        name: "heavy-tail",
        about: "40 replicas of two cores, lognormal costs of sigma 2 and median 3 ms",
        load: 0.7,
        warmup_seconds: 5,
        span_seconds: 30,
        kind: Kind::Classes {
            long_from: ms(100),
            long_counts_as: 25,
            long_replicas: 24,
        },
        fleet: || {
            let cost = Cost::Lognormal {
                median: ms(3),
                sigma: 2.0,
            };
            cores(40, 2.0, 20, cost)
        },
    },
    World {
        name: "one-slow",
        about: "16 replicas of one core, one of them a quarter as fast",
        load: 0.75,
        warmup_seconds: 5,
        span_seconds: 200,
        kind: Kind::Constant,
        fleet: || {
            let mut scenario = cores(16, 1.0, 4, Cost::Exponential(ms(50)));
            let alike = scenario.fleet.iter().cloned();
            scenario.fleet = alike
                .flat_map(|group| {
                    let slow = Group {
                        count: 1,
                        slowness: 4.0,
                        ..group.clone()
                    };
                    let others = Group { count: 15, ..group };
                    [slow, others]
                })
                .collect();
            scenario
        },
    },
    World {
        name: "pauses",
        about: "20 replicas of four cores, each pauses for 300 ms every 5 s",
        load: 0.7,
        warmup_seconds: 5,
        span_seconds: 30,
        kind: Kind::Constant,
        fleet: || {
            let mut scenario = cores(20, 4.0, 10, Cost::Exponential(ms(20)));
            for group in &mut scenario.fleet {
                group.stall = Some(Stall {
                    every: Duration::from_secs(5),
                    regular: false,
                    lasts: ms(300),
                });
            }
            scenario
        },
    },
    World {
        name: "overload",
        about: "20 replicas of four cores, load from 51 % to 119 % and back in 10 s, deadline 500 ms",
        load: 0.85,
        warmup_seconds: 5,
        span_seconds: 20,
        kind: Kind::Overload,
        fleet: || {
            let mut scenario = cores(20, 4.0, 10, Cost::Exponential(ms(20)));
            scenario.deadline = ms(500);
            scenario.load.swing = Some(Swing {
                period: Duration::from_secs(10),
                amplitude: 0.4,
            });
            scenario
        },
    },
];

impl World {
    /// Returns the variants that are played, beginning with [`Variant::Once`].
    pub(super) fn variants(&self) -> Vec<Variant> {
        let queues = [Order::Arrival, Order::Shortest, Order::ShortestRemaining];
        let queues = queues.map(Variant::Queue);
        let rejecting = [Order::Arrival, Order::ShortestRemaining].map(Variant::Rejecting);
        let hedges = [Variant::Hedged, Variant::WithRoom];
        let mut variants = vec![Variant::Once];
        if matches!(self.kind, Kind::Classes { .. }) {
            variants.extend([Variant::Apart, Variant::Charged]);
        }
        if self.kind != Kind::Testbed {
            variants.extend(queues);
            variants.push(Variant::Tied);
        }
        if self.kind == Kind::Overload {
            variants.push(Variant::Cancelled);
            variants.extend(rejecting);
            variants.push(Variant::TiedRejecting);
        } else {
            variants.extend(hedges);
        }
        variants
    }

    /// Returns the scenario of a variant, without the times of the run.
    pub(super) fn scenario(&self, variant: Variant) -> Scenario {
        let mut scenario = at_load(self.load, (self.fleet)());
        if let Kind::Classes {
            long_from,
            long_counts_as,
            long_replicas,
        } = self.kind
        {
            let handling = match variant {
                Variant::Apart => ClassHandling::Apart { long_replicas },
                Variant::Charged => ClassHandling::Charged { long_counts_as },
                _ => ClassHandling::Ignored,
            };
            scenario.load.classes = Some(Classes {
                long_from,
                handling,
            });
        }
        match variant {
            Variant::Once | Variant::Apart | Variant::Charged => scenario,
            Variant::Queue(order) => queued(order, false, scenario),
            Variant::Rejecting(order) => queued(order, true, scenario),
            Variant::Tied => tied(queued(Order::Arrival, false, scenario)),
            Variant::TiedRejecting => tied(queued(Order::Arrival, true, scenario)),
            Variant::Cancelled => Scenario {
                cancel_expired: true,
                ..scenario
            },
            Variant::Hedged => hedged(HEDGE_QUANTILE, scenario),
            Variant::WithRoom => hedged_with_room(HEDGE_QUANTILE, scenario),
        }
    }
}

impl Variant {
    /// Returns the parameter of its cells.
    pub(super) const fn param(self) -> &'static str {
        match self {
            Self::Once => "",
            Self::Apart => "class=apart",
            Self::Charged => "class=charged",
            Self::Queue(Order::Arrival) => "queue=arrival",
            Self::Queue(Order::Shortest) => "queue=shortest",
            Self::Queue(Order::ShortestRemaining) => "queue=remaining",
            Self::Rejecting(Order::Arrival) => "queue=arrival,late=rejected",
            Self::Rejecting(Order::Shortest) => "queue=shortest,late=rejected",
            Self::Rejecting(Order::ShortestRemaining) => "queue=remaining,late=rejected",
            Self::Tied => "queue=arrival,copies=tied",
            Self::TiedRejecting => "queue=arrival,copies=tied,late=rejected",
            Self::Cancelled => "late=cancelled",
            Self::Hedged => "copies=hedged",
            Self::WithRoom => "copies=room",
        }
    }

    /// Returns whether the clairvoyants play it, too. Classes and ties are for clients that do not
    /// know all.
    pub(super) const fn is_for_clairvoyants(self) -> bool {
        !matches!(
            self,
            Self::Apart | Self::Charged | Self::Tied | Self::TiedRejecting
        )
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Limits each replica to as many queries at once as it has cores.
fn queued(order: Order, drops_late: bool, mut scenario: Scenario) -> Scenario {
    for group in &mut scenario.fleet {
        if let Service::Shared(sharing) = &group.service {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a few whole cores"
            )]
            let at_once = sharing.cores as usize;
            group.queue = Some(Queueing {
                at_once,
                order,
                drops_late,
            });
        }
    }
    scenario
}
