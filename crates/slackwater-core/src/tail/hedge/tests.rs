//! When copies are due, what pays for them, and what counts.

use super::*;
use crate::policy::check_ranges;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

fn share(millionths: u32) -> Quantile {
    Quantile::from_millionths(millionths).expect("at most 1")
}

fn hedger(set: impl FnOnce(&mut HedgeSettings)) -> Hedger {
    let mut settings = HedgeSettings::default();
    set(&mut settings);
    Hedger::new(settings.validate().expect("in range"), 2)
}

/// A hedger that can pay for everything.
fn rich(set: impl FnOnce(&mut HedgeSettings)) -> Hedger {
    hedger(|settings| {
        settings.budget = Quantile::ONE;
        set(settings);
    })
}

/// Runs a query of class 0 that ends after `out_ns`. Returns whether a copy was sent.
fn play(hedger: &mut Hedger, sent_at: u64, out_ns: u64, end: WatchEnd) -> bool {
    let mut watch = hedger.begin(at(sent_at), 0);
    let ends_at = at(sent_at + out_ns);
    let due = watch.due_at().filter(|due| *due <= ends_at);
    let copy = due.is_some_and(|due| hedger.handle_due(due, &mut watch));
    hedger.end(ends_at, watch, end);
    copy
}

/// Queries of 1 ms, 2 ms … that all start at `sent_at`.
fn teach(hedger: &mut Hedger, sent_at: u64, queries: u64) {
    for ms in 1..=queries {
        play(hedger, sent_at, ms * MS, WatchEnd::Answered);
    }
}

fn delay_ms(hedger: &Hedger) -> Option<u64> {
    hedger
        .delay(0)
        .map(|delay| u64::try_from(delay.as_millis()).expect("short"))
}

#[test]
fn delay_is_the_latency_quantile_of_the_class() {
    let mut hedger = rich(|_| ());
    teach(&mut hedger, 0, 1000);
    play(&mut hedger, 3 * SECOND, MS, WatchEnd::Answered);
    // 950 ms, to the end of its bucket.
    assert_eq!(delay_ms(&hedger), Some(956));
    assert_eq!(hedger.delay(1), None, "the other class");
    let watch = hedger.begin(at(4 * SECOND), 0);
    let delay = watch
        .due_at()
        .expect("known")
        .saturating_since(at(4 * SECOND));
    assert_eq!(Some(delay), hedger.delay(0));
    assert_eq!(hedger.begin(at(4 * SECOND), 1).due_at(), None);
    assert_eq!(
        hedger.begin(at(4 * SECOND), 7).due_at(),
        None,
        "the last class"
    );
}

#[test]
fn delay_quantile_is_raised_to_fit_the_budget() {
    let delay_ms = |budget| {
        let mut hedger = hedger(|settings| settings.budget = share(budget));
        teach(&mut hedger, 0, 1000);
        play(&mut hedger, 3 * SECOND, MS, WatchEnd::Answered);
        delay_ms(&hedger)
    };
    // To the end of the bucket, which is 16 ms wide.
    for (budget, quantile_ms) in [(20_000, 980), (50_000, 950), (200_000, 950), (0, 1000)] {
        let delay_ms = delay_ms(budget).expect("a thousand");
        assert!(
            (quantile_ms..quantile_ms + 17).contains(&delay_ms),
            "{delay_ms}"
        );
    }
}

#[test]
fn delay_is_unknown_with_too_few_latencies() {
    let mut hedger = hedger(|_| ());
    teach(&mut hedger, 0, 63);
    // This holds even when it is time to look again.
    assert_eq!(hedger.begin(at(4 * SECOND), 0).due_at(), None);
    assert_eq!(hedger.counters().unknown, 64);
    play(&mut hedger, 4 * SECOND, 64 * MS, WatchEnd::Answered);
    assert!(hedger.begin(at(5 * SECOND), 0).due_at().is_some());
    assert_eq!(hedger.counters().unknown, 65);
    assert_eq!(hedger.counters().queries, 66);
}

