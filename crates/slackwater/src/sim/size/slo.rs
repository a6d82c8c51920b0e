//! Service level objectives: `p99.9=300ms`, `mean=20ms`, `errors=0.1%`.

use core::fmt;
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_config::toml_reader::values::{duration, show_duration};
use slackwater_sim::Measured;
use toml::de::DeValue;

const EXPECTED: &str = "p50, p90, p99, p99.9, p99.99 or mean with a time, or errors with a percentage, \
                        such as p99.9=300ms or errors=0.1%";

/// More than the rounding errors of a few operations on floats, relative to their result.
const ROUNDING: f64 = 1e-12;

/// A service level objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Slo {
    /// A percentage of all queries must be answered successfully within a time. A failed query
    /// counts as never answered.
    Quantile { percent: f64, bound: Duration },
    /// The mean latency of the queries that did not fail early.
    Mean { bound: Duration },
    /// The percentage of queries that may fail.
    Errors { percent: f64 },
}

/// What a run achieved.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) enum Reached {
    Latency(Duration),
    /// The quantile is one of the failed queries.
    Never,
    ErrorShare(f64),
}

/// Parses all values of `--slo`; each kind may be given once.
pub(super) fn all(texts: &[String]) -> Result<Vec<Slo>, Fault> {
    let mut slos = Vec::<Slo>::new();
    for text in texts {
        let slo = Slo::parse(text).map_err(|why| Fault::usage(format!("--slo {text:?}: {why}")))?;
        if slos.iter().any(|other| other.name() == slo.name()) {
            return Err(Fault::usage(format!(
                "--slo {text:?}: {} has a bound already",
                slo.name()
            )));
        }
        slos.push(slo);
    }
    Ok(slos)
}

impl Slo {
    /// Parses a value of `--slo`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Self::parsed(text).ok_or_else(|| format!("expected {EXPECTED}"))
    }

    fn parsed(text: &str) -> Option<Self> {
        let (what, bound) = text.split_once('=')?;
        if what == "errors" {
            let percent: f64 = bound.strip_suffix('%')?.trim().parse().ok()?;
            return ((0.0..100.0).contains(&percent) && percent.is_sign_positive())
                .then_some(Self::Errors { percent });
        }
        let bound = duration(&DeValue::String(bound.into())).ok()?;
        if bound.is_zero() {
            return None;
        }
        if what == "mean" {
            return Some(Self::Mean { bound });
        }
        let digits = what.strip_prefix('p')?;
        let is_plain = digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        let percent: f64 = digits.parse().ok().filter(|_| is_plain)?;
        (percent > 0.0 && percent < 100.0).then_some(Self::Quantile { percent, bound })
    }

    /// Returns what the run achieved.
    pub(super) fn reached(self, run: &Measured) -> Reached {
        match self {
            Self::Errors { .. } => Reached::ErrorShare(run.error_share()),
            _ if run.latency.count() == 0 => Reached::Never,
            Self::Mean { .. } => Reached::Latency(run.latency.mean()),
            Self::Quantile { percent, .. } => {
                // The quantile is over all queries. Failed ones count as the slowest, whether they
                // failed early or at their deadline; the latter are among the latencies.
                let needed = needed(percent, run.queries);
                let answered = run.latency.count().saturating_sub(run.timeouts);
                if needed > answered as f64 {
                    Reached::Never
                } else {
                    // Half a query less, so that rounding does not lead to the next one.
                    let share = (needed - 0.5) / run.latency.count() as f64;
                    Reached::Latency(run.latency.quantile(share))
                }
            }
        }
    }

    /// Returns whether the run met the objective. It is as exact as the latencies: within 0.1 %.
    pub(super) fn holds(self, run: &Measured) -> bool {
        match (self, self.reached(run)) {
            (Self::Quantile { bound, .. } | Self::Mean { bound }, Reached::Latency(latency)) => {
                latency <= bound + bound / 1_000
            }
            (Self::Errors { percent }, Reached::ErrorShare(reached)) => {
                reached <= percent / 100.0 * (1.0 + ROUNDING)
            }
            _ => false,
        }
    }

    /// Returns whether fewer than ten of `queries` queries determine this quantile, so that the
    /// result is luck.
    pub(super) fn is_luck(self, queries: u64) -> bool {
        match self {
            Self::Quantile { percent, .. } => queries as f64 * (1.0 - percent / 100.0) < 10.0,
            _ => false,
        }
    }

    /// The name of the measured figure, without the bound.
    pub(super) fn name(self) -> String {
        match self {
            Self::Quantile { percent, .. } => format!("p{percent}"),
            Self::Mean { .. } => "mean".to_owned(),
            Self::Errors { .. } => "errors".to_owned(),
        }
    }
}

