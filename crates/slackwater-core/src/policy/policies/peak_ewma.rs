//! Peak EWMA: draws a few replicas at random and picks the one with the lowest latency × queries in
//! flight.
//!
//! Twitter's Finagle introduced it; tower and Linkerd have it as well (Linkerd, "Beyond Round
//! Robin: Load Balancing for Latency", 2016). The cost of an error is that of Linkerd's
//! `PenaltyPeakEwma`. The average of a replica's latencies rises to a peak at once and falls
//! slowly:
//!
//! - A latency x above the average replaces it. Any other gives average · w + x · (1 − w), with w =
//!   e^(−Δ/τ) and Δ the time since the last update.
//! - Reading the average counts as a latency of 0, so a replica without queries is forgiven in
//!   time.
//! - cost = latency · (this client's queries in flight there + 1). The lowest of d drawn wins, and
//!   the first of equals. The latency is the average or, if longer, the time for which queries have
//!   waited there without any answer.
//!
//! The last point is an addition. Finagle, tower and Linkerd learn from answers alone: a replica
//! that has stopped keeps the average of its good days, which even decays, and gets queries like a
//! good one until the first of them ends. `ServiceTalk` and nginx's `least_time` can also use the
//! age of queries in flight. Here it is the time since the last progress, so that a replica that
//! answers steadily does not look slow because it has many queries. A replica whose only query is
//! meant to wait (a long poll) looks slow until its head arrives, and then by the average.

use crate::draw::Draw;
use crate::policy::candidates::Candidates;
use crate::policy::comparison::{Comparison, Equals, Factor, OWN_IN_FLIGHT, Step, Values};
use crate::policy::decay::{left_after, whole};
use crate::policy::entry::PolicyEntry;
use crate::policy::outcome::Outcome;
use crate::policy::query::PickReason;
use crate::policy::settings::{
    ConfigError, Settings, Valid, require_choices, require_span, require_span_or_none, section,
};
use crate::policy::unprobed::{Choose, QueryEnd, Unprobed};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::time::{Instant, span_ns};
use alloc::boxed::Box;
use core::time::Duration;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["peak_ewma"],
    comparisons: &[&COMPARISON],
    failure_penalty: Some(("peak_ewma", "failure_penalty")),
    ..PolicyEntry::new(
        "peak_ewma",
        "own latency times in flight, of d drawn",
        "Draws a few replicas and picks the lowest product of measured latency and requests in flight from this worker.",
        |s| Box::new(PeakEwma::with(s.peak_ewma.clone())),
    )
};

/// How the drawn replicas are compared. They are numbered in the order of the draws.
const COMPARISON: Comparison = Comparison {
    name: "lowest_cost_of_drawn",
    formula: "cost = latency × (requests in flight + 1); of those drawn the lowest, of equals the \
              first drawn",
    shared: &[],
    factors: &[
        Factor::time("latency_us", "latency", 1_000).float(),
        OWN_IN_FLIGHT,
        Factor::time("cost_us", "cost", 1_000).float(),
    ],
    order: &[Step::lowest("cost_us")],
    equals: Equals::First,
};

/// Lower bound of an average in a cost, so that queries in flight still count at a replica whose
/// average has decayed to 0.
const AVERAGE_MIN_NS: f64 = 1.0;

/// Picks by the client's own latencies, peaks first, and its queries in flight.
pub type PeakEwma = Unprobed<LowestCostOfDrawn>;

/// Valid settings of [`PeakEwma`].
pub type PeakEwmaConfig = Valid<PeakEwmaSettings>;

/// Settings of [`PeakEwma`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeakEwmaSettings {
    /// Time in which an average falls to 37 % of a peak (τ): above 0 to 1 hour, default 10 s, as in
    /// Finagle and Linkerd. With a very short one only the last latency counts.
    pub decay: Duration,
    /// Initial average of a replica: above 0 to 1 hour, default 30 ms, Linkerd's. Below real
    /// latencies, a new replica is tried eagerly; above, cautiously.
    pub initial_latency: Duration,
    /// Least latency that an error counts as: 0 to 1 hour, default 5 s, Linkerd's. At 0 an error
    /// counts as the time it took, and still does not lower an average.
    pub failure_penalty: Duration,
    /// Distinct replicas drawn for each query: 2 to 16, default 2.
    pub choices: u8,
}

