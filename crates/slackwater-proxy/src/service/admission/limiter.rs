//! The limit of requests in flight at a service: a bounded queue absorbs bursts, and the rest is
//! shed.
//!
//! A fleet that has more requests than it can work on finishes none of them in time. So the number
//! in flight is limited, and a request that would wait too long is rejected immediately, so that
//! its client can try elsewhere. The queue is first in, first out: a permit that becomes free goes
//! to the request that has waited longest. Each worker has its share of the limit and of the queue.

use super::WorkerIndex;
use super::counts::ServiceCounts;
use super::wait_queue::WaitQueue;
use crate::forward::{Answer, Watch, shed, too_late};
use core::cell::Cell;
use core::time::Duration;
use slackwater_config::QueueSettings;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// Why a request got no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shed {
    /// All permits are taken, and the queue is full.
    QueueFull,
    /// The maximum wait is over.
    WaitOver,
    /// The request's deadline has passed.
    Deadline,
}

impl Shed {
    /// The response to the client.
    pub(crate) fn answer<W: Watch>(self) -> Answer<W> {
        match self {
            Self::QueueFull => shed("queue_full", "too many requests wait already"),
            Self::WaitOver => shed("queue_wait_over", "no permit became free in time"),
            Self::Deadline => too_late(),
        }
    }
}

/// A worker's limit of requests in flight at a service.
#[derive(Debug)]
pub(crate) struct Limiter {
    requests_max: u32,
    waiting_max: usize,
    wait_max: Duration,
    in_flight: Cell<u32>,
    queue: WaitQueue<Permit>,
    counts: Arc<ServiceCounts>,
}

/// The right to run, until dropped.
#[derive(Debug)]
pub(crate) struct Permit(Rc<Limiter>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.set_in_flight(self.0.in_flight.get() - 1);
        self.0.grant_next();
    }
}

/// Counts a wait in the queue when it is over.
struct WaitGuard<'g> {
    limiter: &'g Limiter,
    since: Instant,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.limiter.counts.waits.add(self.since.elapsed());
        self.limiter.publish_queue();
    }
}

/// Returns the share of `total` of worker number `index` of `workers`. Shares differ by at most 1,
/// and are at least 1. Their sum is `total`, unless the minimum of 1 requires more.
pub(crate) fn share(total: u32, index: u16, workers: u16) -> u32 {
    let (index, workers) = (u32::from(index), u32::from(workers.max(1)));
    let even = total / workers;
    let rest = u32::from(index < total % workers);
    (even + rest).max(1)
}

impl Limiter {
    /// Makes the limiter of worker number `index` of `workers`; `None` if requests are not limited.
    pub(crate) fn new(
        settings: &QueueSettings,
        WorkerIndex { index, workers }: WorkerIndex,
        counts: &Arc<ServiceCounts>,
    ) -> Option<Rc<Self>> {
        let requests_max = settings.requests_max?;
        let waiting_max = match settings.waiting_max {
            0 => 0,
            some => share(some, index, workers),
        };
        Some(Rc::new(Self {
            requests_max: share(requests_max, index, workers),
            waiting_max: waiting_max as usize,
            wait_max: settings.wait_max,
            in_flight: Cell::new(0),
            queue: WaitQueue::default(),
            counts: Arc::clone(counts),
        }))
    }

    /// Acquires a permit, immediately or after a wait in the queue. The request's deadline `ends`
    /// also ends the wait.
    pub(crate) async fn acquire(self: &Rc<Self>, ends: Option<Instant>) -> Result<Permit, Shed> {
        if self.queue.is_empty() && self.has_free_permit() {
            return Ok(self.take());
        }
        if self.queue.len() >= self.waiting_max || self.wait_max.is_zero() {
            self.counts.shed_queue_full.add_one();
            return Err(Shed::QueueFull);
        }
        // Boxed, so that requests that do not wait do not carry its size.
        Box::pin(self.wait(ends)).await
    }

