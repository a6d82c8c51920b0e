//! Deadlines, failures, and conservation: each measured query ends exactly once.

use super::rig::{SINGLE, everyone, ms, plain, play, regular, secs, steady};
use core::time::Duration;
use slackwater_sim::scenario::{Change, Cost, Event, Failure, FailureCost, Group, Service};

/// Returns the number of queries that were answered, that failed or were refused, and that expired.
fn endings(measured: &slackwater_sim::Measured) -> (u64, u64, u64) {
    let failed = measured.errors - measured.timeouts;
    let answered = measured.latency.count() - measured.timeouts;
    (answered, failed, measured.timeouts)
}

#[test]
fn each_query_ends_exactly_once() {
    let mut scenario = plain(900.0, vec![Group::healthy(8, SINGLE)]);
    scenario.fleet[0].failure = Some(Failure {
        share: 0.05,
        cost: FailureCost::Share(0.5),
        from: ms(200),
        until: secs(3),
        reported_until: Duration::MAX,
    });
    scenario.cost = Cost::Exponential(ms(10));
    scenario.network = steady(ms(1));
    scenario.deadline = ms(100);
    scenario.warmup = ms(500);
    scenario.span = secs(1);
    scenario.events = vec![Event {
        at: secs(1),
        replica: 3,
        change: Change::Restart {
            down_for: ms(200),
            cold_slowness: 1.0,
            warm_after: Duration::ZERO,
        },
    }];
    for policy in everyone() {
        let measured = play(&scenario, policy);
        let (answered, failed, expired) = endings(&measured);
        assert_eq!(answered + failed + expired, measured.queries, "{policy}");
        assert!(
            answered > 0 && failed > 0 && expired > 0,
            "{policy}: {measured:?}"
        );
        let sent: u64 = measured.queries_by_replica.iter().sum();
        assert_eq!(sent, measured.queries, "{policy}: each was sent once");
        // Poisson, 900 ± 30. The bound is five deviations. All policies receive the same queries.
        assert!(measured.queries.abs_diff(900) < 150, "{policy}");
    }
}

#[test]
fn query_times_out_at_its_deadline() {
    // One server with three times as much work as it can do.
    let mut scenario = regular(300.0, vec![Group::healthy(1, SINGLE)], Vec::new());
    scenario.deadline = ms(95);
    let working_on = play(&scenario, "round_robin");
    assert_eq!(
        working_on.latency.quantile(1.0),
        ms(95),
        "none waits longer"
    );
    // Query k is done at 10 (k+1) ms and arrived at 3.33 (k+1) ms: the first 13 are in time, and no
    // later one is.
    let in_time = working_on.queries - working_on.timeouts;
    assert_eq!((in_time, working_on.errors), (13, working_on.timeouts));
    assert!(working_on.rif.max() > 1_900, "2,000 wait at the end");
    scenario.cancel_expired = true;
    let cancelled = play(&scenario, "round_robin");
    assert!(cancelled.rif.max() <= 29, "what comes in 95 ms at the most");
}

#[test]
fn query_cancelled_on_the_network_is_never_served() {
    let mut scenario = regular(50.0, vec![Group::healthy(1, SINGLE)], Vec::new());
    scenario.network.delay.most = ms(40);
    scenario.deadline = ms(1);
    let in_vain = play(&scenario, "round_robin").utilization.mean();
    assert!((in_vain - 0.5).abs() < 0.02, "{in_vain}");
    scenario.cancel_expired = true;
    let cancelled = play(&scenario, "round_robin").utilization.mean();
    // Half of the cancellations overtake their query. With x = 40 ms, each of the other queries is
    // served for at most 10 ms, E min(10 ms, d) = (x³ - (x - 10)³) / 6 x² = 3.9 ms on average over
    // all, of every 20.
    assert!((cancelled - 0.19).abs() < 0.04, "{cancelled}");
}

