//! Plays a figure: each of its cells once for each seed.

use super::{Effort, Figure, Played};
use crate::Measured;
use crate::runner::{Job, Progress, run_all};
use core::sync::atomic::AtomicBool;

/// Plays all cells of `figure` under seeds 1 to `effort.seeds` on `threads` threads, and gives them in their order.
///
/// `progress` and `stop` are [`run_all`]'s: once `stop` is set no further run begins, and what comes back are the cells before
/// the first one that was not played in full.
pub fn play(
    figure: &dyn Figure,
    effort: &Effort,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Vec<Played> {
    let cells = figure.cells(effort);
    let seeds = 1..=effort.seeds.max(1);
    let jobs: Vec<Job> = cells
        .iter()
        .flat_map(|cell| {
            seeds.clone().map(|seed| Job {
                scenario: cell.scenario.clone(),
                policy: cell.policy.clone(),
                seed,
            })
        })
        .collect();
    let mut runs = run_all(&jobs, threads, progress, stop).into_iter();
    let runs_of_cell = seeds.count();
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
