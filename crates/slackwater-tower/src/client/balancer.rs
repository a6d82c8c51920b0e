//! The handle that all callers share: picks, completions, reports, replicas.
//!
//! A [`Balancer`] is cheap to clone and may be used from any thread. One short lock guards the
//! policy. It is held for a pick, a completion or a report, never across an await or a system call.
//! The proxy has one balancer per worker thread, so this lock is uncontended there. Before each
//! pick the prober hands in the answers that have arrived. Over UDP that is a non-blocking call,
//! made at most every 0.1 ms and only while an answer is outstanding.

use super::drive::{Drive, DriveGuard};
use super::driver::Driver;
use super::lease::Lease;
use super::probe::{
    NoProber, ProbeCounters, ProbeToken, Prober, Reports, UdpProber, UdpProberConfig,
};
use super::replicas::{InsertError, ReplicaAddrs};
use super::round::Round;
use super::rounds::{ActiveRound, RoundId};
use crate::clock::Clock;
use bytes::Bytes;
use core::net::SocketAddr;
use core::num::NonZeroU32;
use core::time::Duration;
use futures_util::task::AtomicWaker;
use slackwater_core::policy::{
    Counters, Decision, Event, Explanation, Outcome, Pick, Policy, ProbeRound, Query, Snapshot,
    Ticket,
};
use slackwater_core::report::Reported;
use slackwater_core::{Instant, LoadReport, ReplicaId};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

/// Decides which replica gets the next query.
#[derive(Clone)]
pub struct Balancer {
    pub(super) shared: Arc<Shared>,
}

/// State that all handles share.
pub(super) struct Shared {
    pub(super) driver: Mutex<Driver>,
    pub(super) prober: Box<dyn Prober>,
    pub(super) clock: Clock,
    /// Wakes [`Drive`]. It outlives this value, so that the end of the last handle can be
    /// signalled.
    pub(super) drive_waker: Arc<AtomicWaker>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.drive_waker.wake();
    }
}

/// The state of a balancer at one moment.
#[derive(Clone, Debug)]
pub struct Overview {
    /// Counts of the policy's events.
    pub counters: Counters,
    /// The last load report of each replica, or of each part of one.
    pub reported: Vec<Reported>,
    /// The policy's state.
    pub snapshot: Snapshot,
}

/// The result of a pick.
#[derive(Debug)]
#[must_use]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every pick has a lease, and a box would be an allocation for each"
)]
pub enum Picked {
    /// Send the query with this lease.
    Ready(Lease),
    /// The policy wants to probe a few replicas first. `[S1]`
    Probing(Round),
    /// No replica is known, or the query has been sent to all of them.
    NoReplica,
}

impl Balancer {
    /// A balancer with the policy that `slackwater serve` has by default, and with its timeouts
    /// kept: [`Balancer::drive`] is spawned. Needs a tokio runtime.
    pub fn with_default_policy(prober: impl Prober) -> Self {
        let balancer = Self::new(slackwater_core::default_policy(), prober);
        tokio::spawn(balancer.drive());
        balancer
    }

    /// As [`Balancer::with_default_policy`], with probes over UDP that are not signed. A replica
    /// that answers none is balanced by what this client sees of it.
    pub fn probing_udp() -> io::Result<Self> {
        let prober = UdpProber::bind(&UdpProberConfig::default())?;
        Ok(Self::with_default_policy(prober))
    }

    /// Creates a balancer with an empty fleet, seeded from the operating system's randomness.
    /// Starts the prober, which may spawn tasks: call it within a tokio runtime unless the prober
    /// is [`NoProber`].
    pub fn new(policy: Box<dyn Policy>, prober: impl Prober) -> Self {
        let seed = getrandom::u64().unwrap_or_else(|_| {
            // The draws need not be secret. They only should differ from client to client.
            let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let nanos = since_epoch.map_or(0, |span| span.as_nanos());
            u64::try_from(nanos & u128::from(u64::MAX)).unwrap_or(0) ^ u64::from(std::process::id())
        });
        Self::with_seed(policy, prober, seed)
    }

    /// Creates a balancer whose choices repeat: the same seed and events give the same picks.
    pub fn with_seed(policy: Box<dyn Policy>, prober: impl Prober, seed: u64) -> Self {
        let shared = Arc::new_cyclic(|shared| {
            let mut prober: Box<dyn Prober> = Box::new(prober);
            if !prober.start(Reports::new(Weak::clone(shared))) {
                tracing::error!(
                    "second balancer sends no probes: make one prober for each balancer"
                );
                prober = Box::new(NoProber);
            }
            Shared {
                driver: Mutex::new(Driver::new(policy, seed)),
                prober,
                clock: Clock::new(),
                drive_waker: Arc::default(),
            }
        });
        Self { shared }
    }