/// Number of queries that must be answered in time. Rounding errors of floats are removed: 99.9 %
/// of 1,000 queries are 999, although the product of floats is 999.0000000000001.
fn needed(percent: f64, queries: u64) -> f64 {
    (percent / 100.0 * queries as f64 * (1.0 - ROUNDING)).ceil()
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantile { bound, .. } | Self::Mean { bound } => {
                write!(f, "{} ≤ {}", self.name(), show_duration(*bound))
            }
            Self::Errors { percent } => write!(f, "errors ≤ {percent} %"),
        }
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(latency) => {
                let ms = latency.as_secs_f64() * 1e3;
                // Four significant digits, or whole milliseconds.
                let decimals = match ms {
                    _ if ms < 10.0 => 3,
                    _ if ms < 100.0 => 2,
                    _ if ms < 1_000.0 => 1,
                    _ => 0,
                };
                write!(f, "{ms:.decimals$} ms")
            }
            Self::Never => f.write_str("failed"),
            Self::ErrorShare(share) => write!(f, "{:.3} %", share * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn objectives_are_a_quantile_the_mean_or_errors() {
        for (text, expected) in [
            (
                "p50=5ms",
                Slo::Quantile {
                    percent: 50.0,
                    bound: 5 * MS,
                },
            ),
            (
                "p99.9=300ms",
                Slo::Quantile {
                    percent: 99.9,
                    bound: 300 * MS,
                },
            ),
            (
                "p99.99=1m",
                Slo::Quantile {
                    percent: 99.99,
                    bound: 60_000 * MS,
                },
            ),
            ("mean=1.5s", Slo::Mean { bound: 1_500 * MS }),
            ("errors=0.5%", Slo::Errors { percent: 0.5 }),
            ("errors=0%", Slo::Errors { percent: 0.0 }),
        ] {
            assert_eq!(Slo::parse(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "p99",
            "p99=",
            "p99=300",
            "p99=0",
            "p99=-1s",
            "99=1s",
            "p0=1s",
            "p100=1s",
            "pnan=1s",
            "p1e1=1s",
            "errors=1",
            "errors=100%",
            "errors=-1%",
            "errors=-0%",
            "errors=x%",
            "median=1s",
        ] {
            assert!(Slo::parse(text).is_err(), "{text}");
        }
    }

    fn run(latencies_ms: &[u32], failed: u64) -> Measured {
        let mut run = Measured::nothing(1);
        for &latency in latencies_ms {
            run.latency.record(latency * MS);
        }
        run.queries = latencies_ms.len() as u64 + failed;
        run.errors = failed;
        run
    }

    #[test]
    fn failed_query_counts_as_never_answered() {
        let latencies: Vec<u32> = (1..=90).collect();
        let (good, poor) = (run(&latencies, 0), run(&latencies, 10));
        let slo = |percent| Slo::Quantile {
            percent,
            bound: 86 * MS,
        };
        assert!(slo(95.0).holds(&good), "86 of 90 within 86 ms");
        assert!(!slo(95.0).holds(&poor));
        assert_eq!(slo(95.0).reached(&poor), Reached::Never);
        assert!(slo(86.0).holds(&poor) && !slo(87.0).holds(&poor));
        assert!(Slo::Errors { percent: 10.0 }.holds(&poor));
        assert!(!Slo::Errors { percent: 9.9 }.holds(&poor));
        assert!(
            !Slo::Mean { bound: 1000 * MS }.holds(&run(&[], 0)),
            "nothing was shown"
        );
    }

    #[test]
    fn timed_out_query_counts_as_never_answered() {
        let mut poor = run(&[1, 2, 3, 5_000, 5_000], 0);
        (poor.errors, poor.timeouts) = (2, 2);
        let slo = |percent| Slo::Quantile {
            percent,
            bound: 6_000 * MS,
        };
        assert!(slo(60.0).holds(&poor));
        assert_eq!(
            slo(61.0).reached(&poor),
            Reached::Never,
            "however long the bound"
        );
    }

    #[test]
    fn quantile_that_is_a_whole_number_of_queries_is_exact() {
        let slo = |percent| Slo::Quantile {
            percent,
            bound: 10 * MS,
        };
        let one_failed = run(&[10; 999], 1);
        assert!(slo(99.9).holds(&one_failed));
        assert_eq!(slo(99.91).reached(&one_failed), Reached::Never);
        let mut latencies = [10; 1_000];
        latencies[999] = 500;
        assert!(slo(99.9).holds(&run(&latencies, 0)));
        assert!(!slo(99.91).holds(&run(&latencies, 0)));
        for queries in 1..20_000_u64 {
            for (percent, times) in [(50.0, 500), (90.0, 900), (99.0, 990), (99.9, 999)] {
                let exact = (queries * times).div_ceil(1_000);
                let off = needed(percent, queries) - exact as f64;
                assert!(off.abs() < 0.5, "{percent} {queries}: off by {off}");
            }
        }
    }

    #[test]
    fn errors_that_are_a_whole_number_of_queries_are_exact() {
        for failed in 0..1_000_u64 {
            let text = format!("errors={}.{}%", failed / 10, failed % 10);
            let slo = Slo::parse(&text).expect("valid");
            let mut run = run(&[], failed);
            run.queries = 1_000;
            assert!(slo.holds(&run), "{text}");
            run.errors += 1;
            assert!(!slo.holds(&run), "{text}");
        }
        let shown = Slo::parse("errors=0.9%").map(|slo| slo.to_string());
        assert_eq!(shown.as_deref(), Ok("errors ≤ 0.9 %"));
    }

    #[test]
    fn duplicate_objectives_are_rejected() {
        let texts = |texts: &[&str]| {
            all(&texts
                .iter()
                .map(|&text| text.to_owned())
                .collect::<Vec<_>>())
        };
        assert_eq!(
            texts(&["p99=1s", "p99.9=2s", "errors=1%"])
                .map(|slos| slos.len())
                .ok(),
            Some(3)
        );
        let told = texts(&["p99=1s", "p99.0=2s"])
            .expect_err("twice")
            .to_string();
        assert_eq!(told, "--slo \"p99.0=2s\": p99 has a bound already");
    }

    #[test]
    fn quantile_of_too_few_queries_is_marked_as_chance() {
        let slo = Slo::parse("p99.9=1s").expect("valid");
        assert!(slo.is_luck(9_999) && !slo.is_luck(10_001));
    }
}
