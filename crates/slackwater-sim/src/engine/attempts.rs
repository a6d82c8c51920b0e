//! The life of a query: it arrives, is sent, served, and answered or given up; and what happens to
//! its copies.

use super::balancing::Balancing;
use super::meter::Ending;
use super::network::Message;
use super::probing::probe_of;
use super::query::{Attempt, Key, Query, Stage, asked, slot_number};
use super::replicas::Responses;
use super::{Engine, Timer};
use crate::machine::{JobId, Time};
use slackwater_core::policy::{self, Decision, Event, Outcome, Pick, Ticket};
use slackwater_core::tail::WatchEnd;
use slackwater_core::{Instant, LoadReport, ReplicaId};

impl Engine {
    /// Handles a query that arrives at its client.
    #[inline]
    pub(super) fn query_arrives(&mut self) {
        let now = self.now;
        let arrival = self.arrivals.take();
        let measured = arrival.counts && self.meter.query(now);
        let due = self.due();
        let key = self
            .queries
            .insert(|serial| Query::new(serial, arrival, now, due, measured));
        self.await_deadline(key);
        match self.query_waits(arrival.client) {
            Some(at) => self.timers.push(at, Timer::Choice(key)),
            None => self.choose(key),
        }
    }

    /// Returns when the client of a query that arrives now stops waiting.
    const fn due(&self) -> Time {
        self.now.saturating_add(self.patience)
    }

    /// Schedules the query's deadline. Deadlines come in the order of arrivals. Deadlines at the
    /// front whose queries have ended are dropped.
    #[inline]
    fn await_deadline(&mut self, key: Key) {
        while let Some(&(_, oldest)) = self.deadlines.front()
            && self.queries.find(oldest).is_none()
        {
            self.deadlines.pop_front();
        }
        self.deadlines.push_back((self.due(), key));
    }

    /// Returns the replicas of a query's copies that are in flight.
    #[inline]
    pub(super) fn replicas_of(&mut self, query: Key) -> Vec<u32> {
        let copies = self.queries.find(query).into_iter();
        let copies = copies.flat_map(|query| query.copies.into_iter().flatten());
        copies
            .filter_map(|slot| self.attempts.at(slot).map(|attempt| attempt.replica))
            .collect()
    }

