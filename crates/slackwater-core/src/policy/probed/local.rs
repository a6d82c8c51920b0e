//! Replicas that answer no probes are balanced by what this client measures itself. `[A13]`
//! `[Decision 0002]`
//!
//! A replica that has never answered a probe, or not for [`SILENCE_MAX`], is *unprobed*. Its probes
//! are answered here, from a tracker of the client's own queries to it. The client's own RIF is
//! lower than the replica's true one by what other clients have in flight there. That part is
//! estimated (`others`), so unprobed replicas are neither starved nor flooded.
//!
//! A policy that compares the latest reports of all replicas would find the lowest among the
//! reports, since an expected value is never the lowest. There the estimate has the spread of
//! recent reports ([`Keep::DRAWS_OTHERS`](super::Keep::DRAWS_OTHERS)).
//!
//! A client's own latencies include the way there and back, which those that replicas report do
//! not. So the round trip of a probe is taken off.

use super::others::Others;
use super::recent_mean::RecentValues;
use super::recent_queries::RecentQueries;
use crate::draw::Draw;
use crate::policy::fleet::Fleet;
use crate::policy::last_probe::LostProbes;
use crate::policy::outcome::Outcome;
use crate::policy::query::{LocalArrival, Ticket};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::report::{LoadReport, Rif};
use crate::time::Instant;
use crate::tracker::{End, LoadTracker, TrackerConfig};
use alloc::boxed::Box;
use core::time::Duration;

/// A replica that has answered before becomes unprobed only after this long without an answer.
/// Probes may be lost, and a replica whose machine is gone must be detected by that, not preferred
/// because it looks empty.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long an unprobed replica that could not be reached is not offered.
const UNREACHABLE_PAUSE: Duration = Duration::from_secs(1);
/// Interval of real probes to an unprobed replica, to notice that it answers.
pub(super) const UNPROBED_INTERVAL_NS: u64 = 1_000_000_000;
/// Latencies that a client remembers for each unprobed replica.
const SAMPLE_CAPACITY: usize = 16;

/// Whether a replica is unprobed, and the state of an unprobed one. It is not read for each query
/// or probe while all replicas answer and can be reached: with many replicas that would be a cache
/// miss each time.
#[derive(Debug, Default)]
struct Hearing {
    unprobed: bool,
    /// The replica is unprobed and available.
    unprobed_available: bool,
    /// The replica is not offered before this time.
    unreachable_until: Instant,
    /// When a probe to it was last answered here.
    answered_here_at: Option<Instant>,
}

/// What this client measured itself of a replica.
#[derive(Debug)]
struct Own {
    /// Number of this watch. Queries sent during an earlier one do not belong to its tracker.
    watch: u32,
    tracker: LoadTracker,
    /// Queries sent during this watch.
    sent: u64,
    recent: RecentQueries,
}

/// The replicas that answer no probes, and what this client measures itself.
#[derive(Debug, Default)]
pub(super) struct LocalLoads {
    hearings: ReplicaMap<Hearing>,
    /// For each unprobed replica.
    own: ReplicaMap<Option<Box<Own>>>,
    /// Number of unprobed replicas. At 0, queries do not use this module.
    unprobed_now: usize,
    /// How many of them are available.
    unprobed_available: usize,
    watches: u32,
    others: Others,
    /// Round trips of recent probes that were answered, in nanoseconds.
    round_trips: RecentValues,
    /// From this time on no unprobed replica is out of reach. It is checked before a search.
    out_of_reach_until: Instant,
}

impl LocalLoads {
    pub(super) fn add(&mut self, replica: ReplicaId) {
        self.hearings.insert(replica, Hearing::default());
    }

    pub(super) fn remove(&mut self, replica: ReplicaId) {
        self.end_silence(replica);
        self.own.remove(replica);
        self.hearings.remove(replica);
    }

    /// Whether all `available` replicas are unprobed.
    pub(super) fn all_unprobed(&self, available: usize) -> bool {
        self.unprobed_available == available
    }

    /// Whether any available replica is unprobed. Other replicas do not matter.
    pub(super) fn any_unprobed_available(&self) -> bool {
        self.unprobed_available > 0
    }

    pub(super) fn is_unprobed(&self, replica: ReplicaId) -> bool {
        self.unprobed_now > 0 && self.hearings.find(replica).is_some_and(|it| it.unprobed)
    }

