//! Two tied copies of each query: the copy that starts first cancels the other. The core's
//! [`Ties`](slackwater_core::tail::Ties) decide at each replica. This file has the messages between
//! them.
//!
//! Both replicas are chosen at once, because each copy names the other. The second copy leaves a
//! little later, unless the query has ended by then. A copy that starts sends a message to the
//! replica of the other copy. That replica drops the copy if it still waits, or when it arrives.
//! The client receives this like any other outcome. If replicas serve all queries at once, no copy
//! ever waits: the other copy is dropped when it arrives, or both are served.

use super::Engine;
use super::network::Message;
use super::probing::probe_of;
use super::query::{Key, Stage};
use crate::machine::{JobId, Time};
use slackwater_core::Instant;
use slackwater_core::policy::{Outcome, Ticket};

impl Engine {
    /// Ties a query's second copy, which was just chosen, to the first, and schedules it. In
    /// synchronous mode the second copy is chosen too late: the first has arrived already and names
    /// no other copy. Then there is no second copy.
    pub(super) fn tie(&mut self, key: Key, second: Key, delay: Time) {
        let Some(query) = self.queries.find_mut(key) else {
            return;
        };
        let (client, first) = (query.client, query.copies[0]);
        let first = first.filter(|&first| {
            let first = self.attempts.at(first);
            first.is_some_and(|first| matches!(first.stage, Stage::Coming))
        });
        let Some(first) = first else {
            query.over(second.slot);
            let ticket = self.withdraw(second);
            self.give_back(client, ticket, Outcome::Dropped);
            return;
        };
        let replica_of = |engine: &mut Self, slot| engine.attempts.at(slot).map(|it| it.replica);
        let (here, there) = (replica_of(self, first), replica_of(self, second.slot));
        for (slot, tied_replica) in [(first, there), (second.slot, here)] {
            if let Some(attempt) = self.attempts.at(slot) {
                attempt.tied_replica = tied_replica;
            }
        }
        self.timers
            .push(self.now + delay, super::Timer::Tied(second));
    }

    /// Removes a copy that was chosen and will not be sent. Returns its ticket.
    fn withdraw(&mut self, copy: Key) -> Option<Ticket> {
        let attempt = self.attempts.remove(copy)?;
        if let Some(central) = self.balancing.central() {
            central.arrived(attempt.replica, attempt.work_ns);
            central.finished(attempt.replica);
        }
        attempt.ticket
    }

    /// Sends the second copy; `false` if its query has ended, or the copy with it.
    pub(super) fn send_tied(&mut self, copy: Key) -> bool {
        let Some(attempt) = self.attempts.find(copy) else {
            return false;
        };
        if self.queries.find(attempt.query).is_none() {
            self.withdraw(copy);
            return false;
        }
        let (client, replica) = (attempt.client, attempt.replica);
        self.meter.hedge(self.now);
        let message = Message::Query(copy.slot);
        self.network.send(self.now, client, replica, message);
        true
    }

    /// Handles a copy that arrives at its replica. Returns whether the other copy has started, so
    /// that this one is dropped.
    pub(super) fn is_begun_elsewhere(&mut self, slot: u32) -> bool {
        let Some(attempt) = self.attempts.at(slot) else {
            return false;
        };
        let number = attempt.replica;
        let is_wanted = !matches!(attempt.stage, Stage::Unwanted);
        let replica = self.replicas.at_mut(number as usize);
        let Some(ties) = replica.ties.as_mut().filter(|_| is_wanted && replica.is_up) else {
            return false;
        };
        let now = Instant::from_nanos(self.now);
        if attempt.tied_replica.is_none() || ties.arrive(now, attempt.query.tie_name(), slot) {
            return false;
        }
        attempt.stage = Stage::Leaving;
        if let Some(central) = self.balancing.central() {
            central.finished(number);
        }
        self.answer(slot, Outcome::Dropped);
        true
    }

    /// Cancels the other copies of those that have started in a machine.
    pub(super) fn report_begun(&mut self, number: u32) {
        let now = Instant::from_nanos(self.now);
        let replica = self.replicas.at_mut(number as usize);
        let Some(ties) = &mut replica.ties else {
            return;
        };
        let mut started = Vec::new();
        replica.machine.take_started(&mut started);
        for JobId(slot) in started {
            if probe_of(slot).is_none()
                && let Some(attempt) = self.attempts.at(slot)
                && let Some(tied_replica) = attempt.tied_replica
            {
                let name = attempt.query.tie_name();
                if ties.begin(now, name) {
                    let message = Message::Untie(tied_replica, name);
                    self.network
                        .send(self.now, attempt.client, tied_replica, message);
                }
            }
        }
    }

    /// Drops a copy that still waits, because the other copy has started elsewhere.
    pub(super) fn untie(&mut self, number: u32, name: slackwater_core::tail::TieName) {
        let now = Instant::from_nanos(self.now);
        let replica = self.replicas.at_mut(number as usize);
        let waiting = replica
            .ties
            .as_mut()
            .and_then(|ties| ties.cancel(now, name));
        let Some(slot) = waiting else {
            return;
        };
        let Some(attempt) = self.attempts.at(slot) else {
            return;
        };
        if let Stage::Served(served) = core::mem::replace(&mut attempt.stage, Stage::Leaving) {
            let replica = self.replicas.at_mut(number as usize);
            replica.cancel(self.now, JobId(slot), served);
            self.replicas.changed(number as usize);
            if let Some(central) = self.balancing.central() {
                central.finished(number);
            }
            self.answer(slot, Outcome::Dropped);
            self.end_rejected(number);
            self.report_begun(number);
        }
    }

    /// Removes the tie of a copy that has ended at its replica.
    pub(super) fn end_tie(&mut self, slot: u32) {
        let now = Instant::from_nanos(self.now);
        if let Some(attempt) = self.attempts.at(slot)
            && attempt.tied_replica.is_some()
            && let Some(ties) = &mut self.replicas.at_mut(attempt.replica as usize).ties
        {
            ties.end(now, attempt.query.tie_name());
        }
    }
}
