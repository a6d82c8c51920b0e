//! For tests: a policy with a fleet, driven by hand.

use crate::draw::SplitMix64;
use crate::policy::{Decision, Event, Outcome, Pick, PickReason, Policy, Query, Ticket};
use crate::replica::{ReplicaId, ReplicaIds};
use crate::time::Instant;
use alloc::vec::Vec;
use core::time::Duration;

/// A policy with its fleet and the time.
#[derive(Debug)]
pub(in crate::policy) struct Trial<P> {
    pub(in crate::policy) policy: P,
    pub(in crate::policy) ids: ReplicaIds,
    pub(in crate::policy) replicas: Vec<ReplicaId>,
    pub(in crate::policy) now: Instant,
    pub(in crate::policy) draw: SplitMix64,
}

impl<P: Policy> Trial<P> {
    pub(in crate::policy) fn new(policy: P, replicas: usize) -> Self {
        let mut trial = Self {
            policy,
            ids: ReplicaIds::new(),
            replicas: Vec::new(),
            now: Instant::EPOCH,
            draw: SplitMix64::new(1),
        };
        for _ in 0..replicas {
            trial.join();
        }
        trial
    }

    pub(in crate::policy) fn handle(&mut self, event: Event<'_>) {
        self.policy.handle(self.now, event, &mut self.draw);
    }

    /// Adds another replica.
    pub(in crate::policy) fn join(&mut self) -> ReplicaId {
        let replica = self.ids.allocate().expect("room");
        self.handle(Event::Added(replica));
        self.replicas.push(replica);
        replica
    }

    /// Removes the replica at this place, and adds another in its place.
    pub(in crate::policy) fn replace(&mut self, place: usize) {
        let old = self.replicas[place];
        self.handle(Event::Removed(old));
        assert!(self.ids.release(old));
        let new = self.ids.allocate().expect("room");
        self.handle(Event::Added(new));
        self.replicas[place] = new;
    }

    pub(in crate::policy) fn after(&mut self, span: Duration) {
        self.now += span;
    }

    pub(in crate::policy) fn place(&self, replica: ReplicaId) -> usize {
        let place = self.replicas.iter().position(|&other| other == replica);
        place.expect("one of the fleet")
    }

    pub(in crate::policy) fn try_pick(&mut self, query: Query<'_>) -> Option<Pick> {
        let decision = self.policy.choose(self.now, query, &mut self.draw, None);
        match decision {
            Decision::Pick(pick) => Some(pick),
            Decision::Probe(_) | Decision::NoReplica => None,
        }
    }

    /// Picks a replica for a query.
    pub(in crate::policy) fn pick(&mut self) -> Ticket {
        self.try_pick(Query::first()).expect("a replica").ticket
    }

    /// Picks a replica for a query, with draws that give these numbers, each below its bound.
    pub(in crate::policy) fn pick_at<const N: usize>(
        &mut self,
        numbers: [u32; N],
        bounds: [u32; N],
    ) -> Ticket {
        let mut draws = numbers.into_iter().zip(bounds).map(|(number, bound)| {
            let low_end = (u128::from(number) << 64) / u128::from(bound) + 1;
            u64::try_from(low_end).expect("the number is below its bound")
        });
        let mut draw = || draws.next().expect("as many draws as numbers");
        let decision = self
            .policy
            .choose(self.now, Query::first(), &mut draw, None);
        let Decision::Pick(pick) = decision else {
            panic!("{decision:?}")
        };
        assert!(draws.next().is_none(), "as many draws as numbers");
        pick.ticket
    }

    pub(in crate::policy) fn end(&mut self, ticket: Ticket, outcome: Outcome) {
        self.policy.handle_query_done(self.now, ticket, outcome);
    }

    /// Sends a query to the replica at this place, as if it had tried all others. It ends after
    /// `latency`.
    pub(in crate::policy) fn serve(&mut self, place: usize, latency: Duration, outcome: Outcome) {
        let avoid: Vec<_> = (self.replicas.iter().copied())
            .filter(|&replica| replica != self.replicas[place])
            .collect();
        let ticket = self.try_pick(Query::retry(&avoid)).expect("one is left");
        assert_eq!(self.place(ticket.ticket.replica()), place);
        self.after(latency);
        self.end(ticket.ticket, outcome);
    }

    /// The places of `picks` picks that end at once.
    pub(in crate::policy) fn places(&mut self, picks: usize) -> Vec<usize> {
        (0..picks)
            .map(|_| {
                let ticket = self.pick();
                let place = self.place(ticket.replica());
                self.end(ticket, Outcome::Dropped);
                place
            })
            .collect()
    }

    /// How many of `picks` picks, each ended at once, go to each place.
    pub(in crate::policy) fn counts(&mut self, picks: usize) -> Vec<i32> {
        let mut counts = alloc::vec![0; self.replicas.len()];
        for place in self.places(picks) {
            counts[place] += 1;
        }
        counts
    }

    /// Checks a property of every policy: an avoided, ejected or removed replica is chosen only if
    /// there is no other. `reason` is the expected reason of its picks. Needs three replicas or
    /// more.
    pub(in crate::policy) fn check_standing(&mut self, reason: PickReason) {
        let avoid = [self.replicas[0]];
        let ejected = self.replicas[1];
        self.handle(Event::Available(ejected, false));
        for _ in 0..200 {
            let pick = self
                .try_pick(Query::retry(&avoid))
                .expect("others are left");
            assert_eq!(pick.reason, reason);
            assert!(pick.ticket.replica() != avoid[0] && pick.ticket.replica() != ejected);
            self.end(pick.ticket, Outcome::Dropped);
        }
        let available: Vec<_> = self
            .replicas
            .iter()
            .copied()
            .filter(|&r| r != ejected)
            .collect();
        let pick = self
            .try_pick(Query::retry(&available))
            .expect("the ejected one");
        assert_eq!(pick.reason, PickReason::LastResort);
        assert_eq!(pick.ticket.replica(), ejected);
        self.end(pick.ticket, Outcome::Dropped);

        for replica in self.replicas.clone() {
            self.handle(Event::Available(replica, false));
        }
        let pick = self
            .try_pick(Query::first())
            .expect("in panic all may be chosen");
        assert_eq!(pick.reason, PickReason::Panic);
        self.end(pick.ticket, Outcome::Dropped);
        for replica in self.replicas.clone() {
            self.handle(Event::Available(replica, true));
        }

        let gone = self.replicas[2];
        self.handle(Event::Removed(gone));
        for _ in 0..200 {
            let ticket = self.pick();
            assert_ne!(ticket.replica(), gone);
            self.end(ticket, Outcome::Dropped);
        }
        self.handle(Event::Added(gone));
    }
}
