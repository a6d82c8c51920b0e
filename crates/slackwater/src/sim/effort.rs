//! How much is played and on how many threads: the arguments that all sub-commands of `sim` share.

use super::summary::counted;
use core::fmt::Display;
use core::str::FromStr;
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_sim::{Measured, Scenario, Seeds};

/// The longest warm-up or span, in seconds.
const SECONDS_MAX: f64 = 604_800.0;
const SEEDS_MAX: u64 = 10_000;
const FIRST_SEED_MAX: u64 = 1_000_000_000;
const THREADS_MAX: usize = 1_024;

#[derive(Debug, clap::Args)]
pub(super) struct EffortArgs {
    #[command(flatten)]
    how_often: HowOften,
    /// Simulated seconds to measure, above 0 and at most 604800 [default: the figure's or file's]
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = span)]
    seconds: Option<Duration>,
    /// Simulated seconds before these, 0 to 604800 [default: the figure's or file's]
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = warmup)]
    warmup: Option<Duration>,
}

/// The seeds, and the number of threads.
#[derive(Debug, clap::Args)]
pub(super) struct HowOften {
    /// Play with N seeds, 1 to 10000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        allow_negative_numbers = true,
        value_parser = seeds
    )]
    seeds: u64,
    /// The first seed; the others follow it, 1 to 1000000000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true,
        value_parser = first_seed
    )]
    first_seed: u64,
    /// Threads that play, 1 to 1024 [default: one for each core]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = threads)]
    threads: Option<usize>,
}

/// The arguments with their defaults filled in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    pub(super) seeds: Seeds,
    pub(super) span: Option<Duration>,
    pub(super) warmup: Option<Duration>,
    pub(super) threads: usize,
}

impl EffortArgs {
    pub(super) fn effort(&self) -> Effort {
        Effort {
            seeds: self.how_often.seeds(),
            span: self.seconds,
            warmup: self.warmup,
            threads: self.how_often.threads(),
        }
    }
}

impl HowOften {
    pub(super) fn seeds(&self) -> Seeds {
        Seeds::new(self.first_seed, self.seeds)
    }

    pub(super) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(cores)
    }
}

fn seeds(text: &str) -> Result<u64, String> {
    whole(text, SEEDS_MAX)
}

fn first_seed(text: &str) -> Result<u64, String> {
    whole(text, FIRST_SEED_MAX)
}

fn threads(text: &str) -> Result<usize, String> {
    whole(text, THREADS_MAX)
}

/// A whole number from 1 to `most`.
pub(super) fn whole<T>(text: &str, most: T) -> Result<T, String>
where
    T: Copy + FromStr + PartialOrd + From<u8> + Display,
{
    let number = text.parse().ok();
    number
        .filter(|number| (&T::from(1)..=&most).contains(&number))
        .ok_or_else(|| format!("expected a whole number from 1 to {most}"))
}

fn span(text: &str) -> Result<Duration, String> {
    let span = seconds(text).filter(|span| !span.is_zero());
    span.ok_or_else(|| format!("expected a number of seconds above 0 and at most {SECONDS_MAX}"))
}

fn warmup(text: &str) -> Result<Duration, String> {
    seconds(text).ok_or_else(|| format!("expected a number of seconds from 0 to {SECONDS_MAX}"))
}

fn seconds(text: &str) -> Option<Duration> {
    let value = text
        .parse()
        .ok()
        .filter(|&value: &f64| value <= SECONDS_MAX)?;
    Duration::try_from_secs_f64(value).ok()
}

impl Effort {
    /// Applies the arguments to the scenario.
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

/// The events and the time that it took to play `runs`.
pub(super) fn summary<'r>(runs: impl Iterator<Item = &'r Measured>, elapsed: Duration) -> String {
    let (mut count, mut events, mut cpu) = (0_usize, 0_u64, Duration::ZERO);
    for run in runs {
        count += 1;
        events += run.events;
        cpu += run.cpu;
    }
    let rate = events as f64 / cpu.as_secs_f64().max(f64::MIN_POSITIVE);
    format!(
        "{}, {:.1} s; {:.1} million events, {:.2} million a second of CPU time",
        counted(count, "run"),
        elapsed.as_secs_f64(),
        events as f64 / 1e6,
        rate / 1e6
    )
}
