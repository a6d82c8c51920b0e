//! A request body on its way to a replica, from either protocol.

use super::replay_buffer::{ReplayHandle, ReplayReader};
use crate::forward::head::hygiene;
use crate::forward::session::{Session, Upload};
use crate::forward::time::Deadlines;
use crate::forward::wire::{Budget, Incoming};
use bytes::{Bytes, BytesMut};
use core::cell::Cell;
use core::pin::Pin;
use core::task::{Context, Poll};
use http::{HeaderValue, StatusCode};
use http_body::{Body, Frame, SizeHint};
use slackwater_http::Fields;
use std::io;
use std::rc::Rc;
use tokio::sync::oneshot;

/// Progress of a request body.
#[derive(Debug)]
pub(crate) struct Progress {
    deadlines: Rc<Deadlines>,
    /// When a piece was last handed on, in ticks.
    moved_at: Cell<u64>,
    bytes: Cell<u64>,
    state: Cell<BodyState>,
}

/// State of a request body: what it waits for, or why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyState {
    /// It waits for the replica to take more, or is complete.
    AwaitsReplica,
    /// It waits for the client to send more.
    AwaitsClient,
    /// The client broke it off.
    Broken,
    /// It is larger than allowed.
    TooLarge,
}

impl Progress {
    fn new(deadlines: &Rc<Deadlines>) -> Rc<Self> {
        Rc::new(Self {
            deadlines: Rc::clone(deadlines),
            moved_at: Cell::new(deadlines.now()),
            bytes: Cell::new(0),
            state: Cell::new(BodyState::AwaitsReplica),
        })
    }

    pub(crate) fn moved_at(&self) -> u64 {
        self.moved_at.get()
    }

    /// Number of bytes handed on in this attempt.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    pub(crate) fn state(&self) -> BodyState {
        self.state.get()
    }
}

/// A request body on its way to a replica.
#[derive(Debug, Default)]
pub struct RequestBody {
    source: BodySource,
    /// A piece that was taken but not sent.
    ahead: Bytes,
    /// `None` if there was no body from the start.
    progress: Option<Rc<Progress>>,
    limit: Limit,
    /// A copy for another receiver, made while the body is read.
    copy: Option<Box<Copying>>,
    /// The client's memory budget for the response.
    budget: Option<Rc<Budget>>,
}

/// A copy of a body that is being read.
#[derive(Debug)]
struct Copying {
    /// It has its own buffer: a piece may be a small part of a large buffer, which it would keep
    /// allocated.
    bytes: BytesMut,
    /// Maximum size of the copy.
    bytes_max: usize,
    to: oneshot::Sender<Bytes>,
}

impl Copying {
    /// Appends a piece. Returns `false` if the copy would become too large.
    fn add(&mut self, piece: &[u8]) -> bool {
        let fits = self.bytes_max - self.bytes.len() >= piece.len();
        if fits {
            self.bytes.extend_from_slice(piece);
        }
        fits
    }

    fn send(self) {
        // The receiver may be gone.
        let _ = self.to.send(self.bytes.freeze());
    }
}

/// Receives a copy of a body: its bytes once the body is complete, or an error if it never is or is
/// too large.
pub(crate) type BodyCopy = oneshot::Receiver<Bytes>;

/// Size limit of a body.
#[derive(Clone, Copy, Debug, Default)]
struct Limit {
    /// `None` for no limit.
    bytes_max: Option<u64>,
    read: u64,
}

#[derive(Debug, Default)]
enum BodySource {
    #[default]
    Absent,
    Client(ClientBody),
    /// A client's body that can be read again.
    Replayable(ReplayReader<ClientBody>),
    /// A copy.
    Own(Bytes),
}

/// A body as a client sends it.
#[derive(Debug)]
enum ClientBody {
    Http1(Upload),
    Http2(Incoming),
}

/// The right to send a request's body again, in another attempt.
#[derive(Debug)]
pub(crate) struct ReplayableBody(ReplayHandle<ClientBody>, Option<Rc<Progress>>, Limit);

impl ReplayableBody {
    /// Whether everything that was read is kept, and the body did not break off.
    pub(crate) fn is_whole(&self) -> bool {
        let state = self.1.as_ref().map(|progress| progress.state());
        !matches!(state, Some(BodyState::Broken | BodyState::TooLarge)) && self.0.is_whole()
    }