    /// Returns the query that its policy receives for the first copy.
    #[inline]
    pub(super) fn asked_first(&self, query: &Query) -> policy::Query<'static> {
        policy::Query {
            attempt: query.attempt,
            pinned: (query.pinned).and_then(|replica| self.name_of(query.client, replica)),
            key: self.key_hash(query.key_number),
            ..policy::Query::first()
        }
    }

    /// Chooses a replica for a copy of a query: the first copy, or a further one, which goes to a
    /// replica that has none.
    #[inline]
    pub(super) fn choose(&mut self, key: Key) {
        let Some(query) = self.queries.find(key) else {
            return;
        };
        let (number, cost_ns) = (query.client, query.cost_ns);
        let first = self.asked_first(query);
        let avoid = self.replicas_of(key);
        match &mut self.balancing {
            Balancing::Own { clients, .. } => {
                let client = &mut clients[number as usize];
                let now = Instant::from_nanos(self.now);
                let avoid = self.replicas.ids_of(&avoid);
                let asked = asked(first, &avoid);
                match client.policy.choose(now, asked, &mut client.draw, None) {
                    Decision::Pick(pick) => self.send_picked(key, pick),
                    Decision::Probe(round) => self.begin_round(number, key, round),
                    Decision::NoReplica => self.turn_away(key),
                }
                self.poll_client(number);
            }
            Balancing::Central(central) => {
                let all = 0..slot_number(self.replicas.all().len());
                let numbers = self.parts.map_or(all, |parts| parts.of(number));
                let chosen = central.choose(self.now, &mut self.replicas, numbers, cost_ns, &avoid);
                match chosen {
                    Some(replica) => self.send(key, replica, None),
                    None => self.turn_away(key),
                }
            }
        }
    }

    /// Sends a copy of a query to the replica that a policy has picked.
    #[inline]
    pub(super) fn send_picked(&mut self, key: Key, pick: Pick) {
        let to = pick.ticket.replica();
        if let Some(query) = self.queries.find(key) {
            if query.measured && !query.is_out() {
                self.meter.picked(&pick);
            }
            let (client, weight) = (query.client, query.weight);
            self.share_query(client, to);
            self.charge(client, to, weight);
        }
        self.send(key, self.replicas.number(to), Some(pick.ticket));
    }

    #[inline]
    fn send(&mut self, key: Key, replica: u32, ticket: Option<Ticket>) {
        let Some(query) = self.queries.find_mut(key) else {
            return;
        };
        let (is_first, client) = (!query.is_out(), query.client);
        let work_ns = if !is_first && self.replicas.at(replica as usize).replays {
            // Replayed latencies belong to the replica, not to the query.
            self.arrivals.another_cost()
        } else {
            query.cost_ns
        };
        let attempt = self
            .attempts
            .insert(|serial| Attempt::new(serial, key, query, replica, work_ns, ticket));
        query.sent(attempt.slot);
        if is_first {
            if query.measured {
                let is_abroad = self.network.is_between_zones(client, replica);
                self.meter.sent(self.now, replica as usize, is_abroad);
            }
            self.watch(key);
        } else if self.tie.is_none() {
            // Tied copies are counted when they leave.
            self.meter.hedge(self.now);
        }
        if let Some(central) = self.balancing.central() {
            central.sent(replica, work_ns);
        }
        match self.tie {
            Some(delay) if !is_first => self.tie(key, attempt, delay),
            Some(_) => {
                let message = Message::Query(attempt.slot);
                self.network.send(self.now, client, replica, message);
                self.choose(key);
            }
            None => {
                let message = Message::Query(attempt.slot);
                self.network.send(self.now, client, replica, message);
            }
        }
    }

    /// Handles that no replica is available for a copy of a query. Without a first copy, the query
    /// ends as refused.
    pub(super) fn turn_away(&mut self, key: Key) {
        let Some(query) = self.queries.find(key) else {
            return;
        };
        if query.is_out() {
            self.hedge_unsent(key);
        } else {
            self.end_query(key, Ending::Failed, WatchEnd::Failed);
        }
    }

    /// Serves a copy that arrives at its replica.
    #[inline]
    pub(super) fn serve(&mut self, slot: u32) {
        let Some(attempt) = self.attempts.at(slot) else {
            return;
        };
        let number = attempt.replica;
        if self.replicas.at_mut(number as usize).leaves_unread(slot) {
            return; // until the process resumes
        }
        if let Some(central) = self.balancing.central() {
            central.arrived(number, attempt.work_ns);
        }
        if self.is_begun_elsewhere(slot) {
            return;
        }
        let Some(attempt) = self.attempts.at(slot) else {
            return;
        };
        let replica = self.replicas.at_mut(number as usize);
        let unwanted = matches!(attempt.stage, Stage::Unwanted);
        let is_extra = self.copies_need_room && attempt.is_copy;
        if replica.is_up && !unwanted && is_extra && !replica.machine.has_room(self.now) {
            self.replicas.changed(number as usize);
            return self.drop_at_replica(slot, number, Outcome::Dropped);
        }
        if replica.is_up && !unwanted {
            let served = replica.serve(self.now, JobId(slot), attempt);
            self.meter.found(self.now, served.found);
            attempt.stage = Stage::Served(served);
            self.replicas.changed(number as usize);
            self.end_rejected(number);
            self.report_begun(number);
            return;
        }
        if let Some(central) = self.balancing.central() {
            central.finished(number);
        }
        if unwanted {
            self.attempts.take(slot);
        } else {
            self.answer(slot, Outcome::NoConnection);
        }
    }

    /// Advances the machine with the earliest event, which may finish work.
    #[inline]
    pub(super) fn advance_machine(&mut self) {
        let (number, finished) = self.replicas.advance(self.now);
        for &JobId(slot) in &finished {
            if let Some(probe) = probe_of(slot) {
                self.send_report(probe);
                continue;
            }
            let stage = self.attempts.at(slot).map(|attempt| {
                core::mem::replace(&mut attempt.stage, Stage::Leaving) // until it is answered
            });
            let Some(Stage::Served(served)) = stage else {
                continue;
            };
            if let Some(central) = self.balancing.central() {
                central.finished(slot_number(number));
            }
            self.end_tie(slot);
            self.end_tie(slot);
            let replica = self.replicas.at_mut(number);
            let outcome = if replica.finish(self.now, served) {
                Outcome::Success
            } else {
                Outcome::Failed
            };
            if replica.responses == Responses::CarryReports
                && let Some(attempt) = self.attempts.at(slot)
            {
                attempt.carried = Some(Box::new(replica.report(self.now)));
            }
            self.answer(slot, outcome);
        }
        self.replicas.give_back(finished);
        self.end_rejected(slot_number(number));
        self.report_begun(slot_number(number));
    }

    /// Ends the copies that a replica has rejected from its queue, because they would be late.
    pub(super) fn end_rejected(&mut self, number: u32) {
        let replica = self.replicas.at_mut(number as usize);
        for JobId(slot) in replica.machine.take_rejected() {
            let stage = self.attempts.at(slot).map(|attempt| {
                core::mem::replace(&mut attempt.stage, Stage::Leaving) // until it is answered
            });
            if let Some(Stage::Served(served)) = stage {
                self.end_tie(slot);
                let replica = self.replicas.at_mut(number as usize);
                replica.end_unanswered(self.now, served);
                self.drop_at_replica(slot, number, Outcome::PushedBack);
            }
        }
    }

    /// Sends back the outcome of a copy that its replica does not serve.
    fn drop_at_replica(&mut self, slot: u32, number: u32, outcome: Outcome) {
        if let Some(attempt) = self.attempts.at(slot) {
            attempt.stage = Stage::Leaving;
        }
        if let Some(central) = self.balancing.central() {
            central.finished(number);
        }
        self.answer(slot, outcome);
    }

    /// Sends the outcome of a copy back to its client.
    #[inline]
    pub(super) fn answer(&mut self, slot: u32, outcome: Outcome) {
        let attempt = self.attempts.at(slot);
        let (client, replica) = attempt.map_or((0, 0), |it| (it.client, it.replica));
        let message = Message::Answer(slot, outcome);
        self.network.send(self.now, client, replica, message);
    }

    /// Handles the outcome of a copy at its client. An answer ends the query. A failed copy leaves
    /// the query to the other copies, if any is still in flight.
    #[inline]
    pub(super) fn handle_answer(&mut self, slot: u32, outcome: Outcome) {
        let Some(attempt) = self.attempts.take(slot) else {
            return;
        };
        let Some(query) = self.queries.find_mut(attempt.query) else {
            return; // given up, or answered by the other copy
        };
        let client = query.client;
        let is_first = query.over(slot);
        let is_over = outcome == Outcome::Success || !query.is_out();
        let part = attempt.ticket.as_ref().map(Ticket::replica);
        self.give_back(client, attempt.ticket, outcome);
        if let (Some(part), Some(mut report)) = (part, attempt.carried) {
            self.divide(client, attempt.replica, &mut report);
            self.report_carried(client, part, &report);
        }
        let (ending, watched) = match outcome {
            Outcome::Success if is_first => (Ending::Answered, WatchEnd::Answered),
            Outcome::Success => (Ending::Answered, WatchEnd::Superseded),
            _ => (Ending::Failed, WatchEnd::Failed),
        };
        if is_over {
            self.end_query(attempt.query, ending, watched);
        }
    }

    /// Passes the report in an answer to the client's policy, which may no longer have the part.
    #[inline]
    fn report_carried(&mut self, client: u32, part: ReplicaId, report: &LoadReport) {
        if let Some(client) = self.balancing.client(client) {
            let now = Instant::from_nanos(self.now);
            client.handle(now, Event::CarriedReport(part, report));
        }
    }

    /// Hands a ticket back to the client's policy.
    #[inline]
    pub(super) fn give_back(&mut self, client: u32, ticket: Option<Ticket>, outcome: Outcome) {
        if let Some(ticket) = ticket
            && let Some(client) = self.balancing.client(client)
        {
            let now = Instant::from_nanos(self.now);
            client.policy.handle_query_done(now, ticket, outcome);
        }
    }

    /// Handles a query's deadline; `false` if the query has ended already.
    pub(super) fn expire(&mut self, key: Key) -> bool {
        let is_open = self.queries.find(key).is_some();
        if is_open {
            self.end_query(key, Ending::Expired, WatchEnd::Failed);
        }
        is_open
    }

    /// Ends a query at the client. Copies that are still in flight are given up. After an answer
    /// they are cancelled; after the deadline only if the scenario cancels expired queries.
    #[inline]
    fn end_query(&mut self, key: Key, ending: Ending, watched: WatchEnd) {
        let Some(mut query) = self.queries.take(key.slot) else {
            return;
        };
        let (outcome, cancels) = match ending {
            // The proxy's outcome for a replica that has not answered in time.
            Ending::Expired => (Outcome::TimedOut, self.cancel_expired),
            Ending::Answered | Ending::Failed => (Outcome::Dropped, true),
        };
        for slot in query.copies.into_iter().flatten() {
            let Some(attempt) = self.attempts.at(slot) else {
                continue;
            };
            let ticket = attempt.ticket.take();
            let copy = attempt.key(slot);
            let replica = attempt.replica;
            self.give_back(query.client, ticket, outcome);
            if cancels {
                self.network
                    .send(self.now, query.client, replica, Message::Cancel(copy));
            }
        }
        self.watched(&mut query, watched);
        let latency: Time = self.now - query.arrived_at;
        if query.measured {
            self.meter.ended(self.now, latency, ending, query.class);
        }
    }

    /// Cancels a copy at its replica.
    pub(super) fn cancel(&mut self, key: Key) {
        let Some(attempt) = self.attempts.find_mut(key) else {
            return;
        };
        let number = attempt.replica;
        self.end_tie(key.slot);
        let Some(attempt) = self.attempts.at(key.slot) else {
            return;
        };
        // A copy on its way there is dropped when it arrives. For one on its way back nothing is
        // left to do.
        if let Stage::Served(served) = core::mem::replace(&mut attempt.stage, Stage::Unwanted) {
            let replica = self.replicas.at_mut(number as usize);
            replica.cancel(self.now, JobId(key.slot), served);
            self.replicas.changed(number as usize);
            self.attempts.take(key.slot);
            if let Some(central) = self.balancing.central() {
                central.finished(number);
            }
            self.end_rejected(number);
            self.report_begun(number);
        }
    }

    /// Breaks off the queries at a replica that stops. Their clients receive the failure after a
    /// network delay.
    pub(super) fn break_off(&mut self, number: u32) {
        let mut broken = Vec::new();
        for (slot, attempt) in self.attempts.iter_mut() {
            if attempt.replica == number && matches!(attempt.stage, Stage::Served(_)) {
                attempt.stage = Stage::Leaving;
                broken.push(slot);
            }
        }
        for slot in broken {
            if let Some(central) = self.balancing.central() {
                central.finished(number);
            }
            self.answer(slot, Outcome::Broken);
        }
    }
}
