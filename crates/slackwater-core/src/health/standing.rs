//! Takes replicas out and back, never too many at a time, and notes their shares.

use super::WHOLE;
use super::course::Why;
use super::guarded::Guarded;
use super::judge;
use super::record::Record;
use crate::draw::NoDraw;
use crate::policy::Event;
use crate::replica::ReplicaId;

impl Guarded {
    /// Passes a change of availability to the policy. No policy draws for this.
    pub(super) fn pass_on(&mut self, event: Event<'_>) {
        self.policy.handle(self.latest, event, &mut NoDraw);
    }

    /// Takes a replica out of the choice, or spares it if too many are out.
    pub(super) fn leave(&mut self, replica: ReplicaId, why: Why, is_sudden: bool) {
        let has_room = self.offered_out < self.out_max();
        let Some(record) = self.records.find_mut(replica) else {
            return;
        };
        self.has_changed = true;
        if !has_room {
            self.counters.spared += u64::from(record.course.is_whole());
            record.course.keep_limited(self.latest, why);
            return;
        }
        record.remember(is_sudden);
        record.course.leave(self.latest, why, &self.config);
        match why {
            Why::Errors => self.counters.ejections += 1,
            Why::Slowness | Why::Silence => self.counters.probations += 1,
        }
        self.out.push(replica);
        self.offered_out += 1;
        self.pass_on(Event::Available(replica, false));
    }

    /// Brings a replica back with a small share. It is judged by what it does from now on.
    pub(super) fn come_back(&mut self, replica: ReplicaId) {
        if let Some(record) = self.records.find_mut(replica) {
            record.course.come_back(self.latest);
            record.forget();
            self.counters.readmissions += 1;
            let (is_idle, is_offered, far) = (record.is_idle(), record.is_offered, record.far);
            self.pass_on(Event::Available(replica, true));
            // A replica that is unreachable or draining stays so.
            if is_idle && self.policy.fleet().is_available(replica) {
                // The policy learned about it while it was bad, and some policies need minutes to
                // unlearn that.
                self.pass_on(Event::Removed(replica));
                self.pass_on(Event::Added(replica));
                // The driver does not repeat it.
                if let Some(round_trip) = far {
                    self.pass_on(Event::Far(replica, round_trip));
                }
            }
            self.pass_on(Event::Available(replica, is_offered));
            self.admit(replica);
        }
    }

    /// Admits a replica that was silent and answers again.
    pub(super) fn woken(&mut self, replica: ReplicaId) {
        self.counters.readmissions += 1;
        self.admit(replica);
    }

    /// Lets the policy choose a replica that is no longer out.
    pub(super) fn admit(&mut self, replica: ReplicaId) {
        self.has_changed = true;
        let is_offered = |record: &Record| record.is_offered;
        let is_offered = self.records.find(replica).is_some_and(is_offered);
        self.forget_out(replica, is_offered);
        if is_offered {
            self.pass_on(Event::Available(replica, true));
        }
    }

    /// Removes a replica from those that are out.
    pub(super) fn forget_out(&mut self, replica: ReplicaId, is_offered: bool) {
        let place = self.out.iter().position(|&other| other == replica);
        if let Some(place) = place {
            self.out.remove(place);
            self.offered_out -= usize::from(is_offered);
        }
    }

    /// How many of the offered replicas may be out.
    pub(super) fn out_max(&self) -> usize {
        let offered = self.offered as u64;
        let max = offered * u64::from(self.config.out_max.millionths()) / u64::from(WHOLE);
        usize::try_from(max).unwrap_or(usize::MAX)
    }

    /// Brings the least bad replicas back with a small share while too many are out, or none is
    /// left. `[A8]`
    pub(super) fn enforce_limit(&mut self) {
        if self.out.is_empty() {
            return;
        }
        let out_max = self.out_max();
        while self.offered_out > out_max || self.policy.fleet().available().is_empty() {
            let out = self.out.iter().copied();
            let offered = out.filter_map(|replica| {
                let record = self.records.find(replica)?;
                record.is_offered.then_some((record.success, replica))
            });
            let Some((_, replica)) = offered.max_by_key(|&(success, _)| success) else {
                return;
            };
            if let Some(record) = self.records.find_mut(replica) {
                record.course.keep_limited(self.latest, record.course.why());
            }
            self.admit(replica);
        }
    }

    /// Runs [`Self::enforce_limit`] if the policy has no replica left to choose, which a report or
    /// a lost probe can cause. It runs with each report, so it looks at no replica while any is
    /// left.
    pub(super) fn keep_one(&mut self) {
        if self.policy.fleet().available().is_empty() {
            self.enforce_limit();
        }
    }

    /// Notes the replicas that have less than their whole share. Warm-up does not lower shares
    /// where more than half of the replicas in the choice warm up, since the others could not take
    /// their queries. The same holds for pushback.
    pub(super) fn refresh(&mut self) {
        self.has_changed = false;
        self.shares.clear();
        let in_choice = || {
            let members = self.members.as_slice().iter();
            let records = members.filter_map(|&id| Some((id, self.records.find(id)?)));
            records.filter(|(_, record)| record.is_in_choice())
        };
        let (mut count, mut warming_up, mut pushing_back) = (0, 0, 0);
        for (_, record) in in_choice() {
            count += 1;
            warming_up += usize::from(record.is_warming_up());
            pushing_back += usize::from(record.is_pushing_back());
        }
        let (spares_new, spares_full) = (2 * warming_up <= count, 2 * pushing_back <= count);
        for (replica, record) in in_choice() {
            let share = record.share(spares_new, spares_full);
            (self.shares).add(replica, share, !record.course.is_whole());
        }
    }

