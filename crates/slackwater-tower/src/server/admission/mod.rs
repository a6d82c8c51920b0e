//! The queue in front of an application: a limited number of queries run at a time, others wait.
//! Some are rejected at once, while their client still has time to try another replica.
//!
//! [`Admission`] joins the core's queue and limit to a clock and to waiting tasks;
//! [`AdmissionLayer`] wraps an HTTP service with it. [`Load`](super::Load) must count outside of
//! it: waiting queries are load, too. `[T1]`
//!
//! If requests may be tied, the queue drops a copy when the other one has started elsewhere, and
//! notifies the other replica when a copy starts here: see [`Admission::tied`]. `[H2]`
//!
//! The state is under a lock, since all queries share one limit. The lock is held for some ten
//! nanoseconds, only by queries and by messages about their copies. No probe waits for it. `[T5]`

mod body;
mod layer;
mod peers;
mod state;

pub use body::AdmittedBody;
pub use layer::{AdmissionFuture, AdmissionLayer, AdmissionService};
pub use peers::Peers;
pub use slackwater_core::overload::{
    AdmissionView, Asks, ConcurrencyLimit, Discipline, GradientConfig, GradientSettings, Priority,
    QueueConfig, QueueSettings, Shed,
};
pub use slackwater_core::tail::{TieCounts, TiesConfig, TiesSettings};

