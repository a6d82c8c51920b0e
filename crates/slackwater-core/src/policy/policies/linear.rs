//! Linear: a weighted average of RIF and latency, with the probes and the pool of Prequal.
//!
//! `[Prequal §5.2 "Linear"]` `[Prequal Appendix A]` A replica's score is λ · (α · RIF) + (1 − λ) ·
//! latency, and the lowest wins. The paper includes it as a baseline. At a weight of one half it
//! does much worse than Prequal and C3, because it does not penalize high RIF severely enough, and
//! it improves as the weight approaches 1. At 1 it is Prequal with a RIF limit quantile of 0, RIF
//! alone; at 0 it is Prequal with a quantile of 1, latency alone.

use crate::fixed::{ONE, Quantile};
use crate::policy::comparison::{CHANCE, Comparison, Equals, Factor, Step, Values};
use crate::policy::entry::{PolicyEntry, Reports};
use crate::policy::pooled::{PoolRule, Pooled};
use crate::policy::prequal::PrequalConfig;
use crate::policy::probed::rank::{Load, Order, Place};
use crate::policy::probed::{Client, Probed};
use crate::policy::query::PickReason;
use crate::policy::settings::{ConfigError, Settings, Valid, require_span, section};
use crate::replica::ReplicaId;
use crate::report::Rif;
use crate::time::span_ns;
use alloc::boxed::Box;
use core::time::Duration;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["prequal", "linear"],
    reports: Reports::Pool,
    comparisons: &[&COMPARISON, &CHANCE],
    ..PolicyEntry::new(
        "linear",
        "probes, weighted sum of RIF and latency",
        "Probes replicas for their load and picks the lowest weighted sum of requests in flight and latency.",
        |s| Box::new(Linear::new(s.prequal.clone(), &s.linear)),
    )
};

/// How reports are compared.
const COMPARISON: Comparison = Comparison {
    name: "weighted_sum",
    formula: "score = weight × scale × requests in flight + (1 − weight) × latency",
    shared: &[
        Factor::share("rif_weight", "weight"),
        Factor::time("rif_scale_us", "scale", 1_000),
    ],
    factors: &[
        Factor::requests("in_flight", "requests in flight", 1),
        Factor::time("latency_us", "latency", 1_000),
        Factor::time("score_us", "score", 1_000 * ONE as u64),
        Factor::time(
            "unweighted_us",
            "scale × requests in flight + latency",
            1_000,
        ),
    ],
    order: &[Step::lowest("score_us"), Step::lowest("unweighted_us")],
    equals: Equals::Draw,
};

/// Picks by a weighted average of RIF and latency.
pub type Linear = Probed<Pooled<WeightedSum>>;

/// Settings of [`Linear`] besides those of its probes and pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearSettings {
    /// Weight of RIF against latency (λ): 0 to 1, default 0.5. At 0 latency alone decides, at 1 RIF
    /// alone. Each still breaks ties of the other.
    pub rif_weight: Quantile,
    /// Latency that counts as much as one request in flight (α): above 0 to 1 hour, default 75 ms,
    /// the median with one in flight in the paper's testbed. Changing it has the same effect as
    /// changing the weight.
    pub rif_scale: Duration,
}

/// Valid settings of [`Linear`].
pub type LinearConfig = Valid<LinearSettings>;

impl Default for LinearSettings {
    fn default() -> Self {
        Self {
            rif_weight: Quantile::from_millionths(ONE / 2).unwrap_or(Quantile::ONE),
            rif_scale: Duration::from_millis(75),
        }
    }
}

impl Settings for LinearSettings {
    fn check(&self) -> Result<(), ConfigError> {
        require_span(self.rif_scale, "rif_scale")
    }
}

section! { LinearSettings in "linear" {
    /// Weight of requests in flight against latency (λ). 0: latency alone decides. 1: requests in
    /// flight alone.
    rif_weight in Quantile: rif_weight;
    /// Latency that counts as much as one request in flight (α).
    rif_scale in Duration: rif_scale;
} }

impl Linear {
    /// Linear with an empty fleet, and the probes and pool of `config`.
    pub fn new(config: PrequalConfig, linear: &LinearConfig) -> Self {
        Self::with(Pooled::new(WeightedSum::new(linear), &config), config)
    }
}

/// The rule of [`Linear`].
#[derive(Clone, Copy, Debug)]
pub struct WeightedSum {
    rif_scale_ns: u64,
    /// λ · α, in millionths of a nanosecond for each request in flight.
    rif_weight: u64,
    /// 1 − λ, in millionths.
    latency_weight: u64,
}

