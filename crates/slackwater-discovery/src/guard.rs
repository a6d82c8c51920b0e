//! Decides which lists are accepted.
//!
//! An empty list never replaces one with replicas: sources lose their data (by a restart, a lost
//! connection or a mistake) far more often than all replicas of a service are removed at once. A
//! list that has lost more than a share of the replicas is accepted only after the source has
//! reported it for a while.

use super::fleet::Fleet;
use slackwater_config::GuardSettings;
use std::sync::Arc;
use tokio::time::Instant;

/// Outcome of a list.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// The list is the fleet from now on.
    Taken,
    /// The list equals the current fleet.
    Same,
    /// The fleet stays as it was, for this reason.
    Kept(String),
}

/// The current fleet, and the list that waits to be accepted.
#[derive(Debug)]
pub(super) struct Guard {
    settings: GuardSettings,
    fleet: Arc<Fleet>,
    /// Whether the fleet is this source's. Another source's fleet says nothing about how many
    /// replicas this one has lost.
    is_own: bool,
    waiting: Option<(Instant, Fleet)>,
}

impl Guard {
    /// Begins with this fleet. Unless it is the source's own, the first list with a replica takes
    /// its place.
    pub(super) const fn new(settings: GuardSettings, fleet: Arc<Fleet>, is_own: bool) -> Self {
        Self {
            settings,
            fleet,
            is_own,
            waiting: None,
        }
    }

    /// Handles a list that the source reports now.
    pub(super) fn offer(&mut self, now: Instant, next: Fleet) -> Verdict {
        if next.is_empty() && !self.fleet.is_empty() {
            self.waiting = None;
            return Verdict::Kept(format!(
                "the list is empty, so the last one of {} is kept",
                replicas(self.fleet.len())
            ));
        }
        if self.fleet.change_to(&next).is_empty() {
            self.waiting = None;
            self.is_own = true;
            return Verdict::Same;
        }
        if !self.is_own || !self.loses_too_many(&next) {
            return self.take(next);
        }
        // A list that only loses more replicas keeps its waiting time. A list with any other
        // replica starts the wait again.
        let since = match self.waiting.take() {
            Some((since, before)) if before.shared(&next) == next.len() => since,
            _ => now,
        };
        let why = format!(
            "of {} only {} are left, so the last list is kept for {:?}",
            replicas(self.fleet.len()),
            next.shared(&self.fleet),
            self.settings.keep_time
        );
        self.waiting = Some((since, next));
        self.poll(now).unwrap_or(Verdict::Kept(why))
    }

    /// The list that was accepted last.
    pub(super) const fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// Discards the list that waits: the source has failed, so it no longer confirms that list.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting = None;
    }

    /// When the list that waits will be accepted.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let (since, _) = self.waiting.as_ref()?;
        Some(*since + self.settings.keep_time)
    }

    /// Accepts the list that waits once its time has come.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Verdict> {
        if self.deadline()? > now {
            return None;
        }
        let (_, next) = self.waiting.take()?;
        Some(self.take(next))
    }

    fn take(&mut self, next: Fleet) -> Verdict {
        self.waiting = None;
        self.is_own = true;
        self.fleet = Arc::new(next);
        Verdict::Taken
    }

    fn loses_too_many(&self, next: &Fleet) -> bool {
        let (left, before) = (next.shared(&self.fleet) as u64, self.fleet.len() as u64);
        left * 1_000_000 < before * u64::from(self.settings.keep_share.millionths())
    }
}

