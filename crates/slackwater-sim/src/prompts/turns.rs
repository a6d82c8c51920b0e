//! The life of a turn: it arrives, is routed, served and answered, or breaks off.

use super::engines::duration;
use super::{DELAY, RETRY_AFTER, Run, What};
use crate::machine::{JobId, NEVER, Progress, Prompt, Time};
use core::time::Duration;
use slackwater_core::LoadReport;
use slackwater_core::policy::{Event, Outcome, Ticket};
use slackwater_core::tracker::Arrival;

/// A turn in progress.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) session: usize,
    pub(super) balancer: usize,
    pub(super) arrived_at: Time,
    pub(super) prompt: Prompt,
    /// Whether it was sent before, and its engine stopped.
    pub(super) is_retry: bool,
    measured: bool,
    engine: usize,
    ticket: Option<Ticket>,
    /// While it is at its engine.
    arrival: Option<Arrival>,
    /// The report that the head of its answer carries.
    carried: Option<LoadReport>,
    first_at: Option<Time>,
}

impl Turn {
    /// Returns whether the engine's stop breaks it off.
    pub(super) fn breaks_off(&mut self, engine: usize) -> bool {
        self.engine == engine && self.arrival.take().is_some()
    }

    /// Returns whether an engine has it, or should have it.
    #[cfg(test)]
    pub(super) const fn is_sent(&self) -> bool {
        self.ticket.is_some()
    }

    /// Returns whether it is measured, and waits for its first token.
    pub(super) const fn is_awaited(&self) -> bool {
        self.measured && self.first_at.is_none()
    }
}