    async fn wait(self: &Rc<Self>, ends: Option<Instant>) -> Result<Permit, Shed> {
        self.counts.queued.add_one();
        // Dropped after the entry, so that the count is right.
        let since = Instant::now();
        let _guard = WaitGuard {
            limiter: self,
            since,
        };
        let entry = self.queue.join(since);
        self.publish_queue();
        let left = |ends: Instant| ends.saturating_duration_since(Instant::now());
        let wait = ends.map_or(self.wait_max, |ends| self.wait_max.min(left(ends)));
        let permit = tokio::time::timeout(wait, entry.granted()).await;
        // A request whose deadline has passed cannot use a permit.
        let permit = permit
            .ok()
            .filter(|_| ends.is_none_or(|ends| !left(ends).is_zero()));
        permit.ok_or_else(|| {
            if ends.is_some_and(|ends| left(ends).is_zero()) {
                self.counts.shed_deadline.add_one();
                Shed::Deadline
            } else {
                self.counts.shed_wait_over.add_one();
                Shed::WaitOver
            }
        })
    }

    fn set_in_flight(&self, in_flight: u32) {
        self.in_flight.set(in_flight);
        self.counts.inside.set(in_flight.into());
    }

    fn publish_queue(&self) {
        self.counts.waiting.set(self.queue.len() as u64);
        let oldest = self.queue.oldest().map(Instant::into_std);
        self.counts.oldest.set(oldest);
    }

    const fn has_free_permit(&self) -> bool {
        self.in_flight.get() < self.requests_max
    }

    fn take(self: &Rc<Self>) -> Permit {
        self.set_in_flight(self.in_flight.get() + 1);
        Permit(Rc::clone(self))
    }