    pub(super) const fn from_shared(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Adds a replica, which is chosen and probed from now on. A plain [`SocketAddr`] stands for a
    /// replica that answers probes at the address where it takes queries.
    pub fn insert(&self, addrs: impl Into<ReplicaAddrs>) -> Result<ReplicaId, InsertError> {
        let added = self.insert_weighted(addrs, NonZeroU32::MIN)?;
        added.first().copied().ok_or(InsertError::Full)
    }

    /// Adds a replica that has `weight` times the capacity of one of weight 1. The policy sees it
    /// as `weight` replicas at one address, each with its part of the load, so every policy gives
    /// it the right share. Each part is chosen, made unavailable and removed by a separate id.
    pub fn insert_weighted(
        &self,
        addrs: impl Into<ReplicaAddrs>,
        weight: NonZeroU32,
    ) -> Result<Vec<ReplicaId>, InsertError> {
        self.insert_warming(addrs, weight, Duration::ZERO)
    }

    /// As [`Balancer::insert_weighted`], for a replica that warms up: during `warm_up` its share of
    /// queries rises linearly from 10% to 100% (zero: 100% at once). The ramp is suspended while
    /// more than half of the available replicas, or more than 64 ids, are warming up. It does not
    /// apply to a query that is pinned to the replica, or that would otherwise go to an unavailable
    /// one.
    pub fn insert_warming(
        &self,
        addrs: impl Into<ReplicaAddrs>,
        weight: NonZeroU32,
        warm_up: Duration,
    ) -> Result<Vec<ReplicaId>, InsertError> {
        let mut driver = self.lock();
        let parts = driver.replicas.insert(addrs.into(), weight)?;
        let now = self.now();
        for &part in &parts {
            if !warm_up.is_zero() {
                driver.warm_ups.add(now, part, warm_up);
            }
            driver.join(now, part);
        }
        self.rearm(driver);
        Ok(parts)
    }

    /// Changes the weight of the replica that `part` belongs to, and returns all its parts. State
    /// of `part` and of the other parts that stay is kept; parts that join may be chosen at once.
    /// Returns `None`, and changes nothing, if no replica has that id or if there are too many
    /// replicas.
    pub fn set_weight(&self, part: ReplicaId, weight: NonZeroU32) -> Option<Vec<ReplicaId>> {
        let now = self.now();
        let mut driver = self.lock();
        let resized = driver.replicas.resize(part, weight)?;
        for &part in &resized.left {
            driver.leave(now, part);
        }
        for &part in &resized.joined {
            driver.join(now, part);
        }
        self.rearm(driver);
        Some(resized.all)
    }

    /// Marks the replica that `part` belongs to as far: it is in another zone than this client, and
    /// this is the round trip between the two (zero: it is not known). A query then goes there only
    /// if the replicas in the client's own zone are not able to carry it. That holds until the
    /// replica is removed, also for parts that [`Balancer::set_weight`] adds. Returns `false` if no
    /// replica has that id. Only the default policy uses it.
    pub fn set_far(&self, part: ReplicaId, round_trip: Duration) -> bool {
        let now = self.now();
        let mut driver = self.lock();
        let Some(changed) = driver.replicas.set_far(part, round_trip) else {
            return false;
        };
        for part in changed {
            driver.handle(now, Event::Far(part, round_trip));
        }
        true
    }

    /// Removes a replica: it gets no more queries and no more probes. Its queries in flight
    /// continue. Returns `false` if it was not in the fleet.
    pub fn remove(&self, replica: ReplicaId) -> bool {
        let mut driver = self.lock();
        let Some(addrs) = driver.replicas.remove(replica) else {
            return false;
        };
        driver.leave(self.now(), replica);
        let forget = !driver.replicas.probes_at(addrs.probe);
        drop(driver);
        if forget {
            self.shared.prober.forget(addrs.probe);
        }
        true
    }

    /// Makes a replica unavailable (`false`) or available again (`true`). It stays in the fleet,
    /// and is still probed.
    pub fn set_available(&self, replica: ReplicaId, available: bool) {
        let now = self.now();
        self.lock()
            .handle(now, Event::Available(replica, available));
    }

    /// A replica's address for queries; `None` once it has been removed.
    pub fn addr(&self, replica: ReplicaId) -> Option<SocketAddr> {
        Some(self.lock().replicas.addrs(replica)?.query)
    }

    /// Picks a replica, without waiting.
    pub fn pick(&self, query: Query<'_>) -> Picked {
        self.pick_at(self.now(), query)
    }

    /// As [`Balancer::pick`], at a time that the caller has just read from [`Balancer::now`]. It
    /// saves a second read of the clock.
    pub fn pick_at(&self, now: Instant, query: Query<'_>) -> Picked {
        self.pick_explained(now, query, None)
    }

    /// As [`Balancer::pick_at`], and fills in `explanation`, if there is one, with the inputs of
    /// the choice. For a round, [`Round::finish_explained`] does so at its end.
    pub fn pick_explained(
        &self,
        now: Instant,
        query: Query<'_>,
        explanation: Option<&mut Explanation>,
    ) -> Picked {
        self.shared.prober.collect(now);
        let mut guard = self.lock();
        let driver = &mut *guard;
        let picked = match driver.decide(now, query, explanation) {
            Decision::Pick(pick) => self.lease(driver, pick),
            Decision::Probe(round) => self.begin_round(now, driver, round, query),
            Decision::NoReplica => Picked::NoReplica,
        };
        self.send_probes(now, guard);
        picked
    }

    /// Whether [`Balancer::pick_trial`] would return a lease now. Cheap while no replica is
    /// ejected.
    pub fn wants_trial(&self) -> bool {
        self.lock().policy.wants_trial()
    }

    /// Picks an ejected replica for a copy of a query, to see whether it has recovered. The client
    /// must not wait for this copy's answer. Needs
    /// [`shadow_trials`](slackwater_core::health::HealthSettings::shadow_trials).
    pub fn pick_trial(&self) -> Option<Lease> {
        let now = self.now();
        let mut guard = self.lock();
        let driver = &mut *guard;
        let (policy, draw) = (&mut driver.policy, &mut driver.draw);
        let pick = policy.choose(now, Query::trial(), draw, None).pick()?;
        match self.lease(driver, pick) {
            Picked::Ready(lease) => Some(lease),
            Picked::Probing(_) | Picked::NoReplica => None,
        }
    }

    /// Picks a replica. If the policy probes for each query, this sends the probes, with `hint` in
    /// them, and waits for enough answers or the round's deadline. A hint of more than
    /// [`HINT_BYTES_MAX`](crate::wire::HINT_BYTES_MAX) bytes is left out. Other policies ignore
    /// `hint`, and the future is ready at its first poll. Returns `None` if no replica is known, or
    /// if the query has been sent to all of them.
    pub async fn choose(&self, query: Query<'_>, hint: Option<&[u8]>) -> Option<Lease> {
        match self.pick(query) {
            Picked::Ready(lease) => Some(lease),
            Picked::NoReplica => None,
            Picked::Probing(mut round) => {
                round.send(&hint.map(Bytes::copy_from_slice).unwrap_or_default());
                core::future::poll_fn(|cx| round.poll_ready(cx)).await;
                round.finish(query)
            }
        }
    }

    /// Returns the future that handles the policy's timeouts (lost probes, idle probes): spawn it
    /// once. It ends when all handles and leases of this balancer are gone, and does not keep the
    /// balancer alive.
    pub fn drive(&self) -> Drive {
        Drive::new(
            Arc::downgrade(&self.shared),
            Arc::clone(&self.shared.drive_waker),
        )
    }

    /// Spawns [`Balancer::drive`] on the current tokio runtime. Dropping the guard ends it.
    pub fn spawn_drive(&self) -> DriveGuard {
        DriveGuard::spawn(self.drive())
    }

    /// Queries in flight: picked, and not yet finished or dropped.
    pub fn in_flight(&self) -> u64 {
        self.lock().in_flight
    }

    /// Counts of the policy's events.
    pub fn counters(&self) -> Counters {
        self.shared.prober.collect(self.now());
        self.lock().policy.counters()
    }

    /// Counts of probes on the wire.
    pub fn probe_counters(&self) -> ProbeCounters {
        self.shared.prober.counters()
    }

    /// Round-trip time of a probe that nothing delays: twice the network's delay. `None` before the
    /// first answer, and if no probes are sent.
    pub fn round_trip(&self) -> Option<Duration> {
        self.shared.prober.round_trip()
    }

    /// Returns the policy's state. Allocates; not for a query's path.
    pub fn snapshot(&self) -> Snapshot {
        let now = self.now();
        self.shared.prober.collect(now);
        self.lock().policy.snapshot(now)
    }

    /// Returns counters, reports and snapshot of one moment, for monitoring. It takes the lock
    /// once, and leaves answers that have not been read yet to the next pick. Allocates; not for a
    /// query's path.
    pub fn overview(&self) -> Overview {
        let now = self.now();
        let driver = self.lock();
        Overview {
            counters: driver.policy.counters(),
            reported: driver.reported.view(now),
            snapshot: driver.policy.snapshot(now),
        }
    }

    /// The policy's name.
    pub fn policy_name(&self) -> &'static str {
        self.lock().policy.name()
    }

