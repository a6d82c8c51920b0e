//! Hard worlds: small scenarios in which policies have done badly, each with one difficulty.
//!
//! They are for comparison of policies, so each is short: a run takes at most a few seconds of CPU.

use super::{NETWORK, at_load};
use crate::Scenario;
use crate::scenario::{
    Batching, Change, Cost, Delay, Event, Group, Hobble, Load, Mix, Neighbour, Network, Quota,
    Service, Sharing, Stall, Swing,
};
use core::time::Duration;

/// A scenario with a name.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// The name, of one word.
    pub name: &'static str,
    /// What is hard about it, in a phrase.
    pub about: &'static str,
    /// The mean load, as a multiple of the capacity.
    pub load: f64,
    warmup_seconds: u64,
    span_seconds: u64,
    fleet: fn() -> Scenario,
    /// Adds troubles whose times depend on the run's.
    trouble: fn(Scenario) -> Scenario,
}

impl World {
    /// Returns the scenario, with these times if they are given.
    pub fn scenario(&self, warmup: Option<Duration>, span: Option<Duration>) -> Scenario {
        let times = Scenario {
            warmup: warmup.unwrap_or(seconds(self.warmup_seconds)),
            span: span.unwrap_or(seconds(self.span_seconds)),
            ..at_load(self.load, (self.fleet)())
        };
        (self.trouble)(times)
    }
}

