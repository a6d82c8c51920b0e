//! A line of those who wait for a place: first come, first served.
//!
//! A place is taken for whoever is called before it wakes up, so that nobody who comes later can have it. Who leaves the
//! line after being called drops the place, which then is the next one's.

use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::time::Instant;

/// Those who wait, in a worker; `P` is a place.
#[derive(Debug)]
pub(crate) struct Line<P>(RefCell<Waiting<P>>);

/// By number, so that who leaves from the middle is found without a walk along the line.
#[derive(Debug)]
struct Waiting<P> {
    /// From the first to the last.
    waiters: BTreeMap<u64, Rc<Waiter<P>>>,
    /// Of whoever comes next; it never comes round.
    next: u64,
}

#[derive(Debug)]
struct Waiter<P> {
    since: Instant,
    /// Taken for it.
    place: RefCell<Option<P>>,
    waker: RefCell<Option<Waker>>,
}

/// Stands in line, until dropped.
pub(crate) struct InLine<'l, P> {
    line: &'l Line<P>,
    number: u64,
    waiter: Rc<Waiter<P>>,
}

impl<P> Default for Line<P> {
    fn default() -> Self {
        Self(RefCell::new(Waiting {
            waiters: BTreeMap::new(),
            next: 0,
        }))
    }
}

impl<P> Line<P> {
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().waiters.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().waiters.is_empty()
    }

    /// Since when the first in it has waited.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let waiting = self.0.borrow();
        waiting.waiters.values().next().map(|first| first.since)
    }

    /// Takes the last place in it, now.
    pub(crate) fn join(&self, now: Instant) -> InLine<'_, P> {
        let waiter = Rc::new(Waiter {
            since: now,
            place: RefCell::new(None),
            waker: RefCell::new(None),
        });
        let mut waiting = self.0.borrow_mut();
        let number = waiting.next;
        waiting.next += 1;
        waiting.waiters.insert(number, Rc::clone(&waiter));
        InLine {
            line: self,
            number,
            waiter,
        }
    }

    /// Gives whoever came first the place that `take` has. `false` if nobody waits, or if it has none.
    pub(super) fn call_first(&self, take: impl FnOnce() -> Option<P>) -> bool {
        if self.is_empty() {
            return false;
        }
        let Some(place) = take() else {
            return false;
        };
        let first = self.0.borrow_mut().waiters.pop_first();
        let Some((_, first)) = first else {
            return false;
        };
        first.place.replace(Some(place));
        // Not under the borrow: a waker may run anything.
        let waker = first.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

impl<P> InLine<'_, P> {
    /// The place, once it is called.
    pub(crate) async fn called(&self) -> P {
        poll_fn(|cx| {
            if let Some(place) = self.waiter.place.take() {
                return Poll::Ready(place);
            }
            *self.waiter.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl<P> Drop for InLine<'_, P> {
    fn drop(&mut self) {
        self.line.0.borrow_mut().waiters.remove(&self.number);
        // If it was called and has left since, its place goes to the next one.
        drop(self.waiter.place.take());
    }
}

/// What tests of those who wait share.
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

    /// What a future has to say by now.
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
    fn those_who_stay_are_called_in_order_however_many_leave_from_between() {
        const MANY: usize = 10_000;
        let line = Line::default();
        let began = Instant::now();
        // Those who stay are few, and one of them stands at each end.
        let (mut stay, mut leave) = (Vec::new(), Vec::new());
        for number in 0..MANY {
            let in_line = line.join(began + Duration::from_millis(number as u64));
            if number % 1_000 == 0 || number == MANY - 1 {
                stay.push((number, in_line));
            } else {
                leave.push(in_line);
            }
        }
        assert_eq!(line.len(), MANY);
        // From the back, from the front, and from the middle.
        let rest = leave.split_off(leave.len() / 3);
        leave.into_iter().rev().for_each(drop);
        drop(rest);
        assert_eq!(line.len(), stay.len());
        assert_eq!(line.oldest(), Some(began));
        for (number, in_line) in &stay {
            assert!(line.call_first(|| Some(*number)));
            let place = now(pin!(in_line.called()));
            assert_eq!(place, Some(*number));
        }
        assert!(line.is_empty() && !line.call_first(|| Some(0)));
        assert_eq!(line.oldest(), None);
    }
}