impl Run<'_> {
    /// Begins the next turn of a session.
    pub(super) fn turn(&mut self, session: usize) {
        let Some(prompt) = self.open[session].turn(self.prompts) else {
            self.open.remove(session);
            return;
        };
        let balancers = u32::try_from(self.balancers.len()).unwrap_or(1);
        let measured = self.span.contains(&self.now);
        self.measured.queries += u64::from(measured);
        self.unanswered += usize::from(measured);
        let turn = self.turns.insert(Turn {
            session,
            balancer: self.spread.below(balancers) as usize,
            arrived_at: self.now,
            prompt,
            is_retry: false,
            measured,
            engine: usize::MAX,
            ticket: None,
            arrival: None,
            carried: None,
            first_at: None,
        });
        self.route(turn);
    }

    /// Tries again later, because no engine is up.
    pub(super) fn retry_later(&mut self, turn: usize) {
        self.queue.push(self.now + RETRY_AFTER, What::Retry(turn));
    }

    /// Sends a turn to the engine of its ticket.
    pub(super) fn send(&mut self, number: usize, ticket: Ticket) {
        let turn = &mut self.turns[number];
        let Some(&engine) = self.numbers.get(&ticket.replica()) else {
            return;
        };
        turn.engine = engine;
        turn.ticket = Some(ticket);
        let balancer = &mut self.balancers[turn.balancer];
        balancer.sent[engine] += 1;
        balancer.remembered[engine].add(&turn.prompt.blocks);
        let session = &mut self.open[turn.session];
        if turn.measured && !turn.is_retry {
            self.measured.queries_by_replica[engine] += 1;
            if let Some(last) = session.last {
                self.measured.conversations.returning += 1;
                self.measured.conversations.moved += u64::from(last != engine);
            }
        }
        session.last = Some(engine);
        self.queue.push(self.now + DELAY, What::Reach(number));
    }

    /// Begins a turn at its engine.
    pub(super) fn reach(&mut self, number: usize) {
        let turn = &mut self.turns[number];
        let engine = &mut self.engines[turn.engine];
        if engine.id.is_none() {
            self.queue.push(self.now + DELAY, What::Fail(number));
            return;
        }
        let was_idle = engine.machine.next_event() == NEVER;
        let job = JobId(u32::try_from(number).unwrap_or(u32::MAX));
        turn.arrival = Some(engine.arrive(self.now, job, turn.prompt.clone()));
        if was_idle {
            let step = What::Step(turn.engine);
            self.queue.push(engine.machine.next_event(), step);
        }
    }

    /// Ends a step of an engine.
    pub(super) fn step(&mut self, number: usize) {
        let engine = &mut self.engines[number];
        if engine.machine.next_event() > self.now {
            return; // the engine has stopped meanwhile
        }
        let mut progress = Vec::new();
        engine.advance(self.now, &mut progress);
        for progress in progress {
            match progress {
                Progress::FirstToken(JobId(job)) => {
                    let turn = &mut self.turns[job as usize];
                    if let Some(arrival) = &mut turn.arrival {
                        engine.first_token(self.now, arrival);
                    }
                    turn.carried = Some(engine.report(self.now));
                    self.queue.push(self.now + DELAY, What::First(job as usize));
                }
                Progress::Finished(JobId(job)) => {
                    if let Some(arrival) = self.turns[job as usize].arrival.take() {
                        engine.finished(self.now, arrival);
                    }
                    self.queue.push(self.now + DELAY, What::End(job as usize));
                }
            }
        }
        if engine.machine.next_event() != NEVER {
            let step = What::Step(number);
            self.queue.push(engine.machine.next_event(), step);
        }
    }

    /// Handles the first token of an answer at the balancer.
    pub(super) fn first_token(&mut self, number: usize) {
        let now = self.instant();
        let turn = &mut self.turns[number];
        if turn.is_awaited() {
            self.unanswered -= 1;
            let latency = Duration::from_nanos(self.now - turn.arrived_at);
            self.measured.latency.record(latency);
        }
        turn.first_at = Some(self.now);
        let balancer = &mut self.balancers[turn.balancer];
        if let Some(ticket) = &mut turn.ticket {
            balancer.policy.handle_head(now, ticket, Outcome::Success);
        }
        if let Some(id) = self.engines[turn.engine].id
            && let Some(report) = turn.carried.take()
        {
            balancer.handle(now, Event::CarriedReport(id, &report));
        }
        let balancer = turn.balancer;
        self.poll(balancer);
    }

    /// Handles the end of an answer.
    pub(super) fn end(&mut self, number: usize) {
        self.give_back(number, Outcome::Success);
        let turn = &self.turns[number];
        if let Some(first_at) = turn.first_at
            && turn.measured
        {
            let conversations = &mut self.measured.conversations;
            let whole = Duration::from_nanos(self.now - turn.arrived_at);
            conversations.whole.record(whole);
            let further = turn.prompt.answer_tokens - 1;
            if further > 0 {
                let ns = (self.now - first_at) as f64 / f64::from(further);
                conversations.per_token.record(duration(ns));
            }
        }
        self.close(number);
    }

    /// Handles the failure of a turn whose engine has stopped. One without a first token is sent
    /// elsewhere.
    pub(super) fn fail(&mut self, number: usize) {
        self.give_back(number, Outcome::Broken);
        let turn = &mut self.turns[number];
        turn.is_retry = true;
        if turn.first_at.is_none() {
            self.route(number);
            return;
        }
        self.measured.errors += u64::from(turn.measured);
        self.close(number);
    }

    /// Returns a turn's ticket to its policy.
    fn give_back(&mut self, number: usize, outcome: Outcome) {
        let now = self.instant();
        let turn = &mut self.turns[number];
        let balancer = &mut self.balancers[turn.balancer];
        if let Some(ticket) = turn.ticket.take() {
            balancer.sent[turn.engine] -= 1;
            balancer.policy.handle_query_done(now, ticket, outcome);
        }
        let balancer = turn.balancer;
        self.poll(balancer);
    }

    /// Forgets a turn that has ended, and schedules the next one of its session, if there is one.
    fn close(&mut self, number: usize) {
        let session = self.turns.remove(number).session;
        if self.open[session].goes_on(self.prompts) {
            let think = self.open[session].think(self.prompts);
            self.queue.push(self.now + think, What::Turn(session));
        } else {
            self.open.remove(session);
        }
    }
}