#[test]
fn replica_fails_its_share_within_the_failure_period() {
    let mut scenario = regular(100.0, vec![Group::healthy(4, SINGLE)], Vec::new());
    scenario.fleet[0].count = 3;
    scenario.fleet.push(Group {
        failure: Some(Failure {
            share: 0.5,
            cost: FailureCost::Share(0.1),
            from: secs(2),
            until: secs(8),
            reported_until: Duration::MAX,
        }),
        ..Group::healthy(1, SINGLE)
    });
    let measured = play(&scenario, "round_robin");
    // 6 s of 10, a quarter of 100 a second, half of them: 75, binomial with deviation 6.1. The
    // bound is four deviations.
    assert!(measured.errors.abs_diff(75) < 25, "{}", measured.errors);
    assert_eq!(measured.timeouts, 0);
    assert_eq!(
        measured.latency.count(),
        measured.queries - measured.errors,
        "what failed early has no latency"
    );
    // A failing query costs a tenth: 925 whole ones and 75 tenths, of 10 ms each, in 40 s of CPU.
    let expected = (measured.latency.count() as f64 + 0.1 * measured.errors as f64) * 0.01 / 40.0;
    let utilization = measured.utilization.mean();
    assert!((utilization / expected - 1.0).abs() < 0.01, "{utilization}");
}

#[test]
fn failure_cost_may_be_fixed() {
    let mut scenario = regular(50.0, vec![Group::healthy(1, SINGLE)], Vec::new());
    scenario.fleet[0].failure = Some(Failure {
        share: 1.0,
        cost: FailureCost::Fixed(ms(1)),
        from: Duration::ZERO,
        until: Duration::MAX,
        reported_until: Duration::MAX,
    });
    let measured = play(&scenario, "round_robin");
    assert_eq!(measured.errors, measured.queries);
    // 50 a second, 1 ms each instead of 10.
    let utilization = measured.utilization.mean();
    assert!((utilization - 0.05).abs() < 0.001, "{utilization}");
    // The first query arrives 20 ms after the start, so the first second has one less.
    assert_eq!(measured.by_second.errors[..2], [49, 50]);
}

#[test]
fn failure_takes_its_share_of_a_latency_of_the_replicas_own() {
    let trace = Service::LatencyTrace(vec![ms(30)].into());
    let latest = |cost| {
        let mut scenario = regular(50.0, vec![Group::healthy(1, trace.clone())], Vec::new());
        scenario.fleet[0].failure = Some(Failure {
            share: 1.0,
            cost,
            from: Duration::ZERO,
            until: secs(100),
            reported_until: Duration::MAX,
        });
        // A failure at its deadline is a timeout.
        [1, 3, 9, 16].map(|deadline| {
            scenario.deadline = ms(deadline);
            play(&scenario, "random").timeouts > 0
        })
    };
    assert_eq!(latest(FailureCost::Share(0.0)), [false; 4]);
    assert_eq!(latest(FailureCost::Share(0.5)), [true, true, true, false]);
    let fixed = FailureCost::Fixed(ms(2));
    assert_eq!(latest(fixed), [true, false, false, false]);
    assert_eq!(latest(FailureCost::Share(1.0)), [true; 4]);
}

#[test]
fn only_the_span_is_measured() {
    let mut scenario = regular(100.0, vec![Group::healthy(1, SINGLE)], Vec::new());
    scenario.warmup = Duration::from_millis(2_500);
    scenario.span = Duration::from_millis(3_200);
    let measured = play(&scenario, "round_robin");
    assert_eq!(measured.queries, 320);
    assert_eq!(measured.span, scenario.span);
    assert_eq!(measured.utilization.by_second.len(), 3, "whole seconds");
    assert_eq!(measured.by_second.sent, [100, 100, 100, 20]);
    assert_eq!(measured.rif.count(), 320, "every 10 ms");
    // One query at a time, in service from one arrival to the next.
    assert!((measured.utilization.mean() - 1.0).abs() < 1e-6);
    assert_eq!(measured.latency.mean(), ms(10));
}