    /// Returns the body from its start. `None` if it was too large to keep or to accept, or if the
    /// client broke it off.
    pub(crate) fn into_body(self) -> Option<RequestBody> {
        if !self.is_whole() {
            return None;
        }
        let Self(handle, progress, limit) = self;
        let reader = handle.reader()?;
        if let Some(progress) = &progress {
            progress.state.set(BodyState::AwaitsReplica);
            progress.bytes.set(0);
            progress.moved_at.set(progress.deadlines.now());
        }
        Some(RequestBody {
            source: BodySource::Replayable(reader),
            progress,
            limit: Limit { read: 0, ..limit },
            ..RequestBody::default()
        })
    }
}

/// The body for further copies of a request.
#[derive(Debug)]
pub(super) struct BodyTemplate(TemplateSource);

#[derive(Debug)]
enum TemplateSource {
    Known(Bytes),
    Kept(ReplayHandle<ClientBody>),
}

impl BodyTemplate {
    /// Returns the whole body. `None` if it is incomplete, was too large to keep, or has trailers.
    pub(crate) fn bytes(&self) -> Option<Bytes> {
        match &self.0 {
            TemplateSource::Known(bytes) => Some(bytes.clone()),
            TemplateSource::Kept(handle) => handle.whole(),
        }
    }
}

impl RequestBody {
    /// Makes the body of an HTTP/2 request, which also sends interim responses to its client.
    pub(crate) fn http2(incoming: Incoming, session: &Session) -> Self {
        Self::of_client(ClientBody::Http2(incoming), session)
    }

    /// Makes the body of an HTTP/1.1 request, which also sends interim responses to its client.
    pub(crate) fn http1(upload: Upload, session: &Session) -> Self {
        Self::of_client(ClientBody::Http1(upload), session)
    }

    fn of_client(body: ClientBody, session: &Session) -> Self {
        let deadlines = &session.clients.deadlines;
        let progress = (!body.is_end_stream()).then(|| Progress::new(deadlines));
        Self {
            source: BodySource::Client(body),
            progress,
            budget: Some(Rc::clone(&session.budget)),
            ..Self::default()
        }
    }

    /// Takes the body, and leaves an empty one with the same budget.
    pub(crate) fn take(&mut self) -> Self {
        let empty = Self::default().with_budget(self.budget.clone());
        core::mem::replace(self, empty)
    }

    /// The budget from which the response may get a larger window; `None` if there is none.
    pub(crate) const fn budget(&self) -> Option<&Rc<Budget>> {
        self.budget.as_ref()
    }

    /// Sets the budget from which the response may get a larger window.
    pub(crate) fn with_budget(self, budget: Option<Rc<Budget>>) -> Self {
        Self { budget, ..self }
    }

    /// From now on, keeps up to `bytes_max` bytes of what is read, for another attempt. A body that
    /// is known to be larger is not kept. Must be called before anything is read.
    pub(crate) fn keep(&mut self, bytes_max: usize) {
        if self.is_end_stream() || self.size_hint().lower() > bytes_max as u64 {
            return;
        }
        self.source = match core::mem::take(&mut self.source) {
            BodySource::Client(body) => BodySource::Replayable(ReplayReader::new(body, bytes_max)),
            other => other,
        };
    }

    /// Limits the body to `bytes_max` bytes. Returns `false` if it is already known to be larger. A
    /// body that exceeds the limit later ends with an error.
    pub(crate) fn limit(&mut self, bytes_max: u64) -> bool {
        self.limit.bytes_max = Some(bytes_max);
        self.size_hint().lower() <= bytes_max
    }

    /// Makes a body of these bytes.
    pub(crate) fn own(bytes: Bytes) -> Self {
        Self {
            source: BodySource::Own(bytes),
            ..Self::default()
        }
    }

    /// From now on, copies what is read, up to `bytes_max` bytes. Returns `None` if the body is
    /// known to be larger. Must be called before anything is read.
    pub(crate) fn copy(&mut self, bytes_max: usize) -> Option<BodyCopy> {
        if self.size_hint().lower() > bytes_max as u64 {
            return None;
        }
        let (to, copy) = oneshot::channel();
        let copying = Copying {
            bytes: BytesMut::new(),
            bytes_max,
            to,
        };
        if self.is_end_stream() {
            copying.send();
        } else {
            self.copy = Some(Box::new(copying));
        }
        Some(copy)
    }

    fn copy_of(&mut self, polled: &Poll<Option<Result<Frame<Bytes>, io::Error>>>) {
        let Some(mut copying) = self.copy.take() else {
            return;
        };
        let is_complete = match polled {
            Poll::Pending => false,
            // The receiver of the copy gets an error.
            Poll::Ready(Some(Err(_))) => return,
            Poll::Ready(Some(Ok(frame))) => {
                let data = frame.data_ref();
                if data.is_some_and(|data| !copying.add(data)) {
                    return;
                }
                self.is_end_stream()
            }
            Poll::Ready(None) => true,
        };
        if is_complete {
            copying.send();
        } else {
            self.copy = Some(copying);
        }
    }

