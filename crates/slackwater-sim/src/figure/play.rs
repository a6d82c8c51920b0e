//! Plays a figure: each of its cells once for each seed.

use super::{Effort, Figure, Played};
use crate::Measured;
use crate::runner::{Job, Progress, run_all};
use core::sync::atomic::AtomicBool;

/// Plays all cells of `figure` with each seed on `threads` threads, and returns them in their
/// order.
///
/// `progress` and `stop` are [`run_all`]'s. Once `stop` is set, runs end, and only the cells before
/// the first incomplete one are returned.
pub fn play(
    figure: &dyn Figure,
    effort: &Effort,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Vec<Played> {
    let cells = figure.cells(effort);
    let jobs: Vec<Job> = cells
        .iter()
        .flat_map(|cell| {
            effort.seeds.iter().map(|seed| Job {
                scenario: cell.scenario.clone(),
                policy: cell.policy.clone(),
                seed,
            })
        })
        .collect();
    let mut runs = run_all(&jobs, threads, progress, stop).into_iter();
    let runs_of_cell = effort.seeds.count();
    cells
        .into_iter()
        .map_while(|cell| {
            let runs: Vec<Measured> = runs.by_ref().take(runs_of_cell).collect();
            if runs.len() < runs_of_cell {
                return None;
            }
            let all = Measured::together(&runs)?;
            Some(Played { cell, runs, all })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Cell, Findings, Words};
    use crate::presets::{at_load, testbed};
    use crate::{PolicyChoice, Seeds, run};

    /// The testbed for a moment, under two policies.
    #[derive(Debug)]
    struct Moment;

    impl Figure for Moment {
        fn words(&self) -> Words {
            Words {
                name: "moment",
                title: "A moment",
                about: "A moment.",
            }
        }

        fn cells(&self, effort: &Effort) -> Vec<Cell> {
            let scenario = effort.spend_on(at_load(0.1, testbed()), 0, 1);
            ["random", "round_robin"]
                .into_iter()
                .filter_map(PolicyChoice::named)
                .map(|policy| Cell::of("0.1", 0.1, policy, &scenario))
                .collect()
        }

        fn findings(&self, _: &[Played]) -> Findings {
            Findings::default()
        }
    }

    const TWO_SEEDS: Effort = Effort {
        seeds: Seeds::new(4, 2),
        span: None,
        warmup: None,
    };

    #[test]
    fn cells_and_seeds_are_returned_in_order() {
        let played = play(&Moment, &TWO_SEEDS, 2, &|_| {}, &AtomicBool::new(false));
        let name = |played: &Played| played.cell.policy.name.clone();
        let names: Vec<_> = played.iter().map(name).collect();
        assert_eq!(names, ["random", "round_robin"]);
        for played in &played {
            let cell = &played.cell;
            let alone = [4, 5].map(|seed| run(&cell.scenario, &cell.policy, seed).latency.mean());
            let found: Vec<_> = played.runs.iter().map(|run| run.latency.mean()).collect();
            assert_eq!(found, alone, "{}", cell.policy.name);
            assert_ne!(alone[0], alone[1], "seeds differ");
            let queries: u64 = played.runs.iter().map(|run| run.queries).sum();
            assert_eq!(played.all.queries, queries);
        }
    }

    /// Three of four runs: the first cell, and half of the second.
    #[test]
    fn incomplete_cell_is_omitted() {
        let stop = AtomicBool::new(false);
        let after_three = |progress: Progress| {
            if progress.done == 3 {
                stop.store(true, core::sync::atomic::Ordering::Relaxed);
            }
        };
        let played = play(&Moment, &TWO_SEEDS, 1, &after_three, &stop);
        assert_eq!(played.len(), 1);
        assert_eq!(played[0].cell.policy.name, "random");
    }
}
