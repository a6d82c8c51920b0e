//! The arguments of `cargo xtask caches`.

use super::cases::{self, Case};
use super::contenders::{self, Contender};
use crate::arguments::number;
use std::path::PathBuf;

/// Contenders of the short form.
const SHORT: [&str; 2] = ["slackwater", "slackwater-sync"];

/// The options.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) cases: Vec<Case>,
    pub(super) contenders: Vec<Contender>,
    /// Seconds instead of minutes, to prove only that it runs.
    pub(super) short: bool,
    /// Keep the temporary folder with configurations and logs.
    pub(super) keep: bool,
    /// Rounds: 1 to 1,000, default 3; 1 in the short form.
    pub(super) rounds: u64,
    /// Contenders that have their turns at the same time: 1 to 8, default 2.
    pub(super) lanes: usize,
    /// Length of a measurement in seconds: 1 to 600, default 15; 3 in the short form.
    pub(super) seconds: u64,
    /// Load before the measurement in seconds: 0 to 600, default 8; 1 in the short form.
    pub(super) settle: u64,
    /// Requests per second to each contender: 1 to 100,000, default 768; 100 in the short form.
    pub(super) rate: u64,
    /// Replicas of each contender: 2 to 64, default 16; 4 in the short form.
    pub(super) replicas: usize,
    /// Requests that a replica serves at once: 1 to 512, default 4.
    pub(super) workers: u64,
    /// Time of a request whose key is in the cache, in milliseconds: 1 to 10,000, default 50; 10 in
    /// the short form.
    pub(super) hit_ms: u64,
    /// Additional time of another request, in milliseconds: 0 to 10,000, default 100; 20 in the
    /// short form.
    pub(super) miss_ms: u64,
    /// Distinct keys: 1 to 10,000,000, default 20,000; 500 in the short form.
    pub(super) keys: u64,
    /// Keys in the cache of a replica: 1 to 10,000,000, default 2,000; 200 in the short form.
    pub(super) cache: u64,
    /// Exponent of Zipf's law: 0 to 5, default 0.9.
    pub(super) zipf: f64,
    /// Seed of keys and times; each round uses the next one. Default 1.
    pub(super) seed: u64,
    /// More lines of Slackwater's table `[key]`; none by default.
    pub(super) key: String,
    /// The command to measure; built by default.
    pub(super) slackwater: Option<PathBuf>,
    /// The program of replicas and load; built by default.
    pub(super) keyed: Option<PathBuf>,
    /// A file for the page, as Markdown; beside it, a file with every number, as JSON.
    pub(super) report: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let short = arguments.contains(&"--short");
        let mut options = Self::defaults(short);
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next();
            match argument {
                "--short" => (),
                "--keep" => options.keep = true,
                "--rounds" => options.rounds = number(argument, value(), 1..=1_000)?,
                "--lanes" => options.lanes = count(number(argument, value(), 1..=8)?),
                "--seconds" => options.seconds = number(argument, value(), 1..=600)?,
                "--settle" => options.settle = number(argument, value(), 0..=600)?,
                "--rate" => options.rate = number(argument, value(), 1..=100_000)?,
                "--replicas" => options.replicas = count(number(argument, value(), 2..=64)?),
                "--workers" => options.workers = number(argument, value(), 1..=512)?,
                "--hit-ms" => options.hit_ms = number(argument, value(), 1..=10_000)?,
                "--miss-ms" => options.miss_ms = number(argument, value(), 0..=10_000)?,
                "--keys" => options.keys = number(argument, value(), 1..=10_000_000)?,
                "--cache" => options.cache = number(argument, value(), 1..=10_000_000)?,
                "--zipf" => options.zipf = exponent(argument, value())?,
                "--seed" => options.seed = number(argument, value(), 0..=u64::MAX)?,
                "--key" => {
                    options.key += word(argument, value())?;
                    options.key += "\n";
                }
                "--case" => {
                    let case = named(argument, value(), cases::all(), |case| case.name)?;
                    options.cases.push(case);
                }
                "--contenders" => {
                    for name in word(argument, value())?.split(',') {
                        let all = contenders::ALL.to_vec();
                        let contender = named(argument, Some(name), all, |one| one.name)?;
                        options.contenders.push(contender);
                    }
                }
                "--slackwater" => options.slackwater = Some(word(argument, value())?.into()),
                "--keyed" => options.keyed = Some(word(argument, value())?.into()),
                "--report" => options.report = Some(word(argument, value())?.into()),
                _ => {
                    return Err(format!(
                        "{argument:?} is not an option of caches; expected --short, --keep, --case NAME, --contenders NAME,..., --rounds N, \
                         --lanes N, --seconds N, --settle N, --rate N, --replicas N, --workers N, --hit-ms N, --miss-ms N, --keys N, --cache N, \
                         --zipf S, --seed N, --key LINE, --slackwater FILE, --keyed FILE or --report FILE"
                    ));
                }
            }
        }
        options.complete();
        Ok(options)
    }

    fn defaults(short: bool) -> Self {
        let pick = |whole, in_short| if short { in_short } else { whole };
        Self {
            cases: Vec::new(),
            contenders: Vec::new(),
            short,
            keep: false,
            rounds: pick(3, 1),
            lanes: 2,
            seconds: pick(15, 3),
            settle: pick(8, 1),
            rate: pick(768, 100),
            replicas: if short { 4 } else { 16 },
            workers: 4,
            hit_ms: pick(50, 10),
            miss_ms: pick(100, 20),
            keys: pick(20_000, 500),
            cache: pick(2_000, 200),
            zipf: 0.9,
            seed: 1,
            key: String::new(),
            slackwater: None,
            keyed: None,
            report: None,
        }
    }

    /// Selects the cases and contenders that the arguments leave open.
    fn complete(&mut self) {
        let short = self.short;
        if self.cases.is_empty() {
            let all = cases::all().into_iter();
            let all = all.filter(|case| !short || cases::SHORT.contains(&case.name));
            self.cases = all.collect();
        }
        if self.contenders.is_empty() {
            let all = contenders::ALL.into_iter();
            let all = all.filter(|contender| !short || SHORT.contains(&contender.name));
            self.contenders = all.collect();
        }
    }

    /// The build profile; in the short form that of the tests, so that nothing has to be built
    /// again.
    pub(super) const fn profile(&self) -> &'static str {
        if self.short { "dev" } else { "quick" }
    }
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn word<'a>(option: &str, value: Option<&'a str>) -> Result<&'a str, String> {
    value.ok_or_else(|| format!("{option}: expected a value"))
}

