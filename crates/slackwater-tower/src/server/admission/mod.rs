//! The queue before an application: so many queries are worked on at a time, others wait, and some
//! are turned away at once, while their client still has time to go elsewhere.
//!
//! [`Admission`] joins the core's queue and limit to a clock and to tasks that wait;
//! [`AdmissionLayer`] puts it around an HTTP service. Wherever it is used, [`Load`](super::Load)
//! counts outside of it: what waits is load, too. `[T1]`
//!
//! Where requests may be tied, the same queue drops a copy whose twin has begun elsewhere, and
//! tells the twin's replica when one begins here: see [`Admission::tied`]. `[H2]`
//!
//! The state has a lock, for a limit before one application has to be one. It is held for some ten
//! nanoseconds, by queries alone, and by what is heard of their twins: no probe waits for it.
//! `[T5]`

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
use http::HeaderMap;
use slackwater_core::Instant;
use slackwater_core::overload::{self, Left, Place, Started};
use slackwater_core::tail::{TieName, Ties};
use slackwater_core::tracker::End;
use state::{Arrived, Beginning, State, Waiter};
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
    state: Mutex<State>,
    /// `None`: nobody has a twin.
    peers: Option<Peers>,
}

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
        Self::with_peers(queue, limit, None)
    }

    /// As [`Admission::new`], for requests of which other copies may be with `peers`. What those
    /// say comes by [`respond_udp_tied`](crate::server::respond_udp_tied).
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

    /// What a request with these fields asks for: see [`asks`].
    pub fn asks(&self, headers: &HeaderMap) -> Asks {
        let left = asks::time_left(headers);
        Asks {
            priority: asks::priority(headers),
            deadline: left.map(|left| self.shared.clock.now() + left),
        }
    }

    /// Of which other copy a request with these fields is one, if that is with a peer: see
    /// [`tie`](crate::wire::tie).
    pub fn tie(&self, headers: &HeaderMap) -> Option<Tie> {
        let peers = self.shared.peers.as_ref()?;
        Tie::read(headers).filter(|tie| peers.know(tie.twin.ip()))
    }

    /// A query comes, which may have a twin.
    pub fn arrive(&self, asks: Asks, mut tie: Option<Tie>) -> Entry {
        let now = self.shared.clock.now();
        let begins = self.lock().start_at_once(now, asks, &mut tie);
        match begins {
            Ok(Some(beginning)) => return Entry::Begin(self.begin(beginning)),
            Ok(None) => {}
            Err(shed) => return Entry::Shed(shed),
        }
        // Whose time is over makes room first.
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

    /// A place for a query without a twin, at once or after a wait. Dropped while it waits, the
    /// query gives up.
    ///
    /// # Errors
    ///
    /// Why it was turned away.
    pub async fn enter(&self, asks: Asks) -> Result<Permit, Shed> {
        match self.arrive(asks, None) {
            Entry::Begin(permit) => Ok(permit),
            Entry::Wait(waiting) => waiting.await,
            Entry::Shed(shed) => Err(shed),
        }
    }

    /// Somebody there says that a query of that name has begun; believed of peers alone.
    pub fn twin_begun(&self, from: IpAddr, name: TieName) {
        let is_peer = (self.shared.peers.as_ref()).is_some_and(|peers| peers.know(from));
        if is_peer {
            let now = self.shared.clock.now();
            // Not under the lock: who is told may run anything.
            let waiter = self.lock().twin_begun(now, name);
            if let Some(waiter) = waiter {
                waiter.answer(Err(Shed::TwinStarted));
            }
        }
    }

    /// What it looks like now, and what it has done since its start.
    pub fn view(&self) -> AdmissionView {
        let now = self.shared.clock.now();
        self.lock().admission.view(now)
    }

    /// What has happened to queries with twins; `None` where there are none.
    pub fn tie_counts(&self) -> Option<TieCounts> {
        let peers = self.shared.peers.as_ref()?;
        let copies = self.lock().ties.as_ref().map(Ties::counters)?;
        Some(peers.counts(copies))
    }

    /// Tells everybody who leaves the queue now.
    fn answer_all(&self) {
        loop {
            let now = self.shared.clock.now();
            // Not under the lock: who is told may be gone, and then its place comes back here.
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

    /// Tells the twin's replica, if there is one. Not under the lock: it is a system call.
    fn begin(&self, Beginning { started, tie }: Beginning) -> Permit {
        if let (Some(tie), Some(peers)) = (tie, &self.shared.peers) {
            peers.send_begun(tie);
        }
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
            self.admission.answer_all();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Not under the lock: what is dropped there may wake somebody.
        let now = self.admission.shared.clock.now();
        let gone = self.admission.lock().leave(now, self.place);
        drop(gone);
    }
}

/// A place at the application, until it is dropped. Dropped before [`Self::head_ready`], its query
/// was given up.
#[derive(Debug)]
#[must_use = "dropped, the place is somebody else's"]
pub struct Permit {
    admission: Admission,
    /// `None` once given back.
    started: Option<Started>,
    /// Its twin's replica has been told.
    tie: Option<Tie>,
}

impl Permit {
    /// The head of the answer is ready: the latency that a learned limit follows ends here. The
    /// place stays taken. Only the first call counts.
    pub fn head_ready(&mut self, end: End) {
        if let Some(started) = &mut self.started {
            let now = self.admission.shared.clock.now();
            let mut state = self.admission.lock();
            let has_risen = state.admission.head_ready(now, started, end);
            drop(state);
            if has_risen {
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
