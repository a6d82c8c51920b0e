//! What is learned when nothing was in flight for some time.

use super::*;

const STEP_NS: u64 = 50 * MS;

impl Replica {
    /// Looks, and reads if that is worth it.
    fn look(&mut self) {
        if self.estimator.look(self.now(), &self.tracker).reads {
            self.read();
        }
    }

    /// Steps without a query, in each of which its threads use and wait for this much CPU time on
    /// their own.
    fn idle(&mut self, steps: u32, used_ns: u64, waited_ns: u64) {
        for _ in 0..steps {
            self.used_ns += used_ns;
            self.waited_ns += waited_ns;
            self.now_ns += STEP_NS;
            self.look();
        }
    }

    /// A step with one query that is not delayed.
    fn one_query(&mut self) {
        self.begin(1);
        for _ in 0..STEP_NS / MS {
            self.elapse(MS);
            self.end_some();
        }
        self.look();
    }

    /// A replica with nothing in flight, after queries that shared its cores.
    fn after(rif: usize) -> Self {
        let mut replica = Self::new(Service::Shared { cores: 4 }, 10 * MS);
        replica.carry(rif, 5 * SECOND);
        replica.elapse(SECOND);
        replica.end_some();
        replica.read();
        replica
    }
}

#[test]
fn cpu_before_first_query_is_not_query_cost() {
    let mut replica = Replica::new(Service::Shared { cores: 4 }, 10 * MS);
    replica.read();
    replica.idle(40, 500 * MS, 0);
    replica.carry(1, 2 * SECOND);
    replica.cost_is(10 * MS);
}

#[test]
fn cpu_use_while_idle_does_not_change_capacity() {
    let mut replica = Replica::after(4);
    let known = replica.report().capacity_millirif;
    replica.idle(4, 75 * MS, 225 * MS);
    replica.one_query();
    assert_eq!(replica.report().capacity_millirif, known);
    // CPU time that it uses beside a query, or a little before it, does no harm and counts.
    replica.idle(4, MS, 0);
    let read_before = replica.estimator.last.map(|last| last.taken_at);
    replica.one_query();
    assert_ne!(
        replica.estimator.last.map(|last| last.taken_at),
        read_before
    );
}

#[test]
fn contention_expires_during_idle_time() {
    let mut replica = Replica::after(8);
    assert!(replica.estimator.contention.is_recent());
    for seconds in 0..32 {
        let is_recent = replica.estimator.contention.is_recent();
        assert!(is_recent || seconds >= 29, "after {seconds} s");
        replica.idle(19, 0, 0);
        replica.one_query();
    }
    assert!(!replica.estimator.contention.is_recent());
}