#[test]
fn delay_follows_within_a_tenth_of_the_window() {
    let mut hedger = hedger(|_| ());
    for _ in 0..100 {
        play(&mut hedger, 0, 10 * MS, WatchEnd::Answered);
    }
    assert_eq!(delay_ms(&hedger), Some(10));
    for _ in 0..10_000 {
        play(&mut hedger, 2 * SECOND, 50 * MS, WatchEnd::Answered);
    }
    assert_eq!(delay_ms(&hedger), Some(10), "not before its time");
    drop(hedger.begin(at(4 * SECOND), 0));
    assert_eq!(delay_ms(&hedger), Some(50));
    drop(hedger.begin(at(30 * SECOND), 0));
    assert_eq!(delay_ms(&hedger), None, "all of that is too old");
}

#[test]
fn no_copy_is_due_before_delay_min() {
    let mut hedger = rich(|settings| settings.delay_min = Duration::from_millis(20));
    for _ in 0..100 {
        play(&mut hedger, 0, 5 * MS, WatchEnd::Answered);
    }
    assert_eq!(delay_ms(&hedger), Some(20));
    let mut watch = hedger.begin(at(SECOND), 0);
    assert!(!hedger.handle_due(at(SECOND + 20 * MS - 1), &mut watch));
    assert!(hedger.handle_due(at(SECOND + 20 * MS), &mut watch));
    assert!(!hedger.handle_due(at(SECOND + 21 * MS), &mut watch), "once");
    assert_eq!(watch.copies(), 1);
    assert_eq!(hedger.counters().issued, 1);
}

#[test]
fn copies_stay_within_the_budget() {
    let mut hedger = hedger(|settings| settings.slow_share = Quantile::ONE);
    for _ in 0..100 {
        play(&mut hedger, 0, 10 * MS, WatchEnd::Answered);
    }
    // Two tokens are saved; all that come now are late.
    let mut copies = 0;
    for queries in 101..=1_000 {
        copies += u64::from(play(&mut hedger, SECOND, 20 * MS, WatchEnd::Answered));
        assert!(copies <= queries / 50, "{copies} of {queries}");
    }
    assert_eq!(copies, 20);
    let counters = hedger.counters();
    assert_eq!((counters.issued, counters.withheld_budget), (20, 880));
    assert_eq!(counters.withheld_slow, 0);
}

#[test]
fn unused_budget_is_saved_up_to_the_burst() {
    let mut hedger = hedger(|settings| settings.slow_share = Quantile::ONE);
    for _ in 0..10_000 {
        play(&mut hedger, 0, 10 * MS, WatchEnd::Answered);
    }
    let sent = (0..40).filter(|_| play(&mut hedger, SECOND, 20 * MS, WatchEnd::Answered));
    assert_eq!(sent.count(), 10);
}

#[test]
fn withheld_copy_is_reconsidered_at_twice_the_delay() {
    let mut hedger = hedger(|settings| settings.delay_min = Duration::from_millis(20));
    for _ in 0..99 {
        play(&mut hedger, 0, 10 * MS, WatchEnd::Answered);
    }
    // With this query there are two tokens.
    let mut watch = hedger.begin(at(SECOND), 0);
    for _ in 0..2 {
        let mut other = hedger.begin(at(SECOND), 0);
        assert!(hedger.handle_due(at(SECOND + 20 * MS), &mut other));
        assert!(!hedger.handle_due(at(SECOND + 90 * MS), &mut other), "once");
        hedger.end(at(2 * SECOND), other, WatchEnd::Answered);
    }
    assert!(!hedger.handle_due(at(SECOND + 20 * MS), &mut watch));
    assert_eq!(watch.due_at(), Some(at(SECOND + 40 * MS)));
    for _ in 0..50 {
        play(&mut hedger, SECOND, 10 * MS, WatchEnd::Answered);
    }
    assert!(!hedger.handle_due(at(SECOND + 40 * MS - 1), &mut watch));
    assert!(hedger.handle_due(at(SECOND + 40 * MS), &mut watch));
    let counters = hedger.counters();
    assert_eq!((counters.issued, counters.withheld_budget), (3, 1));
    // It counts as one late query, not two.
    assert_eq!(hedger.classes[0].recent.count_ones(), 3);
}

