//! The arguments of `cargo xtask caches`.

use super::cases::{self, Case};
use super::contenders::{self, Contender};
use crate::arguments::one_of;
use clap::builder::RangedU64ValueParser;
use clap::value_parser;
use std::path::PathBuf;

/// Contenders of the short form.
const SHORT: [&str; 2] = ["slackwater", "slackwater-sync"];

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A case, also several times; by default all, or two in the short form
    #[arg(long = "case", value_name = "NAME", value_parser = one_of(cases::all(), |case| case.name))]
    #[arg(default_values = cases::all().iter().map(|case| case.name), hide_default_value = true)]
    #[arg(default_values_if("short", "true", cases::SHORT))]
    pub(super) cases: Vec<Case>,
    /// Balancers; by default all, or Slackwater's in the short form
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    #[arg(value_parser = one_of(contenders::ALL.to_vec(), |contender| contender.name))]
    #[arg(default_values = contenders::ALL.map(|contender| contender.name), hide_default_value = true)]
    #[arg(default_values_if("short", "true", SHORT))]
    pub(super) contenders: Vec<Contender>,
    /// Seconds instead of minutes, to prove only that it runs: only Slackwater, half a minute
    #[arg(long)]
    pub(super) short: bool,
    /// Keeps the temporary folder with configurations and logs
    #[arg(long)]
    pub(super) keep: bool,
    /// Rounds: 1 to 1,000; 1 in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000))]
    #[arg(default_value_t = 3, default_value_if("short", "true", "1"))]
    pub(super) rounds: u64,
    /// Contenders that have their turns at the same time: 1 to 8
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=8))]
    #[arg(default_value_t = 2)]
    pub(super) lanes: usize,
    /// Length of a measurement in seconds: 1 to 600; 3 in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=600))]
    #[arg(default_value_t = 15, default_value_if("short", "true", "3"))]
    pub(super) seconds: u64,
    /// Load before the measurement in seconds: 0 to 600; 1 in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(0..=600))]
    #[arg(default_value_t = 8, default_value_if("short", "true", "1"))]
    pub(super) settle: u64,
    /// Requests per second to each contender: 1 to 100,000; 100 in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=100_000))]
    #[arg(default_value_t = 768, default_value_if("short", "true", "100"))]
    pub(super) rate: u64,
    /// Replicas of each contender: 2 to 64; 4 in the short form
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(2..=64))]
    #[arg(default_value_t = 16, default_value_if("short", "true", "4"))]
    pub(super) replicas: usize,
    /// Requests that a replica serves at once: 1 to 512
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=512))]
    #[arg(default_value_t = 4)]
    pub(super) workers: u64,
    /// Time of a request whose key is in the cache, in milliseconds: 1 to 10,000; 10 in the short
    /// form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000))]
    #[arg(default_value_t = 50, default_value_if("short", "true", "10"))]
    pub(super) hit_ms: u64,
    /// Additional time of another request, in milliseconds: 0 to 10,000; 20 in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(0..=10_000))]
    #[arg(default_value_t = 100, default_value_if("short", "true", "20"))]
    pub(super) miss_ms: u64,
    /// Distinct keys: 1 to 10,000,000; 500 in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000_000))]
    #[arg(default_value_t = 20_000, default_value_if("short", "true", "500"))]
    pub(super) keys: u64,
    /// Keys in the cache of a replica: 1 to 10,000,000; 200 in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000_000))]
    #[arg(default_value_t = 2_000, default_value_if("short", "true", "200"))]
    pub(super) cache: u64,
    /// Exponent of Zipf's law: 0 to 5
    #[arg(long, value_name = "S", default_value_t = 0.9, value_parser = exponent)]
    pub(super) zipf: f64,
    /// Seed of keys and times; each round uses the next one
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// A line more of Slackwater's table `[key]`, also several times
    #[arg(long, value_name = "LINE")]
    pub(super) key: Vec<String>,
    /// The command to measure; built by default
    #[arg(long, value_name = "FILE")]
    pub(super) slackwater: Option<PathBuf>,
    /// The program of replicas and load; built by default
    #[arg(long, value_name = "FILE")]
    pub(super) keyed: Option<PathBuf>,
    /// A file for the page, as Markdown; beside it, a file with every number, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

impl Options {
    /// The build profile; in the short form that of the tests, so that nothing has to be built
    /// again.
    pub(super) const fn profile(&self) -> &'static str {
        if self.short { "dev" } else { "quick" }
    }
}

fn exponent(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok();
    let number = number.filter(|number| (0.0..=5.0).contains(number));
    number.ok_or("expected a number from 0 to 5")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    #[test]
    fn options_have_defaults_and_ranges() {
        let options: Options = parse(&[]).unwrap();
        assert_eq!((options.rounds, options.lanes, options.rate), (3, 2, 768));
        assert_eq!(options.cases, cases::all());
        assert_eq!(options.contenders, contenders::ALL);
        let names = |options: &Options| -> Vec<_> {
            options.contenders.iter().map(|one| one.name).collect()
        };
        let options: Options = parse(&["--short"]).unwrap();
        assert_eq!((options.rounds, options.rate), (1, 100));
        assert_eq!(names(&options), SHORT);
        assert_eq!(options.cases.len(), cases::SHORT.len());
        let arguments = ["--short", "--contenders", "nginx,haproxy", "--zipf", "1.1"];
        let options: Options = parse(&arguments).unwrap();
        assert_eq!(names(&options), ["nginx", "haproxy"]);
        assert!((options.zipf - 1.1).abs() < 1e-9);
        for (arguments, expected) in [
            (["--zipf", "6"], "expected a number from 0 to 5"),
            (["--case", "odd"], "[possible values: plain, hot, "),
        ] {
            let message = parse::<Options>(&arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
