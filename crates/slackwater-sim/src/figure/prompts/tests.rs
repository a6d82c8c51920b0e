//! The cells of the figure, and each claim on both sides of its bounds.

use super::cases::{CASES, RULES};
use super::findings::{Compared, ROUGH, comparisons};
use super::*;
use crate::figure::Verdict::{self, NotReproduced, Reproduced};
use crate::figure::trial;
use crate::scenario::Routing;
use crate::{Measured, PolicyChoice};
use core::time::Duration;

/// A run in which each first token takes as many seconds.
fn run(cell: &Cell, seconds: f64) -> Measured {
    let mut run = Measured::nothing(cell.scenario.replicas());
    run.queries = 1;
    run.latency.record(Duration::from_secs_f64(seconds));
    run
}

/// Returns the verdicts on a comparison, one for each of its cases, if the first rule takes `ratio`
/// times as long as the second.
fn verdicts(compared: &Compared, ratio: f64) -> Vec<Verdict> {
    let played = trial::played(&Prompts, |cell| {
        let is_it = cell.policy.name == compared.of;
        run(cell, if is_it { ratio } else { 1.0 })
    });
    let claims = Prompts.findings(&played).claims.into_iter();
    let of_it = claims.filter(|claim| claim.says.ends_with(compared.says));
    of_it.map(|claim| claim.verdict).collect()
}

#[test]
fn each_comparison_holds_within_its_bounds_only() {
    for compared in comparisons() {
        let (low, high) = (*compared.range.start(), *compared.range.end());
        for (bound, inside, outside) in [(low, 1.02, 0.98), (high, 0.98, 1.02)] {
            if bound > 0.0 && bound.is_finite() {
                let cases = compared.steps.len();
                let found = [inside, outside].map(|by| verdicts(&compared, bound * by));
                assert_eq!(found[0], vec![Reproduced; cases], "{compared:?}");
                assert_eq!(found[1], vec![NotReproduced; cases], "{compared:?}");
            }
        }
    }
}

#[test]
fn rough_numbers_hold_within_their_ranges_only() {
    for (number, (_, _, [low, high])) in ROUGH.into_iter().enumerate() {
        let verdict = |seconds| {
            let played = trial::played(&Prompts, |cell| run(cell, seconds));
            Prompts.findings(&played).claims[number].verdict
        };
        let found = [low * 0.98, low * 1.02, high * 0.98, high * 1.02].map(verdict);
        let expected = [NotReproduced, Reproduced, Reproduced, NotReproduced];
        assert_eq!(found, expected, "{number}");
    }
}

#[test]
fn each_rule_is_played_in_each_case_and_shown() {
    let played = trial::played(&Prompts, |cell| run(cell, 1.0));
    assert_eq!(played.len(), CASES.len() * RULES.len());
    let findings = Prompts.findings(&played);
    let judged: usize = comparisons().iter().map(|it| it.steps.len()).sum();
    assert_eq!(findings.claims.len(), ROUGH.len() + judged);
    assert_eq!(
        (findings.charts.len(), findings.tables.len()),
        (2, CASES.len())
    );
    for table in &findings.tables {
        assert_eq!(table.rows.len(), RULES.len());
        assert!(
            table
                .rows
                .iter()
                .all(|row| row.len() == table.columns.len())
        );
    }
}

#[test]
fn cases_have_the_troubles_of_their_names() {
    for cell in trial::cells(&Prompts) {
        let scenario = &cell.scenario;
        let prompts = scenario.load.prompts.as_ref().expect("conversations");
        let has = |word: &str| cell.step.contains(word);
        let slowest = scenario.fleet.iter().map(|group| group.slowness);
        assert_eq!(slowest.fold(0.0, f64::max) > 2.0, has("slow"));
        assert_eq!(prompts.restart.is_some(), has("restart"));
        assert_eq!(prompts.burst.is_some(), has("burst"));
        assert_eq!(scenario.load.clients.len() == 4, has("x4"));
        assert_eq!(scenario.replicas(), 16);
        let begins = prompts
            .burst
            .map(|it| it.at)
            .or(prompts.restart.map(|it| it.at));
        let span = scenario.warmup..scenario.warmup + scenario.span;
        assert!(begins.is_none_or(|at| span.contains(&at)));
        let is_policy = prompts.routing == Routing::Policy;
        assert_eq!(is_policy, PolicyChoice::named(&cell.policy.name).is_some());
    }
}
