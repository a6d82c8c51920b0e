//! Properties that only the engine can see: nothing is left behind, and arrivals do not depend on
//! the policy.

use super::balancing::Balancing;
use super::*;
use crate::scenario::{
    Arrivals as Spread, Change, ClassHandling, Classes, Cost, Delay, Event, Failure, FailureCost,
    Group, Hedge, Load, Network as Wires, Order, Queueing, Service, Sharing,
};
use slackwater_core::policy::Counters;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Eight single-threaded replicas at 90 % load, one second measured from the start.
fn scenario() -> Scenario {
    Scenario {
        load: Load::even(720.0, 4),
        cost: Cost::Exponential(ms(10)),
        fleet: vec![Group::healthy(8, Service::Fifo { workers: 1 })],
        antagonists: None,
        network: Wires {
            delay: Delay {
                least: ms(1),
                most: ms(3),
            },
            probe_loss: 0.0,
        },
        zones: None,
        events: Vec::new(),
        deadline: ms(100),
        cancel_expired: false,
        replay: None,
        warmup: Duration::ZERO,
        span: Duration::from_secs(1),
    }
}

/// The scenario above with everything that can happen to a query.
fn troubled() -> Scenario {
    let mut scenario = scenario();
    scenario.fleet[0].failure = Some(Failure {
        share: 0.1,
        cost: FailureCost::Share(0.5),
        from: ms(0),
        until: ms(800),
        reported_until: Duration::MAX,
    });
    scenario.load.hedge = Some(Hedge {
        after_quantile: 0.8,
        budget: 0.2,
        delay_min: ms(0),
        copies_max: 2,
        needs_room: false,
    });
    let event = |at, replica, change| Event {
        at: ms(at),
        replica,
        change,
    };
    scenario.events = vec![
        event(
            300,
            0,
            Change::Crash {
                known_after: ms(50),
            },
        ),
        event(
            400,
            1,
            Change::Restart {
                down_for: ms(50),
                cold_slowness: 1.0,
                warm_after: Duration::ZERO,
            },
        ),
        event(
            500,
            2,
            Change::Drain {
                leaves_after: ms(50),
            },
        ),
        event(
            600,
            0,
            Change::Join {
                cold_slowness: 2.0,
                warm_after: ms(100),
            },
        ),
    ];
    scenario
}

fn engine(scenario: &Scenario, policy: &str) -> Engine {
    Engine::new(
        scenario,
        &PolicyChoice::named(policy).expect("it exists"),
        1,
    )
}

/// Plays until nothing is in progress.
fn drain(engine: &mut Engine) {
    engine.arrivals.stop();
    for _ in 0..1_000_000 {
        if engine.attempts.is_empty() && engine.queries.is_empty() {
            return;
        }
        let (at, source) = engine.next();
        engine.now = at;
        engine.step(source);
    }
    panic!("something never ends");
}

fn counters(engine: &Engine) -> Counters {
    let Balancing::Own { clients, .. } = &engine.balancing else {
        panic!("a shipped policy");
    };
    clients[0].policy.counters()
}

#[test]
fn nothing_is_in_flight_after_the_last_query() {
    for cancel_expired in [false, true] {
        let mut scenario = troubled();
        scenario.cancel_expired = cancel_expired;
        for policy in PolicyChoice::names() {
            assert_nothing_is_left(&scenario, policy);
        }
    }
}

fn assert_nothing_is_left(scenario: &Scenario, policy: &str) {
    let mut engine = engine(scenario, policy);
    assert!(engine.play(&AtomicBool::new(false)));
    drain(&mut engine);
    let now = Instant::from_nanos(engine.now);
    for replica in engine.replicas.all_mut() {
        assert_eq!(replica.rif().count(), 0, "{policy}");
        assert_eq!(replica.report(engine.now).rif.count(), 0, "{policy}");
        assert_eq!(replica.machine.jobs(), 0, "{policy}");
    }
    match &engine.balancing {
        Balancing::Own { clients, .. } => {
            let views = clients.iter().flat_map(|c| c.policy.snapshot(now).replicas);
            for view in views {
                assert_eq!(view.in_flight, 0, "{policy}: each ticket came back");
            }
        }
        Balancing::Central(central) => assert!(central.is_idle(), "{policy}"),
    }
}

