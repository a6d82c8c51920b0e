//! The expected latency selector: random picks in proportion to weights, which fall with the
//! expected latency of a query.
//!
//! After Spotify's "ELS: latency based load balancer, part 1" (2015), which describes what is
//! measured and what should follow, and leaves the formula to a second part. So this formula is
//! ours. For a replica with success latency ℓ, success rate s, failure latency f, q queries of this
//! client in flight, and p of them usually:
//!
//! - A query that fails is retried until it succeeds, which takes E = ℓ + f · (1/s − 1) on average.
//!   f counts as at least the fleet's ℓ: failing at once is not fast, because the retry waits
//!   elsewhere.
//! - weight = 1/E · min(1, (p + 1) / (q + 1)): more in flight than usual is a problem that ℓ does
//!   not show yet.
//! - The relative circuit breaker: weight 0 if s is far below that of the fleet, unless that leaves
//!   no replica.
//!
//! Averages forget exponentially. Each starts as if it had one sample equal to the fleet's mean: a
//! new replica is average, and so, in time, is one without new samples. A pick takes time in
//! proportion to the fleet.

use crate::draw::Draw;
use crate::fixed::Quantile;
use crate::policy::candidates::Candidates;
use crate::policy::comparison::{Comparison, Equals, Factor, OWN_IN_FLIGHT, Unit, Values};
use crate::policy::decay::{ForwardMean, left_after, whole};
use crate::policy::entry::PolicyEntry;
use crate::policy::outcome::Outcome;
use crate::policy::query::PickReason;
use crate::policy::settings::{ConfigError, Settings, Valid, require, require_span, section};
use crate::policy::unprobed::{Choose, QueryEnd, Unprobed};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::time::{Instant, span_ns};
use alloc::boxed::Box;
use core::time::Duration;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["els"],
    comparisons: &[&COMPARISON],
    ..PolicyEntry::new(
        "els",
        "weights from own latencies and failures",
        "Draws a replica by weights that follow the latencies and failures that this worker has seen.",
        |s| Box::new(Els::with(s.els.clone())),
    )
};

/// How replicas are weighted. The chance of each is its weight over the sum of all weights.
const COMPARISON: Comparison = Comparison {
    name: "expected_latency",
    formula: "weight = 1 / expected latency × min(1, (usual in flight + 1) / (requests in flight + \
              1)), 0 where excluded; chance = weight / sum of the weights",
    shared: &[],
    factors: &[
        Factor::time("expected_latency_us", "expected latency", 1_000).float(),
        Factor::requests("usual_in_flight", "usual in flight", 1).float(),
        OWN_IN_FLIGHT,
        Factor::flag("excluded", "excluded"),
        Factor::new("chance", "chance", Unit::Share, 1).float(),
    ],
    order: &[],
    equals: Equals::Chances("chance"),
};

/// Lower bound of a success rate, so that an expected latency stays finite.
const SUCCESS_MIN: f64 = 0.01;
/// Lower bound of an expected latency in nanoseconds, so that a weight stays finite.
const EXPECTED_MIN_NS: f64 = 1_000.0;
/// All sums are scaled down when new samples weigh e to this power as much as the first ones.
const GROWTH_MAX: u32 = 64;

/// Picks at random, in proportion to the inverse of the expected latency.
pub type Els = Unprobed<ExpectedLatency>;

/// Valid settings of [`Els`].
pub type ElsConfig = Valid<ElsSettings>;

/// Settings of [`Els`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElsSettings {
    /// Time constant of the averages: above 0 to 1 hour, default 1 minute. Then 63 % of an average
    /// come from the last minute and 23 % from the one before.
    pub time_bias: Duration,
    /// A replica whose success rate is below this share of the fleet's gets no queries: 0 to 1,
    /// default 0.4. At 0 none is excluded, at 1 every replica below the mean is. Weights alone keep
    /// most queries away from a replica that fails half of them, and send it more as the others
    /// become busy. Excluding it would cost its good half when it is needed most.
    pub exclude_below: Quantile,
    /// A replica with fewer remembered samples than this is not excluded: 1 to 10,000, default 100.
    /// An excluded replica gets no new samples, and is back in the choice when the old ones have
    /// faded to this number.
    pub exclude_samples_min: u32,
}

impl Default for ElsSettings {
    fn default() -> Self {
        Self {
            time_bias: Duration::from_mins(1),
            exclude_below: Quantile::from_millionths(400_000).unwrap_or(Quantile::ZERO),
            exclude_samples_min: 100,
        }
    }
}

impl Settings for ElsSettings {
    fn check(&self) -> Result<(), ConfigError> {
        require_span(self.time_bias, "time_bias")?;
        require(
            (1..=10_000).contains(&self.exclude_samples_min),
            "exclude_samples_min",
            "from 1 to 10,000",
        )
    }
}

