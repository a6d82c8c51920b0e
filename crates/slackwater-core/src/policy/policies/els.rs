//! The expected latency selector: chance in proportion to weights, which fall with the latency that a query may expect.
//!
//! After Spotify's "ELS: latency based load balancer, part 1" (2015), which says what is measured and what should come
//! of it, and keeps the formula for a second part. Ours, therefore, for a replica with success latency ℓ, success rate s,
//! failure latency f, q queries of this client's in flight, and p of them as it usually is:
//!
//! - a query that fails is tried again until it succeeds, which takes E = ℓ + f · (1/s − 1) on average. f counts as no
//!   less than ℓ of the fleet: who fails at once is not therefore fast, as whoever tries again waits elsewhere;
//! - weight = 1/E · min(1, (p + 1) / (q + 1)): more in flight than usual is trouble that ℓ does not show yet;
//! - the relative circuit breaker: weight 0 where s is far below that of the fleet, unless that leaves nobody.
//!
//! Averages forget exponentially, and each begins as if one sample had been seen that is the fleet's mean: a new replica
//! is an average one, and so is, in time, one of which nothing is heard. A pick takes time in proportion to the fleet.

use crate::draw::Draw;
use crate::fixed::Quantile;
use crate::policy::candidates::Candidates;
use crate::policy::decay::{ForwardMean, left_after, whole};
use crate::policy::explanation::Score;
use crate::policy::query::{Outcome, PickReason};
use crate::policy::settings::{ConfigError, Settings, Valid, require, require_span};
use crate::policy::unprobed::{Choose, QueryEnd, Unprobed};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::time::{Instant, span_ns};
use core::time::Duration;

/// A success rate below this counts as this: nobody's expected latency is beyond all bounds.
const SUCCESS_MIN: f64 = 0.01;
/// An expected latency below this, in nanoseconds, counts as this: nobody's weight is beyond all bounds.
const EXPECTED_MIN_NS: f64 = 1_000.0;
/// What was seen is scaled down when samples have come to weigh e to this power as much as the first ones.
const GROWTH_MAX: u32 = 64;

/// Chooses by chance, in proportion to the inverse of the expected latency.
pub type Els = Unprobed<ExpectedLatency>;

/// Valid settings of [`Els`].
pub type ElsConfig = Valid<ElsSettings>;

/// Settings of [`Els`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElsSettings {
    /// How fast averages forget: above 0 to 1 hour, default 1 minute, with which 63 % of an average come from the last
    /// minute and 23 % from the one before.
    pub time_bias: Duration,
    /// A replica whose success rate is below this share of the fleet's gets no queries: 0 to 1, default 0.4. At 0 nobody
    /// is excluded, at 1 whoever is below the mean. Weights alone keep most queries away from whoever fails half of them,
    /// and send it more as the others become busy; to exclude it would cost its good half when it is needed most.
    pub exclude_below: Quantile,
    /// A replica of which fewer samples are remembered than this is not excluded: 1 to 10,000, default 100. Whoever is
    /// excluded gets no new samples and is back in the choice when the old ones have faded to so many.
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
    const NAME: &'static str = "els";
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
        // To exclude all would leave nobody.
        draw_weighted(from, draw, unless_excluded).or_else(|| draw_weighted(from, draw, weight))
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
                // How many are in flight when queries are given up is not how many usually are.
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
    /// What a sample of now weighs.
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

/// Draws a replica that the query may go to, each with a chance in proportion to its weight; `None` if all weigh nothing.
fn draw_weighted(
    from: Candidates<'_>,
    draw: &mut dyn Draw,
    weight: impl Fn(ReplicaId) -> f64,
) -> Option<ReplicaId> {
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
    // Rounding may leave a crumb beyond the last.
    let drawn = last?;
    if from.is_explained() {
        let part = |replica| u32::try_from(whole(weight(replica) / total * 1e6)).unwrap_or(0);
        let told = |replica| Score::told_weight(part(replica));
        (from.allowed()).for_each(|it| from.consider(it, || told(it)));
        from.keep(drawn, || told(drawn));
    }
    Some(drawn)
}

/// A number from 0 to 1, 1 excluded.
fn unit(draw: &mut dyn Draw) -> f64 {
    (draw.draw() >> 11) as f64 / (1_u64 << 53) as f64
}

/// What was seen of one replica.
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

