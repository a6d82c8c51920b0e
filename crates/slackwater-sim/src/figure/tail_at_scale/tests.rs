//! Claims that hold and fail, with made-up numbers.

use super::*;
use crate::figure::Verdict::NotReproduced;
use crate::figure::trial::{self, verdicts};

/// A run with these numbers of latencies, each in milliseconds.
fn latencies(of: &[(u64, f64)]) -> Measured {
    let mut run = Measured::nothing(100);
    for &(count, ms) in of {
        run.queries += count;
        for _ in 0..count {
            run.latency.record(Duration::from_secs_f64(ms / 1e3));
        }
    }
    run
}

/// A run with this p99.9 in which this many of 10,000 queries were sent twice.
fn stalled_run(p999: f64, hedges: u64) -> Measured {
    let mut run = trial::run([80.0, 180.0, 270.0, p999]);
    run.hedges = hedges;
    run
}

/// Leaves that are as slow as they should be, and hedging that is as good as in the article.
fn article(cell: &Cell) -> Measured {
    match (cell.step.as_str(), cell.param.as_str()) {
        ("1 in 100", _) => latencies(&[(990, 10.0), (10, 1_100.0)]),
        ("1 in 1,000", _) => latencies(&[(999, 10.0), (1, 1_100.0)]),
        ("1 in 10,000", _) => latencies(&[(9_999, 10.0), (1, 1_100.0)]),
        (TABLE_1, _) => latencies(&[(940, 1.0), (30, 5.0), (29, 10.0), (1, 45.0)]),
        (step, _) if step != STALLS => Measured::nothing(100),
        (_, AFTER_P98) => stalled_run(300.0, 200),
        (_, AFTER_P95) => stalled_run(300.0, 500),
        _ => stalled_run(1_800.0, 0),
    }
}

fn upset(step: &str, policy: &str, param: &str, instead: &Measured) -> Vec<Played> {
    trial::played(&TailAtScale, |cell| {
        let key = (
            cell.step.as_str(),
            cell.policy.name.as_str(),
            cell.param.as_str(),
        );
        if key == (step, policy, param) {
            instead.clone()
        } else {
            article(cell)
        }
    })
}

#[test]
fn cells_cover_leaves_and_stalls() {
    let cells = trial::cells(&TailAtScale);
    assert_eq!(cells.len(), 4 + 3 * 3 + 4 * 4);
    let hedges: Vec<_> = cells[4..13]
        .iter()
        .map(|cell| cell.scenario.load.hedge.is_some())
        .collect();
    assert_eq!(
        hedges,
        [false, false, false, true, true, true, true, true, true]
    );
    assert!(
        cells[4..13]
            .iter()
            .all(|cell| cell.scenario.fleet[0].stall.is_some())
    );
}

#[test]
fn curves_match_the_closed_form() {
    let findings = TailAtScale.findings(&trial::played(&TailAtScale, article));
    let Plot::Lines(lines) = &findings.charts[0].plot else {
        panic!("lines");
    };
    assert_eq!(lines.len(), 6);
    for pair in lines.chunks(2) {
        for (played, closed) in pair[0].points.iter().zip(&pair[1].points) {
            assert!(
                (played.1 - closed.1).abs() < 1e-9,
                "{}: {played:?} {closed:?}",
                pair[0].name
            );
        }
    }
}

#[test]
fn article_numbers_are_reproduced() {
    let findings = TailAtScale.findings(&trial::played(&TailAtScale, article));
    assert_eq!(findings.claims.len(), 2 + 6 + 6);
    let open: Vec<_> = findings
        .claims
        .iter()
        .filter(|claim| claim.verdict == NotReproduced)
        .map(|claim| claim.says.as_str())
        .collect();
    // No leaves with these quantiles can reach the article's wait for 95 % of them.
    assert_eq!(open, ["95 % of all leaves: 12 ms at p50"]);
    assert_eq!((findings.charts.len(), findings.tables.len()), (2, 2));
}

#[test]
fn each_claim_can_fail() {
    let cases: [(&[&str], &str, &str, &str, Measured); 10] = [
        (
            &["63 %"],
            "1 in 100",
            "random",
            "",
            latencies(&[(993, 10.0), (7, 1_100.0)]),
        ),
        (
            &["one request in five"],
            "1 in 10,000",
            "random",
            "",
            latencies(&[(10_000, 10.0)]),
        ),
        (
            &["1 ms at p50"],
            TABLE_1,
            "random",
            "",
            latencies(&[(940, 1.1), (30, 5.0), (30, 10.0)]),
        ),
        (
            &["5 ms at p95"],
            TABLE_1,
            "random",
            "",
            latencies(&[(960, 1.0), (20, 5.0), (20, 10.0)]),
        ),
        (
            &["10 ms at p99"],
            TABLE_1,
            "random",
            "",
            latencies(&[(940, 1.0), (51, 5.0), (9, 10.0)]),
        ),
        (
            &["all leaves: 40 ms"],
            TABLE_1,
            "random",
            "",
            latencies(&[(940, 1.0), (30, 5.0), (30, 10.0)]),
        ),
        (
            &["slowest 5 %"],
            TABLE_1,
            "random",
            "",
            latencies(&[(500, 1.0), (500, 1.5)]),
        ),
        (
            &["least_loaded: a second copy"],
            STALLS,
            LEAST_LOADED,
            AFTER_P98,
            stalled_run(920.0, 200),
        ),
        (
            &["random: that is 2 %"],
            STALLS,
            "random",
            AFTER_P98,
            stalled_run(300.0, 260),
        ),
        (
            &["random: waiting"],
            STALLS,
            "random",
            AFTER_P95,
            stalled_run(300.0, 610),
        ),
    ];
    for (words, step, policy, param, instead) in cases {
        let played = upset(step, policy, param, &instead);
        assert_eq!(
            verdicts(&TailAtScale, &played, words),
            [NotReproduced],
            "{words:?}"
        );
    }
}
