//! The learned limit, with applications of known capacity.

use super::ms;
use core::time::Duration;
use slackwater_core::Instant;
use slackwater_core::overload::{ConcurrencyLimit, GradientSettings};
use slackwater_core::policy::Settings;
use slackwater_core::tracker::End;
use std::collections::BTreeSet;

/// An application that processes `capacity` queries at a time, first come, first served, for `work`
/// each, with as many clients as the limit admits.
struct Application {
    limit: ConcurrencyLimit,
    capacity: usize,
    work: Duration,
    /// Number of clients: most queries that come at a time.
    clients: usize,
    now: Instant,
    /// When each of its workers is free again.
    places: Vec<Instant>,
    /// When each query ends, a unique number, and when it was started.
    in_flight: BTreeSet<(Instant, u64, Instant)>,
    started: u64,
    finished: u64,
}

impl Application {
    fn new(settings: GradientSettings, capacity: usize, work: Duration) -> Self {
        Self {
            limit: ConcurrencyLimit::gradient(settings.validate().expect("in range")),
            capacity,
            work,
            clients: usize::MAX,
            now: Instant::EPOCH,
            places: vec![Instant::EPOCH; capacity],
            in_flight: BTreeSet::new(),
            started: 0,
            finished: 0,
        }
    }

    fn run(&mut self, span: Duration) {
        let ends = self.now + span;
        while self.now < ends {
            while self.in_flight.len() < (self.limit.limit() as usize).min(self.clients) {
                let place = self.places.iter_mut().min().expect("some capacity");
                *place = (*place).max(self.now) + self.work;
                self.in_flight.insert((*place, self.started, self.now));
                self.started += 1;
                let rif = u32::try_from(self.in_flight.len()).expect("few");
                self.limit.start(self.now, rif);
            }
            let (at, _, started_at) = self.in_flight.pop_first().expect("some are in flight");
            self.now = at;
            self.finished += 1;
            self.limit.finish(at, started_at, End::Success);
        }
    }

    /// The least and the greatest limit in a span.
    fn range(&mut self, span: Duration) -> (u32, u32) {
        let ends = self.now + span;
        let mut limits = (u32::MAX, 0);
        while self.now < ends {
            self.run(Duration::from_nanos(1));
            let limit = self.limit.limit();
            limits = (limits.0.min(limit), limits.1.max(limit));
        }
        limits
    }
}

fn settings(change: impl FnOnce(&mut GradientSettings)) -> GradientSettings {
    let mut settings = GradientSettings::default();
    change(&mut settings);
    settings
}

#[test]
fn limit_rises_to_capacity_and_keeps_queueing_low() {
    for (capacity, work) in [(16, 10), (64, 10), (200, 40), (16, 3_000)] {
        let mut application = Application::new(settings(|_| ()), capacity, ms(work));
        application.run(ms(work * 500 + 2_000));
        // The whole capacity is in use. The tolerance is half as much again. The rest is the root,
        // and the delay of a window.
        let (least, most) = application.range(ms(work * 100));
        let capacity = u32::try_from(capacity).expect("few");
        assert!(least >= capacity * 3 / 4, "{capacity}: {least}");
        assert!(
            most <= capacity * 2 + capacity.isqrt(),
            "{capacity}: {most}"
        );
    }
}

#[test]
fn limit_falls_when_the_application_slows_down() {
    let mut application = Application::new(settings(|_| ()), 100, ms(10));
    application.run(ms(10_000));
    assert!(application.limit.limit() >= 100);
    application.places.truncate(20);
    application.capacity = 20;
    application.run(ms(10_000));
    let limit = application.limit.limit();
    assert!((20..=60).contains(&limit), "{limit}");
}

#[test]
fn first_window_runs_at_the_minimum_limit() {
    let mut application = Application::new(settings(|_| ()), 2, ms(10));
    assert_eq!(application.limit.limit(), 4);
    assert_eq!(application.limit.least_latency(), None);
    application.run(ms(105));
    assert_eq!(application.limit.limit(), 20);
    assert_eq!(
        application.limit.least_latency(),
        Some(ms(20)),
        "four at two places"
    );
}

#[test]
fn least_latency_is_remeasured_at_half_the_limit() {
    let mut application = Application::new(settings(|s| s.least_age_max = ms(5_000)), 32, ms(10));
    application.run(ms(4_000));
    let least = application.limit.least_latency().expect("measured");
    assert_eq!(least, ms(10));
    let full = application.limit.limit();
    // Everything takes twice as long permanently from now on.
    application.work = ms(20);
    let mut lowest = full;
    let before = application.finished;
    for _ in 0..20 {
        lowest = lowest.min(application.range(ms(500)).0);
        assert!(lowest >= 4, "{lowest}");
    }
    assert_eq!(application.limit.least_latency(), Some(ms(20)));
    // Ten seconds of work on 32 places at 20 ms are 16,000 queries.
    assert!(application.finished - before > 14_000);
    assert!(application.limit.limit() >= 32);
}

