//! Connections to the admin server that may be closed when there are too many: those that carry no
//! complete request, and those whose client reads an answer piece by piece.
//!
//! A probe for `/healthz` must not wait behind connections whose requests never end, whose answers
//! are not read, or that are kept open for later.

use super::reply::ReplyBody;
use bytes::Bytes;
use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use hyper::body::{Body, Frame, SizeHint};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// All connections that may be closed.
#[derive(Debug, Default)]
pub(super) struct Idle {
    waiting: Mutex<Waiting>,
    /// Notified when a connection becomes idle.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// By the order in which they became idle.
    cuts: BTreeMap<u64, CancellationToken>,
}

impl Idle {
    /// Closes the connection that has been idle longest, if there is one.
    pub(super) fn close_oldest(&self) -> bool {
        let oldest = lock(&self.waiting).cuts.pop_first();
        if let Some((_, cut)) = &oldest {
            cut.cancel();
        }
        oldest.is_some()
    }
}

/// The idle state of one connection. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Carrying {
    idle: Arc<Idle>,
    cut: CancellationToken,
    number: Arc<Mutex<Option<u64>>>,
}

impl Carrying {
    /// A new connection, which is idle. Cancelling `cut` closes it.
    pub(super) fn nothing(idle: &Arc<Idle>, cut: &CancellationToken) -> Self {
        let carrying = Self {
            idle: Arc::clone(idle),
            cut: cut.clone(),
            number: Arc::default(),
        };
        carrying.enter_idle();
        carrying
    }

    /// Marks the connection as busy or gone: a request is complete, or the connection ends.
    pub(super) fn leave_idle(&self) {
        if let Some(number) = lock(&self.number).take() {
            lock(&self.idle.waiting).cuts.remove(&number);
        }
    }

    /// Marks the connection as idle: it is new, or its answer is written, except for what the
    /// system has not sent yet.
    fn enter_idle(&self) {
        let mut waiting = lock(&self.idle.waiting);
        let number = waiting.next;
        waiting.next += 1;
        waiting.cuts.insert(number, self.cut.clone());
        *lock(&self.number) = Some(number);
        drop(waiting);
        self.idle.changed.notify_one();
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of an answer. At its end the connection becomes idle.
#[derive(Debug)]
pub(super) struct LastPart {
    body: ReplyBody,
    carrying: Carrying,
}

impl LastPart {
    pub(super) fn new(body: ReplyBody, carrying: Carrying) -> Self {
        if matches!(body, ReplyBody::Pieces(_)) {
            carrying.enter_idle();
        }
        Self { body, carrying }
    }
}

impl Drop for LastPart {
    fn drop(&mut self) {
        self.carrying.leave_idle();
        self.carrying.enter_idle();
    }
}

impl Body for LastPart {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
