//! Plays one run and measures its CPU time, or many runs on several threads. Results are in the
//! order of the jobs, not in the order in which they end.

use crate::cpu_time::CpuTime;
use crate::{Measured, PolicyChoice, Scenario, engine, prompts};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Plays `scenario` once under `policy`, as [`engine::run`] does. The same arguments give the same
/// result, except for [`Measured::cpu`].
pub fn run(scenario: &Scenario, policy: &PolicyChoice, seed: u64) -> Measured {
    let never = AtomicBool::new(false);
    let nothing = || Measured::nothing(scenario.replicas());
    measure(scenario, policy, seed, &never).unwrap_or_else(nothing)
}

fn measure(
    scenario: &Scenario,
    policy: &PolicyChoice,
    seed: u64,
    stop: &AtomicBool,
) -> Option<Measured> {
    let begun = CpuTime::now();
    let mut measured = match &scenario.load.prompts {
        Some(prompts) => prompts::run(scenario, prompts, policy, seed, stop)?,
        None => engine::run(scenario, policy, seed, stop)?,
    };
    measured.cpu = begun.elapsed();
    Some(measured)
}

/// One run to play.
#[derive(Clone, Debug)]
pub struct Job {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The policy or clairvoyant.
    pub policy: PolicyChoice,
    /// The seed; the same for all policies that will be compared.
    pub seed: u64,
}

impl Job {
    /// Returns its work relative to others: the number of queries to expect.
    fn weight(&self) -> f64 {
        let played = self.scenario.warmup + self.scenario.span;
        self.scenario.load.rate * played.as_secs_f64()
    }
}

/// The progress of the work. Weights are proportional to the expected number of queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Runs that have ended.
    pub done: usize,
    /// Runs in total.
    pub total: usize,
    /// The share of the expected work that is done, from 0 to 1.
    pub share: f64,
}

/// The threads' results so far.
#[derive(Debug)]
struct Results {
    /// Results in the order of the jobs.
    measured: Vec<Option<Measured>>,
    done: usize,
    weight: f64,
}

/// Plays all `jobs` on `threads` threads (0 counts as 1), the largest first, and returns the
/// results in the order of the jobs. They do not depend on the number of threads, except for
/// [`Measured::cpu`].
///
/// `progress` is called after each run, one call at a time. Once `stop` is set, runs in progress
/// end within about a millisecond and are discarded, and no further run starts. The results then
/// end before the first job that was not done: there are fewer results than jobs, unless all were
/// done.
pub fn run_all(
    jobs: &[Job],
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Vec<Measured> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    // The largest runs start first, so that no thread is left alone with one at the end.
    order.sort_by(|&a, &b| jobs[b].weight().total_cmp(&jobs[a].weight()));
    let total_weight: f64 = jobs.iter().map(Job::weight).sum();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Results {
        measured: vec![None; jobs.len()],
        done: 0,
        weight: 0.0,
    });
    let work = || {
        while !stop.load(Relaxed) {
            let Some(&index) = order.get(next.fetch_add(1, Relaxed)) else {
                return;
            };
            let job = &jobs[index];
            // `None`: it was stopped, and an incomplete run does not count.
            let Some(measured) = measure(&job.scenario, &job.policy, job.seed, stop) else {
                return;
            };
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.measured[index] = Some(measured);
            results.done += 1;
            results.weight += job.weight();
            progress(Progress {
                done: results.done,
                total: jobs.len(),
                // Sums of weights are inexact, so the last run sets the share to exactly 1.
                share: if results.done == jobs.len() {
                    1.0
                } else {
                    results.weight / total_weight
                },
            });
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(jobs.len()) {
            scope.spawn(work);
        }
        work();
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.measured.into_iter().map_while(|run| run).collect()
}
