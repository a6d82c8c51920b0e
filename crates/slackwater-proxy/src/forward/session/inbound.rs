//! A client's HTTP/1.1 connection, shared by its task and the body of its request.
//!
//! The connection has one task, and the exchange with the replica runs within it. Usually the same
//! task reads the body. Any other reader wakes this task when the body is complete.

use super::Session;
use crate::forward::time::Deadline;
use crate::forward::wire::buffers;
use crate::forward::wire::turn::{self, ROUNDS_MAX};
use crate::forward::wire::{Out, Stream};
use bytes::{Bytes, BytesMut};
use core::cell::{Cell, RefCell};
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use http::{HeaderValue, StatusCode, Version};
use http_body::Frame;
use slackwater_http::Fields;
use slackwater_http::http1::{
    BodyDecoder, BodyLength, CONTINUE, Decoded, Framing, HeadLimits, ResponseExtras,
    encode_response,
};
use std::io;
use std::rc::Rc;

/// Interval of the check whether a client is still connected while its body is not read.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// A connection, and the data that was read from it.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) session: Rc<Session>,
    pub(crate) stream: RefCell<Stream>,
    pub(crate) unread: RefCell<Bytes>,
    body: RefCell<BodyDecoder>,
    /// Number of the request. A body that outlives its request reads no data of another.
    turn: Cell<u64>,
    /// Whether the body of this request is still held.
    is_held: Cell<bool>,
    /// Whether the client waits for 100 before it sends the body.
    expects_continue: Cell<bool>,
    /// Whether interim responses may be sent.
    is_waiting: Cell<bool>,
    /// Whether the client broke off within the body, or sent an invalid one.
    is_broken: Cell<bool>,
    interim: RefCell<Out>,
    /// Protocol to which the client may switch.
    upgrade: RefCell<Option<HeaderValue>>,
    /// Waker of the connection's task.
    waker: RefCell<Option<Waker>>,
    /// Deadline of the next check whether the client is still connected; armed while its body is
    /// not read.
    look: RefCell<Option<Deadline>>,
}

/// Properties of a request that its head declares.
#[derive(Debug)]
pub(crate) struct RequestFraming {
    pub(crate) body: BodyLength,
    pub(crate) expects_continue: bool,
    pub(crate) upgrade: Option<HeaderValue>,
    pub(crate) version: Version,
}

impl Inbound {
    pub(crate) fn new(stream: Stream, unread: Bytes, session: &Rc<Session>) -> Rc<Self> {
        Rc::new(Self {
            session: Rc::clone(session),
            stream: RefCell::new(stream),
            unread: RefCell::new(unread),
            body: RefCell::new(BodyDecoder::Known(0)),
            turn: Cell::new(0),
            is_held: Cell::new(false),
            expects_continue: Cell::new(false),
            is_waiting: Cell::new(false),
            is_broken: Cell::new(false),
            interim: RefCell::default(),
            upgrade: RefCell::default(),
            waker: RefCell::default(),
            look: RefCell::default(),
        })
    }

    /// Returns the session, the stream, and the data that was read from it, for another protocol.
    pub(crate) fn into_parts(self) -> (Rc<Session>, Stream, Bytes) {
        (
            self.session,
            self.stream.into_inner(),
            self.unread.into_inner(),
        )
    }

    /// Starts a request. The holder of the [`Upload`] reads its body.
    pub(crate) fn begin(self: &Rc<Self>, turn: RequestFraming, limits: HeadLimits) -> Upload {
        self.turn.set(self.turn.get() + 1);
        *self.body.borrow_mut() = BodyDecoder::new(turn.body, limits);
        self.is_held.set(true);
        self.expects_continue.set(turn.expects_continue);
        self.is_waiting.set(turn.version == Version::HTTP_11);
        *self.upgrade.borrow_mut() = turn.upgrade;
        self.session.moved();
        if let Some(look) = &*self.look.borrow() {
            look.arm(self.session.clients.deadlines.ticks(LOOK_INTERVAL));
        }
        Upload {
            inbound: Rc::clone(self),
            turn: self.turn.get(),
        }
    }