    /// Ejects a replica at once that fails again and again while the others do not.
    pub(super) fn failed(&mut self, replica: ReplicaId) {
        let Some(record) = self.records.find(replica) else {
            return;
        };
        if self.config.errors.is_none() || !record.is_in_choice() {
            return;
        }
        if record
            .run()
            .is_some_and(|run| self.is_no_chance(replica, run))
        {
            self.leave(replica, Why::Errors, true);
            return;
        }
        if !record.course.is_returning() {
            return;
        }
        let others = self.others(record);
        let (now, bucket, fleet) = (self.latest, self.bucket, self.fleet_success);
        if let Some(record) = self.records.find_mut(replica) {
            let verdict = judge::judge_returning(now, bucket, record, &others, fleet);
            self.carry_out(replica, verdict);
        }
    }

    /// Whether this run of failures is beyond chance, given how the others fail in their last eight
    /// queries each. The last tick may be older than the trouble.
    pub(super) fn is_no_chance(&self, replica: ReplicaId, run: u32) -> bool {
        let Some(errors) = &self.config.errors else {
            return false;
        };
        let mut replicas_of = [0_usize; 9];
        let mut others = 0;
        for &other in self.members.as_slice() {
            if other != replica
                && let Some(record) = self.records.find(other)
                && record.is_compared()
            {
                replicas_of[record.last_eight() as usize] += 1;
                others += 1;
            }
        }
        let mut left = others / 2;
        let median = replicas_of.into_iter().position(|replicas| {
            let is_there = left < replicas;
            left = left.saturating_sub(replicas);
            is_there
        });
        let success = median.map(|eighths| u32::try_from(eighths).unwrap_or(8) * (WHOLE / 8));
        success.is_some_and(|success| run >= judge::failures_max(success, errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::NoDraw;
    use crate::health::HealthSettings;
    use crate::health::guarded::tests::{MS, at, book, guarded, record};
    use crate::policy::{DEFAULT_POLICY, Outcome, Policy, PolicySettings, Query};
    use crate::report::{LoadReport, Rif};
    use core::time::Duration;

    #[test]
    fn warm_up_and_pushback_lower_shares_of_at_most_half_of_the_replicas() {
        for pushes_back in [false, true] {
            for (count, limited) in [(1, 1), (2, 2), (3, 0), (4, 0)] {
                let (mut guarded, replicas) = guarded(HealthSettings::default(), 4);
                for &replica in &replicas[..count] {
                    if pushes_back {
                        let record = record(&mut guarded, replica);
                        book(record, 0, 1, Outcome::PushedBack);
                        record.tick(at(100));
                    } else {
                        guarded.warm_up(replica);
                    }
                }
                guarded.refresh();
                let found = guarded.shares.replicas().count();
                assert_eq!(found, limited, "{count}, {pushes_back}");
            }
        }
    }

    #[test]
    fn replica_that_comes_back_is_as_far_as_before() {
        for far in [None, Some(Duration::from_millis(10))] {
            let (mut guarded, replicas) = guarded(HealthSettings::default(), 4);
            guarded.policy = (DEFAULT_POLICY.build)(&PolicySettings::default());
            let mut handle = |event: Event<'_>| guarded.handle(at(0), event, &mut NoDraw);
            for &replica in &replicas {
                handle(Event::Added(replica));
            }
            if let Some(round_trip) = far {
                handle(Event::Far(replicas[0], round_trip));
            }
            guarded.leave(replicas[0], Why::Errors, true);
            assert_eq!(guarded.out, [replicas[0]]);
            guarded.come_back(replicas[0]);
            assert!(guarded.out.is_empty());
            // The others have one query more in flight.
            for (&replica, rif) in replicas.iter().zip([0, 1, 1, 1]) {
                let report = LoadReport::new(Rif::new(rif), Some(Duration::from_millis(10)));
                guarded.handle(at(0), Event::SiblingReport(replica, &report), &mut NoDraw);
            }
            // Without health around it, since the small share keeps most queries away.
            let policy = &mut guarded.policy;
            let decision = policy.choose(at(0), Query::first(), &mut || 0, None);
            let picked = decision.pick().expect("four are known").ticket.replica();
            assert_eq!(picked == replicas[0], far.is_none(), "{far:?}");
        }
    }

    /// `[E4]`
    #[test]
    fn a_run_of_failures_is_compared_with_the_median_of_the_others_last_eight_queries() {
        // `failing` of the others have failed four of their last eight.
        for (others, failing, run) in [(5, 2, 5), (5, 3, 30), (4, 2, 5), (4, 3, 30), (1, 0, 5)] {
            let (mut guarded, replicas) = guarded(HealthSettings::default(), 1 + others);
            for &replica in &replicas[1..=failing] {
                let record = record(&mut guarded, replica);
                record.booked(0, MS, Outcome::Failed);
                book(record, 0, 4, Outcome::Success);
                book(record, 0, 3, Outcome::Failed);
            }
            let is_beyond = |run| guarded.is_no_chance(replicas[0], run);
            assert!(!is_beyond(run - 1), "{failing} of {others}");
            assert!(is_beyond(run), "{failing} of {others}");
        }
        let (guarded, replicas) = guarded(HealthSettings::default(), 1);
        assert!(
            !guarded.is_no_chance(replicas[0], 1_000),
            "there are no others"
        );
    }
}