#[test]
fn queues_classes_and_spare_copies_leave_nothing_behind() {
    let orders = [Order::Arrival, Order::Shortest, Order::ShortestRemaining];
    let apart = ClassHandling::Apart { long_replicas: 3 };
    let charged = ClassHandling::Charged { long_counts_as: 4 };
    for (order, handling) in orders.into_iter().zip([apart, charged, charged]) {
        for is_tied in [false, true] {
            let mut scenario = troubled();
            for group in &mut scenario.fleet {
                group.service = Service::Shared(Sharing {
                    cores: 1.0,
                    bucket: 0.0,
                    burst: 1.0,
                    contention_loss: 0.0,
                });
                group.queue = Some(Queueing {
                    at_once: 1,
                    order,
                    drops_late: true,
                });
            }
            scenario.load.classes = Some(Classes {
                long_from: ms(20),
                handling,
            });
            if is_tied {
                scenario.load.hedge = None;
                scenario.load.tie = Some(ms(4));
            } else if let Some(hedge) = &mut scenario.load.hedge {
                hedge.needs_room = true;
            }
            assert_eq!(scenario.mistakes(), []);
            for policy in PolicyChoice::names() {
                assert_nothing_is_left(&scenario, policy);
            }
        }
    }
}

#[test]
fn reports_count_long_queries_as_configured() {
    let rif = |handling: Option<ClassHandling>| {
        let mut scenario = scenario();
        scenario.cost = Cost::Fixed(ms(10));
        scenario.load.classes = handling.map(|handling| Classes {
            long_from: ms(10),
            handling,
        });
        let mut engine = engine(&scenario, "round_robin");
        assert!(engine.play(&AtomicBool::new(false)));
        let now = engine.now;
        let replicas = engine.replicas.all_mut().iter_mut();
        replicas
            .map(|replica| (replica.report(now).rif.count(), replica.rif().count()))
            .collect::<Vec<_>>()
    };
    let charged = rif(Some(ClassHandling::Charged { long_counts_as: 4 }));
    assert!(charged.iter().any(|(_, rif)| *rif > 0));
    assert!(charged.iter().all(|(reported, rif)| *reported == 4 * rif));
    for plain in [None, Some(ClassHandling::Ignored)] {
        let plain = rif(plain);
        assert!(plain.iter().all(|(reported, rif)| reported == rif));
    }
}

#[test]
fn every_policy_receives_the_same_queries() {
    for spread in [Spread::Poisson, Spread::Regular] {
        let mut scenario = troubled();
        scenario.load.arrivals = spread;
        let rest = |policy| {
            let mut engine = engine(&scenario, policy);
            while engine.arrivals.next_at() < nanos(scenario.span) {
                let (at, source) = engine.next();
                engine.now = at;
                engine.step(source);
            }
            // The next arrivals are the same only if the same number was drawn before, and nothing
            // else.
            let next = |_| (engine.arrivals.next_at(), engine.arrivals.take());
            (0..20).map(next).collect::<Vec<_>>()
        };
        let of_random = rest("random");
        for policy in PolicyChoice::names() {
            assert_eq!(of_random, rest(policy), "{policy}");
        }
    }
}

#[test]
fn probes_are_lost_in_proportion() {
    let mut scenario = scenario();
    scenario.network.probe_loss = 0.25;
    scenario.span = Duration::from_secs(2);
    let mut engine = engine(&scenario, "prequal");
    assert!(engine.play(&AtomicBool::new(false)));
    let counters = counters(&engine);
    // More than 400 probes: the binomial deviation is below 0.022. The bound is four deviations.
    assert!(counters.probes_sent > 400, "{counters:?}");
    let lost = counters.probes_lost as f64 / counters.probes_sent as f64;
    assert!((lost - 0.25).abs() < 0.09, "{counters:?}");
    assert_eq!(counters.reports_late, 0);
}

