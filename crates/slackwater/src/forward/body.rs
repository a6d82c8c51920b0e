//! Bodies on their way, and what happens when they end.
//!
//! A response's body holds everything that must be settled exactly once when the request is over: the connection goes
//! back to its pool, and a [`Watch`] hears how it ended. Three ways lead there: the last frame has been handed on, an
//! error, or the body is dropped because the client left. Bytes are never copied or re-cut here.

use super::deadline::{Deadline, Deadlines};
use super::exchange::Held;
use super::session::Busy;
use super::tape::{Rewind, TapeReader};
use bytes::Bytes;
use core::cell::Cell;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::io;
use std::rc::Rc;

/// How a request that a replica had begun to answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The response is complete.
    Complete,
    /// The connection to the replica broke.
    Broken,
    /// Nothing came from the replica for too long.
    Stalled,
}

/// Hears how a request ended. Dropped without a word: the client left.
pub(crate) trait Watch: Unpin {
    /// The request is over.
    fn finish(self, end: End);
}

/// What became of a request's body.
#[derive(Debug)]
pub(super) struct Progress {
    deadlines: Rc<Deadlines>,
    /// When a piece of it was last handed on, in ticks.
    moved_at: Cell<u64>,
    state: Cell<Upload>,
}

/// Whom a request's body waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upload {
    /// The replica, to take more; or nobody, because it is complete.
    Replica,
    /// The client, to send more.
    Client,
    /// Nobody: the client broke it off.
    Broken,
}

impl Progress {
    pub(super) fn moved_at(&self) -> u64 {
        self.moved_at.get()
    }

    pub(super) fn state(&self) -> Upload {
        self.state.get()
    }
}

/// A request's body on its way to a replica.
#[derive(Debug, Default)]
pub(crate) struct RequestBody {
    /// Absent: there is no body. In a box, because hyper keeps room for 32 requests for each connection to a replica.
    upload: Option<Box<(UploadSource, Rc<Progress>)>>,
}

/// Where a request's body comes from.
#[derive(Debug)]
enum UploadSource {
    Client(Incoming),
    /// From the client too, but it can be had again.
    Taped(TapeReader),
}

/// A claim to a request's body for another try.
#[derive(Debug)]
pub(super) struct BodyAgain(Rewind, Rc<Progress>);

impl BodyAgain {
    /// Whether all that was read of it is kept.
    pub(super) fn is_whole(&self) -> bool {
        self.0.is_whole()
    }

    /// `None` if the body was too large to be kept.
    pub(super) fn into_body(self) -> Option<RequestBody> {
        let Self(rewind, progress) = self;
        let reader = rewind.reader()?;
        progress.state.set(Upload::Replica);
        progress.moved_at.set(progress.deadlines.now());
        Some(RequestBody {
            upload: Some(Box::new((UploadSource::Taped(reader), progress))),
        })
    }
}

impl RequestBody {
    /// The body of a client's request; `deadlines` is the clock by which its progress is noted.
    pub(super) fn new(incoming: Incoming, deadlines: &Rc<Deadlines>) -> Self {
        if incoming.is_end_stream() {
            return Self::default();
        }
        let progress = Progress {
            deadlines: Rc::clone(deadlines),
            moved_at: Cell::new(deadlines.now()),
            state: Cell::new(Upload::Replica),
        };
        let source = UploadSource::Client(incoming);
        Self {
            upload: Some(Box::new((source, Rc::new(progress)))),
        }
    }

    /// From here on keeps up to `bytes_max` bytes of what is read, for another try. A body that is known to be larger
    /// is left alone. To be called before anything is read.
    pub(crate) fn keep(&mut self, bytes_max: usize) {
        let known_bytes = self.size_hint().lower();
        if known_bytes > bytes_max as u64 {
            return;
        }
        self.upload = self.upload.take().map(|upload| {
            let (source, progress) = *upload;
            let source = match source {
                UploadSource::Client(incoming) => {
                    UploadSource::Taped(TapeReader::new(incoming, bytes_max))
                }
                taped @ UploadSource::Taped(_) => taped,
            };
            Box::new((source, progress))
        });
    }

    /// For another try; `None` if the body is not kept.
    pub(super) fn again(&self) -> Option<BodyAgain> {
        match &**self.upload.as_ref()? {
            (UploadSource::Taped(reader), progress) => {
                Some(BodyAgain(reader.rewind(), Rc::clone(progress)))
            }
            (UploadSource::Client(_), _) => None,
        }
    }

