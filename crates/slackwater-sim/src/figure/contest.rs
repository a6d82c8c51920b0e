//! Contests: scenarios that many policies play, and how far the default policy is from the best of
//! the others.

use super::cells::{Plays, c3_settings, latency_ms, prequal_of_the_paper};
use super::judge::{Bounds, claim, number};
use super::{Cell, Claim, Played};
use crate::interval::Estimate;
use crate::policy::PolicyKind;
use crate::{Measured, PolicyChoice, Scenario};
use slackwater_core::policy::DEFAULT_POLICY;
use std::sync::Arc;

/// The weight of the share of errors: errors of 1 % count as 20 % more time.
const ERROR_WEIGHT: f64 = 20.0;
/// The policy that is judged.
pub(super) const JUDGED: &str = DEFAULT_POLICY.name;
/// The quantiles that are judged, with their names.
pub(super) const JUDGED_QUANTILES: [(&str, f64); 2] = [("p99", 0.99), ("p99.9", 0.999)];
/// The parameter of Prequal with the paper's settings.
const PAPER: &str = "paper";

/// Returns the policies of these names as they play for this number of clients, which C3 has to
/// know.
pub(super) fn players<'a>(
    names: impl IntoIterator<Item = &'a str>,
    clients: usize,
) -> Vec<PolicyChoice> {
    let choices = names.into_iter().filter_map(|name| match name {
        "c3" => PolicyChoice::with_settings("c3", c3_settings(clients)?),
        name => PolicyChoice::named(name),
    });
    choices.collect()
}

/// Returns the cells of a scenario: one for each policy, and one for Prequal with the paper's
/// settings. `made` returns the scenario of a policy.
pub(super) fn cells(
    step: &str,
    load: f64,
    policies: Vec<PolicyChoice>,
    made: impl Fn(&PolicyChoice) -> Arc<Scenario>,
) -> Vec<Cell> {
    let cell = |policy: PolicyChoice| {
        let scenario = made(&policy);
        Cell::of(step, load, policy, &scenario)
    };
    let paper = prequal_of_the_paper().map(|paper| cell(paper).with_param(PAPER));
    policies.into_iter().map(cell).chain(paper).collect()
}

/// A scenario that was played.
#[derive(Debug)]
pub(super) struct Contest<'a> {
    pub(super) step: &'a str,
    plays: Vec<&'a Played>,
}

/// A policy's result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Score<'a> {
    pub(super) played: &'a Played,
    pub(super) ms: f64,
}

impl<'a> Contest<'a> {
    /// Returns the contests, in the order of the cells. The plays of each follow each other.
    pub(super) fn all(plays: &Plays<'a>) -> Vec<Self> {
        let mut contests: Vec<Self> = Vec::new();
        for played in plays.iter() {
            match contests.last_mut() {
                Some(last) if last.step == played.cell.step => last.plays.push(played),
                _ => contests.push(Self {
                    step: &played.cell.step,
                    plays: vec![played],
                }),
            }
        }
        contests
    }

    /// Returns the default policy's results.
    pub(super) fn judged(&self) -> Option<&'a Measured> {
        let judged = self
            .plays
            .iter()
            .find(|played| played.cell.policy.name == JUDGED);
        judged.map(|played| &played.all)
    }

    /// Returns the results of this policy, without a parameter.
    pub(super) fn of(&self, policy: &str) -> Option<&'a Measured> {
        let found = self
            .plays
            .iter()
            .find(|played| played.cell.policy.name == policy && played.cell.param.is_empty());
        found.map(|played| &played.all)
    }

    /// Returns the best of the other policies. Bounds that no client could reach do not count.
    pub(super) fn best(&self, q: f64) -> Option<Score<'a>> {
        let others = self.plays.iter().filter(|played| {
            let policy = &played.cell.policy;
            policy.name != JUDGED && matches!(policy.kind, PolicyKind::Shipped { .. })
        });
        let scores = others.map(|played| Score {
            played,
            ms: score_ms(&played.all, q),
        });
        scores.min_by(|a, b| a.ms.total_cmp(&b.ms))
    }

    /// Returns the default policy's quantile as a multiple of the best other policy's.
    pub(super) fn ratio(&self, q: f64) -> Option<f64> {
        let best = self.best(q)?.ms;
        let ratio = score_ms(self.judged()?, q) / best;
        (best > 0.0).then_some(ratio)
    }
}

impl Score<'_> {
    /// Returns the policy's name with its parameter.
    pub(super) fn name(&self) -> String {
        self.played.cell.player()
    }
}

