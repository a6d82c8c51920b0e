//! What figures share when they say what to play, and when they look for what was played.

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
    /// `scenario` for as long as the user asks, or else for so many seconds after so many of
    /// warm-up.
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
    /// A cell in which nothing but the policy varies at this step.
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

    /// The same cell, told from others by the parameter that it varies.
    pub(super) fn with_param(self, param: impl Into<String>) -> Self {
        Self {
            param: param.into(),
            ..self
        }
    }
}

/// Prequal with the paper's settings, for the paper's figures. `None` if there is no such policy.
pub(super) fn prequal_of_the_paper() -> Option<PolicyChoice> {
    PolicyChoice::with_settings("prequal", paper_settings(|_| {})?)
}

/// The paper's settings of Prequal, and of what else goes by its probes, but for what the
/// experiment changes; `None` if they are out of range.
pub(super) fn paper_settings(change: impl FnOnce(&mut PrequalSettings)) -> Option<PolicySettings> {
    prequal_settings(PrequalSettings::paper(), change)
}

/// Our defaults with Prequal's changed; `None` if they are out of range.
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

/// Settings with C3 told how many clients there are, as its formula needs it; `None` if they are
/// out of range.
pub(super) fn c3_settings(clients: usize) -> Option<PolicySettings> {
    let c3 = C3Settings {
        clients: u32::try_from(clients).ok()?,
        ..C3Settings::default()
    };
    let mut settings = PolicySettings::default();
    settings.c3 = c3.validate().ok()?;
    Some(settings)
}

/// The paper's settings, with the linear rule weighing RIF so much and one request in flight being
/// worth `rif_scale`; `None` if they are out of range.
pub(super) fn linear_settings(rif_weight: f64, rif_scale: Duration) -> Option<PolicySettings> {
    let linear = LinearSettings {
        rif_weight: quantile(rif_weight),
        rif_scale,
    };
    let mut settings = paper_settings(|_| {})?;
    settings.linear = linear.validate().ok()?;
    Some(settings)
}

/// A quantile; what is out of range counts as its nearest end.
pub(super) fn quantile(share: f64) -> Quantile {
    Quantile::from_millionths(millionths(share)).unwrap_or(Quantile::ONE)
}

/// A rate for each query; what is out of range counts as its nearest end.
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

/// The nearest whole number from 0 up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float's conversion saturates, which is what is wanted"
)]
pub(super) fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// What was played of one figure, to be found by step and policy.
#[derive(Clone, Debug)]
pub(super) struct Plays<'a>(Vec<&'a Played>);

impl<'a> Plays<'a> {
    /// All of it in which there was a query: of nothing, every latency is low.
    pub(super) fn new(played: &'a [Played]) -> Self {
        let plays = played.iter();
        Self(plays.filter(|played| played.all.queries > 0).collect())
    }

    /// All of these, in their order.
    pub(super) fn together(plays: Vec<Self>) -> Self {
        Self(plays.into_iter().flat_map(|plays| plays.0).collect())
    }

    /// Those whose cell is one of `kept`.
    pub(super) fn only(&self, kept: impl Fn(&Cell) -> bool) -> Self {
        let plays = self.0.iter().copied();
        Self(plays.filter(|played| kept(&played.cell)).collect())
    }

    /// Those of one policy, in the order of the cells.
    pub(super) fn of(&self, policy: &str) -> Self {
        self.only(|cell| cell.policy.name == policy)
    }

    /// Those of one step, in the order of the cells.
    pub(super) fn at(&self, step: &str) -> Self {
        self.only(|cell| cell.step == step)
    }

    /// The play of this policy at this step.
    pub(super) fn find(&self, step: &str, policy: &str) -> Option<&'a Played> {
        let mut plays = self.iter();
        plays.find(|played| played.cell.step == step && played.cell.policy.name == policy)
    }

    /// What came out of this policy at this step, all seeds together.
    pub(super) fn measured(&self, step: &str, policy: &str) -> Option<&'a Measured> {
        self.find(step, policy).map(|played| &played.all)
    }

    /// Each of them, in the order of the cells.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a Played> {
        self.0.iter().copied()
    }

    /// Each step's name once, in order.
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

/// The latency that a share `q` of queries did not exceed, in milliseconds.
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
    fn settings_out_of_range_are_none() {
        let settings = default_settings(|prequal| prequal.probe_rate = rate(2.0));
        assert_eq!(
            settings.map(|settings| settings.prequal.probe_rate.millionths()),
            Some(2_000_000)
        );
        assert!(paper_settings(|prequal| prequal.pool_capacity = 0).is_none());
    }
}
