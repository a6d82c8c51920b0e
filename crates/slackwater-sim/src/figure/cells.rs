//! What figures share when they define cells and look up plays.

use super::{Cell, Effort, Played};
use crate::{Measured, PolicyChoice, Scenario};
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{C3Settings, LinearSettings, PolicySettings, Settings};
use slackwater_core::{Quantile, Rate};
use std::sync::Arc;

/// The client's deadline in the paper, in milliseconds, less the 0.2 % that a histogram may be off:
/// a quantile at or above it "maxes out".
pub(super) const TIMED_OUT_MS: f64 = 4_990.0;

impl Effort {
    /// Sets the span and warm-up that the user asked for, or else these many seconds.
    pub(super) fn spend_on(
        &self,
        scenario: Scenario,
        warmup_seconds: u64,
        span_seconds: u64,
    ) -> Arc<Scenario> {
        let or = |asked: Option<Duration>, seconds| asked.unwrap_or(Duration::from_secs(seconds));
        Arc::new(Scenario {
            warmup: or(self.warmup, warmup_seconds),
            span: or(self.span, span_seconds),
            ..scenario
        })
    }
}

impl Cell {
    /// Makes a cell whose step varies nothing but the policy.
    pub(super) fn of(
        step: impl Into<String>,
        load: f64,
        policy: PolicyChoice,
        scenario: &Arc<Scenario>,
    ) -> Self {
        Self {
            step: step.into(),
            load,
            policy,
            param: String::new(),
            scenario: Arc::clone(scenario),
        }
    }

    /// Returns the cell with a parameter that distinguishes it from others.
    pub(super) fn with_param(self, param: impl Into<String>) -> Self {
        Self {
            param: param.into(),
            ..self
        }
    }

    /// Returns the policy's name with its parameter.
    pub(super) fn player(&self) -> String {
        if self.param.is_empty() {
            self.policy.name.clone()
        } else {
            format!("{} ({})", self.policy.name, self.param)
        }
    }
}

/// Returns Prequal with the paper's settings, for the paper's figures. `None` if there is no such
/// policy.
pub(super) fn prequal_of_the_paper() -> Option<PolicyChoice> {
    PolicyChoice::with_settings("prequal", paper_settings(|_| {})?)
}

/// Returns the paper's settings of Prequal, and of other policies that use its probes, with the
/// changes of the experiment; `None` if they are out of range.
pub(super) fn paper_settings(change: impl FnOnce(&mut PrequalSettings)) -> Option<PolicySettings> {
    prequal_settings(PrequalSettings::paper(), change)
}

/// Returns our defaults with Prequal's changed; `None` if they are out of range.
pub(super) fn default_settings(
    change: impl FnOnce(&mut PrequalSettings),
) -> Option<PolicySettings> {
    prequal_settings(PrequalSettings::default(), change)
}

fn prequal_settings(
    mut prequal: PrequalSettings,
    change: impl FnOnce(&mut PrequalSettings),
) -> Option<PolicySettings> {
    change(&mut prequal);
    let mut settings = PolicySettings::default();
    settings.prequal = prequal.validate().ok()?;
    Some(settings)
}

/// Returns settings in which C3 has the number of clients that its formula needs; `None` if they
/// are out of range.
pub(super) fn c3_settings(clients: usize) -> Option<PolicySettings> {
    let c3 = C3Settings {
        clients: u32::try_from(clients).ok()?,
        ..C3Settings::default()
    };
    let mut settings = PolicySettings::default();
    settings.c3 = c3.validate().ok()?;
    Some(settings)
}

/// Returns the paper's settings with this RIF weight in the linear rule, where one request in
/// flight counts as `rif_scale`; `None` if they are out of range.
pub(super) fn linear_settings(rif_weight: f64, rif_scale: Duration) -> Option<PolicySettings> {
    let linear = LinearSettings {
        rif_weight: quantile(rif_weight),
        rif_scale,
    };
    let mut settings = paper_settings(|_| {})?;
    settings.linear = linear.validate().ok()?;
    Some(settings)
}