    /// Whether any unprobed replica may be out of reach.
    pub(super) fn any_out_of_reach(&self, now: Instant) -> bool {
        self.unprobed_now > 0 && now < self.out_of_reach_until
    }

    /// Whether the replica is unprobed and could recently not be reached.
    pub(super) fn is_out_of_reach(&self, now: Instant, replica: ReplicaId) -> bool {
        let hearing = self.hearings.find(replica);
        hearing.is_some_and(|it| it.unprobed && now < it.unreachable_until)
    }

    /// Makes the replica, one of `fleet`, count as unprobed. Returns `false` if it already did.
    pub(super) fn begin_silence(&mut self, replica: ReplicaId, fleet: &Fleet) -> bool {
        match self.hearings.find_mut(replica) {
            Some(hearing) if !hearing.unprobed => hearing.unprobed = true,
            _ => return false,
        }
        if self.unprobed_now == 0 {
            self.others.forget_rates();
        }
        self.others.begin();
        self.unprobed_now += 1;
        self.watch(replica);
        self.settle(replica, fleet);
        true
    }

    /// Ends a silence: the replica answers, or has left.
    fn end_silence(&mut self, replica: ReplicaId) {
        match self.hearings.find_mut(replica) {
            Some(hearing) if hearing.unprobed => hearing.unprobed = false,
            _ => return,
        }
        self.unprobed_now -= 1;
        self.others.begin();
        self.own.remove(replica);
        self.clear_unprobed_available(replica);
    }

    /// Updates the counts after the replica's availability or silence may have changed.
    pub(super) fn settle(&mut self, replica: ReplicaId, fleet: &Fleet) {
        if !self.is_unprobed(replica) || !fleet.is_available(replica) {
            self.clear_unprobed_available(replica);
            return;
        }
        match self.hearings.find_mut(replica) {
            Some(hearing) if !hearing.unprobed_available => hearing.unprobed_available = true,
            _ => return,
        }
        self.unprobed_available += 1;
    }

    /// Notes that the replica is not unprobed or not available.
    fn clear_unprobed_available(&mut self, replica: ReplicaId) {
        match self.hearings.find_mut(replica) {
            Some(hearing) if hearing.unprobed_available => hearing.unprobed_available = false,
            _ => return,
        }
        self.unprobed_available -= 1;
    }

    /// Starts to track the client's queries to the replica.
    fn watch(&mut self, replica: ReplicaId) {
        self.watches = self.watches.wrapping_add(1);
        let config = TrackerConfig {
            sample_capacity: SAMPLE_CAPACITY,
            ..TrackerConfig::default()
        };
        let own = Own {
            watch: self.watches,
            tracker: LoadTracker::new(&config),
            sent: 0,
            recent: RecentQueries::default(),
        };
        self.own.insert(replica, Some(Box::new(own)));
    }

    /// Notes that the replica has answered a probe: this client's, after this round trip, or a
    /// sibling's (`None`).
    pub(super) fn answered(&mut self, replica: ReplicaId, round_trip_ns: Option<u64>) {
        if let Some(round_trip_ns) = round_trip_ns {
            self.round_trips.record(round_trip_ns);
        }
        if self.unprobed_now > 0 {
            self.end_silence(replica);
        }
        // `unreachable_until` need not be reset: it is over before the replica can be unprobed
        // again.
    }

    /// Takes in a report, with its `rif` or a lower one, of which `own_in_flight` is this client's.
    #[inline]
    pub(super) fn note_others(&mut self, report: &LoadReport, rif: Rif, own_in_flight: u32) {
        self.others.note(rif, own_in_flight);
        if self.unprobed_now > 0 {
            self.others.note_rate(report);
        }
    }

    /// Forgets what reports showed, since no replica answers any more: the load of other clients,
    /// and the round trip that sets the pace.
    pub(super) fn forget_answers(&mut self) {
        self.others = Others::default();
        self.round_trips = RecentValues::default();
    }

    /// Notes that a probe was lost, the last of `probes`. Returns `true` if that makes the replica,
    /// one of `fleet`, unprobed.
    pub(super) fn lost(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        probes: LostProbes,
        fleet: &Fleet,
    ) -> bool {
        let long_unanswered = probes
            .answered_at
            .is_none_or(|at| now.saturating_since(at) >= SILENCE_MAX);
        let is_silent = probes.in_a_row >= fleet.lost_in_a_row() && long_unanswered;
        is_silent && self.begin_silence(replica, fleet)
    }

