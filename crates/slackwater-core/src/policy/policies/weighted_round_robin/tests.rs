//! Tests of the policy.

use super::*;
use crate::policy::Event;
use crate::policy::settings::check_ranges;
use crate::policy::trial::Trial;
use crate::report::Rif;

const SECOND: Duration = Duration::from_secs(1);
const NS: Duration = Duration::from_nanos(1);

fn trial(replicas: usize, spoil: fn(&mut WeightedRoundRobinSettings)) -> Trial<WeightedRoundRobin> {
    let mut settings = WeightedRoundRobinSettings::default();
    spoil(&mut settings);
    let config = settings.validate().expect("in range");
    Trial::new(WeightedRoundRobin::with(config), replicas)
}

fn load(query_rate: u32, cpu_percent: u32, error_percent: u32) -> LoadReport {
    let mut report = LoadReport::new(Rif::ZERO, None);
    report.query_rate_millis = Some(query_rate * 1_000);
    report.cpu_millionths = Some(cpu_percent * 10_000);
    report.error_millionths = Some(error_percent * 10_000);
    report
}

fn report(trial: &mut Trial<WeightedRoundRobin>, place: usize, report: &LoadReport) {
    let replica = trial.replicas[place];
    let rule = &mut trial.policy.choosing.rule;
    rule.handle_report(trial.now, replica, report);
}

fn weight(trial: &Trial<WeightedRoundRobin>, place: usize) -> Option<f64> {
    let rule = &trial.policy.choosing.rule;
    rule.weight(trial.now, trial.replicas[place])
}

fn assert_weight(trial: &Trial<WeightedRoundRobin>, place: usize, expected: f64) {
    let found = weight(trial, place).expect("it has reported");
    assert!(
        (found / expected - 1.0).abs() < 1e-9,
        "{found}, not {expected}"
    );
}

fn at_once(settings: &mut WeightedRoundRobinSettings) {
    settings.blackout = Duration::ZERO;
    settings.smoothing = Duration::ZERO;
}

#[test]
fn report_with_a_response_counts_like_a_polled_one() {
    let mut trial = trial(1, at_once);
    let (replica, carried) = (trial.replicas[0], load(100, 50, 0));
    trial.handle(Event::CarriedReport(replica, &carried));
    assert_weight(&trial, 0, 200.0);
    trial.replace(0);
    trial.handle(Event::CarriedReport(replica, &carried));
    assert_eq!(weight(&trial, 0), None, "it left");
}

#[test]
fn weight_is_rate_divided_by_cpu_with_error_penalty() {
    let mut trial = trial(1, at_once);
    report(&mut trial, 0, &load(100, 50, 0));
    assert_weight(&trial, 0, 200.0);
    report(&mut trial, 0, &load(100, 50, 50));
    assert_weight(&trial, 0, 100.0);
    report(&mut trial, 0, &load(100, 150, 100));
    assert_weight(&trial, 0, 40.0);
    report(&mut trial, 0, &load(100, 150, 250));
    assert_weight(&trial, 0, 40.0); // ignored: more than all cannot have failed
    let mut without_errors = load(100, 25, 0);
    without_errors.error_millionths = None;
    report(&mut trial, 0, &without_errors);
    assert_weight(&trial, 0, 400.0);
    for useless in [
        load(0, 50, 0),
        load(100, 0, 0),
        LoadReport::new(Rif::new(7), None),
    ] {
        report(&mut trial, 0, &useless);
        assert_weight(&trial, 0, 400.0);
    }
}

#[test]
fn rate_and_cpu_are_averaged_before_division() {
    let mut trial = trial(1, |s| s.blackout = Duration::ZERO);
    report(&mut trial, 0, &load(100, 50, 0));
    trial.after(10 * SECOND);
    report(&mut trial, 0, &load(200, 80, 20));
    // e^−1 = 0.3679 of the first is left.
    let left = 0.367_879_441_171_442_33;
    let (rate, cpu) = (200.0 - 100.0 * left, 0.8 - 0.3 * left);
    assert_weight(&trial, 0, rate / (cpu + 0.2 * (1.0 - left)));
}

#[test]
fn weight_is_valid_from_end_of_blackout_to_expiration() {
    let mut trial = trial(1, |_| {});
    report(&mut trial, 0, &load(0, 0, 0));
    trial.after(20 * SECOND);
    report(&mut trial, 0, &load(100, 50, 0));
    trial.after(Duration::from_nanos(9_999_999_999));
    assert_eq!(
        weight(&trial, 0),
        None,
        "counted from the first useful report"
    );
    trial.after(NS);
    assert_weight(&trial, 0, 200.0);
    trial.after(Duration::from_nanos(169_999_999_999));
    report(&mut trial, 0, &load(0, 0, 0));
    assert_weight(&trial, 0, 200.0); // being idle neither ends nor prolongs it
    trial.after(NS);
    assert_eq!(weight(&trial, 0), None, "three minutes old");
    report(&mut trial, 0, &load(100, 100, 0));
    assert_eq!(weight(&trial, 0), None, "a new blackout");
    trial.after(10 * SECOND);
    assert_weight(&trial, 0, 100.0);
}

