//! Replicas that answer no probes: balanced by what this client sees itself. `[A13]` `[Decision 0002]`
//!
//! A replica that has never answered a probe, or not for [`SILENCE_MAX`], is *silent*. Its probes are answered here,
//! from a tracker of the client's own queries to it. The client's own RIF is lower than the replica's true one by what
//! other clients have in flight there; that part is estimated from the replicas that do answer, as the mean of what they
//! report beyond the client's own. If other clients spread their load evenly, the sum is the mean of the true RIF given
//! one's own: silent replicas are then neither starved nor flooded.

use crate::policy::query::{Outcome, Ticket};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::report::{LoadReport, Rif};
use crate::time::Instant;
use crate::tracker::{Arrival, End, LoadTracker, TrackerConfig};
use alloc::boxed::Box;
use core::time::Duration;

/// So many probes lost in a row, from the first on, make a replica silent.
const LOST_IN_A_ROW: u8 = 3;
/// A replica that has answered before is silent only after so long without an answer: probes may be lost, and one whose
/// machine is gone should be found out by that rather than be balanced by its emptiness.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// A silent replica that could not be reached is not offered again for so long.
const UNREACHABLE_PAUSE: Duration = Duration::from_secs(1);
/// How often a silent replica is really probed, to notice that it answers.
pub(super) const SILENT_PROBE_INTERVAL_NS: u64 = 1_000_000_000;
/// Latencies that a client remembers for each silent replica.
const SAMPLE_CAPACITY: usize = 16;

/// A query as the tracker of a silent replica saw it.
#[derive(Debug)]
pub(in crate::policy) struct LocalArrival {
    silence: u32,
    arrival: Arrival,
}

/// What is heard of a replica's probes.
#[derive(Debug, Default)]
struct Hearing {
    answered_at: Option<Instant>,
    lost_in_a_row: u8,
    /// A silent replica is not offered before this.
    unreachable_until: Instant,
}

/// What this client knows itself of a replica that is silent.
#[derive(Debug)]
struct Silent {
    /// Which silence this is: queries sent during an earlier one do not belong to its tracker.
    silence: u32,
    tracker: LoadTracker,
}

/// What this client hears, or does not hear, from each replica.
#[derive(Debug, Default)]
pub(super) struct LocalLoads {
    hearings: ReplicaMap<Hearing>,
    silent: ReplicaMap<Box<Silent>>,
    /// How many replicas are silent; while none is, queries are none of this module's business.
    silent_now: usize,
    silences: u32,
    others: OthersEstimate,
}

impl LocalLoads {
    pub(super) fn add(&mut self, replica: ReplicaId) {
        self.hearings.insert(replica, Hearing::default());
    }

    pub(super) fn remove(&mut self, replica: ReplicaId) {
        self.hearings.remove(replica);
        self.end_silence(replica);
    }

    /// Of so many replicas, none is heard.
    pub(super) fn all_silent(&self, known: usize) -> bool {
        self.silent_now == known
    }

    /// What was heard of other clients tells nothing any more.
    pub(super) fn forget_others(&mut self) {
        self.others = OthersEstimate::default();
    }

    pub(super) fn is_silent(&self, replica: ReplicaId) -> bool {
        self.silent_now > 0 && self.silent.find(replica).is_some()
    }

    /// The replica counts as silent from now on; `false` if it did before.
    pub(super) fn begin_silence(&mut self, replica: ReplicaId) -> bool {
        if self.is_silent(replica) {
            return false;
        }
        self.silent_now += 1;
        self.silences = self.silences.wrapping_add(1);
        let config = TrackerConfig {
            sample_capacity: SAMPLE_CAPACITY,
            ..TrackerConfig::default()
        };
        let silent = Silent {
            silence: self.silences,
            tracker: LoadTracker::new(&config),
        };
        self.silent.insert(replica, Box::new(silent));
        true
    }

    fn end_silence(&mut self, replica: ReplicaId) {
        if self.silent_now > 0 && self.silent.remove(replica).is_some() {
            self.silent_now -= 1;
        }
    }

