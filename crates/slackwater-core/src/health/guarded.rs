//! The wrapper: a policy with health around it.

use super::evidence::Sample;
use super::judge::{self, Verdict};
use super::record::Record;
use super::reference::{Others, Reference, Unhurried};
use super::settings::{HealthConfig, HealthSettings};
use super::shares::Shares;
use super::window::BUCKETS;
use super::{TICK_NS, WHOLE};
use crate::policy::{DEFAULT_POLICY, HealthCounters, HealthState};
use crate::policy::{PeakEwmaSettings, Policy, PolicyEntry, PolicySettings, Settings};
use crate::replica::{ReplicaId, ReplicaMap, ReplicaSet};
use crate::tail::Tokens;
use crate::time::{Instant, span_ns};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// Trials that may be saved up.
pub(super) const SAVED_MAX: u32 = 3;

/// Wraps `policy` in health. Returns it unchanged if nothing is watched.
pub fn guard(policy: Box<dyn Policy>, config: &HealthConfig) -> Box<dyn Policy> {
    if config.is_off() {
        policy
    } else {
        Box::new(Guarded::new(policy, config.clone()))
    }
}

/// Builds the policy of an entry with health around it. With error aversion, `peak_ewma` has no
/// penalty for failures of its own: that penalty, which lasts a minute, would also keep queries
/// away from a replica that has recovered.
pub fn build(
    entry: &PolicyEntry,
    settings: &PolicySettings,
    config: &HealthConfig,
) -> Box<dyn Policy> {
    if config.errors.is_none() {
        return guard((entry.build)(settings), config);
    }
    let mut settings = settings.clone();
    let peak_ewma = PeakEwmaSettings {
        failure_penalty: Duration::ZERO,
        ..(*settings.peak_ewma).clone()
    };
    if let Ok(peak_ewma) = peak_ewma.validate() {
        settings.peak_ewma = peak_ewma;
    }
    guard((entry.build)(&settings), config)
}

/// The policy of `slackwater serve` where its file names none: [`DEFAULT_POLICY`] with
/// [standard](HealthSettings::standard) health around it.
///
/// ```
/// use slackwater_core::policy::DEFAULT_POLICY;
///
/// assert_eq!(slackwater_core::default_policy().name(), DEFAULT_POLICY.name);
/// ```
pub fn default_policy() -> Box<dyn Policy> {
    let health = HealthSettings::standard().validate().unwrap_or_default();
    build(&DEFAULT_POLICY, &PolicySettings::default(), &health)
}