/// Returns a quantile. A value out of range becomes the nearest end.
pub(super) fn quantile(share: f64) -> Quantile {
    Quantile::from_millionths(millionths(share)).unwrap_or(Quantile::ONE)
}

/// Returns a rate for each query. A value out of range becomes the nearest end.
pub(super) fn rate(per_query: f64) -> Rate {
    Rate::from_millionths(millionths(per_query)).unwrap_or(Rate::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float's conversion saturates, which is what is wanted"
)]
fn millionths(value: f64) -> u32 {
    (value * 1e6).round() as u32
}

/// Rounds to the nearest whole number, at least 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float's conversion saturates, which is what is wanted"
)]
pub(super) fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// The plays of one figure, to be found by step and policy.
#[derive(Clone, Debug)]
pub(super) struct Plays<'a>(Vec<&'a Played>);

impl<'a> Plays<'a> {
    /// Keeps all plays that have a query: without one, every latency would be low.
    pub(super) fn new(played: &'a [Played]) -> Self {
        let plays = played.iter();
        Self(plays.filter(|played| played.all.queries > 0).collect())
    }

    /// Joins these plays, in their order.
    pub(super) fn together(plays: Vec<Self>) -> Self {
        Self(plays.into_iter().flat_map(|plays| plays.0).collect())
    }

    /// Returns the plays whose cell is one of `kept`.
    pub(super) fn only(&self, kept: impl Fn(&Cell) -> bool) -> Self {
        let plays = self.0.iter().copied();
        Self(plays.filter(|played| kept(&played.cell)).collect())
    }

    /// Returns the plays of one policy, in the order of the cells.
    pub(super) fn of(&self, policy: &str) -> Self {
        self.only(|cell| cell.policy.name == policy)
    }

    /// Returns the plays of one step, in the order of the cells.
    pub(super) fn at(&self, step: &str) -> Self {
        self.only(|cell| cell.step == step)
    }

    /// Returns the play of this policy at this step.
    pub(super) fn find(&self, step: &str, policy: &str) -> Option<&'a Played> {
        let mut plays = self.iter();
        plays.find(|played| played.cell.step == step && played.cell.policy.name == policy)
    }

    /// Returns the results of this policy at this step, all seeds together.
    pub(super) fn measured(&self, step: &str, policy: &str) -> Option<&'a Measured> {
        self.find(step, policy).map(|played| &played.all)
    }

    /// Returns each play, in the order of the cells.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a Played> {
        self.0.iter().copied()
    }

    /// Returns each step's name once, in order.
    pub(super) fn steps(&self) -> Vec<String> {
        let mut steps: Vec<String> = Vec::new();
        for played in self.iter() {
            if !steps.contains(&played.cell.step) {
                steps.push(played.cell.step.clone());
            }
        }
        steps
    }
}

/// Returns the latency that a share `q` of queries did not exceed, in milliseconds.
pub(super) fn latency_ms(run: &Measured, q: f64) -> f64 {
    run.latency.quantile(q).as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_rates_are_exact_to_the_millionth() {
        assert_eq!(quantile(0.75).millionths(), 750_000);
        assert_eq!(quantile(0.9_f64.powi(10)).millionths(), 348_678);
        assert_eq!(quantile(1.5), Quantile::ONE);
        assert_eq!(rate(2_f64.sqrt()).millionths(), 1_414_214);
    }

    #[test]
    fn settings_out_of_range_give_none() {
        let settings = default_settings(|prequal| prequal.probe_rate = rate(2.0));
        assert_eq!(
            settings.map(|settings| settings.prequal.probe_rate.millionths()),
            Some(2_000_000)
        );
        assert!(paper_settings(|prequal| prequal.pool_capacity = 0).is_none());
    }
}