/// The means of the fleet, over all that was seen of anybody.
#[derive(Clone, Copy, Debug)]
struct FleetSeen {
    /// What a sample of now weighs.
    sample_weight: f64,
    latency_ns: f64,
    success: f64,
    failure_ns: f64,
    in_flight: f64,
}

impl FleetSeen {
    /// The mean of a replica's samples and one more of now, which is the fleet's mean.
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
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::policy::settings::check_ranges;
    use crate::policy::trial::Trial;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    fn trial(replicas: usize) -> Trial<Els> {
        Trial::new(Els::with(ElsConfig::default()), replicas)
    }

    /// What was told of queries, at one moment.
    fn tell(trial: &mut Trial<Els>, place: usize, latency: Duration, outcome: Outcome, times: u32) {
        let (now, replica) = (trial.now, trial.replicas[place]);
        for _ in 0..times {
            if outcome == Outcome::Success {
                trial.policy.rule.handle_latency(now, replica, latency);
            }
            let end = QueryEnd {
                replica,
                latency,
                outcome,
                in_flight: 1,
            };
            trial.policy.rule.handle_end(now, &end);
        }
    }

    fn expected_ms(trial: &mut Trial<Els>, place: usize) -> f64 {
        let fleet = trial.policy.rule.fleet(trial.now);
        let seen = trial.policy.rule.seen.find(trial.replicas[place]);
        fleet.expected_ns(seen.expect("known")) / 1e6
    }

    fn weight_per_ms(trial: &mut Trial<Els>, place: usize, in_flight: u32) -> f64 {
        let fleet = trial.policy.rule.fleet(trial.now);
        let replica = trial.replicas[place];
        trial.policy.rule.weight(&fleet, replica, in_flight) * 1e6
    }

    fn assert_near(found: f64, expected: f64) {
        assert!(
            (found / expected - 1.0).abs() < 1e-9,
            "{found}, not {expected}"
        );
    }

    #[test]
    fn an_expected_latency_by_hand() {
        let mut trial = trial(3);
        tell(&mut trial, 0, 10 * MS, Outcome::Success, 5);
        tell(&mut trial, 1, 40 * MS, Outcome::Success, 1);
        tell(&mut trial, 1, 60 * MS, Outcome::Failed, 2);
        // The fleet: ℓ = 90/6 = 15 ms, s = 6/8, f = 60 ms.
        let e0 = 65.0 / 6.0 + 60.0 * ((5.0 + 1.0) / (5.0 + 0.75) - 1.0);
        let e1 = 55.0 / 2.0 + 60.0 * ((3.0 + 1.0) / (1.0 + 0.75) - 1.0);
        let e2 = 15.0 + 60.0 * (1.0 / 0.75 - 1.0);
        for (place, expected) in [e0, e1, e2].into_iter().enumerate() {
            let found = expected_ms(&mut trial, place);
            assert_near(found, expected);
            // One is usually in flight (p = 1), as many as now or more: q = 0, 1, 3.
            for (in_flight, room) in [(0, 1.0), (1, 1.0), (3, 0.5)] {
                let weight = weight_per_ms(&mut trial, place, in_flight);
                assert_near(weight, room / expected);
            }
        }
    }

    #[test]
    fn failing_at_once_counts_as_failing_after_the_fleets_latency() {
        let mut trial = trial(2);
        tell(&mut trial, 0, 20 * MS, Outcome::Success, 10);
        tell(&mut trial, 1, 20 * MS, Outcome::Success, 5);
        tell(&mut trial, 1, Duration::ZERO, Outcome::Failed, 5);
        // s of replica 1 is (5 + 15/20) / 11; its f, 20/6 ms with the fleet's mean, counts as 20 ms.
        let expected = 20.0 + 20.0 * (11.0 / 5.75 - 1.0);
        assert_near(expected_ms(&mut trial, 1), expected);
    }

    #[test]
    fn scaling_down_changes_no_mean() {
        let mut trial = trial(2);
        for _ in 0..300 {
            trial.after(20 * SECOND);
            tell(&mut trial, 0, 10 * MS, Outcome::Success, 50);
            tell(&mut trial, 1, 30 * MS, Outcome::Success, 50);
        }
        let samples = 50.0 / (1.0 - crate::policy::decay::exp_neg(1.0 / 3.0));
        let estimate = |own: f64| (own * samples + 20.0) / (samples + 1.0);
        assert_near(expected_ms(&mut trial, 0), estimate(10.0));
        assert_near(expected_ms(&mut trial, 1), estimate(30.0));
        // After a pause in which every sample has faded, both are average again, and finite.
        trial.after(Duration::from_hours(24));
        for place in 0..2 {
            assert_near(expected_ms(&mut trial, place), EXPECTED_MIN_NS / 1e6);
        }
    }

