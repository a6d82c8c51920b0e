//! The arguments of `cargo xtask room`.

use super::cases::{self, Case};
use super::cgroup::PERIOD_MS;
use crate::arguments::number;
use core::time::Duration;
use slackwater_core::policy::POLICIES;
use std::path::PathBuf;

/// The policies that are compared.
const COMPARED: [&str; 6] = [
    "round_robin",
    "least_loaded",
    "peak_ewma",
    "rif_then_latency",
    "shortest_expected_delay",
    "prequal",
];

/// The policies of the short form.
const COMPARED_SHORT: [&str; 3] = ["round_robin", "prequal", "shortest_expected_delay"];

/// Cases of the short form, which together cover all features.
const SHORT_CASES: [&str; 2] = ["slow", "mixed"];

/// The options.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) cases: Vec<Case>,
    pub(super) policies: Vec<String>,
    /// Seconds instead of minutes, to prove only that it runs.
    pub(super) short: bool,
    /// Keep the temporary folder with configurations and logs.
    pub(super) keep: bool,
    /// Rounds: every policy has a turn in each case and round; 1 to 1,000, default 10; 1 in the
    /// short form.
    pub(super) rounds: u64,
    /// Length of a measurement in seconds: 1 to 600, default 15; 2 in the short form.
    pub(super) seconds: u64,
    /// Seed of everything random; each round uses the next one. Default 1.
    pub(super) seed: u64,
    /// Load in percent of the fleet's capacity: 1 to 200, default 75.
    pub(super) load_percent: u64,
    /// CPU time of a request before clipping, in microseconds: 100 to 100,000, default 2,000.
    pub(super) cost_us: u64,
    /// Concurrent requests of a replica: 1 to 512, default 16; 1 is an event loop.
    pub(super) threads: u64,
    /// Workers of `serve`, each of which uses only its own requests and probes: 1 to 64, default 4.
    pub(super) workers: u64,
    /// Period of quotas in milliseconds: 10, of which a tenth is the least that the kernel accepts,
    /// to 1,000; default 100.
    pub(super) period_ms: u64,
    /// The command to measure; built by default.
    pub(super) slackwater: Option<PathBuf>,
    /// A folder for the page and every run's numbers.
    pub(super) out: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let short = arguments.contains(&"--short");
        let mut options = Self {
            cases: Vec::new(),
            policies: Vec::new(),
            short,
            keep: false,
            rounds: if short { 1 } else { 10 },
            seconds: if short { 2 } else { 15 },
            seed: 1,
            load_percent: 75,
            cost_us: 2_000,
            threads: 16,
            workers: 4,
            period_ms: PERIOD_MS,
            slackwater: None,
            out: None,
        };
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            let mut number = |range| number(argument, rest.next(), range);
            match argument {
                "--short" => (),
                "--keep" => options.keep = true,
                "--rounds" => options.rounds = number(1..=1_000)?,
                "--seconds" => options.seconds = number(1..=600)?,
                "--seed" => options.seed = number(0..=u64::MAX)?,
                "--load" => options.load_percent = number(1..=200)?,
                "--cost-us" => options.cost_us = number(100..=100_000)?,
                "--threads" => options.threads = number(1..=512)?,
                "--workers" => options.workers = number(1..=64)?,
                "--period-ms" => options.period_ms = number(10..=1_000)?,
                "--case" => options.cases.push(case(word(argument, rest.next())?)?),
                "--policies" => {
                    for name in word(argument, rest.next())?.split(',') {
                        options.policies.push(policy(name)?);
                    }
                }
                "--slackwater" => options.slackwater = Some(word(argument, rest.next())?.into()),
                "--out" => options.out = Some(word(argument, rest.next())?.into()),
                _ => {
                    return Err(format!(
                        "{argument:?} is not an option of room; expected --short, --keep, --case NAME, --policies NAME,..., --rounds N, \
                         --seconds N, --seed N, --load PERCENT, --cost-us N, --threads N, --workers N, --period-ms N, --slackwater FILE or --out FOLDER"
                    ));
                }
            }
        }
        if options.cases.is_empty() {
            options.cases = cases::all();
            let is_played = |case: &Case| !short || SHORT_CASES.contains(&case.name);
            options.cases.retain(is_played);
        }
        if options.policies.is_empty() {
            let compared = if short {
                &COMPARED_SHORT[..]
            } else {
                &COMPARED
            };
            let shipped = compared.iter().filter(|name| is_shipped(name));
            options.policies = shipped.map(ToString::to_string).collect();
        }
        Ok(options)
    }

    /// The build profile; in the short form that of the tests, so that nothing has to be built
    /// again.
    pub(super) const fn profile(&self) -> &'static str {
        if self.short { "dev" } else { "quick" }
    }

    /// Load before the measurement, until pools, averages and quotas have reached their steady
    /// state.
    pub(super) const fn warmup(&self) -> Duration {
        Duration::from_secs(if self.short { 1 } else { 3 })
    }

    /// Length of the measurement of the machines' capacity before the first turn: many periods, so
    /// that a partial one is a small error.
    pub(super) const fn calibration(&self) -> Duration {
        Duration::from_secs(if self.short { 1 } else { 3 })
    }

    /// Length of a measurement.
    pub(super) const fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Mean CPU time of a request in seconds: clipping at zero raises it by a twelfth.
    pub(super) fn cost_seconds(&self) -> f64 {
        const CLIP_FACTOR: f64 = 1.083_315;
        self.cost_us as f64 / 1e6 * CLIP_FACTOR
    }

    /// Requests per second of a case.
    pub(super) fn rate(&self, case: &Case) -> f64 {
        case.capacity(self.cost_seconds()) * self.load_percent as f64 / 100.0
    }
}

