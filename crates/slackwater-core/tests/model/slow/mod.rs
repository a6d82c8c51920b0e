//! Prequal, slow and obvious: written from the rules, not from the policy.
//!
//! Everything is a plain list that is searched from end to end, and everything that can be
//! recomputed is: the RIF limit from the whole history of responses, the probes owed from the
//! number of queries, the reuse limit as a fraction at each report. It shares only its nouns and
//! the [`LoadTracker`] of silent replicas with the policy under test.
//!
//! # The order of draws
//!
//! Both sides get the same draws, so the order of draws is part of the contract. A pick draws once
//! if several reports tie for the best, or once for a random replica; then once if several tie for
//! the worst that is removed. A target batch draws once per target (Floyd), and the last drawn is
//! sent first. An idle timeout draws the next idle span. A report draws if its uses are fractional.

mod back_off;
mod picking;
mod probing;

use back_off::SlowBackOff;
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Counters, Outcome, PickReason, PooledView, ProbeId, ReplicaView};
use slackwater_core::tracker::{Arrival, End, LoadTracker, TrackerConfig};
use slackwater_core::{Instant, ReplicaId, Rif};
use std::collections::BTreeMap;

const MILLION: i128 = 1_000_000;

/// A pooled report.
#[derive(Clone, Copy, Debug)]
struct Entry {
    replica: ReplicaId,
    rif: u32,
    latency: Option<Duration>,
    received_at: Instant,
    uses_left: u32,
    local: bool,
}

/// The model's state of one replica.
#[derive(Debug, Default)]
struct Replica {
    ejected: bool,
    draining: bool,
    /// It stopped answering while others did not. `[Decision 0007]`
    lost: bool,
    in_flight: u32,
    /// Queries in flight when it was last probed, and how many have ended since. `[Decision 0015]`
    out_at_probe: u32,
    ended_since_probe: u32,
    probed_at: Option<Instant>,
    answered_at: Option<Instant>,
    lost_in_a_row: u32,
    /// When the first of the lost probes in a row was lost.
    lost_since: Instant,
    unreachable_until: Instant,
    /// When a probe to it was last answered locally.
    answered_here_at: Option<Instant>,
    /// Present while it is silent.
    tracker: Option<LoadTracker>,
    silences: u32,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    id: ProbeId,
    replica: ReplicaId,
    sent_at: Instant,
    deadline: Instant,
}

/// A query in flight, in the model.
#[derive(Debug)]
pub(crate) struct SlowTicket {
    replica: ReplicaId,
    local: Option<(u32, Arrival)>,
}

/// The model's pick.
#[derive(Debug)]
pub(crate) struct SlowPick {
    pub(crate) ticket: SlowTicket,
    pub(crate) replica: ReplicaId,
    pub(crate) reason: PickReason,
    pub(crate) limit: Option<Rif>,
    pub(crate) candidates: u16,
    pub(crate) chosen: Option<PooledView>,
    /// Any of these may be the runner-up; empty if there was nothing to compare.
    pub(crate) runners_up: Vec<ReplicaId>,
}

/// The model.
#[derive(Debug)]
pub(crate) struct SlowPrequal {
    settings: PrequalSettings,
    replicas: BTreeMap<ReplicaId, Replica>,
    /// In order of arrival; when one leaves, the last takes its place.
    known: Vec<ReplicaId>,
    available: Vec<ReplicaId>,
    /// Oldest first.
    pool: Vec<Entry>,
    /// RIF of every response so far.
    responses: Vec<u32>,
    /// RIF of every local estimate so far.
    estimates: Vec<u32>,
    /// RIF beyond the client's own in every response of an available replica so far, in 1/1024.
    others: Vec<u64>,
    /// Round trips of all answered probes so far, in nanoseconds.
    round_trips: Vec<u64>,
    /// First attempts so far, and removals by rate so far.
    to_remove: u64,
    removals: u64,
    /// Probes that all queries so far triggered, and those that were left out, in millionths.
    asked: u64,
    left_out: u64,
    back_off: SlowBackOff,
    /// What is missing in the token bucket of probes, in billionths of a probe, and as of when.
    paid: (u128, Instant),
    /// First attempts and pooled reports since the yield was last measured, and that yield.
    window: (u64, u64),
    measured: i128,
    batches: Vec<u32>,
    targets: Vec<ReplicaId>,
    outstanding: Vec<Outstanding>,
    idle_at: Option<Instant>,
    idle_span: Duration,
    /// When any replica last answered a probe.
    heard_at: Option<Instant>,
    /// When lost replicas were last found again because none answers. `[Decision 0007]`
    broken_at: Instant,
    /// The share of probes that are lost although their replica lives, and how many probes that is
    /// the mean of.
    loss: (f64, f64),
    pub(crate) counters: Counters,
    pub(crate) picks: BTreeMap<PickReason, u64>,
}

