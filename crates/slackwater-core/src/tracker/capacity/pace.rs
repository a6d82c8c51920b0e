//! When a reading is worth its cost.
//!
//! One is due every 50 ms, and is taken that often until enough is known. After that, a replica
//! with hardly any load is read less often: the next reading contains what little there is to
//! learn. While nothing happens there is nothing to learn at all.

use super::{CapacityEstimator, Reading};
use crate::time::Instant;
use crate::tracker::LoadTracker;
use core::time::Duration;

/// A replica was quiet if it had something in flight for less than 1 part in this many.
const BUSY_PARTS: u64 = 10;
/// It was not quiet if this many queries ended: half of the samples that a tracker keeps by
/// default, so that samples are normally used before they are overwritten.
const QUIET_ENDS: usize = 128;
/// After this many queries since the first reading the estimates have settled: cost and unloaded
/// latency are means over as many if queries are similar. Before that, each query adds much of what
/// is known.
const SETTLED_QUERIES: u64 = 300;

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Look {
    /// A reading must be taken.
    pub reads: bool,
    /// Hardly anything has happened since the last reading: something was in flight for less than a
    /// tenth of the time, and fewer than 128 queries ended. The next look is not urgent. False
    /// before the first reading.
    pub is_quiet: bool,
}

/// How much has happened since the last reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Nothing was in flight.
    Idle,
    Quiet,
    Busy,
}

impl CapacityEstimator {
    /// Interval of readings: 50 ms. Between two readings neighbours hardly change, and a few
    /// queries end.
    pub const STEP: Duration = Duration::from_millis(50);

    /// Longest delay of a reading: 1 s after the last one, if [`Self::look`] is called then.
    pub const QUIET_STEP: Duration = Duration::from_secs(1);

    /// Whether another look is due, and a reading unless it is delayed.
    pub fn is_due(&self, now: Instant) -> bool {
        self.last
            .is_none_or(|last| now.saturating_since(last.at) >= Self::STEP)
    }

    /// Whether to take a reading now; call it first where reading is expensive. A due reading is
    /// delayed, until at most [`Self::QUIET_STEP`] after the last, while nothing is in flight, and,
    /// once 300 queries have ended, while the replica is quiet. Idle time is noted here without a
    /// reading: the next span begins after it, except for the CPU time that the server used on its
    /// own meanwhile.
    pub fn look(&mut self, now: Instant, tracker: &LoadTracker) -> Look {
        let is_due = self.is_due(now);
        let has_settled = self.ended >= SETTLED_QUERIES;
        let Some(last) = &mut self.last else {
            return Look {
                reads: true,
                is_quiet: false,
            };
        };
        let pace = last.pace(now, tracker);
        let ago = now.saturating_since(last.taken_at);
        let may_wait = ago < Self::QUIET_STEP
            && match pace {
                Pace::Idle => true,
                Pace::Quiet => has_settled,
                Pace::Busy => false,
            };
        if pace == Pace::Idle && is_due && may_wait {
            last.at = now;
        }
        Look {
            reads: is_due && !may_wait,
            is_quiet: pace != Pace::Busy,
        }
    }
}

impl Reading {
    /// Whether nothing was in flight for some time after it.
    pub(super) fn was_idle(&self) -> bool {
        self.at != self.taken_at
    }

