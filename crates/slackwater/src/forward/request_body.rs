//! A request's body on its way to a replica, from either protocol.

use super::deadline::Deadlines;
use super::inbound::Upload;
use bytes::Bytes;
use core::cell::Cell;
use core::pin::Pin;
use core::task::{Context, Poll};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::io;
use std::rc::Rc;

/// What became of a request's body.
#[derive(Debug)]
pub(super) struct Progress {
    deadlines: Rc<Deadlines>,
    /// When a piece of it was last handed on, in ticks.
    moved_at: Cell<u64>,
    state: Cell<Wait>,
}

/// Whom a request's body waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The replica, to take more; or nobody, because it is complete.
    Replica,
    /// The client, to send more.
    Client,
    /// Nobody: the client broke it off.
    Broken,
}

impl Progress {
    fn new(deadlines: &Rc<Deadlines>) -> Rc<Self> {
        Rc::new(Self {
            deadlines: Rc::clone(deadlines),
            moved_at: Cell::new(deadlines.now()),
            state: Cell::new(Wait::Replica),
        })
    }

    pub(super) fn moved_at(&self) -> u64 {
        self.moved_at.get()
    }

    pub(super) fn state(&self) -> Wait {
        self.state.get()
    }
}

/// A request's body on its way to a replica.
#[derive(Debug, Default)]
pub(crate) struct RequestBody {
    source: Source,
    /// A piece that was taken but went nowhere.
    ahead: Bytes,
    /// Absent: there was no body from the start.
    progress: Option<Rc<Progress>>,
}

#[derive(Debug, Default)]
enum Source {
    #[default]
    Absent,
    Http1(Upload),
    /// In a box, for it is larger than the others.
    Http2(Box<Incoming>),
}

impl RequestBody {
    /// The body of a request over HTTP/2; `deadlines` is the clock by which its progress is noted.
    pub(super) fn http2(incoming: Incoming, deadlines: &Rc<Deadlines>) -> Self {
        if incoming.is_end_stream() {
            return Self::default();
        }
        Self {
            source: Source::Http2(Box::new(incoming)),
            ahead: Bytes::new(),
            progress: Some(Progress::new(deadlines)),
        }
    }

    /// The body of a request over HTTP/1.1, and the way back to its client for what is told before the response.
    pub(super) fn http1(upload: Upload, deadlines: &Rc<Deadlines>) -> Self {
        let progress = (!upload.is_end_stream()).then(|| Progress::new(deadlines));
        Self {
            source: Source::Http1(upload),
            ahead: Bytes::new(),
            progress,
        }
    }

    pub(super) fn progress(&self) -> Option<Rc<Progress>> {
        self.progress.clone()
    }

    /// A protocol to which the client's connection may change, because the client has asked for it and it is allowed.
    pub(super) fn upgrade(&self) -> Option<HeaderValue> {
        match &self.source {
            Source::Http1(upload) => upload.upgrade(),
            _ => None,
        }
    }

    /// Passes on to the client what is not the final response; HTTP/2 clients are not told.
    pub(super) fn tell(&self, status: StatusCode, headers: &HeaderMap) {
        if let Source::Http1(upload) = &self.source {
            upload.tell(status, headers);
        }
    }

    /// Gives back a piece of which nothing was sent: it is the next one again.
    pub(super) fn put_back(&mut self, piece: Bytes) {
        self.ahead = piece;
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        if !this.ahead.is_empty() {
            let piece = core::mem::take(&mut this.ahead);
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let polled = match &mut this.source {
            Source::Absent => return Poll::Ready(None),
            Source::Http1(upload) => upload.poll_frame(cx),
            Source::Http2(incoming) => Pin::new(&mut **incoming)
                .poll_frame(cx)
                .map_err(io::Error::other),
        };
        if let Some(progress) = &this.progress {
            progress.state.set(match &polled {
                Poll::Pending => Wait::Client,
                Poll::Ready(Some(Err(_))) => Wait::Broken,
                Poll::Ready(_) => {
                    progress.moved_at.set(progress.deadlines.now());
                    Wait::Replica
                }
            });
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_empty()
            && match &self.source {
                Source::Absent => true,
                Source::Http1(upload) => upload.is_end_stream(),
                Source::Http2(incoming) => incoming.is_end_stream(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let left = match &self.source {
            Source::Absent => Some(0),
            Source::Http1(upload) => upload.left(),
            Source::Http2(incoming) => incoming.size_hint().exact(),
        };
        left.map_or_else(SizeHint::default, |left| {
            SizeHint::with_exact(left + self.ahead.len() as u64)
        })
    }
}
