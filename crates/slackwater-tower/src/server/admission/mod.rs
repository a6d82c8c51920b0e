//! The queue before an application: so many queries are worked on at a time, others wait, and some are turned away at
//! once, while their client still has time to go elsewhere.
//!
//! [`Admission`] joins the core's queue and limit to a clock and to tasks that wait; [`AdmissionLayer`] puts it around an
//! HTTP service. Wherever it is used, [`Load`](super::Load) counts outside of it: what waits is load, too. `[T1]`
//!
//! The state has a lock, for a limit before one application has to be one. It is held for some ten nanoseconds, by
//! queries alone: no probe waits for it. `[T5]`

mod body;
mod layer;

pub use body::AdmittedBody;
pub use layer::{AdmissionFuture, AdmissionLayer, AdmissionService};
pub use slackwater_core::overload::{
    AdmissionView, Asks, ConcurrencyLimit, Discipline, GradientConfig, GradientSettings, Priority,
    QueueConfig, QueueSettings, Shed,
};

use crate::clock::Clock;
use crate::wire::asks;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use http::HeaderMap;
use slackwater_core::Instant;
use slackwater_core::overload::{self, Admit, Left, Place, Refused, Started};
use slackwater_core::tracker::End;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::time::Sleep;

/// A queue before one application, with its limit; clones share it.
#[derive(Clone, Debug)]
pub struct Admission {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    state: Mutex<overload::Admission<Waiter>>,
}

/// Who waits, to be told.
type Waiter = oneshot::Sender<Result<Permit, Shed>>;

/// What becomes of a query that comes.
#[derive(Debug)]
#[must_use = "who is not let in must not begin"]
pub enum Entry {
    /// It begins.
    Begin(Permit),
    /// It waits.
    Wait(Waiting),
    /// It is turned away.
    Shed(Shed),
}

impl Admission {
    /// With nobody in it.
    pub fn new(queue: QueueConfig, limit: ConcurrencyLimit) -> Self {
        Self {
            shared: Arc::new(Shared {
                clock: Clock::new(),
                state: Mutex::new(overload::Admission::new(queue, limit)),
            }),
        }
    }

    /// What a request with these fields asks for: see [`asks`].
    pub fn asks(&self, headers: &HeaderMap) -> Asks {
        let left = asks::time_left(headers);
        Asks {
            priority: asks::priority(headers),
            deadline: left.map(|left| self.shared.clock.now() + left),
            key: None,
        }
    }

    /// A query comes.
    pub fn arrive(&self, asks: Asks) -> Entry {
        let now = self.shared.clock.now();
        if let Some(started) = self.lock().start_at_once(now, asks) {
            return Entry::Begin(self.permit(started));
        }
        // Whose time is over makes room first.
        self.tell_all();
        let (waiter, answer) = oneshot::channel();
        let admit = self.lock().arrive(now, asks, waiter);
        match admit {
            Admit::Start(started, _) => Entry::Begin(self.permit(started)),
            Admit::Shed(refused) => Entry::Shed(refused.shed),
            Admit::Wait(waits) => {
                if let Some(displaced) = waits.displaced {
                    tell_shed(displaced);
                }
                Entry::Wait(Waiting {
                    admission: self.clone(),
                    place: waits.place,
                    ends_at: waits.ends_at,
                    answer,
                    timer: None,
                })
            }
        }
    }

    /// A place for a query, at once or after a wait. Dropped while it waits, the query gives up.
    ///
    /// # Errors
    ///
    /// Why it was turned away.
    pub async fn enter(&self, asks: Asks) -> Result<Permit, Shed> {
        match self.arrive(asks) {
            Entry::Begin(permit) => Ok(permit),
            Entry::Wait(waiting) => waiting.await,
            Entry::Shed(shed) => Err(shed),
        }
    }

    /// What it looks like now, and what it has done since its start.
    pub fn view(&self) -> AdmissionView {
        let now = self.shared.clock.now();
        self.lock().view(now)
    }

    /// Tells everybody who leaves the queue now.
    fn tell_all(&self) {
        loop {
            let now = self.shared.clock.now();
            // Not under the lock: who is told may be gone, and then its place comes back here.
            let left = self.lock().poll(now);
            match left {
                None => return,
                Some(Left::Shed(refused)) => tell_shed(refused),
                Some(Left::Start(started, waiter)) => {
                    let _ = waiter.send(Ok(self.permit(started)));
                }
            }
        }
    }

    fn permit(&self, started: Started) -> Permit {
        Permit {
            admission: self.clone(),
            started: Some(started),
        }
    }

    fn lock(&self) -> MutexGuard<'_, overload::Admission<Waiter>> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell_shed(refused: Refused<Waiter>) {
    // Who has left meanwhile need not know.
    let _ = refused.value.send(Err(refused.shed));
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// A query that waits for its turn. Dropped, it gives up.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Waiting {
    admission: Admission,
    place: Place,
    ends_at: Instant,
    answer: oneshot::Receiver<Result<Permit, Shed>>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Future for Waiting {
    type Output = Result<Permit, Shed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Poll::Ready(answer) = Pin::new(&mut self.answer).poll(cx) {
                // Nobody drops the other end unused.
                return Poll::Ready(answer.unwrap_or(Err(Shed::WaitOver)));
            }
            let Some(timer) = &mut self.timer else {
                let now = self.admission.shared.clock.now();
                let left = self.ends_at.saturating_since(now);
                self.timer = Some(Box::pin(tokio::time::sleep(left)));
                continue;
            };
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            // Its time is over, and it is told so; unless the two clocks are apart by a little.
            self.timer = None;
            self.admission.tell_all();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Not under the lock: what is dropped there may wake somebody.
        let gone = self.admission.lock().leave(self.place);
        drop(gone);
    }
}

/// A place at the application, until it is dropped. Dropped before [`Self::head_ready`], its query was given up.
#[derive(Debug)]
#[must_use = "dropped, the place is somebody else's"]
pub struct Permit {
    admission: Admission,
    /// `None` once given back.
    started: Option<Started>,
}

impl Permit {
    /// The head of the answer is ready: the latency that a learned limit follows ends here. The place stays taken. Only the
    /// first call counts.
    pub fn head_ready(&mut self, end: End) {
        if let Some(started) = &mut self.started {
            let now = self.admission.shared.clock.now();
            self.admission.lock().head_ready(now, started, end);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            let now = self.admission.shared.clock.now();
            self.admission.lock().finish(now, started, End::Cancelled);
            self.admission.tell_all();
        }
    }
}
