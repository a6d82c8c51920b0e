//! The cells of the figure, and each claim on both sides of its bounds.

use super::cases::{CLIENTS, Case, HINTS, OURS, OWN_COUNTS, Trouble, VARIANTS, WITHOUT, rules};
use super::*;
use crate::Measured;
use crate::figure::Verdict::{self, NotReproduced, Reproduced};
use crate::figure::trial::{self, verdicts};
use core::time::Duration;

/// A run with this p99 and this many hits in 100.
fn run(cell: &Cell, us: u64, hits: u64) -> Measured {
    let mut run = Measured::nothing(cell.scenario.replicas());
    run.queries = 1;
    run.latency.record(Duration::from_micros(us));
    run.cache_hits = hits;
    run.cache_misses = 100 - hits;
    run
}

/// Plays in which `rule` has this p99 and this many hits in 100, and every other rule 1 ms and 80.
fn played(rule: &str, us: u64, hits: u64) -> Vec<Played> {
    trial::played(&Keyed, |cell| {
        if cell.policy.name == rule && cell.param.is_empty() {
            run(cell, us, hits)
        } else {
            run(cell, 1_000, 80)
        }
    })
}

fn verdict(words: &[&str], played: &[Played]) -> Verdict {
    let verdicts = verdicts(&Keyed, played, words);
    assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]));
    verdicts[0]
}

#[test]
fn every_fleet_is_played_with_every_rule() {
    let cells = trial::cells(&Keyed);
    assert_eq!(rules().len(), 10);
    assert_eq!(cells.len(), 14 * 10 + 2 * VARIANTS.len());
    let findings = Keyed.findings(&played(OURS, 1_000, 80));
    let rows: Vec<usize> = findings
        .tables
        .iter()
        .map(|table| table.rows.len())
        .collect();
    assert_eq!(rows, [14 * 10, 2 * VARIANTS.len(), 2 * 10]);
    assert_eq!(findings.charts.len(), 4);
    assert_eq!(findings.claims.len(), 3 * CLIENTS.len() + 3);
}

#[test]
fn troubles_are_in_the_scenarios() {
    let cells = trial::cells(&Keyed);
    let find = |trouble| {
        let step = Case::at_high_load(trouble, 16).step();
        let cell = cells.iter().find(|cell| cell.step == step);
        &cell.expect("it is played").scenario
    };
    assert!((find(Trouble::Slow).fleet[0].slowness - 3.0).abs() < f64::EPSILON);
    let hot = |trouble| find(trouble).load.keys.map(|keys| keys.hot_share);
    assert_eq!(hot(Trouble::Hot), Some(0.1));
    assert_eq!(hot(Trouble::Nothing), Some(0.0));
    for trouble in [Trouble::Restart, Trouble::Join] {
        assert_eq!(find(trouble).events[0].at, find(trouble).warmup);
    }
}

#[test]
fn p99_is_compared_with_the_best_peer() {
    let words = ["slow and hot", "0.7 times"];
    assert_eq!(verdict(&words, &played(OURS, 699, 80)), Reproduced);
    assert_eq!(verdict(&words, &played(OURS, 702, 80)), NotReproduced);
    let words = ["usual", "1 times"];
    assert_eq!(verdict(&words, &played(OURS, 1_000, 80)), Reproduced);
    assert_eq!(verdict(&words, &played("ring", 990, 80)), NotReproduced);
}

#[test]
fn hits_are_compared_with_the_best_peer() {
    let words = ["3 points"];
    assert_eq!(verdict(&words, &played(OURS, 1_000, 78)), Reproduced);
    assert_eq!(verdict(&words, &played(OURS, 1_000, 76)), NotReproduced);
}

#[test]
fn other_claims_hold_up_to_their_bounds() {
    let words = ["own counts"];
    assert_eq!(verdict(&words, &played(OWN_COUNTS, 1_253, 80)), Reproduced);
    assert_eq!(
        verdict(&words, &played(OWN_COUNTS, 1_247, 80)),
        NotReproduced
    );
    let words = ["carry the key"];
    assert_eq!(verdict(&words, &played(HINTS, 990, 80)), Reproduced);
    assert_eq!(verdict(&words, &played(HINTS, 1_002, 80)), NotReproduced);
    let words = ["without keys"];
    assert_eq!(verdict(&words, &played(WITHOUT, 10_020, 80)), Reproduced);
    assert_eq!(verdict(&words, &played(WITHOUT, 9_980, 80)), NotReproduced);
}
