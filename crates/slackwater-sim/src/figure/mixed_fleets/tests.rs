//! The cells of the figure, and each claim on both sides of its bounds.

use super::*;
use crate::figure::Verdict::{self, NotReproduced, Reproduced};
use crate::figure::trial::{self, verdicts};
use core::time::Duration;

/// The step whose results are changed.
const ONE: &str = "halves0.85 10x4";

/// A run whose p99 is `us` microseconds. A replica of the first half gets twice the queries of one
/// of the second, but silent ones get `times` their share.
fn run(cell: &Cell, us: u64, silence: Silence, times: f64) -> Measured {
    let replicas = cell.scenario.replicas();
    let weight = |replica| if replica < replicas / 2 { 2.0 } else { 1.0 };
    let all: f64 = (0..replicas).map(weight).sum();
    let silent = (0..replicas).filter(|&replica| (silence.has)(replica, replicas));
    let share = silent.map(weight).sum::<f64>() / all;
    let times_answering = (1.0 - share * times) / (1.0 - share);
    let queries = |replica| {
        let silent = (silence.has)(replica, replicas);
        whole(1e6 * weight(replica) * if silent { times } else { times_answering })
    };
    let mut run = Measured::nothing(replicas);
    run.latency.record(Duration::from_micros(us));
    run.queries_by_replica = (0..replicas).map(queries).collect();
    run.queries = run.queries_by_replica.iter().sum();
    run
}

/// Plays in which every fleet takes 1 ms. In the cell [`ONE`] with these replicas silent, p99 is
/// `us` and silent replicas get `times` their share.
fn played(us: u64, silence: Silence, times: f64) -> Vec<Played> {
    trial::played(&MixedFleets, |cell| {
        if cell.step == ONE && cell.param == silence.param {
            run(cell, us, silence, times)
        } else {
            run(cell, 1_000, NO_REPLICA, 1.0)
        }
    })
}

/// Returns the verdicts on each policy that probes.
fn verdicts_on(words: &str, played: &[Played]) -> [Verdict; 3] {
    PROBED.map(|policy| {
        let verdicts = verdicts(&MixedFleets, played, &[policy, words]);
        assert_eq!(verdicts.len(), 1);
        verdicts[0]
    })
}

#[test]
fn every_fleet_is_played_with_every_variant() {
    let cells = trial::cells(&MixedFleets);
    // Three policies for each silence and for none, and one policy without probes.
    assert_eq!(cells.len(), 9 * ((3 * 3 + 1) + 2 * (3 * 5 + 1)));
    let findings = MixedFleets.findings(&played(1_000, FIRST_HALF, 1.0));
    assert_eq!(findings.tables[0].rows.len(), 9 * 3 * (2 + 4 + 4));
    assert_eq!((findings.charts.len(), findings.claims.len()), (10, 6));
}

#[test]
fn unprobed_replicas_differ_only_in_answering_no_probes() {
    let cells = trial::cells(&MixedFleets);
    let silent = |step: &str, param: &str| -> Vec<usize> {
        let cell = cells
            .iter()
            .find(|cell| cell.step == step && cell.param == param);
        let scenario = &cell.expect("it is played").scenario;
        let answers = |replica| scenario.fleet[scenario.group_of(replica)].answers_probes;
        (0..scenario.replicas())
            .filter(|&replica| !answers(replica))
            .collect()
    };
    assert_eq!(silent("web0.85 4x1", "silent=none"), [0; 0]);
    assert_eq!(silent("web0.85 4x1", "silent=first half"), [0, 1]);
    assert_eq!(silent("halves0.85 4x20", "silent=second half"), [2, 3]);
    assert_eq!(silent("web0.60hob 4x4", "silent=all but first"), [1, 2, 3]);
    assert_eq!(silent("web0.60hob 4x4", "silent=all but last"), [0, 1, 2]);
    for cell in &cells {
        let policy = cell.policy.name.as_str();
        let same = cells
            .iter()
            .find(|other| other.step == cell.step && other.param == NO_REPLICA.param);
        let all_answer = silenced((*cell.scenario).clone(), NO_REPLICA);
        assert_eq!(
            all_answer,
            *same.expect("it is played").scenario,
            "{} {policy}",
            cell.step
        );
    }
}

#[test]
fn run_has_the_stated_queries_and_seconds() {
    for cell in trial::cells(&MixedFleets) {
        let seconds = cell.scenario.span.as_secs_f64();
        let queries = cell.scenario.load.rate * seconds;
        assert!(
            queries >= QUERIES && seconds >= SPAN_MIN_SECONDS,
            "{}",
            cell.step
        );
    }
}

/// One replica of the second half gets more and the other four as much less, so that together they
/// get their share.
#[test]
fn each_unprobed_replica_is_judged_separately() {
    for (more, expected) in [
        (0.24, Reproduced),
        (0.26, NotReproduced),
        (-0.24, Reproduced),
        (-0.26, NotReproduced),
    ] {
        // The change of one replica is spread over the other four, so only one is out of bounds.
        let played = trial::played(&MixedFleets, |cell| {
            let mut run = run(cell, 1_000, NO_REPLICA, 1.0);
            if cell.step == ONE && cell.param == SECOND_HALF.param {
                let moved = |queries: u64, by: f64| whole(queries as f64 * (1.0 + by));
                let silent = &mut run.queries_by_replica[5..];
                silent[4] = moved(silent[4], more);
                for queries in &mut silent[..4] {
                    *queries = moved(*queries, -more / 4.0);
                }
            }
            run
        });
        assert_eq!(verdicts_on("starves", &played), [expected; 3], "{more}");
    }
}

#[test]
fn claim_fails_beyond_twice_the_latency_of_least_loaded() {
    for (us, expected) in [(2_000, Reproduced), (2_001, NotReproduced)] {
        let played = played(us, SECOND_HALF, 1.0);
        assert_eq!(verdicts_on("twice", &played), [expected; 3], "{us}");
    }
}

/// The second half gets a third of the queries, and the last of ten replicas a fifteenth.
#[test]
fn replica_shares_must_be_within_25_percent() {
    // If the silent replicas get 0.985 times their 14/15, the last one gets 1.21 times its share;
    // with 0.98 it gets 1.28 times.
    for (silence, times, expected) in [
        (SECOND_HALF, 0.74, NotReproduced),
        (SECOND_HALF, 0.76, Reproduced),
        (SECOND_HALF, 1.24, Reproduced),
        (SECOND_HALF, 1.26, NotReproduced),
        (ALL_BUT_LAST, 1.05, Reproduced),
        (ALL_BUT_LAST, 0.985, Reproduced),
        (ALL_BUT_LAST, 0.98, NotReproduced),
    ] {
        let found = verdicts_on("starves", &played(1_000, silence, times));
        assert_eq!(found, [expected; 3], "{} {times}", silence.param);
    }
}
