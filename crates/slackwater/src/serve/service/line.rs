//! A line of those who wait for a place: first come, first served.
//!
//! A place is taken for whoever is called before it wakes up, so that nobody who comes later can have it. Who leaves the
//! line after being called drops the place, which then is the next one's.

use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::collections::VecDeque;
use std::rc::Rc;

/// Those who wait, in a worker; `P` is a place.
#[derive(Debug)]
pub(super) struct Line<P>(RefCell<VecDeque<Rc<Waiter<P>>>>);

#[derive(Debug)]
struct Waiter<P> {
    /// Taken for it.
    place: RefCell<Option<P>>,
    waker: RefCell<Option<Waker>>,
}

/// Stands in line, until dropped.
pub(super) struct InLine<'l, P> {
    line: &'l Line<P>,
    waiter: Rc<Waiter<P>>,
}

impl<P> Default for Line<P> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<P> Line<P> {
    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Takes the last place in it.
    pub(super) fn join(&self) -> InLine<'_, P> {
        let waiter = Rc::new(Waiter {
            place: RefCell::new(None),
            waker: RefCell::new(None),
        });
        self.0.borrow_mut().push_back(Rc::clone(&waiter));
        InLine { line: self, waiter }
    }

    /// Gives whoever came first the place that `take` has. `false` if nobody waits, or if it has none.
    pub(super) fn call_first(&self, take: impl FnOnce() -> Option<P>) -> bool {
        if self.is_empty() {
            return false;
        }
        let Some(place) = take() else {
            return false;
        };
        let Some(first) = self.0.borrow_mut().pop_front() else {
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
    pub(super) async fn called(&self) -> P {
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
        let mut waiting = self.line.0.borrow_mut();
        waiting.retain(|other| !Rc::ptr_eq(other, &self.waiter));
        drop(waiting);
        // If it was called and has left since, its place goes to the next one.
        drop(self.waiter.place.take());
    }
}

/// What tests of those who wait share.
#[cfg(test)]
pub(super) mod testing {
    use core::pin::Pin;
    use futures_util::FutureExt;

    pub(in super::super) fn in_paused_time(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(test);
    }

    /// What a future has to say by now.
    pub(in super::super) fn now<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        future.now_or_never()
    }
}
