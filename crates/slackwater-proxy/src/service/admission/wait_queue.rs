//! A queue of requests that wait for a permit: first in, first out.
//!
//! A permit is reserved for the first request in the queue before it wakes up, so that no newer
//! request can take it. If that request leaves the queue afterwards, the permit goes to the next
//! one.

use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::time::Instant;

/// The waiting requests of a worker; `P` is a permit.
#[derive(Debug)]
pub(crate) struct WaitQueue<P>(RefCell<Waiters<P>>);

/// Ordered by number, so that a request that leaves from the middle is found without a scan of the
/// queue.
#[derive(Debug)]
struct Waiters<P> {
    /// From the first to the last.
    waiters: BTreeMap<u64, Rc<Waiter<P>>>,
    /// Number of the next request; 64 bits do not overflow.
    next: u64,
}

#[derive(Debug)]
struct Waiter<P> {
    since: Instant,
    /// The permit that is reserved for it.
    permit: RefCell<Option<P>>,
    waker: RefCell<Option<Waker>>,
}

/// An entry in the queue, until dropped.
pub(crate) struct QueueEntry<'l, P> {
    queue: &'l WaitQueue<P>,
    number: u64,
    waiter: Rc<Waiter<P>>,
}

impl<P> Default for WaitQueue<P> {
    fn default() -> Self {
        Self(RefCell::new(Waiters {
            waiters: BTreeMap::new(),
            next: 0,
        }))
    }
}

impl<P> WaitQueue<P> {
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().waiters.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().waiters.is_empty()
    }

    /// Since when the first request in the queue has waited.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let waiting = self.0.borrow();
        waiting.waiters.values().next().map(|first| first.since)
    }

    /// Appends a request that waits from `now` on.
    pub(crate) fn join(&self, now: Instant) -> QueueEntry<'_, P> {
        let waiter = Rc::new(Waiter {
            since: now,
            permit: RefCell::new(None),
            waker: RefCell::new(None),
        });
        let mut waiting = self.0.borrow_mut();
        let number = waiting.next;
        waiting.next += 1;
        waiting.waiters.insert(number, Rc::clone(&waiter));
        QueueEntry {
            queue: self,
            number,
            waiter,
        }
    }

    /// Grants the first request the permit that `take` returns. Returns `false` if none waits, or
    /// if there is no permit.
    pub(super) fn grant_first(&self, take: impl FnOnce() -> Option<P>) -> bool {
        if self.is_empty() {
            return false;
        }
        let Some(permit) = take() else {
            return false;
        };
        let first = self.0.borrow_mut().waiters.pop_first();
        let Some((_, first)) = first else {
            return false;
        };
        first.permit.replace(Some(permit));
        // Outside of the borrow: a waker may run any code.
        let waker = first.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

impl<P> QueueEntry<'_, P> {
    /// Waits until the permit is granted.
    pub(crate) async fn granted(&self) -> P {
        poll_fn(|cx| {
            if let Some(permit) = self.waiter.permit.take() {
                return Poll::Ready(permit);
            }
            *self.waiter.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl<P> Drop for QueueEntry<'_, P> {
    fn drop(&mut self) {
        self.queue.0.borrow_mut().waiters.remove(&self.number);
        // A permit that was granted and not taken goes to the next request.
        drop(self.waiter.permit.take());
    }
}

/// Shared helpers for tests of queues.
#[cfg(test)]
pub(crate) mod testing {
    use core::pin::Pin;
    use futures_util::FutureExt;

    pub(crate) fn in_paused_time(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(test);
    }

    /// Returns the output of a future that is ready now.
    pub(crate) fn now<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        future.now_or_never()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::now;
    use super::*;
    use core::pin::pin;
    use core::time::Duration;

    #[test]
    fn permits_are_granted_in_order_even_if_many_waiters_leave() {
        const MANY: usize = 10_000;
        let queue = WaitQueue::default();
        let began = Instant::now();
        // Few requests stay; one of them is at each end.
        let (mut stay, mut leave) = (Vec::new(), Vec::new());
        for number in 0..MANY {
            let entry = queue.join(began + Duration::from_millis(number as u64));
            if number % 1_000 == 0 || number == MANY - 1 {
                stay.push((number, entry));
            } else {
                leave.push(entry);
            }
        }
        assert_eq!(queue.len(), MANY);
        // From the back, from the front, and from the middle.
        let rest = leave.split_off(leave.len() / 3);
        leave.into_iter().rev().for_each(drop);
        drop(rest);
        assert_eq!(queue.len(), stay.len());
        assert_eq!(queue.oldest(), Some(began));
        for (number, entry) in &stay {
            assert!(queue.grant_first(|| Some(*number)));
            let permit = now(pin!(entry.granted()));
            assert_eq!(permit, Some(*number));
        }
        assert!(queue.is_empty() && !queue.grant_first(|| Some(0)));
        assert_eq!(queue.oldest(), None);
    }
}
