//! What all policies that poll every replica share: when to poll which replica, and what happens to
//! the answers.
//!
//! Such a policy is an [`Unprobed`] whose rule of choice also uses reports: a [`ChoosePolled`].
//! Each replica is polled once per interval, at a phase of its own that is drawn when it joins, so
//! that polls of one client or of many are spread out. The first poll is sent when the replica
//! joins. A poll that is not answered within the interval, or within a second if that is shorter,
//! is lost. A replica that loses three in a row (or more, if polls of living replicas are lost) is
//! unprobed: its reports are forgotten, and if others answer, it is not chosen. `[Decision 0007]`

use crate::draw::Draw;
use crate::policy::Policy;
use crate::policy::event::Event;
use crate::policy::explanation::Explanation;
use crate::policy::fleet::Fleet;
use crate::policy::observe::{Counters, Snapshot};
use crate::policy::outcome::Outcome;
use crate::policy::polling::Polling;
use crate::policy::probe::{Probe, ProbeId};
use crate::policy::query::{Decision, Query, Ticket};
use crate::policy::unprobed::{Choose, Unprobed};
use crate::replica::ReplicaId;
use crate::report::LoadReport;
use crate::time::Instant;
use core::time::Duration;

/// A rule of choice that also uses what replicas report when polled.
pub trait ChoosePolled: Choose {
    /// Polling interval of each replica.
    fn interval(&self) -> Duration;

    /// Whether it also uses reports that came with a response.
    const LEARNS_UNASKED: bool = false;

    /// Takes in the answer of a replica in the fleet.
    fn handle_report(&mut self, now: Instant, replica: ReplicaId, report: &LoadReport);

    /// Notes that a replica no longer answers, so that its reports do not hold forever.
    fn handle_silence(&mut self, replica: ReplicaId);
}

/// A policy that polls.
#[derive(Clone)]
pub struct Polled<C> {
    pub(in crate::policy) choosing: Unprobed<C>,
    polling: Polling,
}

impl<C: ChoosePolled> Polled<C> {
    /// The policy with this rule and an empty fleet.
    pub fn with(rule: impl Into<C>) -> Self {
        let choosing: Unprobed<C> = Unprobed::with(rule);
        let polling = Polling::new(choosing.rule.interval());
        Self { choosing, polling }
    }

    fn expire(&mut self, now: Instant) {
        while let Some(replica) = self.polling.expire_one(now) {
            self.poll_lost(now, replica);
        }
    }

    fn poll_lost(&mut self, now: Instant, replica: ReplicaId) {
        self.choosing.counters.probes_lost += 1;
        let Some(polls) = self.polling.lost(now, replica) else {
            return;
        };
        self.choosing.fleet.probe_lost(now, replica, polls);
        let is_silent = polls.in_a_row >= self.choosing.fleet.lost_in_a_row();
        if is_silent && self.polling.begin_silence(replica) {
            self.choosing.rule.handle_silence(replica);
            self.choosing.fleet.set_draining(replica, false);
        }
    }

    /// Handles the answer to a poll, which may be late.
    fn polled(&mut self, now: Instant, probe: ProbeId, report: &LoadReport) {
        let Some(replica) = self.polling.end(probe) else {
            self.choosing.counters.reports_late += 1;
            return;
        };
        self.choosing.counters.probes_answered += 1;
        if !self.choosing.fleet.knows(replica) {
            self.choosing.counters.reports_unknown += 1;
            return;
        }
        let lost = self.polling.answered(now, replica);
        self.choosing.fleet.answered(now, replica, lost, true);
        self.choosing.fleet.set_draining(replica, report.draining);
        self.choosing.rule.handle_report(now, replica, report);
    }
}

