//! How queries, reports and timeouts pass through health to the wrapped policy and back.

use super::course::Why;
use super::guarded::Guarded;
use super::record::Record;
use crate::draw::Draw;
use crate::policy::{
    Attempt, Counters, Decision, Event, Explanation, Fleet, Out, OutReason, Outcome, Pick,
    PickReason, Policy, Probe, ProbeId, Query, Snapshot, Ticket,
};
use crate::policy::{HealthState, HealthView};
use crate::replica::ReplicaId;
use crate::report::LoadReport;
use crate::time::Instant;

impl Guarded {
    /// Adds a replica. It counts as new if the fleet has served already.
    fn joined(&mut self, replica: ReplicaId) {
        if !self.members.insert(replica) {
            return;
        }
        self.stays = self.stays.wrapping_add(1);
        self.offered += 1;
        let mut record = Record::new(self.latest, self.stays);
        record.success = self.fleet_success;
        self.records.insert(replica, record);
        let replicas = self.members.len();
        self.rates.reserve(replicas);
        self.rates_just_now.reserve(replicas);
        self.latencies.reserve(replicas);
        self.paces.reserve(replicas);
        self.peaks.reserve(replicas);
        self.out.reserve(replicas.saturating_sub(self.out.len()));
        if self.has_served {
            self.warm_up(replica);
        }
    }

    fn left(&mut self, replica: ReplicaId) {
        if self.members.remove(replica) {
            let record = self.records.remove(replica);
            let is_offered = record.is_some_and(|record| record.is_offered);
            self.offered -= usize::from(is_offered);
            self.forget_out(replica, is_offered);
            self.has_changed = true;
            self.enforce_limit();
        }
    }

    /// Notes whether the driver offers a replica. Returns whether the policy may choose it: never
    /// while it is out.
    fn offer(&mut self, replica: ReplicaId, available: bool) -> bool {
        let Some(record) = self.records.find_mut(replica) else {
            return available;
        };
        let was_offered = core::mem::replace(&mut record.is_offered, available);
        let is_out = record.course.is_out();
        if was_offered != available {
            let count = |all: usize| if available { all + 1 } else { all - 1 };
            self.offered = count(self.offered);
            if is_out {
                self.offered_out = count(self.offered_out);
            }
        }
        available && !is_out
    }

    /// Notes that a query is in flight.
    pub(super) fn sent(&mut self, pick: &mut Pick, is_trial: bool) {
        self.in_flight += 1;
        self.has_served = true;
        if let Some(record) = self.records.find_mut(pick.ticket.replica()) {
            pick.ticket.health = record.sent(self.latest, is_trial);
        }
    }

    /// Adds the replicas that are out, and those with less than their share, to the policy's
    /// explanation. The policy has already counted the unavailable ones, so the share of a replica
    /// that may not be chosen anyway is not added.
    fn explain(&self, explanation: Option<&mut Explanation>) {
        let Some(explanation) = explanation else {
            return;
        };
        for &replica in &self.out {
            if let Some(out) = self.absence(replica) {
                explanation.note_out(out);
            }
        }
        for replica in self.shares.replicas() {
            if self.policy.fleet().is_available(replica)
                && let Some(out) = self.absence(replica)
            {
                explanation.add_out(out);
            }
        }
    }

    pub(super) fn absence(&self, replica: ReplicaId) -> Option<Out> {
        let view = self.view(replica)?;
        Some(Out {
            replica,
            why: OutReason::Health(view.state),
            share_millionths: view.share_millionths,
        })
    }

    pub(super) fn warm_up(&mut self, replica: ReplicaId) {
        if let Some(settings) = &self.config.warm_up
            && let Some(record) = self.records.find_mut(replica)
        {
            let ends_at = self.latest + settings.span_max;
            record.warm_up(settings.share_min.millionths(), ends_at);
            self.counters.warm_ups += 1;
            self.has_changed = true;
        }
    }

    /// Takes in a replica's report about itself.
    fn note_report(
        &mut self,
        replica: ReplicaId,
        report: &LoadReport,
        note: fn(&mut Record, Instant, &LoadReport) -> bool,
    ) {
        if let Some(record) = self.records.find_mut(replica)
            && note(record, self.latest, report)
        {
            self.warm_up(replica);
        }
    }