section! { ElsSettings in "els" {
    /// Time constant of averages: 63 % of one comes from the last `time_bias`.
    time_bias in Duration: time_bias;
    /// A replica whose success rate is below this share of the fleet's gets no requests. 0: no
    /// exclusion. 1: all below the mean.
    exclude_below in Quantile: exclude_below;
    /// Replicas with fewer samples are not excluded.
    exclude_samples_min in U32: exclude_samples_min;
} }

/// The rule of [`Els`].
#[derive(Clone, Debug)]
pub struct ExpectedLatency {
    time_bias_ns: u64,
    exclude_below: f64,
    exclude_samples_min: f64,
    seen: ReplicaMap<Seen>,
    /// When a sample weighs 1; later ones weigh more.
    landmark: Instant,
}

impl From<ElsConfig> for ExpectedLatency {
    fn from(config: ElsConfig) -> Self {
        Self {
            time_bias_ns: span_ns(config.time_bias),
            exclude_below: f64::from(config.exclude_below.millionths()) / 1e6,
            exclude_samples_min: f64::from(config.exclude_samples_min),
            seen: ReplicaMap::default(),
            landmark: Instant::EPOCH,
        }
    }
}

impl Choose for ExpectedLatency {
    const NAME: &'static str = ENTRY.name;
    const REASON: PickReason = PickReason::Weighted;

    fn choose(&mut self, from: Candidates<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        let fleet = self.fleet(from.now());
        let weight = |replica| self.weight(&fleet, replica, from.in_flight(replica));
        let unless_excluded = |replica| {
            if self.is_excluded(&fleet, replica) {
                0.0
            } else {
                weight(replica)
            }
        };
        let spared = draw_weighted(from, draw, unless_excluded);
        let any_excluded = spared.is_some();
        // Excluding all would leave no replica.
        let (drawn, total) = spared.or_else(|| draw_weighted(from, draw, weight))?;
        let is_excluded = |replica| any_excluded && self.is_excluded(&fleet, replica);
        if from.is_explained() {
            from.compare(&COMPARISON, Values::NONE);
            let terms = |replica| self.terms(&fleet, from, replica, is_excluded(replica), total);
            (from.allowed()).for_each(|it| from.consider(it, || terms(it)));
            from.keep(drawn, || terms(drawn));
        }
        Some(drawn)
    }

    fn add_replica(&mut self, _now: Instant, replica: ReplicaId) {
        self.seen.insert(replica, Seen::default());
    }

    fn remove_replica(&mut self, replica: ReplicaId) {
        self.seen.remove(replica);
    }

    fn handle_latency(&mut self, now: Instant, replica: ReplicaId, latency: Duration) {
        let weight = self.sample_weight(now);
        if let Some(seen) = self.seen.find_mut(replica) {
            seen.latency_ns.record(weight, span_ns(latency) as f64);
        }
    }

    fn handle_end(&mut self, now: Instant, end: &QueryEnd) {
        let latency_ns = span_ns(end.latency) as f64;
        // A query that was given up would have taken longer than it did, which may already be long.
        let tells = end.outcome != Outcome::Dropped || self.is_long(now, end.replica, latency_ns);
        let weight = self.sample_weight(now);
        let Some(seen) = self.seen.find_mut(end.replica).filter(|_| tells) else {
            return;
        };
        match end.outcome {
            Outcome::Dropped => {
                // The number in flight when queries are given up is not the usual one.
                seen.latency_ns.record(weight, latency_ns);
                return;
            }
            Outcome::Success => seen.success.record(weight, 1.0),
            _ => {
                seen.success.record(weight, 0.0);
                seen.failure_ns.record(weight, latency_ns);
            }
        }
        seen.in_flight.record(weight, f64::from(end.in_flight));
    }
}

impl ExpectedLatency {
    /// Weight of a sample taken now.
    fn sample_weight(&mut self, now: Instant) -> f64 {
        let age_ns = now.ns_since(self.landmark);
        let left = left_after(age_ns, self.time_bias_ns);
        if age_ns / u64::from(GROWTH_MAX) < self.time_bias_ns {
            return 1.0 / left;
        }
        for seen in self.seen.values_mut() {
            seen.scale(left);
        }
        self.landmark = now;
        1.0
    }

    fn fleet(&mut self, now: Instant) -> FleetSeen {
        let sample_weight = self.sample_weight(now);
        let mut all = Seen::default();
        for seen in self.seen.values() {
            all.add(seen);
        }
        FleetSeen {
            sample_weight,
            latency_ns: all.latency_ns.or(0.0),
            success: all.success.or(1.0),
            failure_ns: all.failure_ns.or(0.0),
            in_flight: all.in_flight.or(0.0),
        }
    }

    /// Whether a latency is above the replica's average.
    fn is_long(&mut self, now: Instant, replica: ReplicaId, latency_ns: f64) -> bool {
        let fleet = self.fleet(now);
        let seen = self.seen.find(replica);
        seen.is_some_and(|seen| latency_ns > fleet.estimate(&seen.latency_ns, fleet.latency_ns))
    }