fn exponent(option: &str, value: Option<&str>) -> Result<f64, String> {
    let word = word(option, value)?;
    let number = word
        .parse()
        .ok()
        .filter(|number| (0.0..=5.0).contains(number));
    number.ok_or_else(|| format!("{option}: found {word}, expected a number from 0 to 5"))
}

fn named<T>(
    option: &str,
    value: Option<&str>,
    all: Vec<T>,
    name: fn(&T) -> &'static str,
) -> Result<T, String> {
    let wanted = word(option, value)?;
    let names: Vec<_> = all.iter().map(name).collect();
    let found = all.into_iter().find(|one| name(one) == wanted);
    found.ok_or_else(|| {
        let names = names.join(", ");
        format!("{option}: found {wanted:?}, expected one of {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_defaults_and_ranges() {
        let options = Options::parse(&[]).unwrap();
        assert_eq!((options.rounds, options.lanes, options.rate), (3, 2, 768));
        assert_eq!(options.cases, cases::all());
        assert_eq!(options.contenders, contenders::ALL);
        let arguments = ["--short", "--contenders", "nginx,haproxy", "--zipf", "1.1"];
        let options = Options::parse(&arguments).unwrap();
        let names = |options: &Options| -> Vec<_> {
            options.contenders.iter().map(|one| one.name).collect()
        };
        assert_eq!(names(&options), ["nginx", "haproxy"]);
        assert_eq!(options.cases.len(), cases::SHORT.len());
        assert!((options.zipf - 1.1).abs() < 1e-9);
        assert_eq!(names(&Options::parse(&["--short"]).unwrap()), SHORT);
        for (arguments, expected) in [
            (
                &["--lanes", "0"][..],
                "found 0, expected a number from 1 to 8",
            ),
            (
                &["--zipf", "6"],
                "--zipf: found 6, expected a number from 0 to 5",
            ),
            (&["--report"], "--report: expected a value"),
            (
                &["--case", "odd"],
                "found \"odd\", expected one of plain, hot, ",
            ),
            (
                &["--contenders", "nginx,x"],
                "found \"x\", expected one of envoy-maglev, ",
            ),
            (&["--round"], "\"--round\" is not an option of caches"),
        ] {
            let message = Options::parse(arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
