//! Trials: how many a client may send, which replica gets them, and what they show. `[E3]` `[H4]`

use super::course::{Trial, Why};
use super::guarded::Guarded;
use super::{TICK_NS, judge};
use crate::draw::Draw;
use crate::policy::{Attempt, Decision, Event, Explanation, Outcome, PickReason, Query};
use crate::replica::ReplicaId;
use crate::time::span_ns;

impl Guarded {
    /// The replica that gets this query as a trial: its own, else the one whose trial is overdue
    /// the longest. None if its own is available.
    pub(super) fn due_for_trial(&self, query: Query<'_>) -> Option<ReplicaId> {
        let has_own = |own| self.policy.fleet().is_available(own);
        let may_be = query.attempt == Attempt::First && !query.pinned.is_some_and(has_own);
        may_be.then(|| self.due(query, false)).flatten()
    }

    /// The replica that gets a copy of a query as a trial.
    pub(super) fn due_for_copy(&self) -> Option<ReplicaId> {
        let may_be = self.config.shadow_trials && !self.out.is_empty();
        may_be.then(|| self.due(Query::first(), true)).flatten()
    }

    fn due(&self, query: Query<'_>, is_copy: bool) -> Option<ReplicaId> {
        // Most queries look at no replica, even if many are out.
        if !(self.trials.has_one() || self.has_passing) {
            return None;
        }
        let now = self.latest;
        let back_off_max_ns = span_ns(self.config.back_off_max);
        let out = self.out.iter().copied();
        let due = out.filter_map(|replica| {
            let record = self.records.find(replica)?;
            // After one has passed, the two that remain need no token.
            let may_send = self.trials.has_one() || record.course.is_passing();
            if !may_send || !record.is_offered || query.avoids(replica) {
                return None;
            }
            let is_slow = record.course.why() != Why::Errors;
            let waited_ns = record.course.since_trial_was_due(now);
            // Probes cost no query. While they speak against it, no trial is sent, unless that has
            // lasted for very long.
            let is_told_off = is_slow
                && waited_ns < back_off_max_ns.saturating_mul(2)
                && record.reports_against(now, 10 * TICK_NS);
            // Trials wait for copies, if there are any, until the back-off is at its longest and a
            // second trial could be paid for.
            let may_be_copied = waited_ns < back_off_max_ns || !self.trials.has(2);
            let waits_for_copy = self.config.shadow_trials && !is_copy && may_be_copied;
            if waits_for_copy || is_told_off {
                return None;
            }
            // The comparison with the others is expensive, so it comes last.
            let wants = |in_a_hurry| record.course.wants_trial(now, in_a_hurry);
            let is_hurried = || !is_slow && judge::is_hurried(&self.others(record));
            let wants = wants(false) || wants(true) && is_hurried();
            wants.then_some((waited_ns, replica))
        });
        due.max_by_key(|&(waited_ns, replica)| (query.pinned == Some(replica), waited_ns))
            .map(|(_, replica)| replica)
    }

    /// Sends a query to a replica that is out. Returns `None` if the policy does not send it there.
    pub(super) fn try_out(
        &mut self,
        replica: ReplicaId,
        query: Query<'_>,
        draw: &mut dyn Draw,
        mut explanation: Option<&mut Explanation>,
    ) -> Option<Decision> {
        let now = self.latest;
        // As for all other queries, this replica does not count as available.
        let available = self.policy.fleet().available().len();
        self.pass_on(Event::Available(replica, true));
        let decision = self.policy.fleet().is_available(replica).then(|| {
            let pinned = Some(replica);
            let has_room = false;
            let query = Query {
                pinned,
                has_room,
                ..query
            };
            let (policy, explained) = (&mut self.policy, explanation.as_deref_mut());
            policy.choose(now, query, draw, explained)
        });
        self.pass_on(Event::Available(replica, false));
        if let Some(explanation) = explanation.filter(|_| decision.is_some()) {
            explanation.set_available(available);
            if let Some(out) = self.absence(replica) {
                explanation.add_out(out);
            }
        }
        if decision.is_none()
            && let Some(record) = self.records.find_mut(replica)
        {
            // The policy holds it as unreachable or draining, so not every query tries again.
            record.course.put_off(now);
        }
        let mut decision = decision?;
        if let Decision::Pick(pick) = &mut decision {
            let is_trial = pick.reason == PickReason::Pinned;
            if is_trial {
                pick.reason = PickReason::Trial;
                self.trials.spend();
                self.counters.trials += 1;
            }
            self.sent(pick, is_trial);
        }
        Some(decision)
    }

