//! A response body together with a value that depends on how the body ends: a query in flight, a
//! permit, a lease.
//!
//! Servers stop polling a body for many reasons: at its end, at the announced length, when
//! `is_end_stream` is true, at an error, when the client has left. A [`Watch`] sees every frame,
//! and is dropped with the body.

use bytes::Buf;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// An observer of a body.
pub trait Watch {
    /// Polls the body.
    fn poll<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        poll()
    }

    /// Called with the body's next frame, or `None` at its end. `is_last`: nothing follows.
    fn polled<D: Buf, E>(&mut self, frame: Option<&Result<Frame<D>, E>>, is_last: bool);
}

pin_project! {
    /// A body `B` that `W` watches, or an empty body.
    pub struct WatchedBody<B, W> {
        #[pin]
        inner: Option<B>,
        watch: W,
    }
}

impl<B, W> WatchedBody<B, W> {
    pub(crate) const fn watched(inner: Option<B>, watch: W) -> Self {
        Self { inner, watch }
    }
}

impl<B: Body, W: Watch> Body for WatchedBody<B, W> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let Some(mut inner) = this.inner.as_pin_mut() else {
            return Poll::Ready(None);
        };
        let polled = this.watch.poll(|| inner.as_mut().poll_frame(cx));
        if let Poll::Ready(frame) = &polled {
            this.watch.polled(frame.as_ref(), inner.is_end_stream());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B, W: fmt::Debug> fmt::Debug for WatchedBody<B, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedBody")
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}
