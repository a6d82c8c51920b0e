//! The cells of the figure, and each claim on both sides of its bounds, with made-up shares.

use super::*;
use crate::figure::Verdict::{NotReproduced, Reproduced};
use crate::figure::cells::whole;
use crate::figure::{Verdict, trial};
use crate::{Measured, Seeds};

/// Queries of each second that make an equal share.
const EQUAL_COUNT: f64 = 100_000.0;

/// A run in which the first replica has a share that depends on the second, and the others
/// divide the rest evenly.
fn run(cell: &Cell, first: impl Fn(usize) -> f64) -> Measured {
    let replicas = cell.scenario.replicas();
    let mut run = Measured::nothing(replicas);
    run.queries = 10_000;
    for second in 0..whole_seconds(cell.scenario.span) {
        let first = first(second);
        let other = (replicas as f64 - first) / (replicas - 1) as f64;
        let shares = core::iter::once(first).chain(core::iter::repeat_n(other, replicas - 1));
        let counts = shares.map(|share| u32::try_from(whole(share * EQUAL_COUNT)).expect("few"));
        run.by_second.sent.extend(counts);
    }
    run
}

/// A replica that is slow has a fifth of its share, and is found after five seconds.
fn as_it_should_be(cell: &Cell, second: usize) -> f64 {
    let is_slow = cell.step.starts_with("healed") && (5..25).contains(&second);
    if is_slow { 0.2 } else { 1.0 }
}

/// Returns the verdicts on claims with these words where the first replica of one cell has this
/// share in these seconds. Elsewhere all is as it should be.
fn verdicts(
    words: &[&str],
    step: &str,
    param: &str,
    seconds: Range<usize>,
    share: f64,
) -> Vec<Verdict> {
    let played = trial::played(&Shares, |cell| {
        let is_it = cell.policy.name == JUDGED && cell.param == param && cell.step == step;
        run(cell, |second| {
            if is_it && seconds.contains(&second) {
                share
            } else {
                as_it_should_be(cell, second)
            }
        })
    });
    trial::verdicts(&Shares, &played, words)
}

#[test]
fn all_claims_hold_where_shares_are_as_they_should_be() {
    let all = verdicts(&["(ours)"], "none", "", 0..0, 0.0);
    assert_eq!(all, [Reproduced; 12]);
}

#[test]
fn one_window_of_one_replica_fails_the_claim_about_equal_replicas() {
    for (costs, step, [good, bad]) in [
        ("exponential", "exponential 16x4", [0.86, 0.84]),
        ("exponential", "exponential 16x4", [1.14, 1.16]),
        ("bimodal", "bimodal 32x20", [0.76, 0.74]),
        ("bimodal", "bimodal 32x20", [1.24, 1.26]),
    ] {
        for (capacity, param) in [("no capacity", ""), ("capacities", REPORTED)] {
            let words = ["of equal replicas", costs, capacity];
            let of = |share| verdicts(&words, step, param, 0..WINDOW, share);
            assert_eq!(of(good), [Reproduced], "{step} {good}");
            assert_eq!(of(bad), [NotReproduced], "{step} {bad}");
        }
    }
}

#[test]
fn short_gap_counts_for_its_part_of_the_window() {
    let words = ["of equal replicas", "bimodal", "no capacity"];
    let of = |seconds| verdicts(&words, "bimodal 8x4", "", seconds, 0.0);
    assert_eq!(of(10..14), [Reproduced], "0.8");
    assert_eq!(of(10..16), [NotReproduced], "0.7");
}

#[test]
fn share_outside_of_the_goal_is_counted_where_the_claim_still_holds() {
    let played = trial::played(&Shares, |cell| {
        let is_it = cell.policy.name == JUDGED && cell.step == "bimodal 32x20";
        run(cell, |second| {
            if is_it {
                0.83
            } else {
                as_it_should_be(cell, second)
            }
        })
    });
    let claims = Shares.findings(&played).claims;
    let counted = "outside 0.85 to 1.15 in 1 of 62";
    let found: Vec<_> = claims
        .iter()
        .filter(|it| it.found.ends_with(counted))
        .collect();
    assert_eq!(found.len(), 2, "{claims:?}");
    assert!(found.iter().all(|it| it.verdict == Reproduced));
}

#[test]
fn slow_replica_that_keeps_half_of_its_share_fails_a_claim() {
    let words = ["a fifth of its capacity", "exponential", "no capacity"];
    let of = |share| verdicts(&words, "healed exponential 8x4", "", 5..20, share);
    assert_eq!(of(0.49), [Reproduced]);
    assert_eq!(of(0.51), [NotReproduced]);
}

#[test]
fn healed_replica_that_is_found_late_fails_a_claim() {
    let words = ["all of its capacity again", "bimodal", "capacities"];
    let of = |seconds, share| verdicts(&words, "healed bimodal 16x20", REPORTED, seconds, share);
    assert_eq!(of(25..35, 0.81), [Reproduced]);
    assert_eq!(of(25..35, 0.79), [NotReproduced]);
    assert_eq!(
        of(20..25, 0.0),
        [Reproduced],
        "there are five seconds to find it"
    );
}

#[test]
fn first_replica_is_slow_for_half_of_the_span() {
    let cells = trial::cells(&Shares);
    let healed = cells.iter().filter(|cell| cell.step.starts_with("healed"));
    let mut count = 0;
    for cell in healed {
        let spell = cell.scenario.fleet[0].hobble.expect("it is slow");
        let seconds = [spell.from, spell.until].map(|at| at.as_secs());
        assert_eq!(seconds, [10, 30], "{}", cell.step);
        assert_eq!(cell.scenario.fleet[0].count, 1);
        assert!(cell.scenario.fleet[1].hobble.is_none());
        count += 1;
    }
    assert_eq!(count, COSTS.len() * HEALED.len() * (OTHERS.len() + 2));
}

#[test]
fn capacity_is_reported_only_with_the_parameter() {
    for cell in trial::cells(&Shares) {
        let mut fleet = cell.scenario.fleet.iter();
        let reports = fleet.all(|group| group.learns_capacity && group.carries_reports);
        assert_eq!(reports, cell.param == REPORTED, "{}", cell.step);
    }
}

#[test]
fn runs_shorter_than_a_window_make_no_claims() {
    let effort = Effort {
        seeds: Seeds::up_to(1),
        span: Some(Duration::from_secs(19)),
        warmup: None,
    };
    let played = Shares.cells(&effort).into_iter().map(|cell| {
        let all = run(&cell, |_| 1.0);
        Played {
            runs: vec![all.clone()],
            all,
            cell,
        }
    });
    let findings = Shares.findings(&played.collect::<Vec<_>>());
    assert!(findings.claims.is_empty() && findings.tables.is_empty());
}

#[test]
fn description_has_the_load_and_the_seconds() {
    let about = Shares.words().about;
    let load = format!("at {} %", 100.0 * LOAD);
    let window = format!("window of {WINDOW} s");
    let spell = format!("first half of the {HEALED_SECONDS} s");
    for words in [load, window, spell] {
        assert!(about.contains(&words), "{words}");
    }
}