/// Formats a number of replicas: "1 replica", "2 replicas".
pub(super) fn replicas(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} replica{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fleet;
    use core::time::Duration;
    use slackwater_core::Quantile;

    const MINUTE: Duration = Duration::from_mins(1);

    fn guarding(millionths: u32, known: &[u8]) -> Guard {
        let settings = GuardSettings {
            keep_share: Quantile::from_millionths(millionths).expect("a share"),
            keep_time: MINUTE,
        };
        Guard::new(settings, Arc::new(fleet(known)), true)
    }

    /// Whether the last list was taken, and has `count` replicas.
    fn has_taken(verdict: &Verdict, guard: &Guard, count: usize) -> bool {
        matches!(verdict, Verdict::Taken) && guard.fleet().len() == count
    }

    fn is_kept(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Kept(_))
    }

    #[test]
    fn an_empty_list_never_replaces_one_with_replicas() {
        let now = Instant::now();
        let mut guard = guarding(0, &[1, 2]);
        let Verdict::Kept(why) = guard.offer(now, fleet(&[])) else {
            panic!("an empty list was taken");
        };
        assert_eq!(
            why,
            "the list is empty, so the last one of 2 replicas is kept"
        );
        assert!(is_kept(&guard.offer(now + MINUTE * 9, fleet(&[]))));
        assert!(guard.deadline().is_none() && guard.poll(now + MINUTE * 9).is_none());
        let verdict = guard.offer(now, fleet(&[7]));
        assert!(has_taken(&verdict, &guard, 1));

        let mut empty = guarding(0, &[]);
        assert!(matches!(empty.offer(now, fleet(&[])), Verdict::Same));
    }

    #[test]
    fn the_first_list_with_a_replica_replaces_another_source_s_fleet() {
        let now = Instant::now();
        for first in [&[7][..], &[1, 2, 3, 4]] {
            let mut guard = guarding(500_000, &[1, 2, 3, 4]);
            guard.is_own = false;
            assert!(is_kept(&guard.offer(now, fleet(&[]))));
            guard.offer(now, fleet(first));
            assert_eq!(guard.fleet().replicas(), fleet(first).replicas());
            assert!(is_kept(&guard.offer(now, fleet(&[8]))), "its own by now");
        }
    }

    #[test]
    fn with_share_0_any_list_is_accepted_immediately() {
        let mut guard = guarding(0, &[1, 2, 3, 4]);
        let verdict = guard.offer(Instant::now(), fleet(&[9]));
        assert!(has_taken(&verdict, &guard, 1));
    }

    #[test]
    fn list_that_lost_too_many_replicas_is_used_once_stable() {
        let now = Instant::now();
        let mut guard = guarding(500_000, &[1, 2, 3, 4]);
        let verdict = guard.offer(now, fleet(&[1, 2]));
        assert!(has_taken(&verdict, &guard, 2), "just half");

        let mut guard = guarding(500_000, &[1, 2, 3, 4]);
        // New replicas do not make up for the lost ones.
        assert!(is_kept(&guard.offer(now, fleet(&[1, 7, 8, 9]))));
        assert_eq!(guard.deadline(), Some(now + MINUTE));
        assert!(is_kept(&guard.offer(now + MINUTE / 2, fleet(&[1]))));
        assert_eq!(guard.deadline(), Some(now + MINUTE), "the wait goes on");
        assert!(guard.poll(now + MINUTE - Duration::from_nanos(1)).is_none());
        let taken = guard.poll(now + MINUTE).expect("its time has come");
        assert!(has_taken(&taken, &guard, 1), "the newest list");
        assert!(guard.deadline().is_none());
    }

    #[test]
    fn a_waiting_list_is_discarded_when_the_source_fails() {
        let now = Instant::now();
        let mut guard = guarding(500_000, &[1, 2, 3, 4]);
        assert!(is_kept(&guard.offer(now, fleet(&[1]))));
        assert!(is_kept(&guard.offer(now + MINUTE / 2, fleet(&[2]))));
        assert_eq!(
            guard.deadline(),
            Some(now + MINUTE / 2 + MINUTE),
            "the wait starts again"
        );
        guard.forget_waiting();
        assert_eq!(guard.deadline(), None);
        assert!(guard.poll(now + MINUTE * 9).is_none());
    }

    #[test]
    fn source_that_recovers_in_time_changes_nothing() {
        let now = Instant::now();
        let mut guard = guarding(500_000, &[1, 2, 3, 4]);
        assert!(is_kept(&guard.offer(now, fleet(&[1]))));
        assert!(matches!(
            guard.offer(now, fleet(&[4, 3, 2, 1])),
            Verdict::Same
        ));
        assert!(guard.poll(now + MINUTE * 2).is_none());
        assert!(is_kept(&guard.offer(now, fleet(&[1]))));
        assert!(is_kept(&guard.offer(now, fleet(&[]))), "worse than little");
        assert!(guard.poll(now + MINUTE * 2).is_none());
    }
}
