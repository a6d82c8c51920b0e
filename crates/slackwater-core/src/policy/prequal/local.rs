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
use core::time::Duration;

/// So many probes lost in a row, from the first on, make a replica silent.
const LOST_IN_A_ROW: u8 = 3;
/// A replica that has answered before is silent only after so long without an answer: probes may be lost, and one whose
/// machine is gone should be found out by that rather than be balanced by its emptiness.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// A silent replica that could not be reached is not offered again for so long.
const UNREACHABLE_PAUSE: Duration = Duration::from_secs(1);
/// How often a silent replica is really probed, to notice that it answers.
pub(super) const SILENT_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Latencies that a client remembers for each silent replica.
const SAMPLE_CAPACITY: usize = 16;

/// A query as the tracker of a silent replica saw it.
#[derive(Debug)]
pub(in crate::policy) struct LocalArrival {
    silence: u32,
    arrival: Arrival,
}

#[derive(Debug, Default)]
struct Hearing {
    answered_at: Option<Instant>,
    lost_in_a_row: u8,
    /// There as long as the replica is silent.
    tracker: Option<LoadTracker>,
    /// Which silence this is; queries sent during an earlier one do not belong to this one's tracker.
    silence: u32,
    unreachable_until: Instant,
}

/// What this client hears, or does not hear, from each replica.
#[derive(Debug, Default)]
pub(super) struct LocalLoads {
    hearings: ReplicaMap<Hearing>,
    others: OthersEstimate,
}

impl LocalLoads {
    pub(super) fn add(&mut self, replica: ReplicaId, silent: bool) {
        let tracker = silent.then(new_tracker);
        self.hearings.insert(
            replica,
            Hearing {
                tracker,
                ..Hearing::default()
            },
        );
    }

    pub(super) fn remove(&mut self, replica: ReplicaId) {
        self.hearings.remove(replica);
    }

    pub(super) fn is_silent(&self, replica: ReplicaId) -> bool {
        self.hearings
            .find(replica)
            .is_some_and(|hearing| hearing.tracker.is_some())
    }

    /// The replica has answered; `own_in_flight` of what it reports is this client's.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        rif: Rif,
        own_in_flight: u32,
    ) {
        if let Some(hearing) = self.hearings.find_mut(replica) {
            hearing.answered_at = Some(now);
            hearing.lost_in_a_row = 0;
            if hearing.tracker.take().is_some() {
                hearing.silence = hearing.silence.wrapping_add(1);
            }
            self.others
                .record(rif.count().saturating_sub(own_in_flight));
        }
    }

    /// A probe was lost.
    pub(super) fn lost(&mut self, now: Instant, replica: ReplicaId) {
        let Some(hearing) = self.hearings.find_mut(replica) else {
            return;
        };
        hearing.lost_in_a_row = hearing.lost_in_a_row.saturating_add(1);
        let long_silent = hearing
            .answered_at
            .is_none_or(|answered_at| now.saturating_since(answered_at) >= SILENCE_MAX);
        if hearing.lost_in_a_row >= LOST_IN_A_ROW && long_silent && hearing.tracker.is_none() {
            hearing.tracker = Some(new_tracker());
        }
    }

    /// A query goes to the replica.
    pub(super) fn query_sent(&mut self, now: Instant, ticket: &mut Ticket) {
        let Some(hearing) = self.hearings.find(ticket.replica()) else {
            return;
        };
        ticket.local = hearing.tracker.as_ref().map(|tracker| LocalArrival {
            silence: hearing.silence,
            arrival: tracker.arrive(now),
        });
    }

    /// A query that went there is over.
    pub(super) fn query_done(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let Some(hearing) = self.hearings.find_mut(ticket.replica()) else {
            return;
        };
        if outcome == Outcome::Unreachable {
            hearing.unreachable_until = now + UNREACHABLE_PAUSE;
        }
        let (Some(tracker), Some(local)) = (&hearing.tracker, ticket.local.take()) else {
            return;
        };
        let LocalArrival {
            silence,
            mut arrival,
        } = local;
        if silence != hearing.silence {
            return;
        }
        let end = match outcome {
            Outcome::Success => End::Success,
            Outcome::Failed | Outcome::Unreachable => End::Failed,
            Outcome::Dropped => End::Cancelled,
        };
        if let Some(head_at) = ticket.head_at {
            tracker.head_ready(head_at, &mut arrival, end);
        }
        tracker.finish(now, arrival, end);
    }

    /// A silent replica's probe, answered from the client's own knowledge; `None` if it is not silent, or could not be
    /// reached just now.
    pub(super) fn report(&self, now: Instant, replica: ReplicaId) -> Option<LoadReport> {
        let hearing = self.hearings.find(replica)?;
        let tracker = hearing.tracker.as_ref()?;
        if now < hearing.unreachable_until {
            return None;
        }
        let mut report = tracker.report(now);
        report.rif = Rif::new(report.rif.count().saturating_add(self.others.mean()));
        Some(report)
    }
}

fn new_tracker() -> LoadTracker {
    let config = TrackerConfig {
        sample_capacity: SAMPLE_CAPACITY,
        ..TrackerConfig::default()
    };
    LoadTracker::new(&config)
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