impl Default for PeakEwmaSettings {
    fn default() -> Self {
        Self {
            decay: Duration::from_secs(10),
            initial_latency: Duration::from_millis(30),
            failure_penalty: Duration::from_secs(5),
            choices: 2,
        }
    }
}

impl Settings for PeakEwmaSettings {
    fn check(&self) -> Result<(), ConfigError> {
        require_span(self.decay, "decay")?;
        require_span(self.initial_latency, "initial_latency")?;
        require_span_or_none(self.failure_penalty, "failure_penalty")?;
        require_choices(self.choices)
    }
}

section! { PeakEwmaSettings in "peak_ewma" {
    /// Time in which an average falls to 37 % of a peak (τ).
    decay in Duration: decay;
    /// A replica's average at the start. Below real latencies, new replicas are tried eagerly;
    /// above, cautiously.
    initial_latency in Duration: initial_latency;
    /// Least latency that a failure counts as. 0: the time it took. Only with
    /// `error_aversion.enabled = false`.
    failure_penalty in Duration: failure_penalty;
    /// Distinct replicas drawn for each request.
    choices in U8: choices;
} }

/// The rule of [`PeakEwma`].
#[derive(Clone, Debug)]
pub struct LowestCostOfDrawn {
    decay_ns: u64,
    initial_latency_ns: u64,
    failure_penalty: Duration,
    choices: u8,
    latencies: ReplicaMap<PeakAverage>,
}

impl From<PeakEwmaConfig> for LowestCostOfDrawn {
    fn from(config: PeakEwmaConfig) -> Self {
        Self {
            decay_ns: span_ns(config.decay),
            initial_latency_ns: span_ns(config.initial_latency),
            failure_penalty: config.failure_penalty,
            choices: config.choices,
            latencies: ReplicaMap::default(),
        }
    }
}

impl Choose for LowestCostOfDrawn {
    const NAME: &'static str = ENTRY.name;
    const REASON: PickReason = PickReason::LowestCost;

    fn choose(&mut self, from: Candidates<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        from.compare(&COMPARISON, Values::NONE);
        from.best_of_drawn(self.choices, draw, |replica| {
            let latency_ns = self.latency(from, replica);
            let in_flight = from.in_flight(replica);
            let cost_ns = latency_ns * (f64::from(in_flight) + 1.0);
            from.consider(replica, || {
                let values = [latency_ns.to_bits(), in_flight.into(), cost_ns.to_bits()];
                (whole(cost_ns).unsigned_abs(), Values::of(values))
            });
            cost_ns
        })
    }

    fn add_replica(&mut self, now: Instant, replica: ReplicaId) {
        let initial = PeakAverage {
            ns: self.initial_latency_ns as f64,
            at: now,
        };
        self.latencies.insert(replica, initial);
    }

    fn remove_replica(&mut self, replica: ReplicaId) {
        self.latencies.remove(replica);
    }

    fn handle_latency(&mut self, now: Instant, replica: ReplicaId, latency: Duration) {
        if let Some(average) = self.latencies.find_mut(replica) {
            average.observe(now, latency, self.decay_ns);
        }
    }

    /// A failure may raise an average and never lowers it: failing fast must not help, and a query
    /// that was given up would have taken longer than it did.
    fn handle_end(&mut self, now: Instant, end: &QueryEnd) {
        let at_least = match end.outcome {
            Outcome::Success => return,
            Outcome::Dropped => end.latency,
            _ => end.latency.max(self.failure_penalty),
        };
        if let Some(average) = self.latencies.find_mut(end.replica) {
            average.raise(now, at_least, self.decay_ns);
        }
    }
}