fn swap_out(list: &mut Vec<ReplicaId>, replica: ReplicaId) -> bool {
    let place = list.iter().position(|&other| other == replica);
    place.map(|place| list.swap_remove(place)).is_some()
}

fn local_tracker() -> LoadTracker {
    LoadTracker::new(&TrackerConfig {
        sample_capacity: 16,
        ..TrackerConfig::default()
    })
}

impl SlowPrequal {
    pub(crate) fn new(settings: PrequalSettings) -> Self {
        Self {
            measured: i128::from(settings.probe_rate.millionths()),
            idle_span: settings.probe_idle_max,
            back_off: SlowBackOff::new(&settings),
            settings,
            replicas: BTreeMap::new(),
            known: Vec::new(),
            available: Vec::new(),
            pool: Vec::new(),
            responses: Vec::new(),
            estimates: Vec::new(),
            others: Vec::new(),
            round_trips: Vec::new(),
            to_remove: 0,
            removals: 0,
            asked: 0,
            left_out: 0,
            paid: (0, Instant::EPOCH),
            window: (0, 0),
            batches: Vec::new(),
            targets: Vec::new(),
            outstanding: Vec::new(),
            idle_at: None,
            heard_at: None,
            broken_at: Instant::EPOCH,
            loss: (0.0, 0.0),
            counters: Counters::default(),
            picks: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, now: Instant, replica: ReplicaId) {
        if self.replicas.contains_key(&replica) {
            return;
        }
        let tracker = self.settings.local_only.then(local_tracker);
        self.replicas.insert(
            replica,
            Replica {
                tracker,
                ..Replica::default()
            },
        );
        self.known.push(replica);
        self.available.push(replica);
        self.settle_everybody(replica);
        self.idle_at = self.idle_at.or(Some(now));
    }

    pub(crate) fn remove(&mut self, replica: ReplicaId) {
        if let Some(it) = self.replicas.get_mut(&replica) {
            it.ejected = true;
            it.lost = false;
        }
        self.settle_everybody(replica);
        self.replicas.remove(&replica);
        swap_out(&mut self.known, replica);
        self.targets.retain(|&target| target != replica);
        self.pool.retain(|entry| entry.replica != replica);
        self.forget_if_deaf();
    }

    pub(crate) fn set_ejected(&mut self, replica: ReplicaId, ejected: bool) {
        if let Some(it) = self.replicas.get_mut(&replica) {
            it.ejected = ejected;
        }
        self.settle_availability(replica);
    }

    /// Updates availability after a change, starting with this replica.
    fn settle_availability(&mut self, replica: ReplicaId) {
        self.settle_everybody(replica);
        self.forget_if_deaf();
    }

    fn settle_everybody(&mut self, first: ReplicaId) {
        self.settle(first);
        for replica in self.known.clone() {
            self.settle(replica);
        }
    }

    /// Availability: not ejected, not draining, and not lost unless all others are. An unavailable
    /// replica has no pooled report. `[A12]` `[Decision 0007]`
    fn settle(&mut self, replica: ReplicaId) {
        let is_fit = |it: &Replica| !it.ejected && !it.draining;
        let anybody = self.replicas.values().any(|it| is_fit(it) && !it.lost);
        let Some(it) = self.replicas.get(&replica) else {
            return;
        };
        if !is_fit(it) || (it.lost && anybody) {
            swap_out(&mut self.available, replica);
            self.pool.retain(|entry| entry.replica != replica);
        } else if !self.available.contains(&replica) {
            self.available.push(replica);
        }
    }

    /// The quantile of the last 128 responses, nearest rank; of local estimates while no replica
    /// responds. `[A6]` `[A13]`
    pub(crate) fn limit(&self) -> Option<Rif> {
        let q = u64::from(self.settings.rif_limit_quantile.millionths());
        if q == 0 {
            return Some(Rif::ZERO);
        }
        if q == 1_000_000 {
            return None;
        }
        let all = if self.responses.is_empty() {
            &self.estimates
        } else {
            &self.responses
        };
        quantile(all, q)
    }

    /// Caps a RIF at the ordinary one: the 0.8 quantile of responses. `[A13]`
    fn ordinary(&self, rif: Rif) -> Rif {
        quantile(&self.responses, 800_000).map_or(rif, |most| rif.min(most))
    }

    fn view(&self, now: Instant, entry: &Entry) -> PooledView {
        PooledView {
            replica: entry.replica,
            rif: Rif::new(entry.rif),
            latency: entry.latency,
            age: now.saturating_since(entry.received_at),
            uses_left: entry.uses_left,
            local: entry.local,
            hot: self.limit().is_some_and(|limit| entry.rif >= limit.count()),
        }
    }

    pub(crate) fn query_done(&mut self, now: Instant, ticket: SlowTicket, outcome: Outcome) {
        let SlowTicket { replica, local } = ticket;
        if outcome == Outcome::NoConnection {
            self.pool.retain(|entry| entry.replica != replica);
        }
        let Some(it) = self.replicas.get_mut(&replica) else {
            return;
        };
        it.in_flight -= 1;
        it.ended_since_probe += 1;
        if outcome == Outcome::NoConnection {
            it.unreachable_until = now + Duration::from_secs(1);
        }
        let (Some(tracker), Some((silence, arrival))) = (&it.tracker, local) else {
            return;
        };
        if silence != it.silences {
            return;
        }
        if outcome == Outcome::NoConnection {
            tracker.withdraw(arrival);
        } else {
            tracker.finish(now, arrival, end_of(outcome));
        }
    }

    /// A stream after its head does not indicate a stall. `[T4]`
    pub(crate) fn head(&mut self, now: Instant, ticket: &mut SlowTicket, outcome: Outcome) {
        let it = self.replicas.get(&ticket.replica);
        if let Some(it) = it
            && let Some(tracker) = &it.tracker
            && let Some((silence, arrival)) = &mut ticket.local
            && *silence == it.silences
        {
            tracker.head_ready(now, arrival, end_of(outcome));
        }
    }

    /// Forgets earlier answers when no available replica answers probes. If no replica is
    /// available, they stay. `[A13]`
    fn forget_if_deaf(&mut self) {
        let is_silent = |replica| self.replicas[replica].tracker.is_some();
        let panic = self.available.is_empty() && !self.known.is_empty();
        if !panic && self.available.iter().all(is_silent) {
            if !self.responses.is_empty() {
                self.estimates.clear();
                self.others.clear();
                self.round_trips.clear();
            }
            self.responses.clear();
        }
    }

    pub(crate) fn pool_views(&self, now: Instant) -> Vec<PooledView> {
        let fresh = |view: &PooledView| view.age < self.settings.report_age_max;
        self.pool
            .iter()
            .map(|entry| self.view(now, entry))
            .filter(fresh)
            .collect()
    }

    pub(crate) fn probe_rate(&self) -> Option<u64> {
        (!self.settings.local_only && self.settings.probe_rate.millionths() > 0)
            .then(|| self.back_off.rate())
    }

    pub(crate) fn replica_views(&self) -> Vec<ReplicaView> {
        let view = |&replica: &ReplicaId| {
            let it = &self.replicas[&replica];
            ReplicaView {
                replica,
                available: self.available.contains(&replica),
                draining: it.draining,
                in_flight: it.in_flight,
                unprobed: it.tracker.is_some(),
                lost: it.lost,
            }
        };
        self.known.iter().map(view).collect()
    }
}

/// The smallest of the last 128 values that at least a share q of them does not exceed. `None` if
/// there are no values.
fn quantile(all: &[u32], q: u64) -> Option<Rif> {
    let mut recent: Vec<u32> = all.iter().rev().take(128).copied().collect();
    recent.sort_unstable();
    let enough = |rif: &&u32| {
        let at_most = recent.iter().filter(|other| other <= rif).count() as u64;
        at_most * 1_000_000 >= q * recent.len() as u64
    };
    recent.iter().find(enough).map(|&rif| Rif::new(rif))
}

/// The mean of the last 64, rounded to the nearest; 0 if there are none. `[A13]`
fn recent_mean(all: &[u64]) -> u64 {
    let recent = &all[all.len().saturating_sub(64)..];
    let k = recent.len().max(1) as u64;
    (2 * recent.iter().sum::<u64>() + k) / (2 * k)
}

fn end_of(outcome: Outcome) -> End {
    match outcome {
        Outcome::Success => End::Success,
        Outcome::Dropped => End::Cancelled,
        _ => End::Failed,
    }
}
