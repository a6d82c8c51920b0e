//! State under the balancer's lock: the policy, its draws, and the replicas' addresses.
//!
//! Nothing here waits or makes a system call. Probes that the policy requests are put into an
//! [`Outbox`] on the caller's stack, and handed to the prober after the lock is released.

use super::probe::ProbeToken;
use super::replicas::Replicas;
use super::reported::LastReports;
use super::rounds::{RoundId, Rounds};
use super::warm_up::WarmUps;
use core::net::SocketAddr;
use core::task::Waker;
use slackwater_core::policy::{
    Decision, Event, Explanation, Pick, Policy, Probe, ProbeRound, Query, learns_rif,
};
use slackwater_core::{Instant, LoadReport, ReplicaId, SplitMix64};

/// A probe that the policy requests, with the address that the lock guards.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedProbe {
    pub(super) token: ProbeToken,
    pub(super) replica: ReplicaId,
    pub(super) addr: SocketAddr,
    pub(super) deadline: Instant,
}

/// Probes on their way from under the lock to the prober.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    probes: [Option<WantedProbe>; Self::CAPACITY],
    len: usize,
}

impl Outbox {
    /// All probes of a round, with that of the scout. If more are due for picks, the lock is taken
    /// again.
    const CAPACITY: usize = ProbeRound::MAX_PROBES + 1;

    /// Whether more probes may be due than there is room for.
    pub(super) const fn is_full(&self) -> bool {
        self.len == Self::CAPACITY
    }

    pub(super) fn push(&mut self, probe: WantedProbe) {
        debug_assert!(!self.is_full(), "a probe would not be sent");
        if let Some(place) = self.probes.get_mut(self.len) {
            *place = Some(probe);
            self.len += 1;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &WantedProbe> {
        self.probes.iter().take(self.len).flatten()
    }
}

/// The state behind a balancer.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) policy: Box<dyn Policy>,
    pub(super) draw: SplitMix64,
    pub(super) replicas: Replicas,
    pub(super) rounds: Rounds,
    pub(super) warm_ups: WarmUps,
    pub(super) reported: LastReports,
    /// The reports of responses have RIF.
    pub(super) learns_rif: bool,
    /// Queries in flight.
    pub(super) in_flight: u64,
    /// When [`Drive`](super::Drive) wakes on its own timer. Later timeouts need no wake-up.
    armed: Option<Instant>,
}

impl Driver {
    pub(super) fn new(policy: Box<dyn Policy>, seed: u64) -> Self {
        Self {
            learns_rif: learns_rif(policy.name()),
            policy,
            draw: SplitMix64::new(seed),
            replicas: Replicas::default(),
            rounds: Rounds::default(),
            warm_ups: WarmUps::default(),
            reported: LastReports::default(),
            in_flight: 0,
            armed: None,
        }
    }

    /// Passes what has happened to the policy.
    pub(super) fn handle(&mut self, now: Instant, event: Event<'_>) {
        self.policy.handle(now, event, &mut self.draw);
    }

    /// Adds a replica, or a part of one, to the fleet.
    pub(super) fn join(&mut self, now: Instant, part: ReplicaId) {
        self.reported.join(part);
        self.handle(now, Event::Added(part));
        if let Some(identity) = self.replicas.identity(part) {
            self.handle(now, Event::Identified(part, identity));
        }
        if let Some(round_trip) = self.replicas.far(part) {
            self.handle(now, Event::Far(part, round_trip));
        }
    }

    /// Removes a replica, or a part of one, from the fleet.
    pub(super) fn leave(&mut self, now: Instant, part: ReplicaId) {
        self.warm_ups.remove(part);
        self.reported.leave(part);
        self.handle(now, Event::Removed(part));
    }

    /// Returns the policy's decision for a query. Replicas that are warming up are avoided at
    /// random.
    #[inline]
    pub(super) fn decide(
        &mut self,
        now: Instant,
        query: Query<'_>,
        explanation: Option<&mut Explanation>,
    ) -> Decision {
        let (policy, draw) = (&mut *self.policy, &mut self.draw);
        let avoid = self.warm_ups.avoid(now, policy, query, draw);
        let avoid = avoid.unwrap_or(query.avoid);
        policy.choose(now, Query { avoid, ..query }, draw, explanation)
    }

