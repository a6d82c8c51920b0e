//! Compares policies in words: better, worse, or no difference shown.
//!
//! A quantity differs if its interval, seed by seed, excludes no difference. Latencies are compared
//! as ratios, errors as differences. A difference that is not shown may still exist, and one of
//! twenty comparisons of equal policies shows a difference.

use super::quantity::{ERROR_PERCENT, LATENCIES, Quantity};
use crate::figure::Played;
use crate::interval::Estimate;
use crate::number;

/// The comparison of one quantity of a policy with the first policy.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    /// `p99`, `errors`.
    name: &'static str,
    /// `0.65 times`, `+0.3 % points`.
    by: String,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Better,
    Worse,
    NoneShown,
}

/// Returns a sentence for each policy but the first. With a single seed the sentence is that no
/// difference can be shown.
pub(super) fn sentences(played: &[Played]) -> Vec<String> {
    let Some((base, others)) = played.split_first() else {
        return Vec::new();
    };
    let sentence = |other: &Played| sentence(other, base);
    others.iter().map(sentence).collect()
}

fn sentence(other: &Played, base: &Played) -> String {
    let (name, against) = (&other.cell.policy.name, &base.cell.policy.name);
    if base.runs.len().min(other.runs.len()) < 2 {
        return format!(
            "{name} against {against}: one seed shows no difference either way; play several with --seeds."
        );
    }
    let latencies = LATENCIES.iter().filter_map(|quantity| {
        let ratio = Estimate::ratio(&quantity.samples(other), &quantity.samples(base))?;
        let by = format!("{} times", times(ratio.value));
        Some(finding(quantity, &ratio, 1.0, by))
    });
    let errors = Estimate::difference(&ERROR_PERCENT.samples(other), &ERROR_PERCENT.samples(base));
    let errors = errors.map(|difference| {
        let plus = if difference.value > 0.0 { "+" } else { "" };
        let points = number::shown(difference.value, ERROR_PERCENT.decimals);
        finding(
            &ERROR_PERCENT,
            &difference,
            0.0,
            format!("{plus}{points} % points"),
        )
    });
    let findings: Vec<_> = latencies.chain(errors).collect();
    let parts = [
        part("better", Outcome::Better, &findings),
        part("worse", Outcome::Worse, &findings),
        part("no difference shown", Outcome::NoneShown, &findings),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return format!("{name} against {against}: nothing was measured that could be compared.");
    }
    format!("{name} against {against}: {}.", parts.join("; "))
}

/// Formats a ratio with two decimals, or with more where two would make it 1 or 0.
fn times(ratio: f64) -> String {
    let says_nothing = |decimals: &usize| {
        let unit = 0.5_f64 / 10_f64.powi(i32::try_from(*decimals).unwrap_or(i32::MAX));
        (ratio - 1.0).abs() <= unit || ratio <= unit
    };
    let decimals = (2..9).find(|decimals| !says_nothing(decimals));
    number::shown(ratio, decimals.unwrap_or(2))
}

fn finding(quantity: &Quantity, estimate: &Estimate, equal: f64, by: String) -> Finding {
    let outcome = match estimate.excludes(equal) {
        false => Outcome::NoneShown,
        true if estimate.value < equal => Outcome::Better,
        true => Outcome::Worse,
    };
    Finding {
        name: quantity.name.split(' ').next().unwrap_or(quantity.name),
        by,
        outcome,
    }
}

/// Returns `better in p50 (0.65 times), p99 (0.70 times)`; `None` if nothing is.
fn part(what: &str, outcome: Outcome, findings: &[Finding]) -> Option<String> {
    let of = findings.iter().filter(|finding| finding.outcome == outcome);
    let names: Vec<_> = of
        .map(|finding| match outcome {
            Outcome::NoneShown => finding.name.to_owned(),
            Outcome::Better | Outcome::Worse => format!("{} ({})", finding.name, finding.by),
        })
        .collect();
    if names.len() == findings.len() && outcome == Outcome::NoneShown {
        return (!names.is_empty()).then(|| format!("{what} in anything"));
    }
    (!names.is_empty()).then(|| format!("{what} in {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measured;
    use crate::report::example::{played, run};

    fn with_errors(latencies_ms: [u64; 3], errors: [u64; 3]) -> Vec<Measured> {
        let runs = latencies_ms.into_iter().zip(errors);
        let runs = runs.map(|(latency_ms, errors)| Measured {
            errors,
            ..run(1, latency_ms)
        });
        runs.collect()
    }

    fn told(other: Vec<Measured>) -> String {
        let base = played("", 1.0, "prequal", with_errors([100, 200, 400], [2, 2, 2]));
        let other = played("", 1.0, "random", other);
        sentences(&[base, other]).join("\n")
    }

    #[test]
    fn half_the_latency_is_better_and_more_errors_are_worse() {
        assert_eq!(
            told(with_errors([50, 100, 200], [5, 5, 5])),
            "random against prequal: better in p50 (0.50 times), p90 (0.50 times), p99 (0.50 times), p99.9 (0.50 times); \
             worse in errors (+0.300 % points)."
        );
        assert_eq!(
            told(with_errors([200, 400, 800], [1, 1, 1])),
            "random against prequal: better in errors (−0.100 % points); \
             worse in p50 (2.00 times), p90 (2.00 times), p99 (2.00 times), p99.9 (2.00 times)."
        );
    }

    #[test]
    fn ratio_near_1_has_enough_digits() {
        for (ratio, expected) in [
            (0.65, "0.65"),
            (0.994, "0.99"),
            (0.996, "0.996"),
            (1.004, "1.004"),
            (1.000_4, "1.0004"),
            (0.999_96, "0.99996"),
            (0.002, "0.002"),
            (1.0, "1.00"),
            (0.0, "0.00"),
            (12.345, "12.35"),
        ] {
            assert_eq!(times(ratio), expected);
        }
        assert_eq!(times(f64::INFINITY), number::NONE);
        let slightly = vec![run(1, 1_004), run(1, 1_004)];
        let cells = [
            played("", 1.0, "a", vec![run(1, 1_000), run(1, 1_000)]),
            played("", 1.0, "b", slightly),
        ];
        let told = sentences(&cells).join("");
        assert!(
            told.contains("(1.004 times)") && !told.contains("(1.00 times)"),
            "{told}"
        );
    }

    #[test]
    fn differences_that_vary_by_seed_are_not_shown() {
        assert_eq!(
            told(with_errors([200, 100, 400], [2, 2, 2])),
            "random against prequal: no difference shown in anything."
        );
        assert!(told(with_errors([200, 100, 400], [9, 9, 9])).ends_with(
            "worse in errors (+0.700 % points); no difference shown in p50, p90, p99, p99.9."
        ));
    }

    #[test]
    fn one_seed_shows_no_difference_and_empty_runs_are_not_compared() {
        assert!(told(with_errors([1, 1, 1], [0, 0, 0])[..1].to_vec()).contains("one seed shows"));
        let empty = || vec![Measured::nothing(1), Measured::nothing(1)];
        let cells = [played("", 1.0, "a", empty()), played("", 1.0, "b", empty())];
        assert_eq!(
            sentences(&cells),
            ["b against a: nothing was measured that could be compared."]
        );
        assert!(sentences(&cells[..1]).is_empty() && sentences(&[]).is_empty());
    }
}