    /// Whether the body was larger than allowed.
    pub(crate) fn is_too_large(&self) -> bool {
        let progress = self.progress.as_ref();
        progress.is_some_and(|progress| progress.state() == BodyState::TooLarge)
    }

    /// Returns the body for another attempt; `None` if it is not kept.
    pub(crate) fn replay(&self) -> Option<ReplayableBody> {
        match &self.source {
            BodySource::Replayable(reader) => Some(ReplayableBody(
                reader.handle(),
                self.progress.clone(),
                self.limit,
            )),
            BodySource::Absent | BodySource::Client(_) | BodySource::Own(_) => None,
        }
    }

    /// Returns a template for a second copy beside this one; `None` if the body is not kept, or may
    /// become a tunnel.
    pub(super) fn template(&self) -> Option<BodyTemplate> {
        let source = match &self.source {
            BodySource::Absent => TemplateSource::Known(Bytes::new()),
            BodySource::Own(bytes) => TemplateSource::Known(bytes.clone()),
            BodySource::Replayable(reader) => TemplateSource::Kept(reader.handle()),
            BodySource::Client(body) if body.is_end_stream() && self.upgrade().is_none() => {
                TemplateSource::Known(Bytes::new())
            }
            BodySource::Client(_) => return None,
        };
        Some(BodyTemplate(source))
    }

    /// The progress of the body; `None` if there is no body.
    pub(crate) fn progress(&self) -> Option<Rc<Progress>> {
        self.progress.clone()
    }

    /// The protocol to which the client's connection may switch, if the client requested one and it
    /// is allowed.
    pub(crate) fn upgrade(&self) -> Option<HeaderValue> {
        // Such a request has no body, so none is kept.
        match &self.source {
            BodySource::Client(ClientBody::Http1(upload)) => upload.upgrade(),
            _ => None,
        }
    }

    /// Forwards an interim response to the client.
    pub(crate) fn send_interim(&self, status: StatusCode, headers: &Fields) {
        match &self.source {
            BodySource::Absent | BodySource::Own(_) => (),
            BodySource::Client(body) => body.send_interim(status, headers),
            BodySource::Replayable(reader) => {
                reader.with_source(|body| body.send_interim(status, headers));
            }
        }
    }

    /// Puts back a piece that was not sent, so that it is read next.
    pub(crate) fn put_back(&mut self, piece: Bytes) {
        self.ahead = piece;
    }
}

impl Limit {
    fn is_passed_by(&mut self, frame: &Frame<Bytes>) -> bool {
        let length = frame.data_ref().map_or(0, Bytes::len);
        self.read = self.read.saturating_add(length as u64);
        self.bytes_max
            .is_some_and(|bytes_max| self.read > bytes_max)
    }
}