#[test]
fn third_copy_is_due_after_another_delay() {
    let mut hedger = rich(|settings| {
        settings.delay_min = Duration::from_millis(20);
        settings.copies_max = 3;
    });
    for _ in 0..100 {
        play(&mut hedger, 0, 10 * MS, WatchEnd::Answered);
    }
    let copied = |hedger: &mut Hedger, end: WatchEnd| {
        let mut watch = hedger.begin(at(SECOND), 0);
        for (due_ms, copies) in [(20, 1), (40, 2)] {
            let due = at(SECOND + due_ms * MS);
            assert_eq!(watch.due_at(), Some(due));
            assert!(!hedger.handle_due(at(due.as_nanos() - 1), &mut watch));
            assert!(hedger.handle_due(due, &mut watch));
            assert_eq!(watch.copies(), copies);
        }
        assert_eq!(watch.due_at(), None, "there are three");
        assert!(!hedger.handle_due(at(2 * SECOND), &mut watch));
        hedger.end(at(2 * SECOND), watch, end);
    };
    copied(&mut hedger, WatchEnd::Superseded);
    copied(&mut hedger, WatchEnd::Failed);
    let counters = hedger.counters();
    assert_eq!((counters.issued, counters.won, counters.wasted), (4, 1, 3));
    // Each counts as one late query, not two.
    assert_eq!(hedger.classes[0].recent.count_ones(), 2);
}

#[test]
fn each_copy_costs_a_token() {
    let mut hedger = hedger(|settings| {
        settings.delay_min = Duration::from_millis(20);
        settings.copies_max = 3;
    });
    for _ in 0..74 {
        play(&mut hedger, 0, 10 * MS, WatchEnd::Answered);
    }
    // There are one and a half tokens.
    let mut watch = hedger.begin(at(SECOND), 0);
    assert!(hedger.handle_due(at(SECOND + 20 * MS), &mut watch));
    assert!(!hedger.handle_due(at(SECOND + 40 * MS), &mut watch));
    for _ in 0..25 {
        play(&mut hedger, SECOND, 10 * MS, WatchEnd::Answered);
    }
    assert!(hedger.handle_due(at(SECOND + 80 * MS), &mut watch));
    hedger.handle_unsent(&mut watch);
    assert_eq!((watch.copies(), hedger.counters().issued), (1, 1));
    assert_eq!(watch.due_at(), Some(at(SECOND + 160 * MS)), "perhaps later");
    hedger.end(at(2 * SECOND), watch, WatchEnd::Answered);
}

#[test]
fn fan_out_has_larger_budget_and_one_more_copy() {
    let (usual, fan_out) = (HedgeSettings::default(), HedgeSettings::for_fan_out());
    assert_eq!((usual.budget.millionths(), usual.copies_max), (20_000, 2));
    assert_eq!(
        (fan_out.budget.millionths(), fan_out.copies_max),
        (50_000, 3)
    );
    assert!(fan_out.validate().is_ok());
}

#[test]
fn unsent_copy_costs_nothing() {
    let mut hedger = hedger(|_| ());
    for _ in 0..100 {
        play(&mut hedger, 0, 10 * MS, WatchEnd::Answered);
    }
    // There are two tokens, and they are spent three times over.
    for _ in 0..3 {
        let mut watch = hedger.begin(at(SECOND), 0);
        assert!(hedger.handle_due(at(2 * SECOND), &mut watch));
        hedger.handle_unsent(&mut watch);
        assert_eq!(watch.copies(), 0);
        assert_eq!(watch.due_at(), Some(at(3 * SECOND)), "perhaps later");
        hedger.end(at(3 * SECOND), watch, WatchEnd::Answered);
    }
    let counters = hedger.counters();
    assert_eq!((counters.issued, counters.wasted), (0, 0));
}

