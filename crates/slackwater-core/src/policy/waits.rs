//! How long a replica has kept this client's queries waiting without a sign of life.
//!
//! A replica that has stopped teaches nothing through answers: its last ones were good, and no
//! others come. The rule is that of a replica's own tracker, applied by the client `[T4]`
//! `[Decision 0003]`: while a query waits for the head of its response, the time since the last
//! progress counts. Progress is any answer, good or bad. If nothing was awaited from the replica,
//! the time starts when the query is sent. Giving a query up is not progress, and a query whose
//! head has arrived no longer waits.

use crate::replica::{ReplicaId, ReplicaMap};
use crate::time::Instant;

/// The queries that wait for one replica.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    /// Queries without a head.
    queries: u32,
    /// The last progress. Unused while nothing waits.
    progress_at: Instant,
}

/// The queries that wait for each replica.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct Waits {
    replicas: ReplicaMap<Wait>,
}

impl Waits {
    pub(in crate::policy) fn add(&mut self, replica: ReplicaId) {
        self.replicas.insert(replica, Wait::default());
    }

    pub(in crate::policy) fn remove(&mut self, replica: ReplicaId) {
        self.replicas.remove(replica);
    }

    pub(in crate::policy) fn query_sent(&mut self, now: Instant, replica: ReplicaId) {
        if let Some(wait) = self.replicas.find_mut(replica) {
            if wait.queries == 0 {
                wait.progress_at = now;
            }
            wait.queries = wait.queries.saturating_add(1);
        }
    }

    /// Notes that a waiting query has an answer.
    pub(in crate::policy) fn answered(&mut self, now: Instant, replica: ReplicaId) {
        if let Some(wait) = self.replicas.find_mut(replica) {
            wait.progress_at = now;
            wait.queries = wait.queries.saturating_sub(1);
        }
    }

    /// Notes that a waiting query will have no answer.
    pub(in crate::policy) fn given_up(&mut self, replica: ReplicaId) {
        if let Some(wait) = self.replicas.find_mut(replica) {
            wait.queries = wait.queries.saturating_sub(1);
        }
    }

    /// The time without progress. 0 if nothing waits.
    pub(in crate::policy) fn without_progress_ns(&self, now: Instant, replica: ReplicaId) -> u64 {
        let wait = self.replicas.find(replica).filter(|wait| wait.queries > 0);
        wait.map_or(0, |wait| now.ns_since(wait.progress_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::trial::Trial;
    use crate::policy::{LeastLoaded, Outcome, Policy};
    use crate::replica::ReplicaIds;
    use core::time::Duration;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn wait_starts_at_first_query_and_restarts_at_each_response() {
        let mut ids = ReplicaIds::new();
        let [replica, other] = [(); 2].map(|()| ids.allocate().expect("room"));
        let mut waits = Waits::default();
        waits.add(replica);
        waits.add(other);
        assert_eq!(waits.without_progress_ns(at(50), replica), 0, "idle");
        waits.query_sent(at(100), replica);
        waits.query_sent(at(130), replica);
        assert_eq!(waits.without_progress_ns(at(140), replica), 40);
        assert_eq!(waits.without_progress_ns(at(140), other), 0);
        waits.answered(at(150), replica);
        assert_eq!(waits.without_progress_ns(at(170), replica), 20);
        waits.query_sent(at(180), replica);
        waits.given_up(replica);
        assert_eq!(waits.without_progress_ns(at(190), replica), 40);
        waits.given_up(replica);
        assert_eq!(waits.without_progress_ns(at(200), replica), 0, "idle");
        waits.query_sent(at(900), replica);
        assert_eq!(waits.without_progress_ns(at(901), replica), 1);
    }

    #[test]
    fn departed_replica_has_no_wait() {
        let replica = ReplicaIds::new().allocate().expect("room");
        let mut waits = Waits::default();
        waits.add(replica);
        waits.query_sent(at(1), replica);
        waits.remove(replica);
        waits.query_sent(at(2), replica);
        assert_eq!(waits.without_progress_ns(at(9), replica), 0);
        waits.add(replica);
        waits.answered(at(10), replica);
        waits.given_up(replica);
        waits.query_sent(at(11), replica);
        assert_eq!(waits.without_progress_ns(at(13), replica), 2);
    }

    #[test]
    fn any_response_is_progress_and_a_dropped_query_is_not() {
        let none = [Outcome::NoConnection, Outcome::Dropped];
        for outcome in Outcome::ALL {
            let mut trial = Trial::new(LeastLoaded::new(), 1);
            let replica = trial.replicas[0];
            let [_waits, ends] = [trial.pick(), trial.pick()];
            trial.after(Duration::from_nanos(40));
            trial.end(ends, outcome);
            trial.after(Duration::from_nanos(10));
            let expected_ns = if none.contains(&outcome) { 50 } else { 10 };
            let waits = &trial.policy.waits;
            let found_ns = waits.without_progress_ns(trial.now, replica);
            assert_eq!(found_ns, expected_ns, "{outcome:?}");
        }
    }

    #[test]
    fn query_with_received_head_no_longer_waits() {
        for end in [Outcome::Success, Outcome::Dropped] {
            let mut trial = Trial::new(LeastLoaded::new(), 1);
            let replica = trial.replicas[0];
            let mut streams = trial.pick();
            trial.after(Duration::from_nanos(40));
            let policy = &mut trial.policy;
            policy.handle_head(trial.now, &mut streams, Outcome::Success);
            trial.after(Duration::from_nanos(10));
            let waits = &trial.policy.waits;
            assert_eq!(waits.without_progress_ns(trial.now, replica), 0);
            let _waits = trial.pick();
            trial.after(Duration::from_nanos(7));
            trial.end(streams, end);
            trial.after(Duration::from_nanos(1));
            let waits = &trial.policy.waits;
            assert_eq!(waits.without_progress_ns(trial.now, replica), 8);
        }
    }
}