    /// A replica's place, and the terms of its chance.
    fn terms(
        &self,
        fleet: &FleetSeen,
        from: Candidates<'_>,
        replica: ReplicaId,
        excluded: bool,
        total: f64,
    ) -> (u64, Values) {
        let Some(seen) = self.seen.find(replica) else {
            return (u64::MAX, Values::NONE);
        };
        let in_flight = from.in_flight(replica);
        let weight = if excluded {
            0.0
        } else {
            self.weight(fleet, replica, in_flight)
        };
        let chance = weight / total;
        let usual = fleet.estimate(&seen.in_flight, fleet.in_flight);
        let values = Values::of([
            fleet.expected_ns(seen).to_bits(),
            usual.to_bits(),
            in_flight.into(),
            excluded.into(),
            chance.to_bits(),
        ]);
        // A larger chance is better.
        let place = u64::MAX - whole(chance * 1e18).unsigned_abs();
        (place, values)
    }

    fn weight(&self, fleet: &FleetSeen, replica: ReplicaId, in_flight: u32) -> f64 {
        let Some(seen) = self.seen.find(replica) else {
            return 0.0;
        };
        let usual = fleet.estimate(&seen.in_flight, fleet.in_flight);
        let room = (usual + 1.0) / (f64::from(in_flight) + 1.0);
        room.min(1.0) / fleet.expected_ns(seen)
    }

    fn is_excluded(&self, fleet: &FleetSeen, replica: ReplicaId) -> bool {
        self.seen.find(replica).is_some_and(|seen| {
            seen.success.weight >= self.exclude_samples_min * fleet.sample_weight
                && seen.success.or(1.0) < self.exclude_below * fleet.success
        })
    }
}

/// Draws a replica that the query may go to, with a chance in proportion to its weight. Also
/// returns the sum of the weights. `None` if all weights are 0.
fn draw_weighted(
    from: Candidates<'_>,
    draw: &mut dyn Draw,
    weight: impl Fn(ReplicaId) -> f64,
) -> Option<(ReplicaId, f64)> {
    let weighed = || from.allowed().map(|replica| (replica, weight(replica)));
    let total: f64 = weighed().map(|(_, weight)| weight).sum();
    if total <= 0.0 {
        return None;
    }
    let mut rest = unit(draw) * total;
    let mut last = None;
    for (replica, weight) in weighed().filter(|&(_, weight)| weight > 0.0) {
        last = Some(replica);
        if rest < weight {
            break;
        }
        rest -= weight;
    }
    // Rounding may leave a small rest after the last.
    Some((last?, total))
}

/// A number from 0 to 1, excluding 1.
fn unit(draw: &mut dyn Draw) -> f64 {
    (draw.draw() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The averages of one replica.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Latency of good answers (ℓ), in nanoseconds.
    latency_ns: ForwardMean,
    /// 1 for each good answer, 0 for each failure (s).
    success: ForwardMean,
    /// Latency of failures (f), in nanoseconds.
    failure_ns: ForwardMean,
    /// How many others were in flight when a query was answered (p).
    in_flight: ForwardMean,
}

impl Seen {
    fn means(&mut self) -> [&mut ForwardMean; 4] {
        let Self {
            latency_ns,
            success,
            failure_ns,
            in_flight,
        } = self;
        [latency_ns, success, failure_ns, in_flight]
    }

    fn scale(&mut self, factor: f64) {
        for mean in self.means() {
            mean.scale(factor);
        }
    }

    fn add(&mut self, other: &Self) {
        self.latency_ns.add(&other.latency_ns);
        self.success.add(&other.success);
        self.failure_ns.add(&other.failure_ns);
        self.in_flight.add(&other.in_flight);
    }
}

/// The means over all replicas' samples.
#[derive(Clone, Copy, Debug)]
struct FleetSeen {
    /// Weight of a sample taken now.
    sample_weight: f64,
    latency_ns: f64,
    success: f64,
    failure_ns: f64,
    in_flight: f64,
}

impl FleetSeen {
    /// The mean of a replica's samples and one more, which is the fleet's mean.
    fn estimate(&self, own: &ForwardMean, fleet: f64) -> f64 {
        (own.sum + self.sample_weight * fleet) / (own.weight + self.sample_weight)
    }

    /// E = ℓ + f · (1/s − 1)
    fn expected_ns(&self, seen: &Seen) -> f64 {
        let latency_ns = self.estimate(&seen.latency_ns, self.latency_ns);
        let success = self.estimate(&seen.success, self.success).max(SUCCESS_MIN);
        let failure_ns = self.estimate(&seen.failure_ns, self.failure_ns);
        let failure_ns = failure_ns.max(self.latency_ns);
        (latency_ns + failure_ns * (1.0 / success - 1.0)).max(EXPECTED_MIN_NS)
    }
}

#[cfg(test)]
mod tests;