    /// Passes a trial whose response started well and still runs.
    pub(super) fn judge_trial(&mut self, replica: ReplicaId) {
        let record = self.records.find(replica);
        let latency_ns = record.and_then(|record| record.course.standing(self.latest));
        if let Some(latency_ns) = latency_ns {
            self.tried(replica, latency_ns, Outcome::Success);
        }
    }

    /// Applies the end of a query: to its trial, if it is or was one, and to a replica that fails.
    pub(super) fn judged(
        &mut self,
        replica: ReplicaId,
        trial: Option<u32>,
        latency_ns: u64,
        outcome: Outcome,
        turns_bad: bool,
    ) {
        let Some(record) = self.records.find_mut(replica) else {
            return;
        };
        if trial.is_some_and(|trial| record.course.awaits(trial)) {
            self.tried(replica, latency_ns, outcome);
        } else if turns_bad && !record.course.is_out() {
            self.failed(replica);
        } else if turns_bad && trial.is_some() {
            // It had passed, and broke off.
            record.remember_trial(false);
            record.course.trial_failed(self.latest, &self.config);
        }
    }

    /// Ends a trial.
    fn tried(&mut self, replica: ReplicaId, latency_ns: u64, outcome: Outcome) {
        let Some(record) = self.records.find_mut(replica) else {
            return;
        };
        let is_fast = record.course.why() == Why::Errors || latency_ns <= record.near_ns;
        let is_late = latency_ns > record.warm_ns;
        let trial = match outcome {
            Outcome::Success if is_fast => Trial::Passed,
            // If it is late, a second copy was faster by far.
            Outcome::Dropped if !is_late => Trial::Void,
            _ => Trial::Failed,
        };
        // A replica that pushes back has no capacity for the query, which does not show how it
        // would do.
        let is_shown = !matches!(outcome, Outcome::Dropped | Outcome::PushedBack);
        if is_shown {
            record.remember_trial(outcome == Outcome::Success);
        }
        self.has_passing |= trial == Trial::Passed;
        self.counters.trials_passed += u64::from(trial == Trial::Passed);
        if record.course.trial_ended(self.latest, trial, &self.config) {
            self.come_back(replica);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::guarded::SAVED_MAX;
    use super::*;
    use crate::draw::NoDraw;
    use crate::fixed::Quantile;
    use crate::health::HealthSettings;
    use crate::health::guarded::tests::{at, guarded, record};
    use crate::policy::Policy;
    use crate::report::{LoadReport, Rif};
    use crate::tail::Tokens;
    use core::time::Duration;

    #[test]
    fn trials_are_one_in_a_hundred_queries_with_a_burst_of_three() {
        let part = Quantile::from_millionths(10_000).expect("a part");
        let mut trials = Tokens::new(part, SAVED_MAX);
        let mut sent = 0;
        for _ in 0..10_000 {
            trials.earn();
            if trials.has_one() {
                trials.spend();
                sent += 1;
            }
        }
        assert_eq!(sent, 100);
        for _ in 0..10_000 {
            trials.earn();
        }
        let mut saved = 0;
        while trials.has_one() {
            trials.spend();
            saved += 1;
        }
        assert_eq!(saved, 3);
    }

    /// A fleet of four that has saved all trials, of which one has left at 0: its trial is due at
    /// 1 s.
    fn fleet_without(why: Why, shadow_trials: bool) -> (Guarded, ReplicaId) {
        let settings = HealthSettings {
            shadow_trials,
            ..HealthSettings::default()
        };
        let (mut guarded, replicas) = guarded(settings, 4);
        for _ in 0..1_000 {
            guarded.trials.earn();
        }
        guarded.leave(replicas[1], why, false);
        (guarded, replicas[1])
    }

    fn is_due_at(guarded: &mut Guarded, ms: u64) -> bool {
        guarded.latest = at(ms);
        guarded.due_for_trial(Query::first()).is_some()
    }

    #[test]
    fn the_trial_that_is_overdue_the_longest_is_sent_first() {
        for (first, second) in [(0, 1), (1, 0)] {
            let (mut guarded, replicas) = guarded(HealthSettings::default(), 4);
            for _ in 0..1_000 {
                guarded.trials.earn();
            }
            guarded.leave(replicas[first], Why::Errors, false);
            guarded.latest = at(100);
            guarded.leave(replicas[second], Why::Errors, false);
            guarded.latest = at(2_000);
            let due = |avoid: &[ReplicaId]| {
                let query = Query {
                    avoid,
                    ..Query::first()
                };
                guarded.due_for_trial(query)
            };
            assert_eq!(due(&[]), Some(replicas[first]));
            assert_eq!(due(&[replicas[first]]), Some(replicas[second]));
            assert_eq!(guarded.due_for_trial(Query::retry(&[])), None);
        }
    }

    #[test]
    fn query_whose_replica_is_not_available_is_a_trial_of_that_one_or_else_of_another() {
        let (mut guarded, first) = fleet_without(Why::Errors, false);
        let replicas = guarded.members.as_slice().to_vec();
        let (second, third) = (replicas[2], replicas[3]);
        guarded.latest = at(100);
        guarded.leave(second, Why::Errors, false);
        guarded.latest = at(1_099);
        let due = |guarded: &Guarded, own| guarded.due_for_trial(Query::pinned(own));
        assert_eq!(due(&guarded, second), Some(first), "its own is not due");
        guarded.latest = at(1_100);
        for own in [first, second] {
            assert_eq!(due(&guarded, own), Some(own));
        }
        assert_eq!(due(&guarded, third), None, "its own is available");
        guarded.handle(at(1_100), Event::Available(third, false), &mut NoDraw);
        assert_eq!(due(&guarded, third), Some(first));
    }

    #[test]
    fn query_that_waited_for_room_may_be_a_trial() {
        let (mut guarded, replica) = fleet_without(Why::Errors, false);
        (guarded.latest, guarded.tick_at) = (at(1_000), at(60_000));
        let query = Query {
            has_room: true,
            ..Query::pinned(replica)
        };
        let pick = guarded.choose(at(1_000), query, &mut NoDraw, None).pick();
        let pick = pick.expect("a replica");
        assert_eq!(pick.ticket.replica(), replica);
        assert_eq!(pick.reason, PickReason::Trial);
    }

    /// `[H4]`
    #[test]
    fn trials_wait_while_probes_show_a_slow_replica_for_twice_the_longest_back_off() {
        for (why, waits) in [
            (Why::Slowness, true),
            (Why::Silence, true),
            (Why::Errors, false),
        ] {
            let (mut guarded, replica) = fleet_without(why, false);
            let slow = LoadReport::new(Rif::ZERO, Some(Duration::from_secs(9)));
            let record = record(&mut guarded, replica);
            record.near_ns = 0;
            record.reported(at(900), &slow);
            assert!(!is_due_at(&mut guarded, 999));
            assert_eq!(is_due_at(&mut guarded, 1_000), !waits, "{why:?}");
            assert_eq!(is_due_at(&mut guarded, 8_999), !waits, "{why:?}");
            assert!(is_due_at(&mut guarded, 9_000), "{why:?}");
        }
    }

    /// `[H4]`
    #[test]
    fn trials_wait_while_a_slow_replica_answers_no_probe_for_a_second() {
        let (mut guarded, replica) = fleet_without(Why::Slowness, false);
        let report = LoadReport::new(Rif::ZERO, None);
        record(&mut guarded, replica).reported(at(2_000), &report);
        assert!(is_due_at(&mut guarded, 3_000));
        assert!(!is_due_at(&mut guarded, 3_001));
    }

    /// `[H4]`
    #[test]
    fn query_is_a_trial_in_place_of_a_copy_after_the_longest_back_off_if_two_are_saved() {
        let (mut guarded, replica) = fleet_without(Why::Errors, true);
        guarded.latest = at(1_000);
        assert_eq!(guarded.due_for_copy(), Some(replica));
        assert!(!is_due_at(&mut guarded, 4_999));
        assert!(is_due_at(&mut guarded, 5_000));
        guarded.trials.spend();
        assert!(is_due_at(&mut guarded, 5_000), "two are saved");
        guarded.trials.spend();
        assert!(!is_due_at(&mut guarded, 5_000), "one is saved");
        assert_eq!(guarded.due_for_copy(), Some(replica));
        guarded.trials.spend();
        assert_eq!(guarded.due_for_copy(), None, "none is saved");
    }

    #[test]
    fn trial_passes_while_its_response_runs_if_its_head_was_good_a_second_ago() {
        let (mut guarded, replica) = fleet_without(Why::Errors, false);
        let course = &mut record(&mut guarded, replica).course;
        let trial = course.trial_sent();
        course.trial_began(at(2_000), trial, 1);
        for (ms, passed) in [(2_999, 0), (3_000, 1), (9_000, 1)] {
            guarded.latest = at(ms);
            guarded.judge_trial(replica);
            assert_eq!(guarded.counters.trials_passed, passed, "{ms} ms");
        }
    }

    #[test]
    fn trial_of_a_replica_that_is_back_does_not_pass_again_at_each_tick() {
        let (mut guarded, replica) = fleet_without(Why::Errors, false);
        let course = &mut record(&mut guarded, replica).course;
        let trial = course.trial_sent();
        course.trial_began(at(2_000), trial, 1);
        course.come_back(at(2_500));
        guarded.latest = at(9_000);
        guarded.judge_trial(replica);
        assert_eq!(guarded.counters.trials_passed, 0);
    }
}