fn word<'a>(option: &str, value: Option<&'a str>) -> Result<&'a str, String> {
    value.ok_or_else(|| format!("{option}: expected a value"))
}

fn is_shipped(name: &str) -> bool {
    POLICIES.iter().any(|policy| policy.name == name)
}

fn policy(name: &str) -> Result<String, String> {
    if is_shipped(name) {
        return Ok(name.to_owned());
    }
    let known: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
    Err(format!(
        "{name:?} is no policy; expected one of {}",
        known.join(", ")
    ))
}

fn case(name: &str) -> Result<Case, String> {
    let mut cases = cases::all();
    let names: Vec<_> = cases.iter().map(|case| case.name).collect();
    let index = names.iter().position(|known| *known == name);
    let index = index.ok_or_else(|| {
        format!(
            "{name:?} is no case of room; expected one of {}",
            names.join(", ")
        )
    })?;
    Ok(cases.swap_remove(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_defaults_and_ranges() {
        let options = Options::parse(&[]).unwrap();
        assert_eq!((options.rounds, options.seconds), (10, 15));
        assert_eq!(options.cases.len(), 5);
        assert!(options.policies.iter().any(|name| name == "prequal"));
        assert!(options.policies.iter().all(|name| is_shipped(name)));
        let arguments = ["--short", "--case", "slow", "--case", "quota"];
        let options = Options::parse(&arguments).unwrap();
        assert_eq!((options.rounds, options.seconds), (1, 2));
        let names = |options: &Options| -> Vec<_> {
            let cases = options.cases.iter();
            cases.map(|case| case.name).collect()
        };
        assert_eq!(names(&options), ["slow", "quota"]);
        let options = Options::parse(&["--short"]).unwrap();
        assert_eq!(names(&options), SHORT_CASES);
        let options = Options::parse(&["--policies", "random,prequal"]).unwrap();
        assert_eq!(options.policies, ["random", "prequal"]);
        for (arguments, expected) in [
            (&["--rounds", "0"][..], "found 0, expected a number from 1"),
            (&["--out"], "--out: expected a value"),
            (&["--round"], "\"--round\" is not an option of room"),
            (
                &["--case", "odd"],
                "\"odd\" is no case of room; expected one of even, ",
            ),
            (
                &["--policies", "prequel"],
                "\"prequel\" is no policy; expected one of prequal, ",
            ),
        ] {
            let message = Options::parse(arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn request_rate_is_the_configured_share_of_capacity() {
        let arguments = ["--case", "even", "--load", "50", "--cost-us", "2000"];
        let options = Options::parse(&arguments).unwrap();
        // 1.2 cores, 2.167 ms for each request, half of it.
        let rate = options.rate(&options.cases[0]);
        assert!((rate - 276.9).abs() < 0.1, "{rate}");
    }
}