    /// Gives free permits to the requests that have waited longest.
    fn grant_next(self: &Rc<Self>) {
        while self
            .queue
            .grant_first(|| self.has_free_permit().then(|| self.take()))
        {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::admission::wait_queue::testing::{in_paused_time, now};
    use core::pin::pin;

    const ALONE: WorkerIndex = WorkerIndex {
        index: 0,
        workers: 1,
    };

    fn limiter(requests_max: u32, waiting_max: u32) -> Rc<Limiter> {
        let settings = QueueSettings {
            requests_max: Some(requests_max),
            waiting_max,
            wait_max: Duration::from_secs(1),
        };
        Limiter::new(&settings, ALONE, &Arc::default()).expect("there is a limit")
    }

    #[test]
    fn shares_add_up_and_are_at_least_1() {
        for (total, workers, shares) in [
            (10, 4, vec![3, 3, 2, 2]),
            (8, 4, vec![2; 4]),
            (2, 4, vec![1; 4]),
            (7, 1, vec![7]),
        ] {
            let found: Vec<_> = (0..workers)
                .map(|index| share(total, index, workers))
                .collect();
            assert_eq!(found, shares, "{total} over {workers}");
        }
    }

    #[test]
    fn without_a_limit_there_is_no_limiter() {
        let settings = QueueSettings::default();
        assert!(Limiter::new(&settings, ALONE, &Arc::default()).is_none());
    }

    #[test]
    fn requests_beyond_the_limit_wait_in_order() {
        in_paused_time(async {
            let limiter = limiter(2, 9);
            let [first, _second] = [limiter.acquire(None).await, limiter.acquire(None).await];
            let mut third = pin!(limiter.acquire(None));
            let mut fourth = pin!(limiter.acquire(None));
            assert!(now(third.as_mut()).is_none());
            assert!(now(fourth.as_mut()).is_none());
            drop(first);
            // A new request queues behind them, even before the third wakes up.
            let mut fifth = pin!(limiter.acquire(None));
            assert!(now(fifth.as_mut()).is_none());
            assert!(now(fourth.as_mut()).is_none());
            let third = now(third.as_mut()).expect("granted").expect("a permit");
            drop(third);
            assert!(now(fifth.as_mut()).is_none());
            assert!(now(fourth.as_mut()).is_some());
            assert_eq!(limiter.counts.queued.read(), 3);
            assert_eq!(limiter.counts.waits.read().count(), 2, "one still waits");
            assert_eq!(limiter.counts.queue().waiting, 1);
        });
    }

    #[test]
    fn full_queue_sheds_immediately() {
        in_paused_time(async {
            let limiter = limiter(1, 1);
            let _permit = limiter.acquire(None).await.expect("a permit");
            let mut waits = pin!(limiter.acquire(None));
            assert!(now(waits.as_mut()).is_none());
            assert_eq!(limiter.acquire(None).await.err(), Some(Shed::QueueFull));
            assert_eq!(limiter.counts.shed_queue_full.read(), 1);
        });
    }

    #[test]
    fn queue_of_length_0_sheds_immediately() {
        in_paused_time(async {
            let limiter = limiter(1, 0);
            let _permit = limiter.acquire(None).await.expect("a permit");
            assert_eq!(limiter.acquire(None).await.err(), Some(Shed::QueueFull));
        });
    }

    #[test]
    fn expired_wait_leaves_the_queue_empty() {
        in_paused_time(async {
            let limiter = limiter(1, 9);
            let in_flight = limiter.acquire(None).await.expect("a permit");
            let began = Instant::now();
            assert_eq!(limiter.acquire(None).await.err(), Some(Shed::WaitOver));
            assert_eq!(began.elapsed(), Duration::from_secs(1));
            assert_eq!(limiter.counts.shed_wait_over.read(), 1);
            let waits = limiter.counts.waits.read();
            assert_eq!((waits.count(), waits.sum()), (1, Duration::from_secs(1)));
            assert!(limiter.queue.is_empty());
            drop(in_flight);
            assert_eq!(limiter.in_flight.get(), 0);
        });
    }

    #[test]
    fn no_request_waits_beyond_its_deadline() {
        in_paused_time(async {
            let limiter = limiter(1, 9);
            let in_flight = limiter.acquire(None).await.expect("a permit");
            let began = Instant::now();
            let ends = Some(began + Duration::from_millis(300));
            assert_eq!(limiter.acquire(ends).await.err(), Some(Shed::Deadline));
            assert_eq!(began.elapsed(), Duration::from_millis(300));
            // Granted exactly at the deadline: the permit is released again.
            let ends = Some(Instant::now() + Duration::from_millis(300));
            let mut late = pin!(limiter.acquire(ends));
            assert!(now(late.as_mut()).is_none());
            drop(in_flight);
            tokio::time::advance(Duration::from_millis(300)).await;
            assert_eq!(late.await.err(), Some(Shed::Deadline));
            assert_eq!(limiter.in_flight.get(), 0);
            assert_eq!(limiter.counts.shed_deadline.read(), 2);
            assert_eq!(limiter.counts.shed_wait_over.read(), 0);
        });
    }

    #[test]
    fn permit_granted_too_late_goes_to_the_next() {
        in_paused_time(async {
            let limiter = limiter(1, 9);
            let in_flight = limiter.acquire(None).await.expect("a permit");
            let mut leaves = Box::pin(limiter.acquire(None));
            let mut waits = pin!(limiter.acquire(None));
            assert!(now(leaves.as_mut()).is_none());
            assert!(now(waits.as_mut()).is_none());
            drop(in_flight);
            assert_eq!(
                limiter.in_flight.get(),
                1,
                "taken for the first in the queue"
            );
            drop(leaves);
            let permit = now(waits.as_mut()).expect("granted").expect("a permit");
            assert_eq!(limiter.in_flight.get(), 1);
            drop(permit);
            assert_eq!(limiter.in_flight.get(), 0);
        });
    }
}
