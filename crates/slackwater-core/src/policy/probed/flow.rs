//! How queries, probes and timeouts pass through a policy that probes asynchronously. `[A1]` `[A2]`
//! `[A3]`

use super::probing::Answer;
use super::{Choice, Compared, Keep, Probed};
use crate::draw::Draw;
use crate::policy::Policy;
use crate::policy::event::Event;
use crate::policy::explanation::{Candidate, Explanation, NotedDraws};
use crate::policy::fleet::Fleet;
use crate::policy::narrow::Narrowed;
use crate::policy::observe::{Counters, Ranked, Snapshot};
use crate::policy::outcome::Outcome;
use crate::policy::pooled_view::PooledView;
use crate::policy::probe::{Probe, ProbeId};
use crate::policy::query::{Attempt, Decision, Pick, Query, Ticket};
use crate::replica::ReplicaId;
use crate::time::Instant;
use core::time::Duration;

impl<K: Keep> Probed<K> {
    fn add(&mut self, now: Instant, replica: ReplicaId) {
        if self.client.fleet.add(replica) {
            self.probing.begin_rest(now);
            self.client.locals.add(replica);
            self.kept.add_replica(replica);
            if self.client.config.local_only {
                self.begin_silence(replica);
            }
            self.membership_changed(replica);
        }
    }

    fn remove(&mut self, replica: ReplicaId) {
        if self.client.fleet.remove(replica) {
            self.probing.remove(replica);
            self.client.locals.remove(replica);
            self.kept.remove_replica(replica);
            self.membership_changed(replica);
        }
    }

    fn handle_timeout(&mut self, now: Instant, draw: &mut dyn Draw) {
        self.expire_probes(now);
        if self.probing.is_idle(now) {
            self.probing.jitter(self.client.config.probe_idle_max, draw);
            self.probing.rest(now);
            let probes = u32::from(self.client.config.idle_probes);
            self.client.counters.probes_idle += u64::from(probes);
            self.want_probes(probes);
        }
    }

    /// Explains the choice, before the query is charged to it.
    fn explain_choice(&self, choice: &Choice, explanation: &mut Explanation) {
        let rule = match choice.chosen {
            Some(_) => choice.reason,
            None => K::WITHOUT_REPORTS,
        };
        let in_flight = self.client.fleet.in_flight(choice.replica);
        let chosen = Candidate::new(choice.replica, choice.chosen, in_flight);
        explanation.choose(chosen, rule, choice.runner_up);
    }
}