    pub(super) fn progress(&self) -> Option<Rc<Progress>> {
        self.upload.as_ref().map(|upload| Rc::clone(&upload.1))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some((source, progress)) = self.upload.as_deref_mut() else {
            return Poll::Ready(None);
        };
        let polled = match source {
            UploadSource::Client(incoming) => Pin::new(incoming).poll_frame(cx),
            UploadSource::Taped(reader) => Pin::new(reader).poll_frame(cx),
        };
        progress.state.set(match &polled {
            Poll::Pending => Upload::Client,
            Poll::Ready(Some(Err(_))) => Upload::Broken,
            Poll::Ready(_) => {
                progress.moved_at.set(progress.deadlines.now());
                Upload::Replica
            }
        });
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.upload.as_ref().is_none_or(|upload| match &upload.0 {
            UploadSource::Client(incoming) => incoming.is_end_stream(),
            UploadSource::Taped(reader) => reader.is_end_stream(),
        })
    }

    fn size_hint(&self) -> SizeHint {
        let Some(upload) = &self.upload else {
            return SizeHint::with_exact(0);
        };
        match &upload.0 {
            UploadSource::Client(incoming) => incoming.size_hint(),
            UploadSource::Taped(reader) => reader.size_hint(),
        }
    }
}

/// A response's body on its way to a client.
#[derive(Debug)]
pub(crate) struct ResponseBody<W: Watch> {
    source: Source,
    /// There until the request is over; absent from the start in answers of our own.
    open: Option<Open<W>>,
    /// Keeps the client's connection busy.
    pub(super) busy: Option<Busy>,
}

#[derive(Debug)]
enum Source {
    Replica(Incoming),
    Own(Option<Bytes>),
}

/// What has to be settled when the response ends.
#[derive(Debug)]
struct Open<W> {
    connection: Held,
    /// Runs while the replica is waited for.
    deadline: Deadline,
    stall_ticks: u64,
    waiting: bool,
    watch: W,
}

impl<W: Watch> ResponseBody<W> {
    /// A text of our own, perhaps empty.
    pub(crate) fn own(text: Bytes) -> Self {
        Self {
            source: Source::Own((!text.is_empty()).then_some(text)),
            open: None,
            busy: None,
        }
    }

    /// A replica's body. One that has ended already is settled here.
    pub(super) fn forwarded(
        incoming: Incoming,
        connection: Held,
        deadline: Deadline,
        stall_ticks: u64,
        watch: W,
    ) -> Self {
        deadline.disarm();
        let mut body = Self {
            source: Source::Replica(incoming),
            open: Some(Open {
                connection,
                deadline,
                stall_ticks,
                waiting: false,
                watch,
            }),
            busy: None,
        };
        if body.is_end_stream() {
            body.settle(End::Complete);
        }
        body
    }

    /// Whoever is to hear how the body ends; `None` once that is settled.
    pub(crate) fn watch_mut(&mut self) -> Option<&mut W> {
        self.open.as_mut().map(|open| &mut open.watch)
    }

    fn settle(&mut self, end: End) {
        if let Some(open) = self.open.take() {
            if end == End::Complete {
                open.connection.give_back();
            }
            open.watch.finish(end);
        }
    }
}

impl<W> Open<W> {
    /// Whether the replica has been silent for too long while it was waited for.
    fn poll_stalled(&mut self, cx: &Context<'_>) -> Poll<()> {
        if !self.waiting {
            self.waiting = true;
            self.deadline.arm(self.stall_ticks);
        }
        self.deadline.poll_passed(cx)
    }

    fn moved(&mut self) {
        if self.waiting {
            self.waiting = false;
            self.deadline.disarm();
        }
    }
}

impl<W: Watch> Body for ResponseBody<W> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        let incoming = match &mut this.source {
            Source::Own(text) => return Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Source::Replica(incoming) => incoming,
        };
        let polled = Pin::new(&mut *incoming).poll_frame(cx);
        let Some(open) = &mut this.open else {
            return polled.map_err(io::Error::other);
        };
        if polled.is_pending() {
            ready!(open.poll_stalled(cx));
            this.settle(End::Stalled);
            let error = io::Error::new(io::ErrorKind::TimedOut, "the replica stalled");
            return Poll::Ready(Some(Err(error)));
        }
        open.moved();
        match &polled {
            Poll::Ready(Some(Err(_))) => this.settle(End::Broken),
            Poll::Ready(None) => this.settle(End::Complete),
            Poll::Ready(Some(Ok(_))) if incoming.is_end_stream() => this.settle(End::Complete),
            _ => (),
        }
        polled.map_err(io::Error::other)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Replica(incoming) => incoming.is_end_stream(),
            Source::Own(text) => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Replica(incoming) => incoming.size_hint(),
            Source::Own(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
        }
    }
}

impl<W: Watch> Drop for ResponseBody<W> {
    fn drop(&mut self) {
        if self.open.is_some() && self.is_end_stream() {
            self.settle(End::Complete);
        }
    }
}