impl ClientBody {
    fn send_interim(&self, status: StatusCode, headers: &Fields) {
        match self {
            Self::Http1(upload) => upload.send_interim(status, headers),
            Self::Http2(incoming) => incoming.send_interim(status, headers),
        }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Self::Http1(upload) => upload.poll_frame(cx),
            Self::Http2(incoming) => incoming.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(upload) => upload.is_end_stream(),
            Self::Http2(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let left = match self {
            Self::Http1(upload) => upload.left(),
            Self::Http2(incoming) => incoming.left(),
        };
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
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
        let mut polled = match &mut this.source {
            BodySource::Absent => return Poll::Ready(None),
            BodySource::Own(bytes) => {
                let bytes = core::mem::take(bytes);
                return Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))));
            }
            BodySource::Client(body) => Pin::new(body).poll_frame(cx),
            // The progress is that of the attempt which has taken over.
            BodySource::Replayable(reader) if reader.is_superseded() => return Poll::Pending,
            BodySource::Replayable(reader) => Pin::new(reader).poll_frame(cx),
        };
        if let Poll::Ready(Some(Ok(frame))) = &mut polled
            && let Some(trailers) = frame.trailers_mut()
        {
            hygiene::prepare_trailers(trailers);
        }
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && this.limit.is_passed_by(frame)
        {
            if let Some(progress) = &this.progress {
                progress.state.set(BodyState::TooLarge);
            }
            let error = io::Error::new(io::ErrorKind::FileTooLarge, "the body is too large");
            return Poll::Ready(Some(Err(error)));
        }
        if let Some(progress) = &this.progress {
            progress.state.set(match &polled {
                Poll::Pending => BodyState::AwaitsClient,
                Poll::Ready(Some(Err(_))) => BodyState::Broken,
                Poll::Ready(frame) => {
                    progress.moved_at.set(progress.deadlines.now());
                    let frame = frame.as_ref().and_then(|frame| frame.as_ref().ok());
                    let data = frame.and_then(Frame::data_ref);
                    let bytes = data.map_or(0, |data| data.len() as u64);
                    progress.bytes.set(progress.bytes.get() + bytes);
                    BodyState::AwaitsReplica
                }
            });
        }
        if this.copy.is_some() {
            this.copy_of(&polled);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_empty()
            && match &self.source {
                BodySource::Absent => true,
                BodySource::Own(bytes) => bytes.is_empty(),
                BodySource::Client(body) => body.is_end_stream(),
                BodySource::Replayable(reader) => reader.is_end_stream(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let rest = match &self.source {
            BodySource::Absent => SizeHint::with_exact(0),
            BodySource::Own(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodySource::Client(body) => body.size_hint(),
            BodySource::Replayable(reader) => reader.size_hint(),
        };
        let ahead = self.ahead.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + ahead);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + ahead);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::session::{ClientSettings, Clients, Inbound, RequestFraming};
    use crate::forward::wire::{Memory, Stream};
    use core::task::Waker;
    use core::time::Duration;
    use http::Version;
    use slackwater_config::{Limits, Timeouts};
    use slackwater_http::http1::{BodyLength, HeadLimits};
    use tokio::net::UnixStream;

    #[tokio::test]
    async fn an_attempt_that_was_given_up_does_not_change_the_progress_of_the_next() {
        let (stream, _client) = UnixStream::pair().expect("sockets");
        let settings = ClientSettings::new(&Timeouts::default(), &Limits::default(), &[]);
        let deadlines = Deadlines::new(Duration::from_secs(1));
        let clients = Clients::new(&settings, &deadlines, &Memory::of_worker(1));
        let session = Rc::new(Session::new(&clients));
        let inbound = Inbound::new(Stream::Unix(stream), "half".into(), &session);
        let framing = RequestFraming {
            body: BodyLength::Known(8),
            expects_continue: false,
            upgrade: None,
            version: Version::HTTP_11,
        };
        let limits = HeadLimits {
            bytes_max: 1,
            fields_max: 1,
        };
        let mut first = RequestBody::http1(inbound.begin(framing, limits), &session);
        first.keep(8);
        let replay = first.replay().expect("it is kept");
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll = |body: &mut RequestBody| Pin::new(body).poll_frame(&mut cx).is_ready();
        assert!(poll(&mut first) && !poll(&mut first));
        let mut next = replay.into_body().expect("all of it is kept");
        assert!(poll(&mut next));
        let progress = next.progress().expect("it has a body");
        assert_eq!(progress.state(), BodyState::AwaitsReplica);
        // Its response is still drained.
        assert!(!poll(&mut first));
        assert_eq!(progress.state(), BodyState::AwaitsReplica);
        assert_eq!(progress.bytes(), 4);
    }

    fn copying(bytes_max: usize) -> (Copying, BodyCopy) {
        let (to, copy) = oneshot::channel();
        let copying = Copying {
            bytes: BytesMut::new(),
            bytes_max,
            to,
        };
        (copying, copy)
    }

    #[test]
    fn what_a_taken_body_leaves_has_its_budget() {
        let budget = Memory::of_worker(1).of_client();
        let mut body = RequestBody::own(Bytes::from_static(b"abc")).with_budget(Some(budget));
        let taken = body.take();
        assert!(body.is_end_stream() && taken.size_hint().exact() == Some(3));
        let budgets = taken.budget().zip(body.budget());
        assert!(budgets.is_some_and(|(taken, left)| Rc::ptr_eq(taken, left)));
    }

    #[test]
    fn copy_of_a_body_is_bounded() {
        let (mut fits, mut copy) = copying(6);
        assert!(fits.add(b"abc") && fits.add(b"") && fits.add(b"def"));
        fits.send();
        assert_eq!(copy.try_recv(), Ok(Bytes::from_static(b"abcdef")));
        let (mut full, _copy) = copying(5);
        assert!(full.add(b"abc") && !full.add(b"def"));
    }

    #[test]
    fn copy_of_a_body_does_not_retain_the_read_buffers() {
        const PIECES: usize = 4096;
        let (mut copying, _copy) = copying(PIECES);
        for _ in 0..PIECES {
            let read = Bytes::from(vec![1; 64 << 10]);
            let piece = read.slice(..1);
            drop(read);
            assert!(copying.add(&piece));
            assert!(piece.is_unique(), "it is held");
        }
        assert!(copying.bytes.capacity() <= 2 * PIECES);
    }
}
