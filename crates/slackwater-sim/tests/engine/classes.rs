//! Short and long queries, replicas' own queues, and copies from spare capacity only.

use super::rig::{SINGLE, everyone, ms, plain, play, secs, shared, steady};
use core::time::Duration;
use slackwater_sim::Scenario;
use slackwater_sim::scenario::{ClassHandling, Classes, Cost, Group, Hedge, Order, Queueing};

/// Four replicas at half of their capacity. One query in five is long.
fn of_classes(handling: ClassHandling) -> Scenario {
    let mut scenario = plain(200.0, vec![Group::healthy(4, shared(1.0))]);
    scenario.cost = Cost::Bimodal {
        cheap: ms(5),
        dear: ms(30),
        dear_share: 0.2,
    };
    scenario.load.classes = Some(Classes {
        long_from: ms(30),
        handling,
    });
    scenario
}

fn queued(scenario: &Scenario, order: Order, drops_late: bool) -> Scenario {
    let mut scenario = scenario.clone();
    for group in &mut scenario.fleet {
        group.queue = Some(Queueing {
            at_once: 1,
            order,
            drops_late,
        });
    }
    scenario
}

#[test]
fn each_query_is_measured_in_its_class() {
    let measured = play(&of_classes(ClassHandling::Ignored), "least_loaded");
    let [short, long] = &measured.latency_by_class;
    assert_eq!(short.count() + long.count(), measured.queries);
    // Binomial of 2,000, deviation 18. The bound is four deviations.
    assert!(long.count().abs_diff(400) < 72, "{}", long.count());
    assert!(long.quantile(0.0) >= ms(30) && short.quantile(0.0) < ms(6));
}

#[test]
fn long_queries_go_to_replicas_of_their_own() {
    let handling = ClassHandling::Apart { long_replicas: 2 };
    for policy in everyone() {
        let measured = play(&of_classes(handling), policy);
        assert_eq!(measured.errors, 0, "{policy}");
        let long = measured.latency_by_class[1].count();
        let (short_replicas, long_replicas) = measured.queries_by_replica.split_at(2);
        assert_eq!(long_replicas.iter().sum::<u64>(), long, "{policy}");
        assert!(short_replicas.iter().all(|count| *count > 0), "{policy}");
    }
}

#[test]
fn classes_apart_do_not_delay_each_other() {
    let short_max = |handling| {
        let measured = play(&of_classes(handling), "round_robin");
        measured.latency_by_class[0].quantile(0.999)
    };
    let together = short_max(ClassHandling::Ignored);
    let apart = short_max(ClassHandling::Apart { long_replicas: 2 });
    assert!(apart < together, "{apart:?} {together:?}");
}

/// One replica at half more than its capacity.
fn overloaded() -> Scenario {
    let mut scenario = plain(150.0, vec![Group::healthy(1, shared(1.0))]);
    scenario.deadline = ms(100);
    scenario.network = steady(Duration::from_micros(100));
    scenario
}

#[test]
fn queue_that_rejects_late_queries_serves_the_others_in_time() {
    for policy in everyone() {
        let plain = play(&overloaded(), policy);
        // A query that is served at once ends in time, so only the network makes one late.
        let rejecting = play(&queued(&overloaded(), Order::Arrival, true), policy);
        assert!(plain.timeouts > plain.queries * 9 / 10, "{policy}");
        let failed = rejecting.errors - rejecting.timeouts;
        let share = failed as f64 / rejecting.queries as f64;
        assert!((share - 1.0 / 3.0).abs() < 0.05, "{policy}: {share}");
        assert!(rejecting.timeouts < rejecting.queries / 20, "{policy}");
    }
}

#[test]
fn shortest_remaining_first_favours_short_queries() {
    let mean = |order| {
        let scenario = queued(&of_classes(ClassHandling::Ignored), order, false);
        let measured = play(&scenario, "round_robin");
        measured.latency_by_class.map(|latency| latency.mean())
    };
    let (fifo, remaining) = (mean(Order::Arrival), mean(Order::ShortestRemaining));
    assert!(remaining[0] < fifo[0] * 8 / 10, "{remaining:?} {fifo:?}");
    assert!(remaining[1] > fifo[1], "{remaining:?} {fifo:?}");
}

fn hedged(scenario: &Scenario, needs_room: bool) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.load.hedge = Some(Hedge {
        after_quantile: 0.5,
        budget: 1.0,
        delay_min: Duration::ZERO,
        copies_max: 2,
        needs_room,
    });
    scenario
}

#[test]
fn full_replicas_drop_copies_and_idle_ones_serve_them() {
    let busy = plain(300.0, vec![Group::healthy(4, SINGLE)]);
    let mut idle = plain(4.0, vec![Group::healthy(4, SINGLE)]);
    idle.cost = Cost::Exponential(ms(10));
    idle.span = secs(100);
    for policy in everyone() {
        let work = |scenario: &Scenario| {
            let measured = play(scenario, policy);
            assert_eq!(measured.errors, 0, "{policy}");
            (measured.hedges, measured.utilization.mean())
        };
        let once = work(&busy);
        let (hedges, spare) = work(&hedged(&busy, true));
        let (_, any) = work(&hedged(&busy, false));
        assert!(hedges > 100, "{policy}");
        let (added, added_by_any) = (spare - once.1, any - once.1);
        assert!(
            added < 0.75 * added_by_any,
            "{policy}: {added} {added_by_any}"
        );
        let (some, all) = (work(&hedged(&idle, true)), work(&hedged(&idle, false)));
        assert!(some.0.abs_diff(all.0) <= 10, "{policy}: {some:?} {all:?}");
        assert!(
            (some.1 / all.1 - 1.0).abs() < 0.05,
            "{policy}: {some:?} {all:?}"
        );
    }
}