    /// Chooses a replica for the query of a round, with the answers that it has.
    pub(super) fn finish_round(
        &mut self,
        now: Instant,
        round: &ProbeRound,
        query: Query<'_>,
        explanation: Option<&mut Explanation>,
    ) -> Option<Pick> {
        let round = Some(round);
        let (policy, draw) = (&mut self.policy, &mut self.draw);
        let decision = policy.choose(now, Query { round, ..query }, draw, explanation);
        decision.pick()
    }

    /// The next probe that is due.
    pub(super) fn next_probe(&mut self, now: Instant) -> Option<WantedProbe> {
        loop {
            let Probe {
                id,
                replica,
                deadline,
            } = self.policy.poll_probe(now, &mut self.draw)?;
            if let Some(addrs) = self.replicas.addrs(replica) {
                return Some(WantedProbe {
                    token: ProbeToken::pooled(id, replica),
                    replica,
                    addr: addrs.probe,
                    deadline,
                });
            }
            self.handle(now, Event::ProbeLost(id));
        }
    }

    /// Whether the policy's next timeout is earlier than the time at which [`Drive`](super::Drive)
    /// will wake. If so, the earlier time is noted.
    pub(super) fn wants_earlier_wake(&mut self) -> bool {
        let Some(timeout) = self.policy.poll_timeout() else {
            return false;
        };
        let earlier = self.armed.is_none_or(|armed| timeout < armed);
        if earlier {
            self.armed = Some(timeout);
        }
        earlier
    }

    /// Lets the policy handle its timeout if it is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.policy.poll_timeout().is_some_and(|at| at <= now) {
            self.handle(now, Event::Timeout);
        }
    }

    pub(super) fn arm(&mut self, wake_at: Option<Instant>) {
        self.armed = wake_at;
    }

    /// Handles the answer to a probe. Returns the waker of the query that waits for it, if any.
    pub(super) fn report(
        &mut self,
        now: Instant,
        token: ProbeToken,
        report: &LoadReport,
    ) -> Option<Waker> {
        match token.0 {
            super::probe::Purpose::Pooled { id, replica } => {
                self.reported.note(now, replica, report);
                let parts = self.replicas.parts(replica);
                let of_part = (parts.get() > 1).then(|| report.of_part(parts, &mut self.draw));
                let report = of_part.as_ref().unwrap_or(report);
                self.handle(now, Event::Report(id, report));
                None
            }
            super::probe::Purpose::Round { round, replica } => {
                self.reported.note(now, replica, report);
                let active = self.rounds.find_mut(round)?;
                let report = report.of_part(self.replicas.parts(replica), &mut self.draw);
                active.round.handle_report(replica, &report);
                Self::waiting_for(active)
            }
        }
    }

    /// Handles the loss of a probe. Returns the waker of the query that waits for it, if any.
    pub(super) fn probe_lost(&mut self, now: Instant, token: ProbeToken) -> Option<Waker> {
        match token.0 {
            super::probe::Purpose::Pooled { id, .. } => {
                self.handle(now, Event::ProbeLost(id));
                None
            }
            super::probe::Purpose::Round { round, replica } => {
                let active = self.rounds.find_mut(round)?;
                active.round.handle_lost(replica);
                Self::waiting_for(active)
            }
        }
    }

    /// Handles a probe that the prober had no room for. A round counts it as lost.
    pub(super) fn probe_unsent(&mut self, now: Instant, token: ProbeToken) {
        match token.0 {
            super::probe::Purpose::Pooled { id, .. } => self.handle(now, Event::ProbeUnsent(id)),
            super::probe::Purpose::Round { round, replica } => {
                // No wake-up is needed: the query that waits for the round has not been polled
                // since, or is polled next.
                if let Some(active) = self.rounds.find_mut(round) {
                    active.round.handle_lost(replica);
                }
            }
        }
    }

    fn waiting_for(active: &mut super::rounds::ActiveRound) -> Option<Waker> {
        if active.round.is_ready() {
            active.waker.take()
        } else {
            None
        }
    }

    /// Puts the probes of a round into `outbox`.
    pub(super) fn round_probes(&mut self, now: Instant, id: RoundId, outbox: &mut Outbox) {
        let Some(active) = self.rounds.find_mut(id) else {
            return;
        };
        let deadline = active.round.deadline();
        let targets = active.round.clone();
        for replica in targets.targets() {
            let token = ProbeToken::of_round(id, replica);
            match self.replicas.addrs(replica) {
                Some(addrs) => outbox.push(WantedProbe {
                    token,
                    replica,
                    addr: addrs.probe,
                    deadline,
                }),
                None => drop(self.probe_lost(now, token)),
            }
        }
    }
}