impl LowestCostOfDrawn {
    /// The average or, if longer, the time for which queries have waited without an answer.
    fn latency(&mut self, from: Candidates<'_>, replica: ReplicaId) -> f64 {
        let average = self.latencies.find_mut(replica);
        let average_ns = average.map_or(0.0, |average| average.decay(from.now(), self.decay_ns));
        let without_progress_ns = span_ns(from.without_progress(replica)) as f64;
        average_ns.max(without_progress_ns).max(AVERAGE_MIN_NS)
    }
}

/// An average that rises at once.
#[derive(Clone, Copy, Debug, Default)]
struct PeakAverage {
    ns: f64,
    /// When it was last updated.
    at: Instant,
}

impl PeakAverage {
    fn observe(&mut self, now: Instant, latency: Duration, decay_ns: u64) {
        let latency_ns = span_ns(latency) as f64;
        if latency_ns > self.ns {
            self.ns = latency_ns;
        } else {
            let left = left_after(now.ns_since(self.at), decay_ns);
            self.ns = self.ns * left + latency_ns * (1.0 - left);
        }
        self.at = now;
    }

    /// The average now, as if a latency of 0 had been seen.
    fn decay(&mut self, now: Instant, decay_ns: u64) -> f64 {
        self.observe(now, Duration::ZERO, decay_ns);
        self.ns
    }