    /// Starts the final response, after which no interim response may be sent. Returns interim
    /// output that must be written before it.
    pub(crate) fn begin_response(&self) -> Out {
        self.is_waiting.set(false);
        self.expects_continue.set(false);
        self.interim.take()
    }

    /// Whether the whole body was received and decoded.
    pub(crate) fn is_body_done(&self) -> bool {
        self.body.borrow().is_done()
    }

    /// Whether the body is incomplete and no longer held, so that its rest will not be read.
    pub(crate) fn is_body_left(&self) -> bool {
        !self.is_held.get() && !self.is_body_done()
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// The protocol to which the client may switch.
    pub(crate) fn upgrade(&self) -> Option<HeaderValue> {
        self.upgrade.borrow().clone()
    }

    /// Discards the available data of a body that is no longer held.
    pub(crate) fn skip_body(&self) {
        let mut unread = self.unread.borrow_mut();
        let mut body = self.body.borrow_mut();
        loop {
            match body.decode(&mut unread) {
                Ok(Decoded::Data(_) | Decoded::Trailers(_)) => (),
                Ok(Decoded::Starved | Decoded::End) => return,
                Err(_) => return self.is_broken.set(true),
            }
        }
    }

    /// Discards incoming data of a body that is no longer held. A client that sends the whole body
    /// before it reads would otherwise wait indefinitely for room, and the response for the client.
    /// Ready when the client has left.
    pub(crate) fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS_MAX {
            if !self.is_body_left() || self.is_broken() {
                return Poll::Pending;
            }
            self.skip_body();
            // The body is incomplete, so no data is left.
            if self.is_body_done() {
                return Poll::Pending;
            }
            match ready!(self.poll_read(cx)) {
                Ok(read) if !read.is_empty() => *self.unread.borrow_mut() = read,
                _ => return Poll::Ready(()),
            }
        }
        turn::end(cx);
        Poll::Pending
    }