    pub(super) fn view(&self, replica: ReplicaId) -> Option<HealthView> {
        let record = self.records.find(replica)?;
        let course = &record.course;
        let state = match (course.is_out(), course.why()) {
            (true, Why::Errors) => HealthState::Ejected,
            (true, Why::Slowness | Why::Silence) => HealthState::OnProbation,
            (false, _) if course.is_returning() => HealthState::Returning,
            (false, _) if !course.is_whole() => HealthState::HeldBack,
            (false, _) if record.is_warming_up() => HealthState::WarmingUp,
            (false, _) if record.is_pushing_back() => HealthState::PushingBack,
            (false, _) => HealthState::Sound,
        };
        Some(HealthView {
            replica,
            state,
            is_slow: !course.is_whole() && course.why() != Why::Errors,
            share_millionths: record.share(true, true),
            success_millionths: record.success,
            latency: record.latency(),
        })
    }
}

impl Policy for Guarded {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn handle(&mut self, now: Instant, mut event: Event<'_>, draw: &mut dyn Draw) {
        let now = match event {
            Event::Added(_)
            | Event::Removed(_)
            | Event::Identified(..)
            | Event::Far(..)
            | Event::Available(..)
            | Event::SiblingQueries(..)
            | Event::ProbeUnsent(_) => {
                self.latest = self.latest.max(now);
                self.latest
            }
            Event::Report(..)
            | Event::SiblingReport(..)
            | Event::CarriedReport(..)
            | Event::ProbeLost(_)
            | Event::Timeout => self.tick(now),
        };
        match &mut event {
            Event::Available(replica, available) => *available = self.offer(*replica, *available),
            Event::Report(probe, report) => {
                if let Some(replica) = self.policy.probe_target(*probe) {
                    self.note_report(replica, report, Record::reported);
                }
            }
            Event::SiblingReport(replica, report) => {
                self.note_report(*replica, report, Record::reported);
            }
            Event::CarriedReport(replica, report) => {
                self.note_report(*replica, report, Record::report_carried);
            }
            _ => {}
        }
        self.policy.handle(now, event, draw);
        // The policy has handled the event by now, so that its fleet is current.
        match event {
            Event::Added(replica) => self.joined(replica),
            Event::Removed(replica) => self.left(replica),
            Event::Far(replica, round_trip) => {
                if let Some(record) = self.records.find_mut(replica) {
                    record.far = Some(round_trip);
                }
            }
            Event::Available(replica, _) if self.members.contains(replica) => {
                self.has_changed = true;
                self.enforce_limit();
            }
            Event::Report(..) | Event::SiblingReport(..) | Event::Timeout => self.keep_one(),
            _ => {}
        }
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        mut explanation: Option<&mut Explanation>,
    ) -> Decision {
        let now = self.tick(now);
        if query.attempt == Attempt::Trial {
            // A copy of a query: it goes to a replica that is out, or nowhere.
            let due = self.due_for_copy();
            let tried = due.and_then(|due| self.try_out(due, Query::hedge(&[]), draw, explanation));
            return tried.unwrap_or(Decision::NoReplica);
        }
        if query.round.is_some() {
            // The query avoided replicas when its round started, so only the result is noted.
            let explained = explanation.as_deref_mut();
            let mut decision = self.policy.choose(now, query, draw, explained);
            if let Decision::Pick(pick) = &mut decision {
                self.explain(explanation);
                self.sent(pick, false);
            }
            return decision;
        }
        if query.attempt == Attempt::First {
            self.trials.earn();
        }
        if self.has_changed {
            self.refresh();
        }
        if !self.out.is_empty()
            && let Some(replica) = self.due_for_trial(query)
            && let Some(decision) = self.try_out(replica, query, draw, explanation.as_deref_mut())
        {
            self.explain(explanation);
            return decision;
        }
        // The usual case is that all replicas have their whole share, which costs one comparison.
        let mut decision = if self.shares.is_empty() {
            (self.policy).choose(now, query, draw, explanation.as_deref_mut())
        } else {
            let avoid = self.shares.avoid(&*self.policy, query, draw);
            let avoid = avoid.unwrap_or(query.avoid);
            let query = Query { avoid, ..query };
            (self.policy).choose(now, query, draw, explanation.as_deref_mut())
        };
        self.explain(explanation);
        if let Decision::Pick(pick) = &mut decision {
            self.sent(pick, false);
        }
        decision
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let now = self.tick(now);
        let latency_ns = now.ns_since(ticket.sent_at());
        // Only the first head counts, and only if the replica has not left and rejoined since.
        if ticket.health.head(latency_ns, outcome)
            && let Some(record) = self.records.find_mut(ticket.replica())
            && record.has_sent(ticket.health)
        {
            let wakes = record.wake(now);
            record.answered(now, latency_ns, outcome);
            let run = record.booked(self.bucket, latency_ns, outcome);
            ticket.health.set_run(run);
            let trial = ticket.health.trial();
            if let Some(trial) = trial.filter(|_| outcome == Outcome::Success) {
                record.course.trial_began(now, trial, latency_ns);
            }
            if wakes {
                self.woken(ticket.replica());
            }
            if outcome.is_failure() && trial.is_none() {
                self.failed(ticket.replica());
            }
        }
        self.policy.handle_head(now, ticket, outcome);
    }

    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) {
        let now = self.tick(now);
        let (replica, mark) = (ticket.replica(), ticket.health);
        let took_ns = now.ns_since(ticket.sent_at());
        self.in_flight = self.in_flight.saturating_sub(1);
        self.policy.handle_query_done(now, ticket, outcome);
        let Some(record) = self.records.find_mut(replica) else {
            return;
        };
        if !record.has_sent(mark) {
            return;
        }
        record.ended();
        let (head, outcome) = (mark.latency_ns(), mark.outcome(outcome));
        let latency_ns = head.unwrap_or(took_ns);
        // Only now is it known to be bad: its head was good.
        let mut turns_bad = outcome.is_failure();
        let mut wakes = false;
        if head.is_some() {
            turns_bad &= mark.began_well();
            if turns_bad {
                let since_head_ns = took_ns.saturating_sub(latency_ns);
                let began = now.as_nanos().saturating_sub(since_head_ns) / self.bucket_ns;
                record.broke(self.bucket, began, mark.run(), took_ns, outcome);
            }
        } else {
            // Without a head the query is booked at its end.
            let is_answer = matches!(
                outcome,
                Outcome::Success | Outcome::Failed | Outcome::PushedBack
            );
            if is_answer {
                wakes = record.wake(now);
                record.answered(now, took_ns, outcome);
            } else {
                record.unanswered(now, took_ns, outcome);
            }
            record.booked(self.bucket, took_ns, outcome);
        }
        if wakes {
            self.woken(replica);
        }
        self.judged(replica, mark.trial(), latency_ns, outcome, turns_bad);
    }

    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        self.policy.poll_probe(now, draw)
    }

    fn probe_target(&self, probe: ProbeId) -> Option<ReplicaId> {
        self.policy.probe_target(probe)
    }

    fn spares_some(&mut self, now: Instant) -> bool {
        self.tick(now);
        self.has_changed || !self.shares.is_empty()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let is_restless = self.in_flight > 0 || !self.out.is_empty() || !self.shares.is_empty();
        let tick_at = is_restless.then_some(self.tick_at);
        match (tick_at, self.policy.poll_timeout()) {
            (Some(tick_at), Some(timeout)) => Some(tick_at.min(timeout)),
            (tick_at, timeout) => tick_at.or(timeout),
        }
    }

    fn wants_trial(&self) -> bool {
        self.due_for_copy().is_some()
    }

    fn fleet(&self) -> &Fleet {
        self.policy.fleet()
    }

    fn counters(&self) -> Counters {
        let mut counters = self.policy.counters();
        (counters.picks).recount(PickReason::Pinned, PickReason::Trial, self.counters.trials);
        counters.health = self.counters;
        counters
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        let members = self.members.as_slice().iter();
        Snapshot {
            health: members.filter_map(|&replica| self.view(replica)).collect(),
            ..self.policy.snapshot(now)
        }
    }
}