impl<K: Keep> Policy for Probed<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn handle(&mut self, now: Instant, event: Event<'_>, draw: &mut dyn Draw) {
        let now = self.tick(now);
        let (answer, report) = match event {
            Event::Report(probe, report) => {
                self.expire_probes(now);
                let Some(answer) = self
                    .probing
                    .end_answered(now, probe, &mut self.client.fleet)
                else {
                    self.client.counters.reports_late += 1;
                    return;
                };
                self.client.counters.probes_answered += 1;
                (answer, report)
            }
            Event::SiblingReport(replica, report) => {
                let answer = Answer::of_sibling(now, replica, &mut self.client.fleet);
                (answer, report)
            }
            Event::SiblingQueries(replica, queries) => {
                return self.kept.charge_siblings(replica, queries);
            }
            Event::CarriedReport(replica, report) => {
                if self.client.fleet.is_available(replica) {
                    self.kept
                        .handle_carried_report(now, replica, report, &mut self.client);
                }
                return;
            }
            Event::ProbeLost(probe) => {
                if let Some((replica, _)) = self.probing.end(probe, &mut self.client.fleet) {
                    self.probe_lost(now, replica);
                }
                return;
            }
            Event::ProbeUnsent(probe) => {
                let client = &mut self.client;
                let was_in_flight = self.probing.unsend(probe, &mut client.fleet);
                client.counters.probes_unsent += u64::from(was_in_flight);
                return;
            }
            Event::Timeout => return self.handle_timeout(now, draw),
            Event::Added(replica) => return self.add(now, replica),
            Event::Removed(replica) => return self.remove(replica),
            Event::Identified(..) => return,
            Event::Far(replica, round_trip) => {
                if self.client.fleet.knows(replica) {
                    self.kept.set_far(replica, round_trip);
                }
                return;
            }
            Event::Available(replica, available) => {
                let changed = self.client.fleet.set_ejected(replica, !available);
                return self.fleet_changed(replica, changed);
            }
        };
        // Answers to own probes and to those of siblings are equally good samples.
        self.take_report(now, answer, report, draw);
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        mut explanation: Option<&mut Explanation>,
    ) -> Decision {
        let now = self.tick(now);
        let narrowed;
        let mut query = query;
        if query.is_narrow() {
            narrowed = Narrowed::of(&self.client.fleet, query);
            query = narrowed.apply(query);
        }
        if let Some(explanation) = &mut explanation {
            self.client.fleet.explain(explanation);
        }
        let pinned = self.client.fleet.pinned(query);
        let choice = if let Some(replica) = pinned {
            let choice = self.kept.charge_pinned(now, replica, &mut self.client);
            Some(Choice {
                reason: query.pin_reason(),
                ..choice
            })
        } else if query.attempt == Attempt::Trial {
            None
        } else {
            (self.kept).pass_turn(now, &query, &mut self.client, draw);
            match &mut explanation {
                None => self.kept.choose(now, &query, &mut self.client, draw),
                Some(explanation) => {
                    (self.kept).explain(now, &query, &mut self.client, explanation);
                    let mut draws = NotedDraws::new(draw);
                    let choice = (self.kept).choose(now, &query, &mut self.client, &mut draws);
                    explanation.note_draw(draws.last);
                    choice
                }
            }
        };
        let Some(choice) = &choice else {
            self.client.counters.no_replica += 1;
            return Decision::NoReplica;
        };
        // A query triggers its probes once, at its first attempt. `[A2]`
        if query.attempt == Attempt::First {
            self.want_query_probes(now);
        }
        match explanation {
            Some(explanation) if pinned.is_some() => explanation.choose_pinned(choice.replica),
            Some(explanation) => self.explain_choice(choice, explanation),
            None => {}
        }
        // The query must be in flight before removal by rate, which `handle_sent` does. `[A10]`
        self.client.counters.picks.count(choice.reason);
        self.client.fleet.query_sent(choice.replica);
        self.kept
            .handle_sent(now, &query, choice, &mut self.client, draw);
        let mut ticket = Ticket::new(choice.replica, now);
        ticket.local = self.client.locals.query_sent(now, choice.replica);
        Decision::Pick(Pick {
            ticket,
            reason: choice.reason,
            rif_limit: choice.rif_limit,
            candidates: choice.candidates,
            chosen: choice.chosen,
            runner_up: choice.runner_up,
            probing: Duration::ZERO,
        })
    }

    fn handle_query_done(&mut self, now: Instant, mut ticket: Ticket, outcome: Outcome) {
        let now = self.tick(now);
        let replica = ticket.replica();
        self.client.fleet.query_done(replica);
        self.client.locals.query_done(now, &mut ticket, outcome);
        if let Some(head) = ticket.end_latency(now, outcome) {
            self.kept.handle_head(now, replica, head, &self.client);
        }
        if outcome == Outcome::NoConnection {
            self.kept.forget(replica);
        }
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let now = self.tick(now);
        self.client.locals.head_ready(now, ticket, outcome);
        if let Some(head) = ticket.end_latency(now, outcome) {
            (self.kept).handle_head(now, ticket.replica(), head, &self.client);
        }
    }

    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        let now = self.tick(now);
        self.expire_probes(now);
        self.next_probe(now, draw)
    }

    fn probe_target(&self, probe: ProbeId) -> Option<ReplicaId> {
        self.probing.target(probe)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.client.fleet.known().is_empty() {
            None
        } else {
            self.probing.next_timeout()
        }
    }

    fn wants_trial(&self) -> bool {
        false
    }

    fn spares_some(&mut self, _now: Instant) -> bool {
        false
    }

    fn fleet(&self) -> &Fleet {
        &self.client.fleet
    }

    fn counters(&self) -> Counters {
        self.client.counters
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        let now = self.latest.max(now);
        let fresh = |view: &PooledView| view.age < self.client.config.report_age_max;
        let silent = |replica: ReplicaId| self.client.locals.is_unprobed(replica);
        let mut compared = self.kept.compared(now, &self.client);
        compared.sort_by_key(place);
        let comparison = (!compared.is_empty()).then(|| self.kept.comparison(&self.client));
        Snapshot {
            replicas: self.client.fleet.views(silent),
            pool: self
                .kept
                .views(now, &self.client)
                .into_iter()
                .filter(fresh)
                .collect(),
            order: compared.iter().map(Ranked::from).collect(),
            comparison: comparison.map(|(comparison, _)| comparison),
            shared: comparison.map(|(_, shared)| shared).unwrap_or_default(),
            next: first(&compared),
            rif_limit: self.kept.rif_limit(&self.client),
            probe_rate: self.probe_rate(),
            ..Snapshot::default()
        }
    }
}

impl From<&Compared> for Ranked {
    fn from(compared: &Compared) -> Self {
        Self {
            replica: compared.replica,
            values: compared.values,
        }
    }
}

fn place(compared: &Compared) -> (u64, u64) {
    (compared.place.first, compared.place.second)
}

/// The replica with the lowest place, if no other shares it. `compared` is sorted.
fn first(compared: &[Compared]) -> Option<ReplicaId> {
    match compared {
        [] => None,
        [first, second, ..] if place(first) == place(second) => None,
        [first, ..] => Some(first.replica),
    }
}
