//! The measurements of one run: latencies, errors, requests in flight, utilization, probes.
//!
//! A run fills one [`Measured`]. [`Measured::merge`] combines runs of the same kind as if they had
//! been one long run: counts add up, and quantiles are those of all queries, not means of
//! quantiles.

mod by_second;
mod prompts;

pub use by_second::BySecond;
pub use prompts::Conversations;

use crate::histogram::Histogram;
use core::time::Duration;

/// The measurements of one run, or of several runs of the same kind taken together.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Queries that arrived within the measured span.
    pub queries: u64,
    /// The `queries` that failed, were refused, or were not answered within the deadline.
    pub errors: u64,
    /// The `errors` that were not answered within the deadline.
    pub timeouts: u64,
    /// Latency as clients see it, of all `queries` except those that failed or were refused before
    /// the deadline. A query that ran into its deadline counts with the deadline.
    pub latency: Latencies,
    /// `latency` by the block of time in which a query arrived, if a
    /// [`Replay`](crate::scenario::Replay) has blocks; by second if queries have
    /// [keys](crate::scenario::Keys).
    pub latency_by_block: Vec<Latencies>,
    /// `latency` of short and of long queries, if the load has
    /// [classes](crate::scenario::Classes).
    pub latency_by_class: [Latencies; 2],
    /// Requests in flight at each replica, sampled every 10 ms over the measured span.
    pub rif: Histogram,
    /// CPU used, as a multiple of the allocation.
    pub utilization: Utilization,
    /// Probes sent within the measured span.
    pub probes: u64,
    /// Second copies sent within the measured span.
    pub hedges: u64,
    /// First copies of measured queries whose replica was picked at random, because fewer than two
    /// reports were usable.
    pub fallbacks: u64,
    /// First copies of measured queries that were sent as trials to replicas that could not be
    /// chosen.
    pub trials: u64,
    /// Attempts within the measured span whose key was in the cache of their replica.
    pub cache_hits: u64,
    /// Attempts within the measured span whose key was not in the cache of their replica.
    pub cache_misses: u64,
    /// What the clients' health did in the whole run, including the warm-up.
    pub health: Health,
    /// Age of the deciding report, for each measured query's first copy that a report decided.
    pub report_age: Latencies,
    /// Measured queries by the replica of their first copy.
    pub queries_by_replica: Vec<u64>,
    /// Measured queries whose first copy went to a replica in another zone than its client's.
    pub queries_abroad: u64,
    /// Measured queries second by second.
    pub by_second: BySecond,
    /// What else is measured of conversations with a language model; empty without them.
    pub conversations: Conversations,
    /// Steps of the event loop in the whole run, including the warm-up.
    pub events: u64,
    /// CPU time that the run took on its thread. It is the only figure that a seed does not
    /// determine.
    pub cpu: Duration,
    /// The measured span, summed over the runs.
    pub span: Duration,
}

impl Measured {
    /// Returns empty measurements of a fleet of `replicas`.
    pub fn nothing(replicas: usize) -> Self {
        Self {
            queries: 0,
            errors: 0,
            timeouts: 0,
            latency: Latencies::default(),
            latency_by_block: Vec::new(),
            latency_by_class: [Latencies::default(), Latencies::default()],
            rif: Histogram::default(),
            utilization: Utilization {
                replicas,
                by_second: Vec::new(),
            },
            probes: 0,
            hedges: 0,
            fallbacks: 0,
            trials: 0,
            cache_hits: 0,
            cache_misses: 0,
            health: Health::default(),
            report_age: Latencies::default(),
            queries_by_replica: vec![0; replicas],
            queries_abroad: 0,
            by_second: BySecond {
                replicas,
                ..BySecond::default()
            },
            conversations: Conversations::default(),
            events: 0,
            cpu: Duration::ZERO,
            span: Duration::ZERO,
        }
    }

