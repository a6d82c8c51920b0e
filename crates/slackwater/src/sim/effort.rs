//! How much is played and on how many threads: the arguments that every sub-command of `sim` has.

use crate::fault::Fault;
use core::time::Duration;
use slackwater_sim::{Measured, Scenario, Seeds};

/// The longest warm-up or span, in seconds.
const SECONDS_MAX: f64 = 604_800.0;
const SEEDS_MAX: u64 = 10_000;
const FIRST_SEED_MAX: u64 = 1_000_000_000;
const THREADS_MAX: usize = 1_024;

#[derive(Debug, clap::Args)]
pub(super) struct EffortArgs {
    /// Play with N seeds, 1 to 10000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        allow_negative_numbers = true
    )]
    seeds: u64,
    /// The first of the seeds, which follow each other, 1 to 1000000000; what was tuned on one set is checked on another
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true
    )]
    first_seed: u64,
    /// Measure so many simulated seconds, above 0 and at most 604800 [default: the figure's, or the file's]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Play so many simulated seconds before, 0 to 604800 [default: the figure's, or the file's]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    warmup: Option<f64>,
    /// Threads that play, 1 to 1024 [default: one for each core]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    threads: Option<usize>,
}

/// The same, in their ranges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    pub(super) seeds: Seeds,
    pub(super) span: Option<Duration>,
    pub(super) warmup: Option<Duration>,
    pub(super) threads: usize,
}

impl EffortArgs {
    pub(super) fn effort(&self) -> Result<Effort, Fault> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let (seeds, threads) = (self.seeds, self.threads.unwrap_or_else(cores));
        if !(1..=SEEDS_MAX).contains(&seeds) {
            return Err(Fault::usage(format!(
                "--seeds {seeds}: must be from 1 to {SEEDS_MAX}"
            )));
        }
        if !(1..=FIRST_SEED_MAX).contains(&self.first_seed) {
            return Err(Fault::usage(format!(
                "--first-seed {}: must be from 1 to {FIRST_SEED_MAX}",
                self.first_seed
            )));
        }
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(Fault::usage(format!(
                "--threads {threads}: must be from 1 to {THREADS_MAX}"
            )));
        }
        let span = |name, value: Option<f64>| value.map(|value| seconds(name, value)).transpose();
        let effort = Effort {
            seeds: Seeds::new(self.first_seed, seeds),
            span: span("--seconds", self.seconds)?,
            warmup: span("--warmup", self.warmup)?,
            threads,
        };
        if effort.span.is_some_and(|span| span.is_zero()) {
            return Err(Fault::usage("--seconds 0: must be above 0"));
        }
        Ok(effort)
    }
}

fn seconds(name: &str, value: f64) -> Result<Duration, Fault> {
    let span = Duration::try_from_secs_f64(value).ok();
    span.filter(|_| value <= SECONDS_MAX).ok_or_else(|| {
        Fault::usage(format!(
            "{name} {value}: must be from 0 to {SECONDS_MAX} seconds"
        ))
    })
}

impl Effort {
    /// Puts what was asked for in place of what the scenario says.
    pub(super) fn apply(&self, scenario: &mut Scenario) -> Result<(), Fault> {
        scenario.span = self.span.unwrap_or(scenario.span);
        scenario.warmup = self.warmup.unwrap_or(scenario.warmup);
        match scenario.mistakes().first() {
            None => Ok(()),
            Some(mistake) => Err(Fault::usage(format!(
                "with --seconds and --warmup as given, {}: {}",
                mistake.field, mistake.message
            ))),
        }
    }
}

/// What it took to play `runs`.
pub(super) fn summary<'r>(runs: impl Iterator<Item = &'r Measured>, elapsed: Duration) -> String {
    let (mut count, mut events, mut cpu) = (0_usize, 0_u64, Duration::ZERO);
    for run in runs {
        count += 1;
        events += run.events;
        cpu += run.cpu;
    }
    let rate = events as f64 / cpu.as_secs_f64().max(f64::MIN_POSITIVE);
    format!(
        "{count} runs, {:.1} s; {:.1} million events, {:.2} million a second of CPU time",
        elapsed.as_secs_f64(),
        events as f64 / 1e6,
        rate / 1e6
    )
}