    /// The replica has answered; `own_in_flight` of what it reports is this client's. `rif` is at most the RIF limit: one
    /// replica that is overloaded, or lies, shall not stand for all.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        rif: Rif,
        own_in_flight: u32,
    ) {
        if let Some(hearing) = self.hearings.find_mut(replica) {
            *hearing = Hearing {
                answered_at: Some(now),
                ..Hearing::default()
            };
            self.others
                .record(rif.count().saturating_sub(own_in_flight));
            self.end_silence(replica);
        }
    }

    /// A probe was lost; `true` if that makes the replica silent.
    pub(super) fn lost(&mut self, now: Instant, replica: ReplicaId) -> bool {
        let Some(hearing) = self.hearings.find_mut(replica) else {
            return false;
        };
        hearing.lost_in_a_row = hearing.lost_in_a_row.saturating_add(1);
        let long_silent = hearing
            .answered_at
            .is_none_or(|answered_at| now.saturating_since(answered_at) >= SILENCE_MAX);
        hearing.lost_in_a_row >= LOST_IN_A_ROW && long_silent && self.begin_silence(replica)
    }

    /// A query goes to the replica.
    pub(super) fn query_sent(&mut self, now: Instant, ticket: &mut Ticket) {
        if self.silent_now > 0
            && let Some(silent) = self.silent.find(ticket.replica())
        {
            let arrival = silent.tracker.arrive(now);
            ticket.local = Some(LocalArrival {
                silence: silent.silence,
                arrival,
            });
        }
    }

    /// A query that went there is over.
    pub(super) fn query_done(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let replica = ticket.replica();
        if outcome == Outcome::Unreachable
            && let Some(hearing) = self.hearings.find_mut(replica)
        {
            hearing.unreachable_until = now + UNREACHABLE_PAUSE;
        }
        let Some(local) = ticket.local.take() else {
            return;
        };
        if let Some(silent) = self.current(replica, &local) {
            silent.tracker.finish(now, local.arrival, end_of(outcome));
        }
    }

    /// The head of a response from there is here. A stream whose head is out is no sign of a stop. `[T4]`
    pub(super) fn head_ready(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let replica = ticket.replica();
        if let Some(local) = &mut ticket.local
            && let Some(silent) = self.current(replica, local)
        {
            let end = end_of(outcome);
            silent.tracker.head_ready(now, &mut local.arrival, end);
        }
    }

    /// The silence that a query was sent in, if it still lasts.
    fn current(&self, replica: ReplicaId, local: &LocalArrival) -> Option<&Silent> {
        let silent = self.silent.find(replica)?;
        (silent.silence == local.silence).then_some(silent)
    }

    /// A silent replica's probe, answered from the client's own knowledge; `None` if it is not silent, or could not be
    /// reached just now.
    pub(super) fn report(&self, now: Instant, replica: ReplicaId) -> Option<LoadReport> {
        let silent = self.silent.find(replica)?;
        let hearing = self.hearings.find(replica)?;
        if now < hearing.unreachable_until {
            return None;
        }
        let mut report = silent.tracker.report(now);
        report.rif = Rif::new(report.rif.count().saturating_add(self.others.mean()));
        Some(report)
    }
}

fn end_of(outcome: Outcome) -> End {
    match outcome {
        Outcome::Success => End::Success,
        Outcome::Failed | Outcome::Unreachable => End::Failed,
        Outcome::Dropped => End::Cancelled,
    }
}

/// What other clients have in flight at a replica, on average over recent reports.
#[derive(Clone, Debug)]
struct OthersEstimate {
    ring: [u32; Self::REMEMBERED],
    sum: u64,
    next: usize,
    len: usize,
}

impl Default for OthersEstimate {
    fn default() -> Self {
        Self {
            ring: [0; Self::REMEMBERED],
            sum: 0,
            next: 0,
            len: 0,
        }
    }
}

impl OthersEstimate {
    const REMEMBERED: usize = 64;

    fn record(&mut self, others: u32) {
        self.sum += u64::from(others);
        self.sum -= u64::from(core::mem::replace(&mut self.ring[self.next], others));
        self.next = (self.next + 1) % Self::REMEMBERED;
        self.len = (self.len + 1).min(Self::REMEMBERED);
    }

    /// Rounded to the nearest; 0 as long as nobody has reported.
    fn mean(&self) -> u32 {
        let len = self.len.max(1) as u64;
        u32::try_from((self.sum + len / 2) / len).unwrap_or(u32::MAX)
    }
}