use crate::clock::Clock;
use crate::wire::asks;
use crate::wire::tie::Tie;
use core::fmt;
use core::net::IpAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use slackwater_core::Instant;
use slackwater_core::overload::{self, Left, Place, Started};
use slackwater_core::tail::{TieName, Ties};
use slackwater_core::tracker::End;
use slackwater_http::FieldMap;
use state::{Arrived, Beginning, State, Waiter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::time::Sleep;

/// A queue in front of one application, with its limit; clones share it.
#[derive(Clone, Debug)]
pub struct Admission {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    state: Mutex<State>,
    /// `None`: no requests are tied.
    peers: Option<Peers>,
}

/// The result of a query's arrival.
#[derive(Debug)]
#[must_use = "a query without a permit must not start"]
pub enum Entry {
    /// It starts.
    Begin(Permit),
    /// It waits.
    Wait(Waiting),
    /// It is rejected.
    Shed(Shed),
}

impl Admission {
    /// Creates an empty queue.
    pub fn new(queue: QueueConfig, limit: ConcurrencyLimit) -> Self {
        Self::with_peers(queue, limit, None)
    }

    /// As [`Admission::new`], for tied requests whose other copies are at `peers`. Messages of
    /// these arrive through [`respond_udp_tied`](crate::server::respond_udp_tied).
    pub fn tied(queue: QueueConfig, limit: ConcurrencyLimit, peers: Peers) -> Self {
        Self::with_peers(queue, limit, Some(peers))
    }

    fn with_peers(queue: QueueConfig, limit: ConcurrencyLimit, peers: Option<Peers>) -> Self {
        let ties = peers.as_ref().map(|peers| Ties::new(peers.ties.clone()));
        Self {
            shared: Arc::new(Shared {
                clock: Clock::new(),
                state: Mutex::new(State {
                    admission: overload::Admission::new(queue, limit),
                    ties,
                }),
                peers,
            }),
        }
    }

    /// Reads priority and deadline from a request's headers: see [`asks`].
    pub fn asks(&self, headers: &impl FieldMap) -> Asks {
        let left = asks::time_left(headers);
        Asks {
            priority: asks::priority(headers),
            deadline: left.map(|left| self.shared.clock.now() + left),
        }
    }

    /// Reads a request's tie from its headers, if the other copy is at a peer: see
    /// [`tie`](crate::wire::tie).
    pub fn tie(&self, headers: &impl FieldMap) -> Option<Tie> {
        let peers = self.shared.peers.as_ref()?;
        Tie::read(headers).filter(|tie| peers.know(tie.other_copy.ip()))
    }

    /// Admits a query, which may be tied.
    pub fn arrive(&self, asks: Asks, mut tie: Option<Tie>) -> Entry {
        let now = self.shared.clock.now();
        let begins = self.lock().start_at_once(now, asks, &mut tie);
        match begins {
            Ok(Some(beginning)) => return Entry::Begin(self.begin(beginning)),
            Ok(None) => {}
            Err(shed) => return Entry::Shed(shed),
        }
        // First remove the waiting queries whose time is over: this makes room.
        self.answer_all();
        let (waiter, answer) = oneshot::channel();
        let arrived = self.lock().arrive(now, asks, Waiter::new(waiter, tie));
        match arrived {
            Err(shed) => Entry::Shed(shed),
            Ok(Arrived::Begins(beginning)) => Entry::Begin(self.begin(beginning)),
            Ok(Arrived::Waits(waits)) => {
                if let Some(displaced) = waits.displaced {
                    displaced.value.answer(Err(displaced.shed));
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

    /// Waits for a permit for a query that is not tied. If dropped while it waits, the query leaves
    /// the queue.
    ///
    /// # Errors
    ///
    /// The reason why the query was rejected.
    pub async fn enter(&self, asks: Asks) -> Result<Permit, Shed> {
        match self.arrive(asks, None) {
            Entry::Begin(permit) => Ok(permit),
            Entry::Wait(waiting) => waiting.await,
            Entry::Shed(shed) => Err(shed),
        }
    }

    /// Handles the message that a tied query with this name has started at `from`. Ignored unless
    /// that is a peer.
    pub fn tied_copy_started(&self, from: IpAddr, name: TieName) {
        let is_peer = (self.shared.peers.as_ref()).is_some_and(|peers| peers.know(from));
        if is_peer {
            let now = self.shared.clock.now();
            // Not under the lock: waking a waiter may run arbitrary code.
            let waiter = self.lock().tied_copy_started(now, name);
            if let Some(waiter) = waiter {
                waiter.answer(Err(Shed::CopyStarted));
            }
        }
    }

    /// The current state, and counts since the start.
    pub fn view(&self) -> AdmissionView {
        let now = self.shared.clock.now();
        self.lock().admission.view(now)
    }

    /// Counts of tied queries; `None` if there are none.
    pub fn tie_counts(&self) -> Option<TieCounts> {
        let peers = self.shared.peers.as_ref()?;
        let copies = self.lock().ties.as_ref().map(Ties::counters)?;
        Some(peers.counts(copies))
    }

    /// Notifies all queries that leave the queue now.
    fn answer_all(&self) {
        loop {
            let now = self.shared.clock.now();
            // Not under the lock: a waiter may be gone, and then its permit comes back here.
            let left = self.lock().poll(now);
            match left {
                None => return,
                Some((Left::Shed(refused), _)) => refused.value.answer(Err(refused.shed)),
                Some((Left::Start(started, waiter), tie)) => {
                    waiter.answer(Ok(self.begin(Beginning { started, tie })));
                }
            }
        }
    }

    fn begin(&self, Beginning { started, tie }: Beginning) -> Permit {
        Permit {
            admission: self.clone(),
            started: Some(started),
            tie,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("peers", &self.peers)
            .finish_non_exhaustive()
    }
}

/// A query that waits for its turn. If dropped, it leaves the queue.
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
                // The other end is never dropped without an answer.
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
            // Its time is over, and this notifies it, unless the two clocks differ by a little.
            self.timer = None;
            self.admission.answer_all();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Not under the lock: dropping a waiter may wake a task.
        let now = self.admission.shared.clock.now();
        let gone = self.admission.lock().leave(now, self.place);
        drop(gone);
    }
}

/// A permit to run, held until it is dropped. If dropped before [`Self::head_ready`], its query was
/// cancelled. If dropped before [`Self::begin`], it never started, and its other copy goes on.
#[derive(Debug)]
#[must_use = "dropping the permit releases it"]
pub struct Permit {
    admission: Admission,
    /// `None` once released.
    started: Option<Started>,
    /// Its tie, if the other copy's replica must be notified.
    tie: Option<Tie>,
}

impl Permit {
    /// Notifies the other copy's replica, if there is one, that the query starts here. Call this
    /// once, when nothing can keep the query from starting any more. It is a system call.
    pub fn begin(&self) {
        if let (Some(tie), Some(peers)) = (self.tie, &self.admission.shared.peers) {
            peers.send_begun(tie);
        }
    }

    /// Records that the head of the answer is ready. The latency that an adaptive limit uses ends
    /// here. The permit stays taken. Only the first call counts.
    pub fn head_ready(&mut self, end: End) {
        if let Some(started) = &mut self.started {
            let now = self.admission.shared.clock.now();
            let mut state = self.admission.lock();
            let has_room = state.admission.head_ready(now, started, end);
            drop(state);
            if has_room {
                self.admission.answer_all();
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            let now = self.admission.shared.clock.now();
            let mut state = self.admission.lock();
            state.admission.finish(now, started, End::Cancelled);
            state.end(now, self.tie);
            drop(state);
            self.admission.answer_all();
        }
    }
}