    /// Adds `other`, a run of the same kind. A smaller fleet's replicas count as the first of the
    /// larger one's. Utilization is kept only if the fleets are of one size.
    pub fn merge(&mut self, other: &Self) {
        self.queries += other.queries;
        self.errors += other.errors;
        self.timeouts += other.timeouts;
        self.latency.merge(&other.latency);
        for (block, latencies) in other.latency_by_block.iter().enumerate() {
            latencies_at(&mut self.latency_by_block, block).merge(latencies);
        }
        for (sum, of_class) in self
            .latency_by_class
            .iter_mut()
            .zip(&other.latency_by_class)
        {
            sum.merge(of_class);
        }
        self.rif.merge(&other.rif);
        self.utilization.merge(&other.utilization);
        self.probes += other.probes;
        self.hedges += other.hedges;
        self.queries_abroad += other.queries_abroad;
        self.fallbacks += other.fallbacks;
        self.trials += other.trials;
        self.cache_hits += other.cache_hits;
        self.cache_misses += other.cache_misses;
        self.health.merge(other.health);
        self.report_age.merge(&other.report_age);
        if self.queries_by_replica.len() < other.queries_by_replica.len() {
            self.queries_by_replica
                .resize(other.queries_by_replica.len(), 0);
        }
        for (sum, count) in self
            .queries_by_replica
            .iter_mut()
            .zip(&other.queries_by_replica)
        {
            *sum += count;
        }
        self.by_second.merge(&other.by_second);
        self.conversations.merge(&other.conversations);
        self.events += other.events;
        self.cpu += other.cpu;
        self.span += other.span;
    }

    /// Combines all runs; `None` if there are none.
    pub fn together(runs: &[Self]) -> Option<Self> {
        let (first, others) = runs.split_first()?;
        let mut all = first.clone();
        for run in others {
            all.merge(run);
        }
        all.pack();
        Some(all)
    }

    /// Makes it small, for when nothing more will be recorded.
    pub fn pack(&mut self) {
        self.latency.pack();
        self.latency_by_block.iter_mut().for_each(Latencies::pack);
        self.latency_by_class.iter_mut().for_each(Latencies::pack);
        self.report_age.histogram.pack();
        self.conversations.pack();
        self.rif.pack();
        self.utilization.by_second.shrink_to_fit();
        self.by_second.sent.shrink_to_fit();
        self.by_second.errors.shrink_to_fit();
        self.by_second.cached.shrink_to_fit();
    }

    /// Returns the share of queries that were errors, from 0 to 1; 0 without queries.
    pub fn error_share(&self) -> f64 {
        ratio(self.errors as f64, self.queries as f64)
    }

    /// Returns errors a second.
    pub fn errors_per_second(&self) -> f64 {
        ratio(self.errors as f64, self.span.as_secs_f64())
    }

    /// Returns the measured rate of arrivals in queries a second.
    pub fn rate(&self) -> f64 {
        ratio(self.queries as f64, self.span.as_secs_f64())
    }

    /// Returns probes for each query.
    pub fn probes_per_query(&self) -> f64 {
        ratio(self.probes as f64, self.queries as f64)
    }

    /// Returns the share of queries, from 0 to 1, whose replica was picked at random because
    /// reports were missing; 0 without queries.
    pub fn fallback_share(&self) -> f64 {
        ratio(self.fallbacks as f64, self.queries as f64)
    }

    /// Returns the share of queries, from 0 to 1, that were trials at replicas that could not be
    /// chosen; 0 without queries.
    pub fn trial_share(&self) -> f64 {
        ratio(self.trials as f64, self.queries as f64)
    }

    /// Returns the share of attempts, from 0 to 1, whose key was in the cache of their replica; 0
    /// without caches or keys.
    pub fn hit_share(&self) -> f64 {
        let looked_up = self.cache_hits + self.cache_misses;
        ratio(self.cache_hits as f64, looked_up as f64)
    }

    /// Returns second copies for each query; 0 without queries.
    pub fn hedge_share(&self) -> f64 {
        ratio(self.hedges as f64, self.queries as f64)
    }

    /// Returns steps of the event loop for each second of CPU time. The seed does not determine it.
    pub fn events_per_second(&self) -> f64 {
        ratio(self.events as f64, self.cpu.as_secs_f64())
    }

    /// Returns RIF at a quantile `q` from 0 to 1, over replicas and time; 0 if nothing was sampled.
    pub fn rif_quantile(&self, q: f64) -> u64 {
        self.rif.quantile(q)
    }
}

/// What health did, summed over all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Times that a client ejected a replica for its failures.
    pub ejections: u64,
    /// Times that a client took a replica out because it was slow or had stopped.
    pub probations: u64,
    /// Times that a client readmitted such a replica.
    pub readmissions: u64,
}

impl Health {
    const fn merge(&mut self, other: Self) {
        self.ejections += other.ejections;
        self.probations += other.probations;
        self.readmissions += other.readmissions;
    }
}

/// Latencies in microseconds, 3 digits.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    histogram: Histogram,
    /// Exact sum, for the mean.
    sum_ns: u128,
    /// The exact longest latency: a deadline is not rounded up to the end of its slot.
    longest: Duration,
}