#[test]
fn turns_are_proportional_to_weights() {
    let mut trial = trial(4, at_once);
    for (place, rate) in [(0, 400), (1, 300), (2, 200), (3, 100)] {
        report(&mut trial, place, &load(rate, 100, 0));
    }
    // A weight is rounded to 1/65535, and a turn may be just due: exact to one or two turns.
    let counts = trial.counts(1_000);
    for (count, expected) in counts.iter().zip([400, 300, 200, 100]) {
        assert!((count - expected).abs() <= 2, "{counts:?}");
    }
    // Without the largest the others keep their proportions.
    let largest = trial.replicas[0];
    trial.handle(Event::Available(largest, false));
    let counts = trial.counts(600);
    for (count, expected) in counts.iter().zip([0, 300, 200, 100]) {
        assert!((count - expected).abs() <= 2, "{counts:?}");
    }
}

#[test]
fn missing_weight_is_the_mean_and_one_weight_means_equal_turns() {
    let mut unheard = trial(3, at_once);
    assert_eq!(unheard.counts(6), [2, 2, 2]);
    let mut trial = trial(3, at_once);
    report(&mut trial, 0, &load(300, 100, 0));
    let turns = trial.places(6);
    assert_eq!(turns[..3], turns[3..], "in turn");
    report(&mut trial, 1, &load(100, 100, 0));
    assert_eq!(trial.counts(6), [2, 2, 2], "not before the next update");
    trial.after(SECOND);
    let counts = trial.counts(600);
    for (count, expected) in counts.iter().zip([300, 100, 200]) {
        assert!((count - expected).abs() <= 2, "{counts:?}");
    }
    // A replica that joins has the mean at once.
    trial.join();
    let counts = trial.counts(800);
    for (count, expected) in counts.iter().zip([300, 100, 200, 200]) {
        assert!((count - expected).abs() <= 2, "{counts:?}");
    }
}

#[test]
fn expired_weights_give_equal_turns() {
    let mut trial = trial(3, at_once);
    for (place, rate) in [(0, 300), (1, 100), (2, 100)] {
        report(&mut trial, place, &load(rate, 100, 0));
    }
    let counts = trial.counts(500);
    for (count, expected) in counts.iter().zip([300, 100, 100]) {
        assert!((count - expected).abs() <= 2, "{counts:?}");
    }
    trial.after(Duration::from_mins(3));
    assert_eq!(trial.counts(600), [200, 200, 200]);
}

#[test]
fn smallest_weight_is_scaled_to_at_least_one() {
    assert_eq!(scaled(1e-9, 1.0), 1);
    assert_eq!(scaled(0.5, 1.0), 32_768);
    assert_eq!(scaled(3.0, 3.0), WEIGHT_MAX);
}

#[test]
fn returning_replica_has_no_weight_and_clock_step_back_is_ignored() {
    let mut trial = trial(2, at_once);
    trial.after(10 * SECOND);
    report(&mut trial, 0, &load(100, 50, 0));
    report(&mut trial, 1, &load(100, 50, 0));
    trial.places(2);
    trial.replace(0);
    assert_eq!(weight(&trial, 0), None);
    trial.now = Instant::EPOCH;
    report(&mut trial, 1, &load(50, 50, 0));
    assert_weight(&trial, 1, 100.0);
    assert_eq!(trial.counts(10), [5, 5]);
}

#[test]
fn avoided_and_unavailable_replicas_are_skipped() {
    let mut trial = trial(4, at_once);
    for place in 0..4 {
        report(&mut trial, place, &load(100, 50, 0));
    }
    trial.check_standing(PickReason::Turn);
}

#[test]
fn settings_out_of_range_are_rejected_by_name() {
    check_ranges::<WeightedRoundRobinSettings>(&[
        ("interval", |s| s.interval = Duration::ZERO),
        ("smoothing", |s| s.smoothing = Duration::MAX),
        ("update_period", |s| {
            s.update_period = Duration::from_millis(99);
        }),
        ("update_period", |s| s.update_period = Duration::MAX),
        ("blackout", |s| s.blackout = Duration::MAX),
        ("expiration", |s| s.expiration = Duration::ZERO),
    ]);
}
