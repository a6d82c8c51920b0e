//! Tests of the policy.

use super::*;
use crate::policy::Policy;
use crate::policy::settings::check_ranges;
use crate::policy::trial::Trial;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn trial(replicas: usize) -> Trial<Els> {
    Trial::new(Els::with(ElsConfig::default()), replicas)
}

/// Reports `times` queries at one moment.
fn tell(trial: &mut Trial<Els>, place: usize, latency: Duration, outcome: Outcome, times: u32) {
    let (now, replica) = (trial.now, trial.replicas[place]);
    for _ in 0..times {
        if outcome == Outcome::Success {
            trial.policy.rule.handle_latency(now, replica, latency);
        }
        let end = QueryEnd {
            replica,
            latency,
            outcome,
            in_flight: 1,
        };
        trial.policy.rule.handle_end(now, &end);
    }
}

fn expected_ms(trial: &mut Trial<Els>, place: usize) -> f64 {
    let fleet = trial.policy.rule.fleet(trial.now);
    let seen = trial.policy.rule.seen.find(trial.replicas[place]);
    fleet.expected_ns(seen.expect("known")) / 1e6
}

fn weight_per_ms(trial: &mut Trial<Els>, place: usize, in_flight: u32) -> f64 {
    let fleet = trial.policy.rule.fleet(trial.now);
    let replica = trial.replicas[place];
    trial.policy.rule.weight(&fleet, replica, in_flight) * 1e6
}

fn assert_near(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 1e-9,
        "{found}, not {expected}"
    );
}

#[test]
fn expected_latency_matches_hand_calculation() {
    let mut trial = trial(3);
    tell(&mut trial, 0, 10 * MS, Outcome::Success, 5);
    tell(&mut trial, 1, 40 * MS, Outcome::Success, 1);
    tell(&mut trial, 1, 60 * MS, Outcome::Failed, 2);
    // The fleet: ℓ = 90/6 = 15 ms, s = 6/8, f = 60 ms.
    let e0 = 65.0 / 6.0 + 60.0 * ((5.0 + 1.0) / (5.0 + 0.75) - 1.0);
    let e1 = 55.0 / 2.0 + 60.0 * ((3.0 + 1.0) / (1.0 + 0.75) - 1.0);
    let e2 = 15.0 + 60.0 * (1.0 / 0.75 - 1.0);
    for (place, expected) in [e0, e1, e2].into_iter().enumerate() {
        let found = expected_ms(&mut trial, place);
        assert_near(found, expected);
        // One is usually in flight (p = 1), as many as now or more: q = 0, 1, 3.
        for (in_flight, room) in [(0, 1.0), (1, 1.0), (3, 0.5)] {
            let weight = weight_per_ms(&mut trial, place, in_flight);
            assert_near(weight, room / expected);
        }
    }
}

#[test]
fn immediate_failure_counts_as_slow_as_the_fleet_mean() {
    let mut trial = trial(2);
    tell(&mut trial, 0, 20 * MS, Outcome::Success, 10);
    tell(&mut trial, 1, 20 * MS, Outcome::Success, 5);
    tell(&mut trial, 1, Duration::ZERO, Outcome::Failed, 5);
    // s of replica 1 is (5 + 15/20) / 11. Its f, 20/6 ms with the fleet's mean, counts as 20 ms.
    let expected = 20.0 + 20.0 * (11.0 / 5.75 - 1.0);
    assert_near(expected_ms(&mut trial, 1), expected);
}

#[test]
fn rescaling_preserves_means() {
    let mut trial = trial(2);
    for _ in 0..300 {
        trial.after(20 * SECOND);
        tell(&mut trial, 0, 10 * MS, Outcome::Success, 50);
        tell(&mut trial, 1, 30 * MS, Outcome::Success, 50);
    }
    let samples = 50.0 / (1.0 - crate::policy::decay::exp_neg(1.0 / 3.0));
    let estimate = |own: f64| (own * samples + 20.0) / (samples + 1.0);
    assert_near(expected_ms(&mut trial, 0), estimate(10.0));
    assert_near(expected_ms(&mut trial, 1), estimate(30.0));
    // After a pause in which every sample has faded, both are average again, and finite.
    trial.after(Duration::from_hours(24));
    for place in 0..2 {
        assert_near(expected_ms(&mut trial, place), EXPECTED_MIN_NS / 1e6);
    }
}