impl Latencies {
    /// Adds a latency, rounded to the nearest microsecond.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        self.sum_ns += latency.as_nanos();
        self.longest = self.longest.max(latency);
        let us = (latency.as_nanos() + 500) / 1_000;
        self.histogram.record(u64::try_from(us).unwrap_or(u64::MAX));
    }

    /// Packs the histogram to save memory while no values are added.
    pub fn pack(&mut self) {
        self.histogram.pack();
    }

    /// Returns each latency with its count, the shortest first, in the precision of quantiles.
    pub fn counts(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let counts = self.histogram.counts();
        counts.map(|(us, count)| (Duration::from_micros(us).min(self.longest), count))
    }

    /// Adds the latencies of another run.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.merge(&other.histogram);
        self.sum_ns += other.sum_ns;
        self.longest = self.longest.max(other.longest);
    }

    /// Returns the number of latencies.
    pub const fn count(&self) -> u64 {
        self.histogram.count()
    }

    /// Returns the latency that a share `q`, from 0 to 1, of queries did not exceed, within 0.1 %;
    /// zero if empty.
    pub fn quantile(&self, q: f64) -> Duration {
        Duration::from_micros(self.histogram.quantile(q)).min(self.longest)
    }

    /// Returns the exact mean; zero if empty.
    pub fn mean(&self) -> Duration {
        let mean_ns = self.sum_ns.checked_div(u128::from(self.count()));
        Duration::from_nanos(mean_ns.map_or(0, |ns| u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// Returns the share of queries, from 0 to 1, that took `bound` or less, within the histogram's
    /// 0.1 %; 1 if empty.
    pub fn share_at_most(&self, bound: Duration) -> f64 {
        let us = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
        self.histogram.share_at_most(us)
    }
}

/// Returns the latencies of a block of time, and adds empty ones if there are none.
pub(crate) fn latencies_at(blocks: &mut Vec<Latencies>, block: usize) -> &mut Latencies {
    if blocks.len() <= block {
        blocks.resize_with(block + 1, Latencies::default);
    }
    &mut blocks[block]
}

/// CPU used by each replica in each whole second of the measured span, as a multiple of its
/// allocation.
#[derive(Clone, Debug, Default)]
pub struct Utilization {
    /// Number of replicas.
    pub replicas: usize,
    /// Utilization second by second, within it replica by replica. Further runs follow.
    pub by_second: Vec<f32>,
}

impl Utilization {
    /// Returns the mean over replicas and time; 0 if nothing was measured.
    pub fn mean(&self) -> f64 {
        mean(&self.by_second)
    }

    /// Returns the utilization that a share `q`, from 0 to 1, of replicas and seconds did not
    /// exceed (nearest rank); 0 if nothing was measured.
    pub fn quantile_1s(&self, q: f64) -> f64 {
        quantile(self.by_second.clone(), q)
    }

    /// Returns each replica's mean over time, in the order of their numbers.
    pub fn by_replica_mean(&self) -> Vec<f64> {
        let seconds = self.seconds();
        let mut sums = vec![0.0; self.replicas];
        for second in self.by_second.chunks_exact(self.replicas.max(1)) {
            for (sum, &used) in sums.iter_mut().zip(second) {
                *sum += f64::from(used);
            }
        }
        for sum in &mut sums {
            *sum = ratio(*sum, seconds as f64);
        }
        sums
    }

    /// Returns the number of seconds, of all runs together.
    pub fn seconds(&self) -> usize {
        self.by_second.len() / self.replicas.max(1)
    }

    /// Returns means over windows of `window_seconds`: window by window, within it replica by
    /// replica. Seconds at the end that do not fill a window are left out. A window of 0 counts as
    /// 1.
    pub fn averaged(&self, window_seconds: usize) -> Vec<f32> {
        let window = window_seconds.max(1);
        let replicas = self.replicas.max(1);
        let mut averaged = Vec::with_capacity(self.by_second.len() / window);
        for seconds in self.by_second.chunks_exact(replicas * window) {
            for replica in 0..replicas {
                let sum: f32 = seconds.iter().skip(replica).step_by(replicas).sum();
                averaged.push(sum / window as f32);
            }
        }
        averaged
    }

    fn merge(&mut self, other: &Self) {
        if self.by_second.is_empty() {
            self.replicas = other.replicas;
        }
        if self.replicas == other.replicas {
            self.by_second.extend_from_slice(&other.by_second);
        }
    }
}

/// Returns `part` / `whole`, or 0 if `whole` is 0.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn mean(values: &[f32]) -> f64 {
    let sum: f64 = values.iter().map(|&value| f64::from(value)).sum();
    ratio(sum, values.len() as f64)
}

/// Returns a quantile by nearest rank: ⌈q · n⌉, and the lowest value for a `q` of 0.
fn quantile(mut values: Vec<f32>, q: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else {
        return 0.0;
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float's conversion saturates, and the rank is bounded below"
    )]
    let rank = (q * values.len() as f64).ceil() as usize;
    let index = rank.saturating_sub(1).min(last);
    let (_, &mut value, _) = values.select_nth_unstable_by(index, f32::total_cmp);
    f64::from(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn latencies_have_quantiles_mean_and_shares() {
        let mut latencies = Latencies::default();
        for latency in 1..=1_000 {
            latencies.record(ms(latency));
        }
        assert_eq!(latencies.count(), 1_000);
        assert_eq!(latencies.mean(), Duration::from_micros(500_500));
        let p90 = latencies.quantile(0.9).as_secs_f64();
        assert!((p90 - 0.9).abs() <= 0.001, "{p90}");
        let share = latencies.share_at_most(ms(250));
        assert!((share - 0.25).abs() <= 0.002, "{share}");
        let p100 = latencies.quantile(1.0);
        assert_eq!(p100, ms(1_000), "the longest is exact");
    }

    #[test]
    fn empty_measurement_gives_zero_not_nan() {
        let nothing = Measured::nothing(3);
        let figures = [
            nothing.error_share(),
            nothing.errors_per_second(),
            nothing.events_per_second(),
            nothing.utilization.mean(),
            nothing.utilization.quantile_1s(0.99),
        ];
        assert!(figures.iter().all(|figure| figure.abs() < f64::EPSILON));
        assert_eq!(nothing.utilization.by_replica_mean(), [0.0; 3]);
        assert_eq!(nothing.latency.mean(), Duration::ZERO);
    }

    #[test]
    fn merged_runs_match_one_long_run() {
        let run = |latency, utilization: &[f32], replica: usize| {
            let mut run = Measured::nothing(2);
            run.queries = 1;
            run.span = Duration::from_secs(1);
            run.latency.record(ms(latency));
            run.rif.record(latency);
            run.fallbacks = 1;
            run.trials = 1;
            run.cache_hits = 3;
            run.cache_misses = 1;
            run.health = Health {
                ejections: 1,
                probations: 2,
                readmissions: 3,
            };
            run.report_age.record(ms(latency));
            run.utilization.by_second.extend_from_slice(utilization);
            run.queries_by_replica[replica] += 1;
            run.by_second.record_sent(replica, 0);
            run.by_second.record_sent(1, replica);
            run.by_second.record_error(1);
            run
        };
        let runs = [run(10, &[0.5, 1.0], 0), run(30, &[1.5, 1.0], 1)];
        let all = Measured::together(&runs).expect("two runs");
        assert_eq!((all.queries, all.rate()), (2, 1.0));
        assert_eq!(all.latency.mean(), ms(20));
        assert_eq!(all.report_age.mean(), ms(20));
        assert_eq!((all.fallbacks, all.fallback_share()), (2, 1.0));
        assert_eq!((all.trials, all.trial_share()), (2, 1.0));
        assert_eq!((all.cache_hits, all.hit_share()), (6, 0.75));
        let Health {
            ejections,
            probations,
            readmissions,
        } = all.health;
        assert_eq!((ejections, probations, readmissions), (2, 4, 6));
        assert_eq!((all.rif_quantile(0.5), all.rif_quantile(1.0)), (10, 30));
        assert_eq!(all.queries_by_replica, [1, 1]);
        assert_eq!(all.by_second.sent, [1, 0, 2, 1], "replicas 0 and 1 twice");
        assert_eq!(all.by_second.errors, [0, 2]);
        let shares: Vec<_> = all.by_second.shares_of(0).collect();
        assert_eq!(shares, [Some(1.0), Some(2.0 / 3.0)]);
        assert_eq!(all.utilization.by_second, [0.5, 1.0, 1.5, 1.0]);
        assert_eq!(all.utilization.by_replica_mean(), [1.0, 1.0]);
        assert!(Measured::together(&[]).is_none());
    }

    #[test]
    fn utilization_is_averaged_per_replica() {
        let utilization = Utilization {
            replicas: 2,
            by_second: vec![0.0, 1.0, 1.0, 2.0, 9.0, 9.0],
        };
        assert_eq!(
            utilization.averaged(2),
            [0.5, 1.5],
            "the third second fills no window"
        );
        assert_eq!(utilization.averaged(1), utilization.by_second);
        let quantiles = [0.0, 0.5, 1.0].map(|q| utilization.quantile_1s(q));
        let expected = vec![0.0, 1.0, 9.0];
        assert_eq!(quantiles.to_vec(), expected, "ranks 1, 3 and 6 of 6");
        assert_eq!(utilization.seconds(), 3);
    }
}