#[test]
fn replica_reports_its_actual_state() {
    let mut scenario = scenario();
    scenario.cost = Cost::Fixed(ms(10));
    scenario.load.arrivals = Spread::Regular;
    scenario.load.rate = 400.0;
    scenario.fleet[0].failure = Some(Failure {
        share: 1.0,
        cost: FailureCost::Share(1.0),
        from: ms(0),
        until: ms(10_000),
        reported_until: Duration::MAX,
    });
    scenario.span = Duration::from_secs(5);
    scenario.events = vec![
        Event {
            at: ms(4_500),
            replica: 0,
            change: Change::Drain {
                leaves_after: ms(10_000),
            },
        },
        Event {
            at: ms(4_500),
            replica: 1,
            change: Change::Restart {
                down_for: ms(100),
                cold_slowness: 1.0,
                warm_after: Duration::ZERO,
            },
        },
    ];
    let mut engine = engine(&scenario, "round_robin");
    assert!(engine.play(&AtomicBool::new(false)));
    let mut report = |number: usize| engine.replicas.at_mut(number).report(engine.now);
    // 50 queries a second of 10 ms each, all of them failing.
    let within = |found: Option<u32>, expected: u32| {
        let found = found.expect("it is known");
        assert!(
            found.abs_diff(expected) <= expected / 50,
            "{found}, not {expected}"
        );
    };
    within(report(2).cpu_millionths, 500_000);
    within(report(2).query_rate_millis, 50_000);
    assert_eq!(report(2).error_millionths, Some(1_000_000));
    assert_eq!(
        (report(2).incarnation, report(2).draining),
        (Some(0), false)
    );
    assert_eq!((report(0).incarnation, report(0).draining), (Some(0), true));
    assert_eq!(
        (report(1).incarnation, report(1).draining),
        (Some(1), false)
    );
    assert_eq!(report(1).cpu_millionths, None, "it has just started");
}

#[test]
fn reports_may_hide_failures_from_a_given_time() {
    let mut scenario = scenario();
    scenario.load.rate = 400.0;
    scenario.span = Duration::from_secs(5);
    let failing = |reported_until| {
        let mut scenario = scenario.clone();
        scenario.fleet[0].failure = Some(Failure {
            share: 1.0,
            cost: FailureCost::Share(0.0),
            from: ms(0),
            until: ms(100_000),
            reported_until,
        });
        let mut engine = engine(&scenario, "round_robin");
        assert!(engine.play(&AtomicBool::new(false)));
        let replica = engine.replicas.at_mut(0);
        replica.report(engine.now).error_millionths
    };
    assert_eq!(failing(ms(100_000)), Some(1_000_000));
    assert_eq!(failing(ms(4_000)), Some(0));
}

#[test]
fn queries_arrive_until_all_measured_ones_have_ended() {
    let mut scenario = scenario();
    scenario.load.rate = 2_000.0;
    let mut engine = engine(&scenario, "round_robin");
    assert!(engine.play(&AtomicBool::new(false)));
    let late = engine.now - nanos(scenario.span);
    // By then every query waits for the deadline of 100 ms, and arrives within about a millisecond
    // of the one before.
    assert!((nanos(ms(90))..=nanos(ms(100))).contains(&late), "{late}");
    assert!(engine.arrivals.next_at() > engine.now);
    assert!(engine.meter.is_done(engine.now));
}

#[test]
fn idle_policy_without_timeouts_causes_no_events() {
    let mut scenario = scenario();
    scenario.load.rate = 0.001;
    scenario.span = Duration::from_secs(10);
    let mut engine = engine(&scenario, "round_robin");
    assert!(engine.play(&AtomicBool::new(false)));
    assert_eq!(engine.events, 0);
}

#[test]
fn restarted_replica_has_no_learned_capacity() {
    let mut scenario = scenario();
    scenario.load.rate = 400.0;
    scenario.span = Duration::from_secs(2);
    // The run ends too soon after the restart for a second reading.
    scenario.deadline = ms(20);
    scenario.fleet[0].learns_capacity = true;
    let restart = Change::Restart {
        down_for: ms(10),
        cold_slowness: 1.0,
        warm_after: Duration::ZERO,
    };
    scenario.events = vec![Event {
        at: ms(1_975),
        replica: 1,
        change: restart,
    }];
    let capacities = |learns| {
        let mut scenario = scenario.clone();
        scenario.fleet[0].learns_capacity = learns;
        let mut engine = engine(&scenario, "prequal");
        assert!(engine.play(&AtomicBool::new(false)));
        [0, 1].map(|number| {
            let report = engine.replicas.at_mut(number).report(engine.now);
            report.capacity_millirif.is_some()
        })
    };
    assert_eq!(capacities(true), [true, false]);
    assert_eq!(capacities(false), [false, false]);
}