/// A policy that chooses among healthy replicas, each in proportion to its share.
pub struct Guarded {
    pub(super) policy: Box<dyn Policy>,
    pub(super) config: HealthConfig,
    pub(super) records: ReplicaMap<Record>,
    pub(super) members: ReplicaSet,
    /// The replicas that are out.
    pub(super) out: Vec<ReplicaId>,
    /// How many members, and how many of the replicas that are out, the driver offers.
    pub(super) offered: usize,
    pub(super) offered_out: usize,
    pub(super) shares: Shares,
    /// A share has changed since `shares` was built.
    pub(super) has_changed: bool,
    pub(super) trials: Tokens,
    /// A replica that is out may have passed a trial and be due for the next.
    pub(super) has_passing: bool,
    pub(super) rates: Others<u32>,
    pub(super) rates_just_now: Others<u32>,
    /// The samples of all compared replicas, summed.
    pub(super) shown: Sample,
    pub(super) latencies: Others<u64>,
    pub(super) paces: Others<u64>,
    pub(super) peaks: Others<u64>,
    pub(super) unhurried: Unhurried,
    pub(super) unhurried_ns: u64,
    /// The success rate of the median replica in the choice, the upper median of two. It is assumed
    /// for replicas without data. The lower one of two could be the failing replica itself.
    pub(super) fleet_success: u32,
    pub(super) latest: Instant,
    pub(super) tick_at: Instant,
    pub(super) bucket: u64,
    pub(super) bucket_ns: u64,
    pub(super) in_flight: u64,
    /// Number of stays so far; each join starts one.
    pub(super) stays: u32,
    /// The fleet has had queries, so a replica that joins now is new to it.
    pub(super) has_served: bool,
    pub(super) counters: HealthCounters,
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.members.as_slice().iter();
        let views = members.filter_map(|&replica| self.view(replica));
        let unsound = views.filter(|view| view.state != HealthState::Sound);
        let unsound = unsound.map(|view| (view.replica, view.state.as_str()));
        f.debug_struct("Guarded")
            .field("policy", &self.policy)
            .field("unsound", &unsound.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Guarded {
    /// Puts health around a policy with an empty fleet.
    pub fn new(policy: Box<dyn Policy>, config: HealthConfig) -> Self {
        let window = (config.errors.as_ref()).map_or(Duration::from_secs(10), |e| e.window);
        Self {
            policy,
            records: ReplicaMap::default(),
            members: ReplicaSet::default(),
            out: Vec::new(),
            offered: 0,
            offered_out: 0,
            shares: Shares::default(),
            has_changed: false,
            trials: Tokens::new(config.trials, SAVED_MAX),
            has_passing: false,
            rates: Others::default(),
            rates_just_now: Others::default(),
            shown: Sample::default(),
            latencies: Others::default(),
            paces: Others::default(),
            peaks: Others::default(),
            unhurried: Unhurried::default(),
            unhurried_ns: 0,
            fleet_success: WHOLE,
            latest: Instant::EPOCH,
            tick_at: Instant::EPOCH,
            bucket: 0,
            bucket_ns: span_ns(window) / BUCKETS,
            in_flight: 0,
            stays: 0,
            has_served: false,
            counters: HealthCounters::default(),
            config,
        }
    }

    /// Advances the clock, does what is due, and returns the time.
    pub(super) fn tick(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        if self.latest >= self.tick_at {
            self.settle();
        }
        self.latest
    }

    /// Settles the standing of each replica.
    fn settle(&mut self) {
        let now = self.latest;
        self.tick_at = now.plus_ns(TICK_NS);
        self.bucket = now.as_nanos() / self.bucket_ns;
        self.rates.clear();
        self.rates_just_now.clear();
        self.latencies.clear();
        self.paces.clear();
        self.peaks.clear();
        self.shown = Sample::default();
        self.has_passing = false;
        let (bucket, fleet) = (self.bucket, self.fleet_success);
        for &replica in self.members.as_slice() {
            let Some(record) = self.records.find_mut(replica) else {
                continue;
            };
            record.tick(now);
            record.estimate(now, bucket, fleet);
            record.compare(bucket, fleet);
            self.has_passing |= record.course.is_out() && record.course.is_passing();
            let compared = &record.compared;
            self.shown.add(compared.shown);
            self.rates.add(compared.success);
            self.rates_just_now.add(compared.success_just_now);
            self.latencies.add(record.compared_latency_ns());
            self.paces.add(record.compared_pace_ns(now));
            self.peaks.add(record.compared_peak_ns());
        }
        // The medians need all values first, and the verdicts need the medians, so there are two
        // passes.
        self.rates.settle();
        self.rates_just_now.settle();
        self.latencies.settle();
        self.paces.settle();
        self.peaks.settle();
        self.fleet_success = self.rates.upper_median().unwrap_or(WHOLE);
        self.unhurried_ns = self.unhurried.note(now, self.latencies.median());
        for place in 0..self.members.len() {
            if let Some(&replica) = self.members.as_slice().get(place) {
                self.judge(replica);
                self.judge_trial(replica);
            }
        }
        self.enforce_limit();
        self.refresh();
    }

    pub(super) fn others(&self, record: &Record) -> Reference {
        let now = self.latest;
        let compared = &record.compared;
        let just_now = (self.rates_just_now).median_without(compared.success_just_now);
        let success = self.rates.median_without(compared.success);
        Reference {
            // Replicas that start to fail together do not do so at exactly the same time.
            success: success.map(|success| success.min(just_now.unwrap_or(success))),
            shown: self.shown.without(compared.shown),
            latency_ns: (self.latencies).median_without(record.compared_latency_ns()),
            pace_ns: self.paces.median_without(record.compared_pace_ns(now)),
            peak_ns: self.peaks.median_without(record.compared_peak_ns()),
            unhurried_ns: self.unhurried_ns,
        }
    }

    fn judge(&mut self, replica: ReplicaId) {
        let Some(record) = self.records.find(replica) else {
            return;
        };
        let (now, others) = (self.latest, self.others(record));
        let Some(record) = self.records.find_mut(replica) else {
            return;
        };
        let verdict = judge::judge(now, record, &others, &self.config);
        self.carry_out(replica, verdict);
    }

    pub(super) fn carry_out(&mut self, replica: ReplicaId, verdict: Verdict) {
        match verdict {
            Verdict::Stay => {}
            Verdict::Leave(why) => self.leave(replica, why, false),
            Verdict::ComeBack => self.come_back(replica),
            Verdict::Rise => {
                if let Some(record) = self.records.find_mut(replica) {
                    record.course.rise(self.latest);
                    self.counters.readmissions += 1;
                    self.admit(replica);
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::draw::NoDraw;
    use crate::policy::{Event, Outcome, Query, Random};
    use crate::replica::ReplicaIds;

    pub(in crate::health) const MS: u64 = 1_000_000;

    pub(in crate::health) fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    /// A fleet that chooses at random, with health around it.
    pub(in crate::health) fn guarded(
        settings: HealthSettings,
        replicas: usize,
    ) -> (Guarded, Vec<ReplicaId>) {
        let config = settings.validate().expect("in range");
        let mut guarded = Guarded::new(Box::new(Random::new()), config);
        let mut ids = ReplicaIds::new();
        let replicas = (0..replicas).map(|_| {
            let replica = ids.allocate().expect("room");
            guarded.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
            replica
        });
        let replicas = replicas.collect();
        (guarded, replicas)
    }

    pub(in crate::health) fn record(guarded: &mut Guarded, replica: ReplicaId) -> &mut Record {
        guarded.records.find_mut(replica).expect("known")
    }

    /// Books results in the bucket of a replica.
    pub(in crate::health) fn book(record: &mut Record, bucket: u64, count: u32, outcome: Outcome) {
        for _ in 0..count {
            record.booked(bucket, MS, outcome);
        }
    }

    /// `[E4]`
    #[test]
    fn others_count_with_the_worse_of_the_whole_window_and_the_last_two_buckets() {
        let (good, bad) = (Outcome::Success, Outcome::Failed);
        for (before, last, last_bucket, success) in [
            // 105/115, 5/15 and 15/115 with the five queries that count as the fleet's do.
            (good, bad, 8, 913_043),
            (good, bad, 9, 333_333),
            (good, bad, 10, 333_333),
            (bad, good, 9, 130_434),
        ] {
            let (mut guarded, replicas) = guarded(HealthSettings::default(), 4);
            for &replica in &replicas[1..] {
                let record = record(&mut guarded, replica);
                book(record, 0, 100, before);
                book(record, last_bucket, 10, last);
            }
            guarded.tick(Instant::from_nanos(10 * guarded.bucket_ns));
            let record = guarded.records.find(replicas[0]).expect("known");
            let found = guarded.others(record).success;
            assert_eq!(found, Some(success), "{last_bucket}");
        }
    }

    /// `[E1]`
    #[test]
    fn results_are_forgotten_after_the_window_to_a_sixteenth_of_it() {
        for (ms, success) in [(624, WHOLE), (625, 500_000)] {
            let (mut guarded, replicas) = guarded(HealthSettings::default(), 2);
            guarded.tick(at(ms));
            let bucket = guarded.bucket;
            for (place, outcome) in [(0, Outcome::Failed), (1, Outcome::Success)] {
                book(record(&mut guarded, replicas[place]), bucket, 5, outcome);
            }
            guarded.tick(at(9_950));
            assert_eq!(record(&mut guarded, replicas[0]).success, 500_000);
            guarded.tick(at(10_050));
            assert_eq!(record(&mut guarded, replicas[0]).success, success, "{ms}");
        }
    }

    #[test]
    fn standings_are_settled_ten_times_a_second_while_a_query_is_in_flight() {
        let (mut guarded, _) = guarded(HealthSettings::default(), 2);
        assert_eq!(guarded.poll_timeout(), None);
        let decision = guarded.choose(at(10), Query::first(), &mut || 0, None);
        let ticket = decision.pick().expect("two are known").ticket;
        assert_eq!(guarded.poll_timeout(), Some(at(110)));
        guarded.handle(at(109), Event::Timeout, &mut NoDraw);
        assert_eq!(guarded.poll_timeout(), Some(at(110)));
        guarded.handle(at(110), Event::Timeout, &mut NoDraw);
        assert_eq!(guarded.poll_timeout(), Some(at(210)));
        guarded.handle_query_done(at(120), ticket, Outcome::Success);
        assert_eq!(guarded.poll_timeout(), None);
    }

    #[test]
    fn of_two_success_rates_the_better_one_stands_for_the_fleet() {
        for failing in [0, 1] {
            let (mut guarded, replicas) = guarded(HealthSettings::default(), 2);
            for (place, &replica) in replicas.iter().enumerate() {
                let is_bad = place == failing;
                let outcome = if is_bad {
                    Outcome::Failed
                } else {
                    Outcome::Success
                };
                book(record(&mut guarded, replica), 0, 5, outcome);
            }
            guarded.tick(at(100));
            assert_eq!(guarded.fleet_success, WHOLE);
        }
    }
}
