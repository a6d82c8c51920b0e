//! Second copies.

use super::rig::{SINGLE, everyone, ms, plain, play, same, secs};
use core::time::Duration;
use slackwater_sim::Scenario;
use slackwater_sim::scenario::{
    ClientCpu, Cost, Failure, FailureCost, Group, Hedge, Hobble, Service, Stall,
};

/// Replicas that stall now and then, which hedging helps against.
fn stalling(hedge: Option<Hedge>) -> Scenario {
    let group = Group {
        stall: Some(Stall {
            every: secs(2),
            regular: false,
            lasts: ms(200),
        }),
        ..Group::healthy(10, SINGLE)
    };
    let mut scenario = plain(200.0, vec![group]);
    scenario.cost = Cost::Fixed(ms(1));
    scenario.load.hedge = hedge;
    scenario
}

const HEDGE: Hedge = Hedge {
    after_quantile: 0.9,
    budget: 0.15,
    delay_min: Duration::from_millis(2),
    copies_max: 2,
    needs_room: false,
};

#[test]
fn second_copy_avoids_the_stall_of_the_first() {
    for policy in everyone() {
        let mean = |hedge| {
            let measured = play(&stalling(hedge), policy);
            assert_eq!(measured.errors, 0, "{policy}");
            (measured.latency.mean(), measured.hedges)
        };
        let ((without, none), (with, copies)) = (mean(None), mean(Some(HEDGE)));
        assert_eq!(none, 0);
        // Clairvoyants that see the stall avoid it without copies.
        if policy != "greedy" && policy != "jsq_weighted" {
            assert!(
                copies > 0 && with < without,
                "{policy}: {with:?}, {without:?}"
            );
        }
    }
}

#[test]
fn copies_stay_within_the_budget() {
    let tight = Hedge {
        budget: 0.01,
        ..HEDGE
    };
    let measured = play(&stalling(Some(tight)), "random");
    let share = measured.hedges as f64 / measured.queries as f64;
    assert!(share > 0.005 && share <= 0.01, "{share}");
    let never = Hedge {
        delay_min: secs(4),
        ..HEDGE
    };
    assert_eq!(play(&stalling(Some(never)), "random").hedges, 0);
}

#[test]
fn copy_of_a_replayed_query_draws_another_latency() {
    let mut trace = vec![ms(1); 95];
    trace.extend([ms(500); 5]);
    let mut scenario = plain(200.0, vec![Group::healthy(10, Service::Latency)]);
    scenario.cost = Cost::Trace(trace.into());
    let p99 = |scenario: &Scenario| play(scenario, "round_robin").latency.quantile(0.99);
    assert_eq!(p99(&scenario), ms(500), "one in twenty");
    scenario.load.hedge = Some(HEDGE);
    // Two slow latencies in a row are one in 400. The first few hundred queries have no copies yet.
    scenario.warmup = secs(5);
    assert!(
        same(p99(&scenario), ms(3)),
        "2 ms of waiting, 1 ms of a second copy"
    );
    // Where queries cost CPU, a copy costs as much as the query.
    scenario.fleet = vec![Group::healthy(100, SINGLE)];
    assert!(same(p99(&scenario), ms(500)));
}

#[test]
fn copy_goes_to_another_replica() {
    let mut scenario = stalling(Some(HEDGE));
    scenario.fleet[0].count = 1;
    for policy in everyone() {
        assert_eq!(play(&scenario, policy).hedges, 0, "{policy}");
    }
}

#[test]
fn first_copy_that_leaves_late_has_a_second_copy() {
    // Queries queue for their client's CPU, some for longer than most queries take in all.
    let replay = |latency| Service::LatencyTrace(vec![latency].into());
    let fleet = vec![
        Group::healthy(1, replay(secs(3))),
        Group::healthy(3, replay(ms(1))),
    ];
    let mut scenario = plain(60.0, fleet);
    scenario.warmup = secs(10);
    scenario.load.client_cpu = Some(ClientCpu {
        query: ms(20),
        probe: Duration::ZERO,
    });
    scenario.load.hedge = Some(Hedge {
        after_quantile: 0.5,
        budget: 1.0,
        ..HEDGE
    });
    let measured = play(&scenario, "random");
    let longest = measured.latency.quantile(1.0);
    assert!(
        longest < secs(1),
        "none waits for the replica that hangs: {longest:?}"
    );
}

#[test]
fn third_copy_goes_to_a_third_replica() {
    // Two of eight replicas hang.
    let replay = |latency| Service::LatencyTrace(vec![latency].into());
    let fleet = vec![
        Group::healthy(2, replay(secs(3))),
        Group::healthy(6, replay(ms(20))),
    ];
    let mut scenario = plain(200.0, fleet);
    scenario.warmup = secs(10);
    let mut longest = |copies_max| {
        scenario.load.hedge = Some(Hedge {
            after_quantile: 0.7,
            budget: 1.0,
            copies_max,
            ..HEDGE
        });
        play(&scenario, "random").latency.quantile(0.99)
    };
    assert_eq!(longest(2), secs(3), "both hang, one time in 28");
    let three = longest(3);
    assert!(
        three > ms(60) && three < ms(70),
        "twice 20 ms and 20: {three:?}"
    );
}

#[test]
fn failed_copy_waits_for_the_other() {
    // One replica of three fails after 30 ms. The others answer after 25 ms, so a copy is on its
    // way by then.
    let replay = |latency| Service::LatencyTrace(vec![latency].into());
    let failing = Group {
        failure: Some(Failure {
            share: 1.0,
            cost: FailureCost::Share(1.0),
            from: Duration::ZERO,
            until: secs(100),
            reported_until: secs(100),
        }),
        ..Group::healthy(1, replay(ms(30)))
    };
    let mut scenario = plain(200.0, vec![failing, Group::healthy(2, replay(ms(25)))]);
    scenario.warmup = secs(5);
    let once = play(&scenario, "round_robin");
    assert!(once.error_share() > 0.3, "{}", once.error_share());
    scenario.load.hedge = Some(Hedge {
        after_quantile: 0.3,
        budget: 1.0,
        ..HEDGE
    });
    let twice = play(&scenario, "round_robin");
    assert_eq!(twice.errors, 0);
    let most = twice.latency.quantile(1.0);
    assert!(most > ms(50) && most < ms(52), "25 and 25: {most:?}");
}

#[test]
fn no_hedging_storm_if_all_replicas_slow_down() {
    // All replicas become twenty times as slow for ten seconds, which is more than they can serve.
    let mut group = Group::healthy(10, SINGLE);
    group.hobble = Some(Hobble {
        from: secs(10),
        until: secs(20),
        capacity: 0.05,
        latency: None,
    });
    let mut scenario = plain(400.0, vec![group]);
    scenario.warmup = secs(10);
    scenario.load.hedge = Some(Hedge {
        after_quantile: 0.95,
        budget: 1.0,
        ..HEDGE
    });
    let measured = play(&scenario, "least_loaded");
    assert!(measured.latency.quantile(0.5) > ms(100), "all are late");
    // Two clients: each stops hedging after 33 late queries.
    assert!(measured.hedges <= 2 * 40, "{}", measured.hedges);
}