    /// Reads once. The result is empty if the client has ended the stream.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let read = buffers::poll_read(&mut *self.stream.borrow_mut(), cx);
        if read.is_ready() {
            self.session.in_head();
        }
        read
    }

    /// Appends more input; `false` if the client has ended the stream.
    pub(crate) fn poll_read_more(&self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let more = ready!(self.poll_read(cx))?;
        if more.is_empty() {
            return Poll::Ready(Ok(false));
        }
        let mut unread = self.unread.borrow_mut();
        if unread.is_empty() {
            *unread = more;
        } else {
            let mut joined = BytesMut::from(core::mem::take(&mut *unread));
            joined.extend_from_slice(&more);
            *unread = joined.freeze();
        }
        Poll::Ready(Ok(true))
    }

    /// Writes `out`.
    pub(crate) fn poll_flush(&self, out: &mut Out, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = out.poll_flush(&mut self.stream.borrow_mut(), cx);
        if out.take_moved() {
            self.session.moved();
        }
        flushed
    }

    /// Serves the client while its response is pending: sends interim responses, and detects that
    /// it leaves. Ready when it has left.
    pub(crate) fn poll_left(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.interim.borrow().is_empty()
            && let Poll::Ready(Err(_)) = self.poll_flush(&mut self.interim.borrow_mut(), cx)
        {
            return Poll::Ready(());
        }
        if !self.is_body_done() {
            let mut waker = self.waker.borrow_mut();
            match &mut *waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
        } else if self.unread.borrow().is_empty() {
            // Further data belongs to the next request. Once some has arrived, the rest stays in
            // the socket.
            match ready!(self.poll_read_more(cx)) {
                Ok(true) => (),
                Ok(false) | Err(_) => return Poll::Ready(()),
            }
        }
        self.poll_hung_up(cx)
    }

    /// Detects a client that has left while the socket is not read: the end of the stream is behind
    /// unread data, so reading cannot detect it. Until the request is given up, the replica counts
    /// it as in flight.
    fn poll_hung_up(&self, cx: &Context<'_>) -> Poll<()> {
        let deadlines = &self.session.clients.deadlines;
        let ticks = deadlines.ticks(LOOK_INTERVAL);
        let mut look = self.look.borrow_mut();
        let look = look.get_or_insert_with(|| {
            let look = deadlines.add();
            look.arm(ticks);
            look
        });
        while look.poll_passed(cx).is_ready() {
            look.arm(ticks);
            if self.session.still_for() >= ticks && self.stream.borrow().has_hung_up() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Wakes the connection's task, unless it is the task that runs now.
    fn wake(&self, cx: &Context<'_>) {
        let waker = self.waker.take();
        if let Some(waker) = waker.filter(|waker| !waker.will_wake(cx.waker())) {
            waker.wake();
        }
    }

    fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            let decoded = self.body.borrow_mut().decode(&mut self.unread.borrow_mut());
            match decoded {
                Ok(Decoded::End) => {
                    self.wake(cx);
                    return Poll::Ready(None);
                }
                Ok(Decoded::Data(data)) => {
                    if self.is_body_done() {
                        self.wake(cx);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(Decoded::Trailers(trailers)) => {
                    self.wake(cx);
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Ok(Decoded::Starved) => {
                    self.send_continue(cx);
                    match ready!(self.poll_read(cx)) {
                        Ok(read) if !read.is_empty() => {
                            self.session.moved();
                            *self.unread.borrow_mut() = read;
                        }
                        Ok(_) => return self.broken(cx, io::ErrorKind::UnexpectedEof.into()),
                        Err(error) => return self.broken(cx, error),
                    }
                }
                Err(bad) => {
                    return self.broken(cx, io::Error::new(io::ErrorKind::InvalidData, bad));
                }
            }
        }
    }

    fn broken<T>(&self, cx: &Context<'_>, error: io::Error) -> Poll<Option<io::Result<T>>> {
        self.is_broken.set(true);
        self.wake(cx);
        Poll::Ready(Some(Err(error)))
    }

    /// Sends 100 to a client that waits for it, because the body is read now. RFC 9110 §10.1.1
    fn send_continue(&self, cx: &mut Context<'_>) {
        if !self.expects_continue.replace(false) {
            return;
        }
        let mut interim = self.interim.borrow_mut();
        interim.text().extend_from_slice(CONTINUE);
        // An error appears again when the body is read.
        if self.poll_flush(&mut interim, cx).is_pending() {
            drop(interim);
            self.wake(cx);
        }
    }

    /// Sends an interim response. 100 is not forwarded: the client received it when its body was
    /// first read, before a replica can send it.
    fn send_interim(&self, status: StatusCode, headers: &Fields) {
        let mut interim = self.interim.borrow_mut();
        if status == StatusCode::CONTINUE || !self.is_waiting.get() || interim.is_full() {
            return;
        }
        let extras = ResponseExtras::default();
        encode_response(
            interim.text(),
            Version::HTTP_11,
            status,
            headers,
            Framing::Absent,
            extras,
        );
    }
}

/// The body of one request, and what else its exchange needs from the client's connection.
#[derive(Debug)]
pub(crate) struct Upload {
    inbound: Rc<Inbound>,
    turn: u64,
}

impl Upload {
    fn is_current(&self) -> bool {
        self.inbound.turn.get() == self.turn
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !self.is_current() {
            return Poll::Ready(None);
        }
        self.inbound.poll_frame(cx)
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        !self.is_current() || self.inbound.is_body_done()
    }

    /// Remaining octets, if known.
    pub(crate) fn left(&self) -> Option<u64> {
        if !self.is_current() {
            return Some(0);
        }
        self.inbound.body.borrow().left()
    }

    /// The protocol to which the client may switch.
    pub(crate) fn upgrade(&self) -> Option<HeaderValue> {
        self.inbound.upgrade()
    }

    /// Forwards an interim response.
    pub(crate) fn send_interim(&self, status: StatusCode, headers: &Fields) {
        if self.is_current() {
            self.inbound.send_interim(status, headers);
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_current() {
            self.inbound.is_held.set(false);
            let waker = self.inbound.waker.take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}
