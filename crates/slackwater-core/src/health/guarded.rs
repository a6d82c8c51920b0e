//! A policy around a policy: what it sees, and what it makes of it.

use super::evidence::Sample;
use super::judge::{self, Verdict};
use super::record::Record;
use super::reference::{Others, Reference, Unhurried};
use super::settings::{HealthConfig, HealthSettings};
use super::shares::Shares;
use super::window::BUCKETS;
use super::{TICK_NS, WHOLE};
use crate::policy::{DEFAULT_POLICY, HealthCounters, HealthState};
use crate::policy::{PeakEwmaSettings, Policy, PolicyEntry, PolicySettings, ProbeId, Settings};
use crate::replica::{ReplicaId, ReplicaMap, ReplicaSet};
use crate::tail::Tokens;
use crate::time::{Instant, span_ns};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// Trials that may be saved up.
pub(super) const SAVED_MAX: u32 = 3;

/// Of so many probes is it remembered whom they ask; a policy has 64 out at most by default.
pub(super) const PROBES: usize = 256;

/// `policy` with health around it; itself, if nothing is to be watched.
pub fn guard(policy: Box<dyn Policy>, config: &HealthConfig) -> Box<dyn Policy> {
    if config.is_off() {
        policy
    } else {
        Box::new(Guarded::new(policy, config.clone()))
    }
}

/// The policy of that entry with health around it. With error aversion, `peak_ewma` has no penalty
/// of its own for failures: what keeps it away from a replica for a minute would keep the replica
/// away that has healed.
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

/// A policy that chooses among those that are in health, each for its share.
pub struct Guarded {
    pub(super) policy: Box<dyn Policy>,
    pub(super) config: HealthConfig,
    pub(super) records: ReplicaMap<Record>,
    pub(super) members: ReplicaSet,
    /// Those that are out.
    pub(super) out: Vec<ReplicaId>,
    /// Of the members and of those that are out, how many the driver offers.
    pub(super) offered: usize,
    pub(super) offered_out: usize,
    pub(super) shares: Shares,
    /// Somebody's share has changed since `shares` was made.
    pub(super) has_changed: bool,
    pub(super) trials: Tokens,
    /// Somebody may be out who has had a trial that went well, and is to have the next.
    pub(super) has_passing: bool,
    pub(super) rates: Others<u32>,
    pub(super) rates_just_now: Others<u32>,
    /// What those that are compared with show together.
    pub(super) shown: Sample,
    pub(super) latencies: Others<u64>,
    pub(super) paces: Others<u64>,
    pub(super) peaks: Others<u64>,
    pub(super) unhurried: Unhurried,
    pub(super) unhurried_ns: u64,
    /// The part of queries that succeeds with the middle one of those in the choice, the better one
    /// of two: what is taken of who has shown nothing yet. The worse one of two could be that one
    /// itself.
    pub(super) fleet_success: u32,
    pub(super) latest: Instant,
    pub(super) tick_at: Instant,
    pub(super) bucket: u64,
    pub(super) bucket_ns: u64,
    pub(super) in_flight: u64,
    /// Stays begun.
    pub(super) stays: u32,
    /// The fleet has had queries: whoever joins now is new to it.
    pub(super) has_served: bool,
    pub(super) probes: Vec<Option<(ProbeId, ReplicaId)>>,
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
    /// Health around a policy with an empty fleet.
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
            probes: alloc::vec![None; PROBES],
            counters: HealthCounters::default(),
            config,
        }
    }

    /// The time it is, and what is due by then.
    pub(super) fn tick(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        if self.latest >= self.tick_at {
            self.settle();
        }
        self.latest
    }

    /// Settles where each replica stands.
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
            // Where all begin to fail at once, nobody does so at quite the same time.
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
                    record.course.rise();
                    self.counters.readmissions += 1;
                    self.admit(replica);
                }
            }
        }
    }
}