/// Every world.
pub const WORLDS: &[World] = &[
    world(
        "bimodal",
        "5 % of queries cost 100 times as much",
        (0.8, 10, 30),
        || cores(48, 1.0, 20, bimodal(2, 200, 0.05)),
    ),
    world(
        "bimodal-queue",
        "the same, one query at a time",
        (0.8, 10, 30),
        || workers(48, 1, 20, bimodal(2, 200, 0.05)),
    ),
    world(
        "pareto",
        "costs with an infinite variance: Pareto of index 1.5",
        (0.7, 5, 20),
        || {
            let cost = Cost::Pareto {
                least: ms(5),
                alpha: 1.5,
            };
            cores(40, 2.0, 20, cost)
        },
    ),
    world(
        "lognormal",
        "lognormal costs of sigma 2, two queries at a time",
        (0.7, 5, 20),
        || {
            let cost = Cost::Lognormal {
                median: ms(3),
                sigma: 2.0,
            };
            workers(40, 2, 10, cost)
        },
    ),
    world(
        "streams",
        "one query in 200 is a stream of up to two minutes",
        (0.7, 10, 25),
        || with_streams(cores(20, 4.0, 8, Cost::Exponential(ms(20)))),
    ),
    world(
        "streams-unequal",
        "such streams, and half of the replicas have a quarter of the cores",
        (0.7, 10, 25),
        || {
            let mut scenario = cores(20, 4.0, 8, Cost::Exponential(ms(20)));
            split(&mut scenario, 10).service = shared(1.0);
            with_streams(scenario)
        },
    ),
    world(
        "cheap-and-dear",
        "half of the queries, then seven in ten, wait and cost a tenth",
        (0.8, 5, 20),
        || {
            let mut scenario = cores(40, 2.0, 20, Cost::Exponential(ms(20)));
            scenario.load.mix = Some(Mix {
                shares: [0.5, 0.7],
                turn: seconds(5),
                io_wait: ms(200),
                cost: 0.1,
            });
            scenario
        },
    ),
    world(
        "lost-50",
        "half of the probes are lost, 400 clients, a tenth of the replicas slow",
        (0.8, 10, 20),
        || losing(0.5, some_slow(100, 10, 400)),
    ),
    world(
        "lost-30",
        "30 % of the probes are lost, 500 replicas, a tenth of them slow",
        (0.8, 4, 5),
        || losing(0.3, some_slow(500, 50, 200)),
    ),
    world(
        "lost-10",
        "10 % of the probes are lost, 30 replicas, a tenth of them slow",
        (0.85, 5, 30),
        || losing(0.1, some_slow(30, 3, 10)),
    ),
    world(
        "two-zones",
        "half of the replicas are 100 ms away and the others 2 ms, both ways together",
        (0.7, 5, 40),
        || distant(6, 6, ms(49), cores(12, 4.0, 4, Cost::Exponential(ms(20)))),
    ),
    world(
        "near-zone",
        "a third of the replicas are 2 ms away and the others 0.4, both ways together",
        (0.7, 3, 7),
        || {
            let extra = Duration::from_micros(800);
            distant(16, 8, extra, cores(24, 4.0, 12, Cost::Exponential(ms(4))))
        },
    ),
    world(
        "wide-network",
        "messages take 5 to 40 ms each way",
        (0.8, 5, 20),
        || {
            let mut scenario = cores(50, 2.0, 100, Cost::Exponential(ms(20)));
            scenario.network.delay = Delay {
                least: ms(5),
                most: ms(40),
            };
            scenario
        },
    ),
    world(
        "batches",
        "servers that take up to 8 queries at once, one client",
        (0.85, 10, 60),
        || {
            let service = Service::Batch(Batching { max: 8, added: 0.1 });
            plain(12, 1, service, Cost::Exponential(ms(40)))
        },
    ),
    world(
        "batches-of-32",
        "servers that take up to 32 queries at once, 50 clients",
        (0.9, 8, 20),
        || {
            let service = Service::Batch(Batching {
                max: 32,
                added: 0.02,
            });
            plain(30, 50, service, Cost::Fixed(ms(100)))
        },
    ),
    world(
        "one-silent",
        "one replica of 100 answers no probes",
        (0.85, 10, 20),
        || unprobed(1, cores(100, 1.0, 100, Cost::Exponential(ms(20)))),
    ),
    world(
        "silent-and-slow",
        "a tenth of the replicas answers no probes and is half as fast",
        (0.8, 10, 20),
        || {
            let mut scenario = unprobed(5, cores(50, 1.0, 50, Cost::Exponential(ms(10))));
            first(&mut scenario).slowness = 2.0;
            scenario
        },
    ),
    world(
        "few-queries",
        "1,000 clients of 5 queries a second each",
        (0.8, 5, 12),
        || cores(125, 1.0, 1_000, Cost::Exponential(ms(20))),
    ),
    world(
        "few-queries-slow",
        "1,500 clients of a query a second, a tenth of the replicas slow",
        (0.8, 10, 15),
        || some_slow(40, 4, 1_500),
    ),
    world(
        "one-busy-client",
        "one client of 50 has half of the load",
        (0.85, 5, 15),
        || {
            let mut scenario = cores(60, 1.0, 50, Cost::Exponential(ms(10)));
            if let Some(busy) = scenario.load.clients.first_mut() {
                *busy = 49.0;
            }
            scenario
        },
    ),
    World {
        trouble: churn,
        ..world(
            "churn",
            "every 5 s a replica leaves and another joins, cold for 10 s",
            (0.75, 5, 60),
            || cores(20, 2.0, 10, Cost::Exponential(ms(20))),
        )
    },
    World {
        trouble: cold_starts,
        ..world(
            "cold-starts",
            "a quarter of the replicas restarts at once, ten times as slow at first",
            (0.6, 5, 40),
            || cores(24, 2.0, 12, Cost::Exponential(ms(20))),
        )
    },
    World {
        trouble: slow_rack,
        ..world(
            "slow-rack",
            "a third of the replicas loses 60 % of its capacity at once",
            (0.65, 5, 30),
            || cores(30, 2.0, 30, Cost::Exponential(ms(20))),
        )
    },
    World {
        trouble: slow_racks,
        ..world(
            "slow-racks",
            "five racks in turn lose half of their capacity for 2 s",
            (0.8, 5, 30),
            || cores(30, 2.0, 30, Cost::Exponential(ms(20))),
        )
    },
    world(
        "diurnal",
        "the load goes from 30 % to 110 % and back in 20 s, replicas of two kinds",
        (0.7, 5, 40),
        || {
            let mut scenario = halves(20, 20);
            scenario.load.swing = Some(Swing {
                period: seconds(20),
                amplitude: 0.57,
            });
            scenario
        },
    ),
    world(
        "two-kinds",
        "half of the replicas are a third as fast",
        (0.85, 5, 30),
        || halves(20, 20),
    ),
    world(
        "pauses",
        "each replica pauses for 300 ms every 5 s",
        (0.7, 5, 40),
        || {
            let mut scenario = cores(20, 4.0, 10, Cost::Exponential(ms(20)));
            first(&mut scenario).stall = Some(Stall {
                every: seconds(5),
                regular: false,
                lasts: ms(300),
            });
            scenario
        },
    ),
    world(
        "quotas",
        "containers at 60 % of their quota beside a neighbour that comes and goes",
        (0.6, 5, 40),
        || {
            let service = Service::Quota(Quota {
                cpu: ms(100),
                period: ms(100),
                at_once: 4.0,
                neighbour: Some(Neighbour {
                    share: 0.5,
                    least: ms(500),
                    most: seconds(5),
                }),
            });
            plain(24, 12, service, Cost::Exponential(ms(10)))
        },
    ),
    world(
        "three-slow-one",
        "three single-threaded replicas, one of them a quarter as fast, ten clients",
        (0.7, 20, 400),
        || some_slow(3, 1, 10),
    ),
    world(
        "10000-replicas",
        "10,000 replicas, 100 clients",
        (0.8, 1, 1),
        || cores(10_000, 1.0, 100, Cost::Exponential(ms(200))),
    ),
    world(
        "10000-clients",
        "100 replicas, 10,000 clients",
        (0.8, 2, 2),
        || cores(100, 1.0, 10_000, Cost::Exponential(ms(20))),
    ),
    world(
        "2000-of-both",
        "2,000 replicas, 2,000 clients",
        (0.8, 2, 2),
        || cores(2_000, 1.0, 2_000, Cost::Exponential(ms(100))),
    ),
];