    /// Returns the last load report of each replica, or of each part of one, by whichever carrier
    /// it came. Allocates; not for a query's path.
    pub fn reported(&self) -> Vec<Reported> {
        let now = self.now();
        self.shared.prober.collect(now);
        self.lock().reported.view(now)
    }

    /// Returns the time of this balancer's clock, which dates picks and ends.
    #[inline]
    pub fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// The clock itself, for code that outlives the balancer or has no handle.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Takes the lock, even after a panic under it. The policy is intact then: none of its methods
    /// breaks an invariant across a call that can panic. Continuing is better than failing every
    /// later query.
    pub(super) fn lock(&self) -> MutexGuard<'_, Driver> {
        self.shared
            .driver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn head_ready(&self, ticket: &mut Ticket, outcome: Outcome) -> Instant {
        let now = self.now();
        self.lock().policy.handle_head(now, ticket, outcome);
        now
    }

    pub(super) fn carried_report(&self, replica: ReplicaId, report: &LoadReport) {
        let now = self.now();
        let mut driver = self.lock();
        if driver.learns_rif {
            driver.reported.note_carried(now, replica, report);
        }
        let parts = driver.replicas.parts(replica);
        // The report leaves out the query that it came with, which is in flight here until its
        // lease ends.
        let mut report = report.clone();
        report.rif = report.rif.plus_one();
        let report = report.of_part(parts, &mut driver.draw);
        driver.handle(now, Event::CarriedReport(replica, &report));
    }