#[test]
fn class_is_slow_if_more_than_half_are_late() {
    let mut hedger = rich(|_| ());
    for _ in 0..100 {
        play(&mut hedger, 0, 10 * MS, WatchEnd::Answered);
    }
    let late = |hedger: &mut Hedger| play(hedger, SECOND, 20 * MS, WatchEnd::Answered);
    for number in 1..=32 {
        assert!(late(&mut hedger), "half of 64 at the most: {number}");
        assert!(!hedger.is_slow(0));
    }
    assert!(!late(&mut hedger));
    assert!(hedger.is_slow(0));
    assert!(!hedger.is_slow(1), "the other class is not");
    assert_eq!(hedger.counters().withheld_slow, 1);
    // The late ones are followed by others that are not. 31 of them leave 33 late ones.
    for _ in 0..31 {
        play(&mut hedger, SECOND, 5 * MS, WatchEnd::Answered);
    }
    assert!(hedger.is_slow(0));
    play(&mut hedger, SECOND, 5 * MS, WatchEnd::Answered);
    assert!(!hedger.is_slow(0));
    assert!(late(&mut hedger));
}

#[test]
fn superseded_attempt_counts_with_its_elapsed_time() {
    // One in ten would take a second, and is answered by its second copy after 30 ms.
    let quantile = |end: WatchEnd| {
        let mut hedger = rich(|settings| settings.quantile = share(900_000));
        teach(&mut hedger, 0, 100);
        for round in 0..10 {
            for ms in 1..=100 {
                let (out_ns, end) = if ms > 90 {
                    (93 * MS, end)
                } else {
                    (ms * MS, WatchEnd::Answered)
                };
                play(&mut hedger, (3 + round) * SECOND, out_ns, end);
            }
        }
        delay_ms(&hedger)
    };
    assert_eq!(quantile(WatchEnd::Superseded), quantile(WatchEnd::Answered));
    assert_eq!(quantile(WatchEnd::Superseded), Some(90));
    assert_eq!(quantile(WatchEnd::Failed), Some(90), "so do timeouts");
}

#[test]
fn early_end_without_response_does_not_count() {
    for end in [WatchEnd::Failed, WatchEnd::Superseded] {
        let mut hedger = rich(|_| ());
        teach(&mut hedger, 0, 1000);
        for _ in 0..10_000 {
            play(&mut hedger, SECOND, MS, end);
        }
        drop(hedger.begin(at(4 * SECOND), 0));
        assert_eq!(delay_ms(&hedger), Some(956), "{end:?}");
    }
    let mut hedger = hedger(|_| ());
    for _ in 0..1_000 {
        play(&mut hedger, 0, MS, WatchEnd::Failed);
    }
    assert_eq!(delay_ms(&hedger), None, "nor where nothing is known");
}

#[test]
fn copies_are_counted_by_outcome() {
    let mut hedger = rich(|_| ());
    for _ in 0..100 {
        play(&mut hedger, 0, 10 * MS, WatchEnd::Answered);
    }
    for (end, times) in [
        (WatchEnd::Superseded, 3),
        (WatchEnd::Answered, 2),
        (WatchEnd::Failed, 1),
    ] {
        for _ in 0..times {
            assert!(play(&mut hedger, SECOND, 20 * MS, end));
        }
    }
    // Without a copy, an end counts as none of these.
    play(&mut hedger, SECOND, MS, WatchEnd::Failed);
    let counters = hedger.counters();
    assert_eq!((counters.issued, counters.won, counters.wasted), (6, 3, 3));
}

#[test]
fn hedger_has_at_least_one_class() {
    let mut hedger = Hedger::new(HedgeConfig::default(), 0);
    let watch = hedger.begin(at(0), 3);
    hedger.end(at(1), watch, WatchEnd::Answered);
    assert_eq!(hedger.delay(9), None);
    assert!(!hedger.is_slow(9));
}

#[test]
fn settings_out_of_range_are_rejected() {
    check_ranges::<HedgeSettings>(&[
        ("burst", |s| s.burst = 0),
        ("burst", |s| s.burst = 10_001),
        ("delay_min", |s| s.delay_min = Duration::from_hours(2)),
        ("window", |s| s.window = Duration::from_micros(2_999)),
        ("window", |s| s.window = Duration::from_hours(2)),
        ("samples_min", |s| s.samples_min = 0),
        ("samples_min", |s| s.samples_min = 1_000_001),
        ("copies_max", |s| s.copies_max = 1),
        ("copies_max", |s| s.copies_max = 5),
    ]);
}