const fn world(
    name: &'static str,
    about: &'static str,
    (load, warmup_seconds, span_seconds): (f64, u64, u64),
    fleet: fn() -> Scenario,
) -> World {
    World {
        name,
        about,
        load,
        warmup_seconds,
        span_seconds,
        fleet,
        trouble: |scenario| scenario,
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn bimodal(cheap_ms: u64, dear_ms: u64, dear_share: f64) -> Cost {
    Cost::Bimodal {
        cheap: ms(cheap_ms),
        dear: ms(dear_ms),
        dear_share,
    }
}

/// Returns a scenario with equal replicas and clients, and without a rate.
fn plain(replicas: usize, clients: usize, service: Service, cost: Cost) -> Scenario {
    let fleet = vec![Group::healthy(replicas, service)];
    Scenario {
        network: NETWORK,
        ..Scenario::plain(Load::even(0.0, clients), cost, fleet)
    }
}

/// Returns replicas with this many cores each, which their queries share, without a rate.
pub(crate) fn cores(replicas: usize, cores: f64, clients: usize, cost: Cost) -> Scenario {
    plain(replicas, clients, shared(cores), cost)
}

/// Returns cores that queries share, without a rate.
const fn shared(cores: f64) -> Service {
    Service::Shared(Sharing {
        cores,
        bucket: 0.0,
        burst: 1.0,
        contention_loss: 0.0,
    })
}

/// Makes one query in 200 a stream.
fn with_streams(scenario: Scenario) -> Scenario {
    let mut scenario = Scenario {
        deadline: seconds(120),
        ..scenario
    };
    scenario.load.mix = Some(Mix {
        shares: [0.005, 0.005],
        turn: seconds(10),
        io_wait: seconds(120),
        cost: 0.1,
    });
    scenario
}

/// Returns replicas with this many workers each, for which queries queue.
fn workers(replicas: usize, workers: usize, clients: usize, cost: Cost) -> Scenario {
    plain(replicas, clients, Service::Fifo { workers }, cost)
}

/// Returns the first group. Each fleet here has one.
fn first(scenario: &mut Scenario) -> &mut Group {
    &mut scenario.fleet[0]
}

/// Moves the first `count` replicas into a group of their own, which is returned.
fn split(scenario: &mut Scenario, count: usize) -> &mut Group {
    let mut apart = first(scenario).clone();
    apart.count = count;
    first(scenario).count -= count;
    scenario.fleet.insert(0, apart);
    first(scenario)
}

/// Returns single-threaded replicas of which `slow` are a quarter as fast.
fn some_slow(replicas: usize, slow: usize, clients: usize) -> Scenario {
    let mut scenario = workers(replicas, 1, clients, Cost::Exponential(ms(20)));
    split(&mut scenario, slow).slowness = 4.0;
    scenario
}

/// Returns replicas of two cores of which half are a third as fast.
fn halves(replicas: usize, clients: usize) -> Scenario {
    let mut scenario = cores(replicas, 2.0, clients, Cost::Exponential(ms(20)));
    split(&mut scenario, replicas / 2).slowness = 3.0;
    scenario
}

fn losing(probe_loss: f64, scenario: Scenario) -> Scenario {
    Scenario {
        network: Network {
            probe_loss,
            ..NETWORK
        },
        ..scenario
    }
}

/// Makes the first `near` replicas near, at 1 ms each way, or as near as usual, and the other `far`
/// ones farther by `extra`.
fn distant(near: usize, far: usize, extra: Duration, mut scenario: Scenario) -> Scenario {
    debug_assert_eq!(scenario.replicas(), near + far);
    first(&mut scenario).extra_delay = extra;
    split(&mut scenario, near).extra_delay = Duration::ZERO;
    if extra > ms(10) {
        scenario.network.delay = Delay {
            least: ms(1),
            most: ms(1),
        };
    }
    scenario
}

/// Makes the first `count` replicas answer no probes.
fn unprobed(count: usize, mut scenario: Scenario) -> Scenario {
    split(&mut scenario, count).answers_probes = false;
    scenario
}

/// Every 5 s a replica drains, leaves 1 s later, and joins again 4 s after that, when the next one
/// drains.
fn churn(mut scenario: Scenario) -> Scenario {
    let ends = scenario.warmup + scenario.span;
    let mut at = seconds(1);
    let mut replica = 0;
    while at < ends {
        let drain = Change::Drain {
            leaves_after: seconds(1),
        };
        let join = Change::Join {
            cold_slowness: 5.0,
            warm_after: seconds(10),
        };
        for (at, change) in [(at, drain), (at + seconds(5), join)] {
            scenario.events.push(Event {
                at,
                replica,
                change,
            });
        }
        replica = (replica + 1) % scenario.replicas();
        at += seconds(5);
    }
    scenario
}

/// A quarter of the replicas restarts after a third of the span.
fn cold_starts(mut scenario: Scenario) -> Scenario {
    let at = scenario.warmup + scenario.span / 3;
    for replica in 0..scenario.replicas() / 4 {
        scenario.events.push(Event {
            at,
            replica,
            change: Change::Restart {
                down_for: seconds(1),
                cold_slowness: 10.0,
                warm_after: seconds(10),
            },
        });
    }
    scenario
}

/// A third of the replicas is slow in the middle third of the span.
fn slow_rack(mut scenario: Scenario) -> Scenario {
    let third = scenario.span / 3;
    let from = scenario.warmup + third;
    let count = scenario.replicas() / 3;
    split(&mut scenario, count).hobble = Some(Hobble {
        from,
        until: from + third,
        capacity: 0.4,
        latency: None,
    });
    scenario
}

/// Each fifth of the replicas is slow once, for 2 s or a tenth of the span.
fn slow_racks(mut scenario: Scenario) -> Scenario {
    const RACKS: u32 = 5;
    let rack = Group {
        count: scenario.replicas() / RACKS as usize,
        ..first(&mut scenario).clone()
    };
    let lasts = seconds(2).min(scenario.span / 10);
    let racks = (0..RACKS).map(|number| {
        let from = scenario.warmup + scenario.span * number / RACKS;
        Group {
            hobble: Some(Hobble {
                from,
                until: from + lasts,
                capacity: 0.5,
                latency: None,
            }),
            ..rack.clone()
        }
    });
    scenario.fleet = racks.collect();
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_have_distinct_names_and_can_be_played() {
        for (number, world) in WORLDS.iter().enumerate() {
            let scenario = world.scenario(None, None);
            assert_eq!(scenario.mistakes(), [], "{}", world.name);
            let before = &WORLDS[..number];
            assert!(before.iter().all(|other| other.name != world.name));
            assert!(!world.name.contains(' '));
        }
    }

    #[test]
    fn troubles_fit_the_times_that_are_asked_for() {
        let (warmup, span) = (seconds(3), seconds(7));
        for world in WORLDS {
            let scenario = world.scenario(Some(warmup), Some(span));
            assert_eq!((scenario.warmup, scenario.span), (warmup, span));
            let spells = scenario.fleet.iter().filter_map(|group| group.hobble);
            let ends = warmup + span;
            assert!(spells.into_iter().all(|spell| spell.until <= ends));
        }
    }

    /// A run stays within a few seconds of CPU.
    #[test]
    fn worlds_have_at_most_200_000_queries() {
        for world in WORLDS {
            let scenario = world.scenario(None, None);
            let played = scenario.warmup + scenario.span;
            let queries = scenario.load.rate * played.as_secs_f64();
            assert!(queries < 200_000.0, "{}: {queries}", world.name);
        }
    }
}