    /// Notes that a query goes to the replica. Returns it as the tracker of an unprobed replica saw
    /// it.
    pub(super) fn query_sent(&mut self, now: Instant, replica: ReplicaId) -> Option<LocalArrival> {
        if self.unprobed_now == 0 {
            return None;
        }
        let own = self.own.find_mut(replica)?.as_mut()?;
        own.sent += 1;
        Some(LocalArrival {
            watch: own.watch,
            arrival: own.tracker.arrive(now),
        })
    }

    /// Notes that a query to the replica is over.
    #[inline]
    pub(super) fn query_done(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        if self.unprobed_now > 0 || outcome == Outcome::NoConnection {
            self.local_query_done(now, ticket, outcome);
        }
    }

    #[cold]
    fn local_query_done(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let replica = ticket.replica();
        if outcome == Outcome::NoConnection
            && let Some(hearing) = self.hearings.find_mut(replica)
        {
            hearing.unreachable_until = now + UNREACHABLE_PAUSE;
            self.out_of_reach_until = hearing.unreachable_until;
        }
        let Some(local) = ticket.local.take() else {
            if outcome.is_answer() {
                self.others.query_answered();
            }
            return;
        };
        if let Some(own) = self.current(replica, &local) {
            match end_of(outcome) {
                Some(end) => own.tracker.finish(now, local.arrival, end),
                None => own.tracker.withdraw(local.arrival),
            }
        }
    }

    /// Notes the head of a response. A stream after its head does not indicate a stall. `[T4]`
    pub(super) fn head_ready(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let replica = ticket.replica();
        if let Some(local) = &mut ticket.local
            && let Some(own) = self.current(replica, local)
            && let Some(end) = end_of(outcome)
        {
            own.tracker.head_ready(now, &mut local.arrival, end);
        }
    }

    /// The watch in which a query was sent, if it still lasts.
    fn current(&self, replica: ReplicaId, local: &LocalArrival) -> Option<&Own> {
        let own = self.own.find(replica)?.as_ref()?;
        (own.watch == local.watch).then_some(own)
    }

    /// The latency of this client's own query, without the way there and back: the mean
    /// round trip of recent probes, but at most half of it, since an answer may wait to be read.
    pub(super) fn without_way(&self, latency: Duration) -> Duration {
        let way = Duration::from_nanos(self.round_trips.mean());
        latency.saturating_sub(way).max(latency / 2)
    }

    /// An unprobed replica's probe, one of `available` ones, answered from the client's own
    /// measurements and an estimate of what others have in flight there; or why it is not. The
    /// estimate is spread with `draw`.
    ///
    /// The pace is that of a replica that answers: not before `interval_ns`, and not while a probe
    /// would still be in flight. Local reports cost nothing, and would otherwise displace the
    /// others from a pool.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        own_in_flight: u32,
        available: usize,
        interval_ns: u64,
        draw: Option<&mut dyn Draw>,
    ) -> Result<LoadReport, Unanswered> {
        let pace_ns = interval_ns.max(self.round_trips.mean());
        let hearing = self
            .hearings
            .find_mut(replica)
            .ok_or(Unanswered::OutOfReach)?;
        if now < hearing.unreachable_until {
            return Err(Unanswered::OutOfReach);
        }
        let last = hearing.answered_here_at;
        if last.is_some_and(|last| now.ns_since(last) < pace_ns) {
            return Err(Unanswered::Interval);
        }
        hearing.answered_here_at = Some(now);
        let own = self.own.find_mut(replica).and_then(Option::as_mut);
        let own = own.ok_or(Unanswered::OutOfReach)?;
        self.others.read(now);
        (own.recent).read(now, own.sent, own.tracker.rif_time_ns(now));
        let answering = available.saturating_sub(self.unprobed_available);
        let others = (self.others).estimate(&own.recent, own_in_flight, answering, draw);
        let mut report = own.tracker.report(now);
        report.latency = report.latency.map(|latency| self.without_way(latency));
        report.rif = Rif::new(own_in_flight.saturating_add(others));
        Ok(report)
    }
}

