//! The limit of requests in flight at each replica of a service, each request on its own
//! connection.
//!
//! A request that gets no permit at one replica goes to another. If no replica has one, the request
//! waits for the first permit that becomes free, first in, first out, for at most the connect
//! timeout. Each worker has its share of the limit.

use super::wait_queue::WaitQueue;
use core::cell::Cell;
use core::net::SocketAddr;
use core::time::Duration;
use std::rc::Rc;
use tokio::time::Instant;

/// Maximum number of requests that wait in one worker.
const WAITING_MAX: usize = 4096;

/// The limits of all replicas of a service.
#[derive(Debug)]
pub(crate) struct ReplicaLimiters {
    /// Maximum number of requests at each replica.
    requests_max: u32,
    wait_max: Duration,
    queue: WaitQueue<ReplicaPermit>,
}

/// The limit of one replica.
#[derive(Debug)]
pub(crate) struct ReplicaLimiter {
    address: SocketAddr,
    in_flight: Cell<u32>,
    limiters: Rc<ReplicaLimiters>,
}

/// The right to run at a replica, until dropped.
#[derive(Debug)]
pub(crate) struct ReplicaPermit {
    limiter: Rc<ReplicaLimiter>,
    /// Whether releasing it grants nothing to a waiting request.
    is_quiet: bool,
}

impl ReplicaLimiters {
    pub(crate) fn new(requests_max: u32, wait_max: Duration) -> Rc<Self> {
        Rc::new(Self {
            requests_max,
            wait_max,
            queue: WaitQueue::default(),
        })
    }

    /// Makes the limiter of the replica at that address.
    pub(crate) fn limiter(self: &Rc<Self>, address: SocketAddr) -> Rc<ReplicaLimiter> {
        Rc::new(ReplicaLimiter {
            address,
            in_flight: Cell::new(0),
            limiters: Rc::clone(self),
        })
    }

    /// Deadline of the wait of a request that arrives now and must end by `ends`.
    pub(crate) fn deadline(&self, ends: Option<Instant>) -> Instant {
        let deadline = Instant::now() + self.wait_max;
        ends.map_or(deadline, |ends| deadline.min(ends))
    }

    /// Waits for a permit at any replica. Returns `None` if there was none in time, or if too many
    /// requests wait already.
    pub(crate) async fn wait(&self, deadline: Instant) -> Option<ReplicaPermit> {
        if self.queue.len() >= WAITING_MAX {
            return None;
        }
        let entry = self.queue.join(Instant::now());
        let granted = tokio::time::timeout_at(deadline, entry.granted());
        // A request that wakes too late leaves it to the next one.
        granted.await.ok().filter(|_| Instant::now() <= deadline)
    }
}

impl ReplicaLimiter {
    /// Acquires a permit, if one is free.
    pub(crate) fn try_acquire(self: &Rc<Self>) -> Option<ReplicaPermit> {
        if self.in_flight.get() >= self.limiters.requests_max {
            return None;
        }
        self.in_flight.set(self.in_flight.get() + 1);
        Some(ReplicaPermit {
            limiter: Rc::clone(self),
            is_quiet: false,
        })
    }

    fn release(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
    }

    /// Gives a free permit to the request that has waited longest; `false` if there is none.
    fn grant_next(self: &Rc<Self>) -> bool {
        self.limiters.queue.grant_first(|| self.try_acquire())
    }

    /// Gives free permits to the requests that have waited longest.
    pub(crate) fn grant_waiting(self: &Rc<Self>) {
        while self.grant_next() {}
    }
}

impl ReplicaPermit {
    /// Address of the permit's replica.
    pub(crate) fn address(&self) -> SocketAddr {
        self.limiter.address
    }

    /// Releases the permit without granting it to a waiting request, because the replica cannot be
    /// picked now.
    pub(crate) fn forget(mut self) {
        self.is_quiet = true;
    }
}

impl Drop for ReplicaPermit {
    fn drop(&mut self) {
        self.limiter.release();
        if !self.is_quiet {
            self.limiter.grant_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::admission::wait_queue::testing::{in_paused_time, now};
    use core::pin::pin;

    const SECOND: Duration = Duration::from_secs(1);

    fn limiters(requests_max: u32) -> Rc<ReplicaLimiters> {
        ReplicaLimiters::new(requests_max, SECOND)
    }

    fn address(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    #[test]
    fn first_in_the_queue_gets_the_free_permit_and_its_address() {
        in_paused_time(async {
            let limiters = limiters(2);
            let (one, other) = (limiters.limiter(address(1)), limiters.limiter(address(2)));
            let mut in_flight = [
                one.try_acquire(),
                one.try_acquire(),
                other.try_acquire(),
                other.try_acquire(),
            ];
            assert!(in_flight.iter().all(Option::is_some));
            assert!(one.try_acquire().is_none() && other.try_acquire().is_none());
            let mut first = pin!(limiters.wait(limiters.deadline(None)));
            let mut second = pin!(limiters.wait(limiters.deadline(None)));
            assert!(now(first.as_mut()).is_none() && now(second.as_mut()).is_none());
            in_flight[2] = None;
            assert!(other.try_acquire().is_none(), "it has been given away");
            assert!(now(second.as_mut()).is_none());
            let permit = now(first.as_mut()).expect("granted").expect("a permit");
            assert_eq!(permit.address(), address(2));
            drop(permit);
            let permit = now(second.as_mut()).expect("granted").expect("a permit");
            permit.forget();
            assert_eq!(other.in_flight.get(), 1);
        });
    }

    #[test]
    fn expired_wait_leaves_no_state() {
        in_paused_time(async {
            let limiters = limiters(1);
            let limiter = limiters.limiter(address(1));
            let in_flight = limiter.try_acquire();
            let began = Instant::now();
            let ends = began + SECOND / 2;
            for (ends, elapsed) in [
                (None, SECOND),
                (Some(ends), SECOND),
                (Some(ends + SECOND), SECOND * 3 / 2),
            ] {
                assert!(limiters.wait(limiters.deadline(ends)).await.is_none());
                assert_eq!(began.elapsed(), elapsed);
            }
            assert!(limiters.queue.is_empty());
            drop(in_flight);
            assert_eq!(limiter.in_flight.get(), 0);
        });
    }

    #[test]
    fn queue_takes_4096_requests() {
        in_paused_time(async {
            let limiters = limiters(1);
            let wait = || Box::pin(limiters.wait(limiters.deadline(None)));
            let mut waiting: Vec<_> = (0..4096).map(|_| wait()).collect();
            assert!(waiting.iter_mut().all(|it| now(it.as_mut()).is_none()));
            assert!(
                matches!(now(wait().as_mut()), Some(None)),
                "not even a moment"
            );
            waiting.pop();
            assert!(now(wait().as_mut()).is_none(), "one has left");
        });
    }

    #[test]
    fn permit_granted_too_late_goes_to_the_next() {
        in_paused_time(async {
            let limiters = limiters(1);
            let limiter = limiters.limiter(address(1));
            let in_flight = limiter.try_acquire();
            let mut leaves = Box::pin(limiters.wait(limiters.deadline(None)));
            let mut waits = pin!(limiters.wait(limiters.deadline(None)));
            assert!(now(leaves.as_mut()).is_none() && now(waits.as_mut()).is_none());
            drop(in_flight);
            drop(leaves);
            let permit = now(waits.as_mut()).expect("granted");
            assert!(permit.is_some());
        });
    }
}
