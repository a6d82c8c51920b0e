//! Out of the choice and back, never too many at a time; and who has what share.

use super::WHOLE;
use super::course::Why;
use super::guarded::Guarded;
use super::judge;
use super::record::Record;
use crate::draw::NoDraw;
use crate::policy::Event;
use crate::replica::ReplicaId;

impl Guarded {
    /// Changes who may be chosen, of which no policy draws.
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
            record.course.spare(why);
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

    /// Back with little, and judged by what it does from now on.
    pub(super) fn come_back(&mut self, replica: ReplicaId) {
        if let Some(record) = self.records.find_mut(replica) {
            record.course.come_back(self.latest);
            record.forget();
            self.counters.readmissions += 1;
            let (is_idle, is_offered) = (record.is_idle(), record.is_offered);
            self.pass_on(Event::Available(replica, true));
            // Who is lost or drains stays so.
            if is_idle && self.policy.fleet().is_available(replica) {
                // What the policy has learned of it was learned when it was bad: some take minutes
                // to unlearn it.
                self.pass_on(Event::Removed(replica));
                self.pass_on(Event::Added(replica));
            }
            self.pass_on(Event::Available(replica, is_offered));
            self.admit(replica);
        }
    }

    /// Who was silent answers again.
    pub(super) fn woken(&mut self, replica: ReplicaId) {
        self.counters.readmissions += 1;
        self.admit(replica);
    }

    /// Lets the policy choose a replica again that is not out any more.
    pub(super) fn admit(&mut self, replica: ReplicaId) {
        self.has_changed = true;
        let is_offered = |record: &Record| record.is_offered;
        let is_offered = self.records.find(replica).is_some_and(is_offered);
        self.forget_out(replica, is_offered);
        if is_offered {
            self.pass_on(Event::Available(replica, true));
        }
    }

    /// It is not among those that are out.
    pub(super) fn forget_out(&mut self, replica: ReplicaId, is_offered: bool) {
        let place = self.out.iter().position(|&other| other == replica);
        if let Some(place) = place {
            self.out.remove(place);
            self.offered_out -= usize::from(is_offered);
        }
    }

    /// How many of those that the driver offers may be out.
    pub(super) fn out_max(&self) -> usize {
        let offered = self.offered as u64;
        let max = offered * u64::from(self.config.out_max.millionths()) / u64::from(WHOLE);
        usize::try_from(max).unwrap_or(usize::MAX)
    }

    /// While too many are out, or nobody is left, the least bad of them are in again with little.
    /// `[A8]`
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
                record.course.spare(record.course.why());
            }
            self.admit(replica);
        }
    }

    /// As [`Self::enforce_limit`], where nobody was taken out, offered or withdrawn since, but the
    /// policy may have nobody left to choose: a report or a lost probe can do that. It comes with
    /// each report, so it looks at no replica while somebody is left.
    pub(super) fn keep_somebody(&mut self) {
        if self.policy.fleet().available().is_empty() {
            self.enforce_limit();
        }
    }

    /// Notes who has less than its whole share. Who warms up or pushes back is not spared where
    /// half of those in the choice do: the others could not carry what they would not.
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

    /// A replica that fails again and again while the others do not is out at once.
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

    /// Whether so many failures in a row are none where the others fail as they do just now: in
    /// their last eight queries each. The last tick may have been before it began.
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