impl WeightedSum {
    fn new(linear: &LinearSettings) -> Self {
        let rif_millionths = linear.rif_weight.millionths();
        let rif_scale_ns = span_ns(linear.rif_scale);
        Self {
            rif_scale_ns,
            // An hour in millionths of a nanosecond is less than 2^62.
            rif_weight: u64::from(rif_millionths) * rif_scale_ns,
            latency_weight: u64::from(ONE - rif_millionths),
        }
    }

    /// First the score in millionths of a nanosecond; scores of five hours or more are equal.
    /// Between equals, the unweighted sum.
    fn place(self, load: Load) -> Place {
        let sum = |rif_factor: u64, latency_factor: u64| {
            let latency = load.latency_ns.saturating_mul(latency_factor);
            load.rif.saturating_mul(rif_factor).saturating_add(latency)
        };
        Place {
            first: sum(self.rif_weight, self.latency_weight),
            second: sum(self.rif_scale_ns, 1),
        }
    }
}

impl PoolRule for WeightedSum {
    const NAME: &'static str = ENTRY.name;

    fn order(&self, _rif_limit: Option<Rif>, _client: &Client) -> impl Order {
        move |_: ReplicaId, load| self.place(load)
    }

    fn reason(_first: u64) -> PickReason {
        PickReason::LowestScore
    }

    fn comparison(&self, _rif_limit: Option<Rif>) -> (&'static Comparison, Values) {
        let rif_weight = u64::from(ONE) - self.latency_weight;
        (&COMPARISON, Values::of([rif_weight, self.rif_scale_ns]))
    }

    fn values(
        &self,
        _replica: ReplicaId,
        load: Load,
        _rif_limit: Option<Rif>,
        _client: &Client,
    ) -> Values {
        let place = self.place(load);
        Values::of([load.rif, load.latency_ns, place.first, place.second])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::settings::check_ranges;

    fn rule(rif_millionths: u32) -> WeightedSum {
        WeightedSum::new(&LinearSettings {
            rif_weight: Quantile::from_millionths(rif_millionths).expect("at most one"),
            ..LinearSettings::default()
        })
    }

    fn load(rif: u64, latency_ms: u64) -> Load {
        Load {
            rif,
            latency_ns: latency_ms * 1_000_000,
        }
    }

    fn score_ms(rule: WeightedSum, load: Load) -> u64 {
        rule.place(load).first / 1_000_000_000_000
    }

    #[test]
    fn score_is_weighted_average_of_latency_and_scaled_rif() {
        let linear = WeightedSum::new(&LinearSettings::default());
        assert_eq!(score_ms(linear, load(2, 50)), 100, "(2 · 75 + 50) / 2");
        assert_eq!(score_ms(linear, load(0, 100)), 50);
        assert_eq!(
            score_ms(rule(800_000), load(4, 200)),
            280,
            "0.8 · 300 + 0.2 · 200"
        );
        assert_eq!(score_ms(rule(ONE), load(4, 200)), 300, "RIF alone");
        assert_eq!(score_ms(rule(0), load(4, 200)), 200, "latency alone");
    }

    #[test]
    fn other_signal_breaks_ties() {
        let below = |rule: WeightedSum, low, high| {
            let (low, high) = (rule.place(low), rule.place(high));
            assert_eq!(low.first, high.first);
            low.second < high.second
        };
        assert!(below(rule(ONE), load(3, 10), load(3, 20)));
        assert!(below(rule(0), load(3, 10), load(4, 10)));
    }

    #[test]
    fn extreme_loads_are_the_highest_and_do_not_overflow() {
        let most = Load {
            rif: u64::MAX,
            latency_ns: u64::MAX,
        };
        for rif_weight in [0, 1, ONE / 2, ONE] {
            let rule = WeightedSum::new(&LinearSettings {
                rif_weight: Quantile::from_millionths(rif_weight).expect("at most one"),
                rif_scale: Duration::from_hours(1),
            });
            assert_eq!(rule.place(most).first, u64::MAX);
        }
    }

    #[test]
    fn settings_out_of_range_are_rejected() {
        check_ranges::<LinearSettings>(&[
            ("rif_scale", |s| s.rif_scale = Duration::ZERO),
            ("rif_scale", |s| s.rif_scale = Duration::from_secs(3_601)),
        ]);
    }
}
