//! Two tied copies of each query.

use super::rig::{SINGLE, everyone, ms, plain, play, secs, shared, steady};
use core::time::Duration;
use slackwater_sim::Scenario;
use slackwater_sim::scenario::{Change, Event, Group, Service};

const ONE_WAY: Duration = Duration::from_micros(100);

/// Ten replicas at half of their capacity.
fn half_full(service: Service, tie: Option<Duration>) -> Scenario {
    let mut scenario = plain(500.0, vec![Group::healthy(10, service)]);
    scenario.network = steady(ONE_WAY);
    scenario.load.tie = tie;
    scenario
}

fn work(scenario: &Scenario, policy: &str) -> f64 {
    play(scenario, policy).utilization.mean()
}

#[test]
fn waiting_tied_copy_is_dropped_when_the_other_starts() {
    for policy in everyone() {
        let tied = play(&half_full(SINGLE, Some(2 * ONE_WAY)), policy);
        assert_eq!(tied.errors, 0, "{policy}");
        if policy == "prequal_sync" {
            // Its second choice would come after the first copy has arrived.
            assert_eq!(tied.hedges, 0);
        } else {
            assert!(tied.hedges > tied.queries / 2, "{policy}: {}", tied.hedges);
        }
    }
    for policy in ["random", "least_loaded", "prequal"] {
        let once = work(&half_full(SINGLE, None), policy);
        let tied = work(&half_full(SINGLE, Some(2 * ONE_WAY)), policy);
        // Both copies start only if the two replicas become free within a network delay.
        assert!(tied < 1.02 * once, "{policy}: {tied} of {once}");
    }
    // Where replicas are chosen at random, the shorter of two queues is worth most.
    let p99 = |tie| {
        play(&half_full(SINGLE, tie), "random")
            .latency
            .quantile(0.99)
    };
    let (once, tied) = (p99(None), p99(Some(2 * ONE_WAY)));
    assert!(tied < once * 7 / 10, "{tied:?} of {once:?}");
}

#[test]
fn without_delay_both_idle_replicas_start_the_query() {
    // Queries hardly ever wait for each other.
    let mut free = half_full(SINGLE, None);
    free.load.rate = 20.0;
    let once = work(&free, "round_robin");
    free.load.tie = Some(Duration::ZERO);
    // The loser works until the winner's answer has reached the client, and the client's
    // cancellation has arrived.
    let both = work(&free, "round_robin");
    assert!(both > 1.9 * once, "{both} of {once}");
    free.load.tie = Some(2 * ONE_WAY);
    let tied = work(&free, "round_robin");
    assert!(tied < 1.01 * once, "{tied} of {once}");
}

#[test]
fn tied_requests_gain_nothing_under_processor_sharing() {
    let latency = |tie| {
        let measured = play(&half_full(shared(1.0), tie), "random");
        (measured.latency.mean(), measured.utilization.mean())
    };
    let ((once, worked), (tied, work)) = (latency(None), latency(Some(2 * ONE_WAY)));
    assert!(tied.abs_diff(once) < once / 20, "{tied:?}, {once:?}");
    // There are twice as many random draws, so they differ.
    assert!((work / worked - 1.0).abs() < 0.01, "{work}, {worked}");
}

#[test]
fn second_copy_is_sent_only_while_the_query_is_open() {
    let mut scenario = half_full(SINGLE, Some(ms(200)));
    scenario.load.rate = 20.0;
    assert_eq!(play(&scenario, "round_robin").hedges, 0, "all are answered");
    scenario.fleet[0].count = 1;
    scenario.load.tie = Some(2 * ONE_WAY);
    let alone = play(&scenario, "round_robin");
    assert_eq!((alone.hedges, alone.errors), (0, 0), "nowhere to go");
}

#[test]
fn lost_copy_leaves_the_other() {
    let mut scenario = half_full(SINGLE, Some(2 * ONE_WAY));
    scenario.cost = slackwater_sim::scenario::Cost::Fixed(ms(100));
    scenario.load.rate = 50.0;
    scenario.events = vec![Event {
        at: secs(5),
        replica: 0,
        change: Change::Crash {
            known_after: Duration::ZERO,
        },
    }];
    let tied = play(&scenario, "round_robin");
    // A copy that had started there is lost, and the other copy dropped. Nothing else is lost.
    assert!(tied.errors <= 1, "{}", tied.errors);
    assert!(tied.latency.quantile(0.0) >= ms(100));
}