    fn pace(&self, now: Instant, tracker: &LoadTracker) -> Pace {
        let busy_ns = tracker.busy_ns(now).wrapping_sub(self.busy_ns);
        let ended = tracker.samples.recorded().wrapping_sub(self.recorded);
        if busy_ns == 0 && ended == 0 {
            Pace::Idle
        } else if busy_ns < now.ns_since(self.at) / BUSY_PARTS && ended < QUIET_ENDS {
            Pace::Quiet
        } else {
            Pace::Busy
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::End;

    const STEP: Duration = CapacityEstimator::STEP;
    const MS: Duration = Duration::from_millis(1);

    /// A replica that is looked at every step.
    struct Replica {
        tracker: LoadTracker,
        estimator: CapacityEstimator,
        now: Instant,
        ended: u64,
        readings: u32,
    }

    impl Replica {
        fn new() -> Self {
            Self {
                tracker: LoadTracker::default(),
                estimator: CapacityEstimator::default(),
                now: Instant::from_nanos(7),
                ended: 0,
                readings: 0,
            }
        }

        /// One that has learned from `queries` queries, the newest just now.
        fn after(queries: u64) -> Self {
            let mut replica = Self::new();
            replica.ask();
            for _ in 0..queries {
                replica.query(STEP);
                replica.ask();
            }
            replica
        }

        fn query(&mut self, took: Duration) {
            let arrival = self.tracker.arrive(self.now);
            self.now += took;
            self.tracker.finish(self.now, arrival, End::Success);
            self.ended += 1;
        }

        fn ask(&mut self) -> Look {
            let look = self.estimator.look(self.now, &self.tracker);
            if look.reads {
                self.readings += 1;
                (self.estimator).read(self.now, &self.tracker, self.ended, None);
            }
            look
        }

        /// Readings taken in `steps` steps with one query each.
        fn readings_in(&mut self, steps: u32, busy: Duration) -> u32 {
            let before = self.readings;
            for _ in 0..steps {
                self.query(busy);
                self.now += STEP.saturating_sub(busy);
                self.ask();
            }
            self.readings - before
        }
    }

    #[test]
    fn first_queries_are_read_at_once() {
        assert_eq!(Replica::after(298).readings_in(1, MS), 1);
        let mut replica = Replica::after(299);
        assert_eq!(replica.readings_in(1, MS), 1, "the 300th");
        assert_eq!(replica.readings_in(19, MS), 0);
        assert_eq!(replica.readings_in(1, MS), 1, "a second later");
        let nearly_a_tenth = (STEP / 10).saturating_sub(Duration::from_nanos(1));
        assert_eq!(replica.readings_in(20 * 5, nearly_a_tenth), 5);
    }

    #[test]
    fn one_tenth_busy_or_128_queries_is_not_quiet() {
        let mut replica = Replica::after(300);
        assert_eq!(replica.readings_in(4, 5 * MS), 4);
        for _ in 0..127 {
            replica.query(Duration::ZERO);
        }
        replica.now += STEP;
        let put_off = Look {
            reads: false,
            is_quiet: true,
        };
        assert_eq!(replica.ask(), put_off);
        replica.query(Duration::ZERO);
        let taken = Look {
            reads: true,
            is_quiet: false,
        };
        assert_eq!(replica.ask(), taken);
        assert!(!replica.ask().reads, "just now");
    }

    #[test]
    fn idle_replica_is_read_once_a_second() {
        // It makes no difference how much is known.
        for queries in [1, 300] {
            let mut replica = Replica::after(queries);
            for _ in 0..19 {
                replica.now += STEP;
                let look = replica.ask();
                assert_eq!((look.reads, look.is_quiet), (false, true));
            }
            replica.now += STEP;
            assert!(replica.ask().reads, "a second");
        }
        // It makes no difference either how often it is looked at.
        let mut replica = Replica::after(1);
        for _ in 0..99 {
            replica.now += STEP / 5;
            assert!(!replica.ask().reads);
        }
        replica.now += STEP / 5;
        assert!(replica.ask().reads, "a second");
    }

    #[test]
    fn idle_time_does_not_dilute_later_queries() {
        let mut replica = Replica::after(300);
        for _ in 0..9 {
            replica.now += STEP;
            assert!(!replica.ask().reads);
        }
        assert_eq!(replica.readings_in(1, MS * 5), 1, "a tenth of this step");
        // A query that has started is not idleness, though it has not ended.
        let _still = replica.tracker.arrive(replica.now);
        replica.now += STEP.saturating_sub(MS);
        let look = replica.ask();
        assert_eq!((look.reads, look.is_quiet), (false, false), "not yet due");
        replica.now += MS;
        let look = replica.ask();
        assert_eq!((look.reads, look.is_quiet), (true, false));
    }

    #[test]
    fn first_reading_is_immediate() {
        let first = Replica::new().ask();
        assert_eq!((first.reads, first.is_quiet), (true, false));
    }
}