    #[test]
    fn a_draw_is_a_point_on_the_line_of_weights() {
        let mut trial = trial(2);
        tell(&mut trial, 0, 10 * MS, Outcome::Success, 1_000);
        tell(&mut trial, 1, 30 * MS, Outcome::Success, 1_000);
        // With (30 · 1000 + 20) / 1001 to (10 · 1000 + 20) / 1001, the first has 30020 parts of 40040.
        for (part, place) in [(0, 0), (30_019, 0), (30_020, 1), (40_039, 1)] {
            let ticket = trial.pick_at([part], [40_040]);
            assert_eq!(trial.place(ticket.replica()), place, "{part}");
            trial.end(ticket, Outcome::Dropped);
        }
    }

    #[test]
    fn whoever_fails_always_is_expected_to_succeed_once_in_a_hundred() {
        let mut trial = trial(2);
        tell(&mut trial, 0, 10 * MS, Outcome::Success, 1_000);
        tell(&mut trial, 1, 10 * MS, Outcome::Failed, 1_000);
        assert_near(expected_ms(&mut trial, 1), 10.0 + 10.0 * 99.0);
    }

    #[test]
    fn a_query_given_up_after_a_good_head_was_a_success() {
        let mut trial = trial(1);
        let mut ticket = trial.pick();
        trial.after(10 * MS);
        let policy = &mut trial.policy;
        policy.handle_head(trial.now, &mut ticket, Outcome::Success);
        trial.after(SECOND);
        trial.end(ticket, Outcome::Dropped);
        let seen = trial.policy.rule.seen.find(trial.replicas[0]);
        assert_near(seen.expect("known").success.or(0.0), 1.0);
        assert_near(expected_ms(&mut trial, 0), 10.0);
    }

    #[test]
    fn a_query_given_up_counts_if_it_was_long() {
        let mut trial = trial(2);
        tell(&mut trial, 0, 10 * MS, Outcome::Success, 1);
        let before = expected_ms(&mut trial, 1);
        tell(&mut trial, 1, 9 * MS, Outcome::Dropped, 1);
        assert_near(expected_ms(&mut trial, 1), before);
        tell(&mut trial, 1, 40 * MS, Outcome::Dropped, 1);
        // The fleet's ℓ is now 25 ms: half of 40 and that.
        assert_near(expected_ms(&mut trial, 1), 32.5);
        assert_near(trial.policy.rule.fleet(trial.now).in_flight, 1.0);
    }

    #[test]
    fn a_replica_that_comes_back_is_an_average_one() {
        let mut trial = trial(2);
        tell(&mut trial, 0, 10 * MS, Outcome::Success, 3);
        tell(&mut trial, 1, SECOND, Outcome::Failed, 3);
        let late = trial.replicas[1];
        trial.replace(1);
        assert_near(expected_ms(&mut trial, 1), 10.0);
        trial.policy.rule.handle_latency(trial.now, late, SECOND);
        assert_near(expected_ms(&mut trial, 1), 10.0);
    }

    #[test]
    fn a_clock_that_steps_back_stands_still() {
        let mut trial = trial(2);
        trial.after(Duration::from_hours(2));
        trial.serve(0, 10 * MS, Outcome::Success);
        trial.now = Instant::EPOCH;
        trial.serve(0, 10 * MS, Outcome::Success);
        trial.now += Duration::from_hours(2) + 10 * MS;
        // 10 ms, and one of no time at all.
        assert_near(expected_ms(&mut trial, 0), 5.0);
    }

    #[test]
    fn standing_is_respected() {
        trial(4).check_standing(PickReason::Weighted);
    }

    #[test]
    fn settings_out_of_range_are_named() {
        check_ranges::<ElsSettings>(&[
            ("time_bias", |s| s.time_bias = Duration::ZERO),
            ("exclude_samples_min", |s| s.exclude_samples_min = 0),
            ("exclude_samples_min", |s| s.exclude_samples_min = 10_001),
        ]);
    }
}
