//! The arguments of `cargo xtask room`.

use super::cases::{self, Case};
use super::cgroup::PERIOD_MS;
use crate::arguments::one_of;
use clap::builder::PossibleValuesParser;
use clap::value_parser;
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
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A case, also several times; by default all, or two in the short form
    #[arg(long = "case", value_name = "NAME", value_parser = one_of(cases::all(), |case| case.name))]
    #[arg(default_values = cases::all().iter().map(|case| case.name), hide_default_value = true)]
    #[arg(default_values_if("short", "true", SHORT_CASES))]
    pub(super) cases: Vec<Case>,
    /// Policies
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(POLICIES.iter().map(|policy| policy.name)))]
    #[arg(default_values = shipped(&COMPARED))]
    #[arg(default_values_if("short", "true", shipped(&COMPARED_SHORT)))]
    pub(super) policies: Vec<String>,
    /// Seconds instead of minutes, to prove only that it runs (a minute)
    #[arg(long)]
    pub(super) short: bool,
    /// Keeps the temporary folder with configurations and logs
    #[arg(long)]
    pub(super) keep: bool,
    /// Rounds: every policy has a turn in each case and round; 1 to 1,000; 1 in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000))]
    #[arg(default_value_t = 10, default_value_if("short", "true", "1"))]
    pub(super) rounds: u64,
    /// Length of a measurement in seconds: 1 to 600; 2 in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=600))]
    #[arg(default_value_t = 15, default_value_if("short", "true", "2"))]
    pub(super) seconds: u64,
    /// Seed of everything random; each round uses the next one
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Load in percent of the fleet's capacity: 1 to 200
    #[arg(long = "load", value_name = "PERCENT", value_parser = value_parser!(u64).range(1..=200))]
    #[arg(default_value_t = 75)]
    pub(super) load_percent: u64,
    /// CPU time of a request before clipping, in microseconds: 100 to 100,000
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(100..=100_000))]
    #[arg(default_value_t = 2_000)]
    pub(super) cost_us: u64,
    /// Concurrent requests of a replica: 1 to 512; 1 is an event loop
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=512))]
    #[arg(default_value_t = 16)]
    pub(super) threads: u64,
    /// Workers of `serve`, each of which uses only its own requests and probes: 1 to 64
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=64))]
    #[arg(default_value_t = 4)]
    pub(super) workers: u64,
    /// Period of quotas in milliseconds: 10, of which a tenth is the least that the kernel accepts,
    /// to 1,000
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(10..=1_000))]
    #[arg(default_value_t = PERIOD_MS)]
    pub(super) period_ms: u64,
    /// The command to measure; built by default
    #[arg(long, value_name = "FILE")]
    pub(super) slackwater: Option<PathBuf>,
    /// A folder for the page and every run's numbers
    #[arg(long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,
}

impl Options {
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

/// The policies of these names that are part of this build.
fn shipped(names: &'static [&str]) -> impl Iterator<Item = &'static str> {
    let is_shipped = |name: &&str| POLICIES.iter().any(|policy| policy.name == *name);
    names.iter().copied().filter(is_shipped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    #[test]
    fn the_short_form_has_other_defaults() {
        let names = |options: &Options| -> Vec<_> {
            let cases = options.cases.iter();
            cases.map(|case| case.name).collect()
        };
        let options: Options = parse(&[]).unwrap();
        assert_eq!((options.rounds, options.seconds), (10, 15));
        assert_eq!(options.cases.len(), 5);
        assert!(options.policies.iter().any(|name| name == "prequal"));
        let options: Options = parse(&["--short"]).unwrap();
        assert_eq!((options.rounds, options.seconds), (1, 2));
        assert_eq!(names(&options), SHORT_CASES);
        let arguments = ["--short", "--case", "slow", "--case", "quota"];
        let options: Options = parse(&arguments).unwrap();
        assert_eq!(names(&options), ["slow", "quota"]);
        let options: Options = parse(&["--policies", "random,prequal"]).unwrap();
        assert_eq!(options.policies, ["random", "prequal"]);
    }

    #[test]
    fn request_rate_is_the_configured_share_of_capacity() {
        let arguments = ["--case", "even", "--load", "50", "--cost-us", "2000"];
        let options: Options = parse(&arguments).unwrap();
        // 1.2 cores, 2.167 ms for each request, half of it.
        let rate = options.rate(&options.cases[0]);
        assert!((rate - 276.9).abs() < 0.1, "{rate}");
    }
}