/// Returns a quantile of the latency in milliseconds, in which errors count as time.
pub(super) fn score_ms(run: &Measured, q: f64) -> f64 {
    latency_ms(run, q) * (1.0 + ERROR_WEIGHT * run.error_share())
}

/// Returns the contests with their ratios, the worst first.
pub(super) fn by_ratio<'a, 'b>(contests: &'b [Contest<'a>], q: f64) -> Vec<(f64, &'b Contest<'a>)> {
    let ratios = contests.iter();
    let mut ratios: Vec<_> = ratios
        .filter_map(|contest| Some((contest.ratio(q)?, contest)))
        .collect();
    ratios.sort_by(|a, b| b.0.total_cmp(&a.0));
    ratios
}

/// Claim: the default policy is nowhere far from the best other policy, and not in the mean.
pub(super) fn claims(contests: &[Contest<'_>], what: &str, worst: f64, mean: f64) -> Vec<Claim> {
    let both = JUDGED_QUANTILES.into_iter().filter_map(|(name, q)| {
        let ratios = by_ratio(contests, q);
        let (most, at) = ratios.first()?;
        let beyond = ratios.iter().filter(|(ratio, _)| *ratio > worst).count();
        let nowhere_far = claim(
            format!(
                "(ours) {JUDGED}: {name} is at most {} times the best other policy's in each {what}",
                number(worst)
            ),
            format!(
                "{} times at the worst ({}); more than {} times in {beyond} of {}",
                number(*most),
                at.step,
                number(worst),
                ratios.len()
            ),
            beyond == 0,
        );
        let ratios: Vec<f64> = ratios.iter().map(|(ratio, _)| *ratio).collect();
        let geometric = Estimate::ratio(&ratios, &vec![1.0; ratios.len()])?.value;
        let in_the_mean = Bounds::at_most(mean, "").judge(
            format!(
                "(ours) {JUDGED}: {name} as a multiple of the best other policy's, the geometric mean over each {what}"
            ),
            geometric,
        );
        Some([nowhere_far, in_the_mean])
    });
    both.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Verdict, trial};

    fn played(step: &str, policy: PolicyChoice, p99: f64, errors: u64) -> Played {
        let scenario = Arc::new(crate::presets::web(2, 1, 0.5));
        let mut all = trial::run([1.0, 2.0, p99, 2.0 * p99]);
        all.errors = errors;
        all.pack();
        Played {
            cell: Cell::of(step, 0.5, policy, &scenario),
            runs: vec![all.clone()],
            all,
        }
    }

    fn named(name: &str) -> PolicyChoice {
        PolicyChoice::named(name).expect("it is shipped")
    }

    #[test]
    fn default_is_compared_with_the_best_other_policy_and_not_with_bounds() {
        let plays = [
            played("a", named(JUDGED), 30.0, 0),
            played("a", named("prequal"), 20.0, 0),
            played("a", named("least_loaded"), 60.0, 0),
            played("a", named("jsq"), 5.0, 0),
        ];
        let contests = Contest::all(&Plays::new(&plays));
        let [contest] = &contests[..] else {
            panic!("one contest");
        };
        let ratio = contest.ratio(0.99).expect("both have played");
        assert!((ratio - 1.5).abs() < 0.01, "{ratio}");
        let best = contest.best(0.99).map(|best| best.name());
        assert_eq!(best.as_deref(), Some("prequal"));
    }

    #[test]
    fn errors_count_as_time() {
        // The run has 10,000 queries, so this is 1 %.
        let run = played("a", named("prequal"), 20.0, 100).all;
        let plain = latency_ms(&run, 0.99);
        assert!((score_ms(&run, 0.99) / plain - 1.2).abs() < 1e-9);
    }

    #[test]
    fn claims_hold_up_to_their_bounds() {
        use Verdict::{NotReproduced, Reproduced};
        let verdicts = |far: f64| -> Vec<Verdict> {
            let plays = [
                played("a", named(JUDGED), 10.0, 0),
                played("a", named("prequal"), 10.0, 0),
                played("b", named(JUDGED), 10.0 * far, 0),
                played("b", named("prequal"), 10.0, 0),
            ];
            let contests = Contest::all(&Plays::new(&plays));
            let claims = claims(&contests, "world", 2.0, 1.6);
            claims.into_iter().map(|claim| claim.verdict).collect()
        };
        assert_eq!(verdicts(1.9), [Reproduced; 4]);
        let far = [NotReproduced, Reproduced];
        assert_eq!(verdicts(2.1), [far, far].concat());
        assert_eq!(verdicts(4.0), [NotReproduced; 4]);
    }
}