impl<C: ChoosePolled> Policy for Polled<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn handle(&mut self, now: Instant, event: Event<'_>, draw: &mut dyn Draw) {
        let now = self.choosing.tick(now);
        match event {
            Event::Added(replica) => {
                if !self.choosing.fleet.knows(replica) {
                    self.polling.add(now, replica);
                }
                self.choosing.handle(now, event, draw);
            }
            Event::Removed(replica) => {
                self.polling.remove(replica);
                self.choosing.handle(now, event, draw);
            }
            Event::Report(probe, report) => {
                self.expire(now);
                self.polled(now, probe, report);
            }
            Event::CarriedReport(replica, report) => {
                if C::LEARNS_UNASKED && self.choosing.fleet.knows(replica) {
                    self.choosing.rule.handle_report(now, replica, report);
                }
            }
            Event::ProbeLost(probe) => {
                if let Some(replica) = self.polling.end(probe) {
                    self.poll_lost(now, replica);
                }
            }
            // The replica is polled again when its next poll is due, and not before, because the
            // sender is full.
            Event::ProbeUnsent(probe) => {
                if self.polling.end(probe).is_some() {
                    self.choosing.counters.probes_unsent += 1;
                }
            }
            Event::Timeout => self.expire(now),
            Event::Available(..)
            | Event::Identified(..)
            | Event::Far(..)
            | Event::SiblingReport(..)
            | Event::SiblingQueries(..) => {
                self.choosing.handle(now, event, draw);
            }
        }
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: Option<&mut Explanation>,
    ) -> Decision {
        self.choosing.choose(now, query, draw, explanation)
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        self.choosing.handle_head(now, ticket, outcome);
    }

    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) {
        self.choosing.handle_query_done(now, ticket, outcome);
    }

    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        let now = self.choosing.tick(now);
        self.expire(now);
        let probe = self.polling.next(now, draw);
        if probe.is_some() {
            self.choosing.counters.probes_sent += 1;
        }
        probe
    }

    fn probe_target(&self, probe: ProbeId) -> Option<ReplicaId> {
        self.polling.target(probe)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.polling.next_timeout()
    }

    fn wants_trial(&self) -> bool {
        false
    }

    fn spares_some(&mut self, _now: Instant) -> bool {
        false
    }

    fn fleet(&self) -> &Fleet {
        &self.choosing.fleet
    }

    fn counters(&self) -> Counters {
        self.choosing.counters()
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        let is_unprobed = |replica| self.polling.is_unprobed(replica);
        Snapshot {
            replicas: self.choosing.fleet.views(is_unprobed),
            ..self.choosing.snapshot(now)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::trial::Trial;
    use crate::policy::{PolledPowerOfD, PolledPowerOfDConfig, PolledPowerOfDSettings, Settings};
    use crate::report::Rif;
    use alloc::vec::Vec;

    const MS: Duration = Duration::from_millis(1);

    /// Replicas that are polled every 500 ms.
    fn trial(replicas: usize) -> Trial<PolledPowerOfD> {
        Trial::new(
            PolledPowerOfD::with(PolledPowerOfDConfig::default()),
            replicas,
        )
    }

    fn polls(trial: &mut Trial<PolledPowerOfD>) -> Vec<Probe> {
        let policy = &mut trial.policy;
        core::iter::from_fn(|| policy.poll_probe(trial.now, &mut trial.draw)).collect()
    }

    fn answer(trial: &mut Trial<PolledPowerOfD>, poll: Probe, draining: bool) {
        let mut report = LoadReport::new(Rif::ZERO, None);
        report.draining = draining;
        let policy = &mut trial.policy;
        policy.handle(trial.now, Event::Report(poll.id, &report), &mut trial.draw);
    }

    /// Goes to the next time at which something is due, and does it.
    fn wait(trial: &mut Trial<PolledPowerOfD>) {
        trial.now = trial.policy.poll_timeout().expect("replicas are known");
        trial.handle(Event::Timeout);
    }

    #[test]
    fn replicas_are_polled_on_join_then_each_interval_at_own_phase() {
        let mut trial = trial(100);
        let first = polls(&mut trial);
        let asked: Vec<_> = first.iter().map(|poll| poll.replica).collect();
        assert_eq!(
            asked, trial.replicas,
            "a replica that joins is polled at once"
        );
        assert!(
            first
                .iter()
                .all(|poll| poll.deadline == trial.now + 500 * MS)
        );
        for poll in first {
            answer(&mut trial, poll, false);
        }
        let mut times = alloc::vec![Vec::new(); 100];
        let end = trial.now + 5_000 * MS;
        while trial.policy.poll_timeout().is_some_and(|at| at < end) {
            wait(&mut trial);
            let due = polls(&mut trial);
            assert!(due.len() <= 2, "{} at once", due.len());
            for poll in due {
                times[trial.place(poll.replica)].push(trial.now);
                answer(&mut trial, poll, false);
            }
        }
        let mut phases = [0; 5];
        for times in &times {
            assert!((9..=10).contains(&times.len()), "{}", times.len());
            assert!(times.windows(2).all(|pair| pair[1] == pair[0] + 500 * MS));
            let phase = times[0].ns_since(Instant::EPOCH).saturating_sub(1) / 100_000_000;
            phases[usize::try_from(phase).expect("below 5")] += 1;
        }
        // Binomial: mean 20, standard deviation 4.
        assert!(
            phases.iter().all(|count| (4..=36).contains(count)),
            "{phases:?}"
        );
        let counters = trial.policy.counters();
        assert_eq!(counters.probes_sent, counters.probes_answered);
    }

    #[test]
    fn missed_polls_are_not_made_up() {
        let mut trial = trial(1);
        assert_eq!(polls(&mut trial).len(), 1);
        trial.after(10_000 * MS);
        assert_eq!(polls(&mut trial).len(), 1);
        trial.after(499 * MS);
        assert_eq!(polls(&mut trial).len(), 0);
        trial.after(MS);
        assert_eq!(polls(&mut trial).len(), 1);
    }

    #[test]
    fn third_lost_poll_in_a_row_makes_replica_unprobed() {
        let mut trial = trial(1);
        let silent =
            |trial: &Trial<PolledPowerOfD>| trial.policy.snapshot(trial.now).replicas[0].unprobed;
        let draining =
            |trial: &Trial<PolledPowerOfD>| trial.policy.snapshot(trial.now).replicas[0].draining;
        let poll = polls(&mut trial)[0];
        answer(&mut trial, poll, true);
        assert!(draining(&trial), "its own word");
        answer(&mut trial, poll, false);
        assert_eq!(trial.policy.counters().reports_late, 1, "it has ended");
        assert!(draining(&trial));

        let mut last = poll;
        for lost in 1..=3 {
            assert!(!silent(&trial) && draining(&trial), "{lost}");
            while trial.policy.counters().probes_lost < lost {
                wait(&mut trial);
                last = polls(&mut trial).pop().unwrap_or(last);
            }
        }
        assert!(
            silent(&trial) && !draining(&trial),
            "its word no longer holds"
        );
        let counters = trial.policy.counters();
        assert_eq!(counters.probes_answered, 1);

        answer(&mut trial, last, false);
        assert!(!silent(&trial));
        trial.handle(Event::ProbeLost(last.id));
        trial.handle(Event::ProbeUnsent(last.id));
        assert_eq!(trial.policy.counters().probes_lost, 3, "it has ended");
        assert_eq!(trial.policy.counters().probes_unsent, 0);
    }

    #[test]
    fn failed_poll_is_lost_at_once() {
        let mut trial = trial(1);
        for lost in 1..=3 {
            let silent = |trial: &Trial<PolledPowerOfD>| {
                trial.policy.snapshot(trial.now).replicas[0].unprobed
            };
            assert!(!silent(&trial), "{lost}");
            let poll = polls(&mut trial)[0];
            let policy = &mut trial.policy;
            policy.handle(trial.now, Event::ProbeLost(poll.id), &mut trial.draw);
            assert_eq!(trial.policy.counters().probes_lost, lost);
            assert_eq!(silent(&trial), lost == 3);
            trial.after(500 * MS);
        }
    }

    #[test]
    fn poll_deadline_is_the_interval_up_to_one_second() {
        for (interval_ms, deadline_ms) in [(900, 900), (1_000, 1_000), (60_000, 1_000)] {
            let settings = PolledPowerOfDSettings {
                interval: interval_ms * MS,
                ..PolledPowerOfDSettings::default()
            };
            let config = settings.validate().expect("in range");
            let mut trial = Trial::new(PolledPowerOfD::with(config), 1);
            let poll = polls(&mut trial)[0];
            assert_eq!(poll.deadline, Instant::EPOCH + deadline_ms * MS);
            trial.after(Duration::from_nanos(u64::from(deadline_ms) * 1_000_000 - 1));
            trial.handle(Event::Timeout);
            assert_eq!(trial.policy.counters().probes_lost, 0);
            trial.after(Duration::from_nanos(1));
            trial.handle(Event::Timeout);
            assert_eq!(trial.policy.counters().probes_lost, 1);
        }
    }

    #[test]
    fn unsent_poll_is_neither_lost_nor_made_up() {
        let mut trial = trial(1);
        let poll = polls(&mut trial)[0];
        trial.handle(Event::ProbeUnsent(poll.id));
        assert_eq!(polls(&mut trial).len(), 0);
        trial.after(500 * MS);
        assert_eq!(polls(&mut trial).len(), 1);
        let counters = trial.policy.counters();
        assert_eq!((counters.probes_unsent, counters.probes_lost), (1, 0));
    }

    #[test]
    fn departed_replica_is_not_polled_and_its_report_is_ignored() {
        let mut trial = trial(1);
        let poll = polls(&mut trial)[0];
        trial.replace(0);
        answer(&mut trial, poll, true);
        assert_eq!(trial.policy.counters().reports_unknown, 1);
        assert!(trial.policy.snapshot(trial.now).replicas[0].available);
        let asked: Vec<_> = polls(&mut trial).iter().map(|poll| poll.replica).collect();
        assert_eq!(asked, trial.replicas);
        trial.handle(Event::Removed(trial.replicas[0]));
        trial.after(500 * MS);
        assert_eq!(polls(&mut trial).len(), 0);
        assert_eq!(trial.policy.poll_timeout(), None);
    }

    #[test]
    fn clock_step_back_counts_as_no_time() {
        let mut trial = trial(1);
        trial.after(1_000 * MS);
        let poll = polls(&mut trial)[0];
        trial.now = Instant::EPOCH;
        assert_eq!(polls(&mut trial).len(), 0);
        answer(&mut trial, poll, false);
        assert_eq!(trial.policy.counters().probes_answered, 1);
    }
}