#[test]
fn unused_limit_is_not_raised() {
    let mut application = Application::new(settings(|_| ()), 1_000, ms(10));
    application.clients = 9;
    application.run(ms(5_000));
    assert_eq!(
        application.limit.limit(),
        20,
        "less than half of it is in use"
    );
    application.clients = 10;
    application.run(ms(200));
    assert!(application.limit.limit() > 20);
    // This also holds once it is no longer used.
    application.clients = 100;
    application.run(ms(1_200));
    application.clients = 9;
    application.run(ms(500));
    let before = application.limit.limit();
    assert!((50..180).contains(&before), "{before}: 100 would raise it");
    application.run(ms(5_000));
    assert_eq!(application.limit.limit(), before);
}

#[test]
fn one_window_at_most_halves_the_limit() {
    let large = settings(|s| (s.limit_start, s.samples_min) = (400, 4));
    let mut limit = ConcurrencyLimit::gradient(large.validate().expect("in range"));
    let mut now = Instant::EPOCH;
    windows(&mut limit, &mut now, 1, ms(10), End::Success);
    assert_eq!(limit.limit(), 400);
    // The latency is forty times as long; the root of 400 is 20.
    windows(&mut limit, &mut now, 1, ms(400), End::Success);
    assert_eq!(limit.limit(), 220);
}

#[test]
fn limit_stays_within_its_bounds() {
    let small = settings(|s| (s.limit_min, s.limit_max, s.limit_start) = (2, 8, 4));
    let mut application = Application::new(small.clone(), 1_000, ms(10));
    application.run(ms(5_000));
    assert_eq!(application.limit.limit(), 8);
    let mut application = Application::new(small, 1, ms(10));
    application.run(ms(1_000));
    application.work = ms(1_000);
    application.run(ms(60_000));
    assert!(application.limit.limit() >= 2);
}

/// Admits as many queries as the limit allows, which all end after `took` with `end`, for `count`
/// windows.
fn windows(limit: &mut ConcurrencyLimit, now: &mut Instant, count: u32, took: Duration, end: End) {
    let window = ms(100).as_nanos().div_ceil(took.as_nanos()).max(4);
    let rounds = if took >= ms(100) { 1 } else { window };
    for _ in 0..u128::from(count) * rounds {
        let rif = limit.limit();
        let started_at = *now;
        for _ in 0..rif {
            limit.start(started_at, rif);
        }
        *now += took;
        for _ in 0..rif {
            limit.finish(*now, started_at, end);
        }
    }
}

#[test]
fn least_latency_that_is_met_again_needs_no_measurement() {
    let mut limit = ConcurrencyLimit::gradient(settings(|_| ()).validate().expect("in range"));
    let mut now = Instant::EPOCH;
    windows(&mut limit, &mut now, 1, ms(10), End::Success);
    while now < Instant::EPOCH + ms(65_000) {
        let before = limit.limit();
        windows(&mut limit, &mut now, 1, ms(10), End::Success);
        assert!(limit.limit() >= before, "halved at {now}");
    }
}

#[test]
fn slow_failures_lower_the_limit_and_failures_never_raise_it() {
    for end in [End::Failed, End::Cancelled] {
        let mut limit = ConcurrencyLimit::gradient(settings(|_| ()).validate().expect("in range"));
        let mut now = Instant::EPOCH;
        windows(&mut limit, &mut now, 2, ms(10), End::Success);
        let before = limit.limit();
        assert!(before > 20);
        windows(&mut limit, &mut now, 5, ms(1), end);
        assert_eq!(limit.limit(), before, "fast: it shows nothing");
        assert_eq!(limit.least_latency(), Some(ms(10)));
        windows(&mut limit, &mut now, 1, ms(100), end);
        assert!(limit.limit() < before, "slow: it would have taken as long");
        windows(&mut limit, &mut now, 2, ms(10), End::Success);
        let before = limit.limit();
        windows(&mut limit, &mut now, 5, ms(16), end);
        assert!(limit.limit() <= before, "not slow enough to lower it");
        windows(&mut limit, &mut now, 2, ms(10), End::Success);
        let before = limit.limit();
        for _ in 0..50 {
            let started_at = now;
            (0..before).for_each(|_| limit.start(started_at, before));
            now += ms(16);
            limit.finish(now, started_at, End::Success);
            (1..before).for_each(|_| limit.finish(now, started_at, end));
        }
        assert!(limit.limit() <= before, "nor with a success among them");
    }
}

#[test]
fn window_counts_only_queries_started_in_it() {
    let mut limit = ConcurrencyLimit::gradient(settings(|_| ()).validate().expect("in range"));
    let mut now = Instant::EPOCH;
    windows(&mut limit, &mut now, 1, ms(10), End::Success);
    let before = limit.limit();
    limit.start(now, before);
    // A hundred that were started long before are slow; they started under another limit.
    let old = Instant::EPOCH;
    for _ in 0..100 {
        limit.finish(now + ms(500), old, End::Success);
    }
    assert_eq!(limit.limit(), before);
}

#[test]
fn fixed_limit_never_changes() {
    let mut limit = ConcurrencyLimit::fixed(core::num::NonZeroU32::MIN);
    let mut now = Instant::EPOCH;
    windows(&mut limit, &mut now, 3, ms(10), End::Success);
    assert_eq!((limit.limit(), limit.least_latency()), (1, None));
}