#[test]
fn draw_selects_replica_in_proportion_to_weight() {
    let mut trial = trial(2);
    tell(&mut trial, 0, 10 * MS, Outcome::Success, 1_000);
    tell(&mut trial, 1, 30 * MS, Outcome::Success, 1_000);
    // From (30 · 1000 + 20) / 1001 and (10 · 1000 + 20) / 1001, the first has 30020 parts of 40040.
    for (part, place) in [(0, 0), (30_019, 0), (30_020, 1), (40_039, 1)] {
        let ticket = trial.pick_at([part], [40_040]);
        assert_eq!(trial.place(ticket.replica()), place, "{part}");
        trial.end(ticket, Outcome::Dropped);
    }
}

#[test]
fn success_estimate_is_at_least_one_percent() {
    let mut trial = trial(2);
    tell(&mut trial, 0, 10 * MS, Outcome::Success, 1_000);
    tell(&mut trial, 1, 10 * MS, Outcome::Failed, 1_000);
    assert_near(expected_ms(&mut trial, 1), 10.0 + 10.0 * 99.0);
}

#[test]
fn query_dropped_after_a_successful_head_is_a_success() {
    let mut trial = trial(1);
    let mut ticket = trial.pick();
    trial.after(10 * MS);
    let policy = &mut trial.policy;
    policy.handle_head(trial.now, &mut ticket, Outcome::Success);
    trial.after(SECOND);
    trial.end(ticket, Outcome::Dropped);
    let seen = trial.policy.rule.seen.find(trial.replicas[0]);
    assert_near(seen.expect("known").success.or(0.0), 1.0);
    assert_near(expected_ms(&mut trial, 0), 10.0);
}

#[test]
fn dropped_query_counts_only_if_slow() {
    let mut trial = trial(2);
    tell(&mut trial, 0, 10 * MS, Outcome::Success, 1);
    let before = expected_ms(&mut trial, 1);
    tell(&mut trial, 1, 9 * MS, Outcome::Dropped, 1);
    assert_near(expected_ms(&mut trial, 1), before);
    tell(&mut trial, 1, 40 * MS, Outcome::Dropped, 1);
    // The fleet's ℓ is now 25 ms, and this is the mean of 40 ms and 25 ms.
    assert_near(expected_ms(&mut trial, 1), 32.5);
    assert_near(trial.policy.rule.fleet(trial.now).in_flight, 1.0);
}

#[test]
fn returning_replica_starts_at_the_fleet_average() {
    let mut trial = trial(2);
    tell(&mut trial, 0, 10 * MS, Outcome::Success, 3);
    tell(&mut trial, 1, SECOND, Outcome::Failed, 3);
    let late = trial.replicas[1];
    trial.replace(1);
    assert_near(expected_ms(&mut trial, 1), 10.0);
    trial.policy.rule.handle_latency(trial.now, late, SECOND);
    assert_near(expected_ms(&mut trial, 1), 10.0);
}

#[test]
fn clock_step_back_counts_as_no_time() {
    let mut trial = trial(2);
    trial.after(Duration::from_hours(2));
    trial.serve(0, 10 * MS, Outcome::Success);
    trial.now = Instant::EPOCH;
    trial.serve(0, 10 * MS, Outcome::Success);
    trial.now += Duration::from_hours(2) + 10 * MS;
    // The mean of 10 ms and no time at all.
    assert_near(expected_ms(&mut trial, 0), 5.0);
}

#[test]
fn avoided_and_unavailable_replicas_are_skipped() {
    trial(4).check_standing(PickReason::Weighted);
}

#[test]
fn settings_out_of_range_are_rejected_by_name() {
    check_ranges::<ElsSettings>(&[
        ("time_bias", |s| s.time_bias = Duration::ZERO),
        ("exclude_samples_min", |s| s.exclude_samples_min = 0),
        ("exclude_samples_min", |s| s.exclude_samples_min = 10_001),
    ]);
}