    fn raise(&mut self, now: Instant, at_least: Duration, decay_ns: u64) {
        let decayed_ns = self.decay(now, decay_ns);
        self.ns = decayed_ns.max(span_ns(at_least) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::policy::settings::check_ranges;
    use crate::policy::trial::Trial;
    use alloc::vec::Vec;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    /// Replicas that start at 30 ms, with τ = 10 s and a penalty of 5 s.
    fn trial(replicas: usize) -> Trial<PeakEwma> {
        Trial::new(PeakEwma::with(PeakEwmaConfig::default()), replicas)
    }

    /// The stored average of the replica at this place, in milliseconds.
    fn average_ms(trial: &Trial<PeakEwma>, place: usize) -> f64 {
        let averages = &trial.policy.rule.latencies;
        averages.find(trial.replicas[place]).expect("known").ns / 1e6
    }

    fn assert_average(trial: &Trial<PeakEwma>, place: usize, expected_ms: f64) {
        let found = average_ms(trial, place);
        let error = (found / expected_ms - 1.0).abs();
        assert!(error < 1e-9, "{found} ms, not {expected_ms} ms");
    }

    #[test]
    fn average_matches_hand_calculation() {
        // e^(−Δ/10 s) for Δ = 0.02, 0.01, 1 and 10 s.
        let (e2, e1) = (0.998_001_998_667_333, 0.999_000_499_833_374_9);
        let (second, ten) = (0.904_837_418_035_959_6, 0.367_879_441_171_442_33);
        let mut trial = trial(1);
        trial.serve(0, 40 * MS, Outcome::Success);
        assert_average(&trial, 0, 40.0); // a peak: 30 e^(−0) seen at the pick, then 40
        trial.serve(0, 20 * MS, Outcome::Success);
        let average = 40.0 * e2 + 20.0 * (1.0 - e2);
        assert_average(&trial, 0, average);
        trial.after(10 * SECOND);
        trial.serve(0, 10 * MS, Outcome::Success);
        let decayed = average * ten; // by the pick, to 14.7 ms
        let average = decayed * e1 + 10.0 * (1.0 - e1);
        assert_average(&trial, 0, average);
        trial.serve(0, SECOND, Outcome::Failed);
        assert_average(&trial, 0, 5_000.0);
        trial.serve(0, SECOND, Outcome::NoConnection);
        assert_average(&trial, 0, 5_000.0); // decayed for a second, and raised again
        trial.serve(0, 6 * SECOND, Outcome::Failed);
        assert_average(&trial, 0, 6_000.0); // the time it took is more than the penalty
        trial.serve(0, SECOND, Outcome::Dropped);
        assert_average(&trial, 0, 6_000.0 * second); // by how much longer is unknown
        trial.serve(0, 8 * SECOND, Outcome::Dropped);
        assert_average(&trial, 0, 8_000.0);
    }

    #[test]
    fn lower_cost_wins_and_first_drawn_breaks_ties() {
        let mut trial = trial(2);
        let first = trial.pick_at([1, 0], [2, 1]);
        assert_eq!(
            trial.place(first.replica()),
            1,
            "30 ms each: the first drawn"
        );
        let second = trial.pick_at([1, 0], [2, 1]);
        assert_eq!(trial.place(second.replica()), 0, "30 · 2 against 30 · 1");
        trial.after(10 * MS);
        trial.end(first, Outcome::Success);
        trial.after(90 * MS);
        trial.end(second, Outcome::Success);
        // Replica 0 now has 100 ms, replica 1 a little below 30 ms: up to three in flight at
        // replica 1 cost less than one at replica 0.
        let mut out = Vec::new();
        for in_flight in 0..3 {
            let ticket = trial.pick_at([0, 0], [2, 1]);
            assert_eq!(trial.place(ticket.replica()), 1, "{in_flight} in flight");
            out.push(ticket);
        }
        let ticket = trial.pick_at([1, 0], [2, 1]);
        assert_eq!(trial.place(ticket.replica()), 0, "29.7 · 4 against 100");
    }

    #[test]
    fn latency_ends_at_the_first_head() {
        let mut trial = trial(1);
        let mut ticket = trial.pick();
        trial.after(50 * MS);
        trial
            .policy
            .handle_head(trial.now, &mut ticket, Outcome::Success);
        assert_average(&trial, 0, 50.0);
        trial.after(SECOND);
        trial
            .policy
            .handle_head(trial.now, &mut ticket, Outcome::Success);
        trial.end(ticket, Outcome::Dropped);
        assert_average(&trial, 0, 50.0);

        let mut ticket = trial.pick();
        trial
            .policy
            .handle_head(trial.now, &mut ticket, Outcome::Success);
        trial.end(ticket, Outcome::Failed);
        assert_average(&trial, 0, 5_000.0); // it broke off

        trial.replace(0);
        let mut ticket = trial.pick();
        trial
            .policy
            .handle_head(trial.now, &mut ticket, Outcome::PushedBack);
        trial.end(ticket, Outcome::Success);
        assert_average(&trial, 0, 5_000.0); // this was not the head of a good answer
    }

    #[test]
    fn failure_never_improves_a_score_at_any_penalty() {
        let settings = PeakEwmaSettings {
            failure_penalty: Duration::ZERO,
            ..PeakEwmaSettings::default()
        };
        let config = settings.validate().expect("in range");
        let bad = Outcome::ALL.into_iter();
        for outcome in bad.filter(|&outcome| outcome != Outcome::Success) {
            let mut trial = Trial::new(PeakEwma::with(config.clone()), 1);
            trial.serve(0, Duration::ZERO, outcome);
            assert_average(&trial, 0, 30.0);
        }
    }

    #[test]
    fn returning_replica_starts_fresh_and_late_ends_are_ignored() {
        let mut trial = trial(1);
        trial.serve(0, SECOND, Outcome::Failed);
        let late = trial.pick();
        trial.replace(0);
        assert_average(&trial, 0, 30.0);
        trial.end(late, Outcome::Failed);
        assert_average(&trial, 0, 30.0);
    }

    #[test]
    fn clock_step_back_counts_as_no_time() {
        let mut trial = trial(1);
        trial.after(10 * SECOND);
        trial.serve(0, 40 * MS, Outcome::Success);
        trial.now = Instant::EPOCH;
        trial.serve(0, 5 * MS, Outcome::Success);
        // Sent and ended at the same latest time: a latency of 0 that decays nothing.
        assert_average(&trial, 0, 40.0);
    }

    #[test]
    fn replica_without_response_costs_its_waiting_time() {
        let mut trial = trial(2);
        let stopped = trial.pick_at([0, 0], [2, 1]);
        assert_eq!(trial.place(stopped.replica()), 0);
        let later = trial.pick_at([0, 0], [2, 1]); // 30 · 2 against 30 · 1
        trial.after(MS);
        trial.end(later, Outcome::Success);
        trial.after(99 * MS);
        // 100 · 2 against nearly 30 · 1 to 30 · 6. By its average, which is also nearly 30, the
        // first would be equal at one in flight.
        let mut out = Vec::new();
        for in_flight in 0..6 {
            let ticket = trial.pick_at([0, 0], [2, 1]);
            assert_eq!(trial.place(ticket.replica()), 1, "{in_flight} in flight");
            out.push(ticket);
        }
        let ticket = trial.pick_at([0, 0], [2, 1]);
        assert_eq!(trial.place(ticket.replica()), 0, "200 against 30 · 7");
        trial.end(ticket, Outcome::Dropped); // no sign of life
        assert_average(&trial, 0, 30.0 * 0.990_049_833_749_168_1); // and no peak: it was given up at once
        trial.after(20 * MS);
        // 120 · 2 against 30 · 7 and, one more in flight, nearly 30 · 8.
        let ticket = trial.pick_at([0, 0], [2, 1]);
        assert_eq!(trial.place(ticket.replica()), 1);
        // A bad answer is an answer: the wait is over, and the average remains.
        out.push(ticket);
        let mut stopped = stopped;
        let policy = &mut trial.policy;
        policy.handle_head(trial.now, &mut stopped, Outcome::Failed);
        let ticket = trial.pick_at([1, 0], [2, 1]);
        assert_eq!(trial.place(ticket.replica()), 0, "30 · 2 against 30 · 8");
    }

    #[test]
    fn rif_counts_after_the_average_decayed_to_zero() {
        let mut trial = trial(2);
        for _ in 0..2 {
            let ticket = trial.pick();
            trial.end(ticket, Outcome::Success);
        }
        // e^(−Δ/τ) is 0 after two hours. The average is 0, and so would be its product with any
        // number.
        trial.after(Duration::from_hours(2));
        let first = trial.pick_at([0, 0], [2, 1]);
        assert_eq!(average_ms(&trial, 0).to_bits(), 0.0_f64.to_bits());
        let second = trial.pick_at([0, 0], [2, 1]);
        assert_eq!(trial.place(first.replica()), 0, "of equals the first drawn");
        assert_eq!(
            trial.place(second.replica()),
            1,
            "1 ns · 2 against 1 ns · 1"
        );
    }

    #[test]
    fn slow_replica_of_eleven_gets_one_query() {
        // Linkerd's case, one query at a time: 10 at 10 ms and one at 2 s.
        let mut trial = trial(11);
        let mut slow = 0;
        for _ in 0..1_000 {
            let ticket = trial.pick();
            let is_slow = trial.place(ticket.replica()) == 10;
            slow += u32::from(is_slow);
            trial.after(if is_slow { 2 * SECOND } else { 10 * MS });
            trial.end(ticket, Outcome::Success);
        }
        // This is 12 s of traffic. After the first, τ · ln(2000 / 30) = 42 s pass before it is as
        // cheap as a new one.
        assert_eq!(slow, 1);
    }

    #[test]
    fn avoided_and_unavailable_replicas_are_skipped() {
        trial(4).check_standing(PickReason::LowestCost);
    }

    #[test]
    fn settings_out_of_range_are_rejected_by_name() {
        check_ranges::<PeakEwmaSettings>(&[
            ("decay", |s| s.decay = Duration::ZERO),
            ("initial_latency", |s| s.initial_latency = Duration::ZERO),
            ("failure_penalty", |s| s.failure_penalty = Duration::MAX),
            ("choices", |s| s.choices = 0),
        ]);
    }
}