    pub(super) fn query_done(&self, ticket: Ticket, outcome: Outcome) -> Instant {
        let now = self.now();
        let mut driver = self.lock();
        driver.in_flight = driver.in_flight.saturating_sub(1);
        driver.policy.handle_query_done(now, ticket, outcome);
        now
    }

    #[inline]
    fn lease(&self, driver: &mut Driver, pick: Pick) -> Picked {
        driver.in_flight += 1;
        if let Some(addrs) = driver.replicas.addrs(pick.ticket.replica()) {
            return Picked::Ready(Lease::new(self, addrs.query, pick));
        }
        // Only a policy that invents replicas gets here: policy and table change under one lock.
        driver.in_flight -= 1;
        let now = self.now();
        driver
            .policy
            .handle_query_done(now, pick.ticket, Outcome::Dropped);
        Picked::NoReplica
    }

    fn begin_round(
        &self,
        now: Instant,
        driver: &mut Driver,
        round: ProbeRound,
        query: Query<'_>,
    ) -> Picked {
        let deadline = round.deadline();
        match driver.rounds.begin(round) {
            Ok(id) => Picked::Probing(Round::new(self, id, deadline.saturating_since(now))),
            Err(round) => {
                let pick = driver.finish_round(now, &round, query, None);
                pick.map_or(Picked::NoReplica, |pick| self.lease(driver, pick))
            }
        }
    }

    /// Ends a round with the answers that it has.
    pub(super) fn finish_round(
        &self,
        id: RoundId,
        query: Query<'_>,
        explanation: Option<&mut Explanation>,
    ) -> Option<Lease> {
        let now = self.now();
        let mut guard = self.lock();
        let driver = &mut *guard;
        let ActiveRound { round, waker } = driver.rounds.end(id)?;
        let pick = driver.finish_round(now, &round, query, explanation);
        let picked = pick.map(|pick| self.lease(driver, pick));
        drop(guard);
        // Not under the lock: dropping a waker may run arbitrary code.
        drop(waker);
        match picked {
            Some(Picked::Ready(lease)) => Some(lease),
            Some(Picked::Probing(_) | Picked::NoReplica) | None => None,
        }
    }

    /// Lets the policy handle what is due, and returns when to call again.
    pub(super) fn handle_timeout(&self, now: Instant) -> Option<Instant> {
        self.shared.prober.collect(now);
        let mut driver = self.lock();
        driver.handle_timeout(now);
        self.send_probes(now, driver);
        // Read the next timeout only after the due probes have left. Until then it is in the past,
        // and this would be called again for nothing.
        let mut driver = self.lock();
        let next = driver.policy.poll_timeout();
        driver.arm(next);
        next
    }

    pub(super) fn report(&self, token: ProbeToken, report: &LoadReport) {
        let now = self.now();
        let mut driver = self.lock();
        let waiting = driver.report(now, token, report);
        self.send_probes(now, driver);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// As [`Balancer::report`] for each answer, with one read of the clock and one lock.
    pub(super) fn report_all(&self, now: Instant, answers: &[(ProbeToken, LoadReport)]) {
        let mut driver = self.lock();
        let mut waiting = Vec::new();
        for (token, report) in answers {
            waiting.extend(driver.report(now, *token, report));
        }
        self.send_probes(now, driver);
        for waker in waiting {
            waker.wake();
        }
    }

    pub(super) fn probe_lost(&self, token: ProbeToken) {
        let now = self.now();
        let mut driver = self.lock();
        let waiting = driver.probe_lost(now, token);
        self.send_probes(now, driver);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}