/// Why an unprobed replica's probe is not answered here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It could recently not be reached.
    OutOfReach,
    /// It was answered for a moment ago.
    Interval,
}

/// How a query ended for its replica. `None` if the replica never saw it.
fn end_of(outcome: Outcome) -> Option<End> {
    match outcome {
        Outcome::Success => Some(End::Success),
        Outcome::Dropped => Some(End::Cancelled),
        Outcome::NoConnection => None,
        _ => Some(End::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::ReplicaIds;

    const MS: u64 = 1_000_000;

    /// Three replicas. The first answers probes.
    struct Trio {
        locals: LocalLoads,
        fleet: Fleet,
        replicas: [ReplicaId; 3],
        ms: u64,
    }

    impl Trio {
        fn new() -> Self {
            let mut ids = ReplicaIds::new();
            let replicas = [(); 3].map(|()| ids.allocate().expect("free"));
            let (mut locals, mut fleet) = (LocalLoads::default(), Fleet::default());
            for replica in replicas {
                fleet.add(replica);
                locals.add(replica);
            }
            let mut trio = Self {
                locals,
                fleet,
                replicas,
                ms: 0,
            };
            trio.fall_silent(1);
            trio.fall_silent(2);
            trio
        }

        fn fall_silent(&mut self, place: usize) {
            let begins = (self.locals).begin_silence(self.replicas[place], &self.fleet);
            assert!(begins);
        }

        /// The load of others that is assumed at the third replica, after some reports of the first
        /// one with this rate, and two seconds in which this client has ten queries a second there,
        /// and one in flight at the third.
        fn others(&mut self, rate_millis: Option<u32>) -> u32 {
            let [first, _, third] = self.replicas;
            let mut report = LoadReport::new(Rif::new(3), None);
            report.query_rate_millis = rate_millis;
            for _ in 0..64 {
                self.locals.note_others(&report, report.rif, 0);
            }
            let mut others = self.answer();
            for _ in 0..20 {
                let now = Instant::from_nanos(self.ms * MS);
                let mut there = Ticket::new(third, now);
                there.local = self.locals.query_sent(now, third);
                self.ms += 100;
                let now = Instant::from_nanos(self.ms * MS);
                let mut elsewhere = Ticket::new(first, now);
                // A query that got no answer does not count.
                let mut unanswered = Ticket::new(first, now);
                (self.locals).query_done(now, &mut unanswered, Outcome::TimedOut);
                for ticket in [&mut there, &mut elsewhere] {
                    self.locals.query_done(now, ticket, Outcome::Success);
                }
                others = self.answer();
            }
            others
        }

        fn answer(&mut self) -> u32 {
            let now = Instant::from_nanos(self.ms * MS);
            let report = (self.locals).answer(now, self.replicas[2], 0, 3, 0, None);
            report.expect("it can be reached").rif.count()
        }
    }

    /// Others send nine times as much, so they have nine in flight, which counts for 20 of 21.
    #[test]
    fn own_queries_are_counted_anew_when_other_replicas_answer() {
        let mut trio = Trio::new();
        assert_eq!(trio.others(Some(100_000)), 9);
        trio.locals.answered(trio.replicas[1], None);
        assert_eq!(trio.answer(), 3, "nothing is known of these replicas yet");
        assert_eq!(trio.others(Some(100_000)), 18, "there are two");
        trio.fall_silent(1);
        assert_eq!(trio.answer(), 3);
        assert_eq!(trio.others(Some(100_000)), 9);
    }

    #[test]
    fn own_latency_is_reported_without_the_way() {
        let mut trio = Trio::new();
        let [first, _, third] = trio.replicas;
        trio.locals.answered(first, Some(20 * MS));
        trio.others(None);
        let later = Instant::from_nanos((trio.ms + 50) * MS);
        let report = trio.locals.answer(later, third, 0, 3, 0, None);
        let report = report.expect("it can be reached");
        assert_eq!(report.latency, Some(Duration::from_millis(80)));
    }

    #[test]
    fn rates_are_not_remembered_from_one_silence_to_another() {
        let mut trio = Trio::new();
        assert_eq!(trio.others(Some(100_000)), 9);
        for place in [1, 2] {
            trio.locals.answered(trio.replicas[place], None);
        }
        trio.fall_silent(1);
        trio.fall_silent(2);
        assert_eq!(trio.others(None), 3);
    }
}
