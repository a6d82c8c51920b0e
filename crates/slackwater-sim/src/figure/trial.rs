//! For tests: plays with made-up results, which make claims hold and fail.

use super::{Cell, Effort, Figure, Played, Verdict};
use crate::{Measured, Seeds};
use core::time::Duration;

/// Returns the cells of a figure at the least effort.
pub(super) fn cells(figure: &dyn Figure) -> Vec<Cell> {
    figure.cells(&Effort {
        seeds: Seeds::up_to(1),
        span: None,
        warmup: None,
    })
}

/// Returns every cell of `figure` with the results that `made_up` returns.
pub(super) fn played(figure: &dyn Figure, made_up: impl Fn(&Cell) -> Measured) -> Vec<Played> {
    cells(figure)
        .into_iter()
        .map(|cell| {
            let mut all = made_up(&cell);
            all.pack();
            Played {
                runs: vec![all.clone()],
                all,
                cell,
            }
        })
        .collect()
}

/// A run of 10,000 queries within 10 s on 100 replicas, without errors, with these latencies in
/// milliseconds at p50, p90, p99 and p99.9.
pub(super) fn run([p50, p90, p99, p999]: [f64; 4]) -> Measured {
    let mut run = Measured::nothing(100);
    run.queries = 10_000;
    run.span = Duration::from_secs(10);
    for (ms, count) in [(p50, 5_000), (p90, 4_000), (p99, 900), (p999, 100)] {
        for _ in 0..count {
            run.latency.record(Duration::from_secs_f64(ms / 1e3));
        }
    }
    run
}

/// Returns the verdicts on the claims whose text has all of `words`. There must be some.
pub(super) fn verdicts(figure: &dyn Figure, played: &[Played], words: &[&str]) -> Vec<Verdict> {
    let verdicts: Vec<_> = figure
        .findings(played)
        .claims
        .into_iter()
        .filter(|claim| words.iter().all(|word| claim.says.contains(word)))
        .map(|claim| claim.verdict)
        .collect();
    assert!(!verdicts.is_empty(), "no claim has {words:?}");
    verdicts
}
