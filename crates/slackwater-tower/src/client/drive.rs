//! The policy's timeouts: a future that sleeps until the next one.
//!
//! Two things are due by time alone: probes whose deadline passes, and idle probes. The future
//! holds a weak reference to the balancer, and ends with it.

use super::balancer::{Balancer, Shared};
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use futures_util::task::AtomicWaker;
use slackwater_core::Instant;
use std::sync::{Arc, Weak};
use tokio::task::JoinHandle;
use tokio::time::Sleep;

/// Timers are no finer than this, and a policy that is never satisfied must not spin.
const NAP_MIN: Duration = Duration::from_millis(1);

/// Handles a balancer's timeouts; made by [`Balancer::drive`].
#[must_use = "it does nothing unless it is spawned"]
pub struct Drive {
    balancer: Weak<Shared>,
    /// Woken when an earlier timeout appears, and when the balancer ends.
    waker: Arc<AtomicWaker>,
    nap: Option<Nap>,
}

struct Nap {
    until: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Drive {
    pub(super) const fn new(balancer: Weak<Shared>, waker: Arc<AtomicWaker>) -> Self {
        Self {
            balancer,
            waker,
            nap: None,
        }
    }

    /// Returns the sleep until `until`. A running sleep with the same end is kept.
    fn nap(&mut self, now: Instant, until: Instant) -> Pin<&mut Sleep> {
        let span = until.saturating_since(now).max(NAP_MIN);
        let nap = self.nap.get_or_insert_with(|| Nap {
            until,
            sleep: Box::pin(tokio::time::sleep(span)),
        });
        if nap.until != until || nap.sleep.is_elapsed() {
            nap.until = until;
            nap.sleep.as_mut().reset(tokio::time::Instant::now() + span);
        }
        nap.sleep.as_mut()
    }
}

impl Future for Drive {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.waker.register(cx.waker());
            let Some(shared) = self.balancer.upgrade() else {
                return Poll::Ready(());
            };
            let balancer = Balancer::from_shared(shared);
            let now = balancer.now();
            let next = balancer.handle_timeout(now);
            drop(balancer);
            match next {
                Some(until) => ready!(self.nap(now, until).poll(cx)),
                None => return Poll::Pending,
            }
        }
    }
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drive").finish_non_exhaustive()
    }
}

/// A spawned [`Drive`]; dropping it ends the task.
#[derive(Debug)]
#[must_use = "dropping the guard ends the task"]
pub struct DriveGuard(JoinHandle<()>);

impl DriveGuard {
    pub(super) fn spawn(drive: Drive) -> Self {
        Self(tokio::spawn(drive))
    }
}

impl Drop for DriveGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}
