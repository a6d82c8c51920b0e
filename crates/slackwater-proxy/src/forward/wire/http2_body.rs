//! The two owners of an HTTP/2 stream, its reader and its writer, with incoming and outgoing
//! bodies.
//!
//! The window grows again as data is handed on, so a slow reader holds at most one window of data.
//! Outgoing data waits for window, one piece at a time.

use super::http2_wire::SharedConnection;
use super::turn::{self, FRAMES_MAX};
use bytes::Bytes;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame};
use slackwater_http::Fields;
use slackwater_http::http2::{Key, Lost, Piece, Reason, ResponseHead};
use std::io;
use std::rc::Rc;

/// Reader of a stream. Once it is dropped, no more data of the stream is needed.
#[derive(Debug)]
pub(crate) struct StreamReader {
    connection: SharedConnection,
    key: Key,
}

/// Writer of a stream. If reader and writer are dropped before the stream has ended both ways, it
/// is reset.
#[derive(Debug)]
pub(crate) struct StreamWriter {
    connection: SharedConnection,
    key: Key,
}

/// Makes both owners of a stream.
pub(crate) fn owners(connection: &SharedConnection, key: Key) -> (StreamReader, StreamWriter) {
    let reader = StreamReader {
        connection: Rc::clone(connection),
        key,
    };
    let writer = StreamWriter {
        connection: Rc::clone(connection),
        key,
    };
    (reader, writer)
}

impl StreamReader {
    pub(crate) fn poll_response(&self, cx: &Context<'_>) -> Poll<Result<ResponseHead, Lost>> {
        self.connection.borrow_mut().poll_response(self.key, cx)
    }

    /// Widens the stream's receive window by this many octets.
    pub(crate) fn widen(&self, octets: u32) {
        self.connection.borrow_mut().widen(self.key, octets);
    }

    /// Returns the next interim response.
    pub(crate) fn next_interim(&self) -> Option<ResponseHead> {
        self.connection.borrow_mut().next_interim(self.key)
    }

    fn is_read(&self) -> bool {
        self.connection.borrow().is_read(self.key)
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let waker = self.connection.borrow_mut().leave_reading(self.key);
        drop(waker);
    }
}

impl StreamWriter {
    pub(crate) fn respond(
        &self,
        status: StatusCode,
        headers: &Fields,
        is_end: bool,
    ) -> Result<(), Lost> {
        let mut connection = self.connection.borrow_mut();
        connection.respond(self.key, status, headers, is_end)
    }

    pub(crate) fn reset(&self, reason: Reason) {
        self.connection.borrow_mut().reset(self.key, reason);
    }

    /// Ready when the stream is lost.
    pub(crate) fn poll_lost(&self, cx: &Context<'_>) -> Poll<Lost> {
        self.connection.borrow_mut().poll_lost(self.key, cx)
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        let waker = self.connection.borrow_mut().leave_writing(self.key);
        drop(waker);
    }
}

/// An incoming body.
#[derive(Debug)]
pub(crate) struct Incoming {
    reader: StreamReader,
    /// Remaining octets, if known.
    left: Option<u64>,
    /// Whether the sender waits for 100.
    expects_continue: bool,
}

impl Incoming {
    /// Makes the body after a head that declares this length. The connection checks the actual
    /// length.
    pub(crate) fn new(reader: StreamReader, length: Option<u64>) -> Self {
        let left = if reader.is_read() { Some(0) } else { length };
        Self {
            reader,
            left,
            expects_continue: false,
        }
    }

    /// Sends 100 to the client when the body is first read, unless data has arrived already. RFC
    /// 9110 §10.1.1
    pub(crate) const fn expect_continue(&mut self) {
        self.expects_continue = true;
    }

    /// Sends an interim response. 100 is not forwarded: the client receives it when the body is
    /// first read.
    pub(crate) fn send_interim(&self, status: StatusCode, headers: &Fields) {
        if status != StatusCode::CONTINUE {
            let mut connection = self.reader.connection.borrow_mut();
            connection.send_interim(self.reader.key, status, headers);
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.reader.is_read()
    }

    /// Widens the stream's receive window by this many octets.
    pub(crate) fn widen(&self, octets: u32) {
        self.reader.widen(octets);
    }

    /// Remaining octets, if known.
    pub(crate) const fn left(&self) -> Option<u64> {
        self.left
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut connection = self.reader.connection.borrow_mut();
        let polled = connection.poll_piece(self.reader.key, cx);
        if core::mem::take(&mut self.expects_continue) && polled.is_pending() {
            connection.send_interim(self.reader.key, StatusCode::CONTINUE, &Fields::new());
        }
        let piece = ready!(polled);
        Poll::Ready(match piece {
            Some(Ok(Piece::Data(data))) => {
                let length = data.len() as u64;
                self.left = self.left.map(|left| left.saturating_sub(length));
                Some(Ok(Frame::data(data)))
            }
            Some(Ok(Piece::Trailers(trailers))) => Some(Ok(Frame::trailers(trailers))),
            // Only END_STREAM ends a message, even if all declared octets have arrived. `NO_ERROR`
            // means that the peer needs no more of the other direction, and must follow a complete
            // message. RFC 9113 §8.1
            Some(Err(lost)) => Some(Err(io::Error::other(lost))),
            None => None,
        })
    }
}

/// Why a body was not fully sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// The body itself broke off; the stream must be reset.
    Body,
    /// The other side accepts no more of it, or is gone.
    Refused,
    /// The other side has taken nothing of it for too long; the stream must be reset.
    Untaken,
}

/// An outgoing body.
#[derive(Debug)]
pub(crate) struct Outgoing {
    writer: StreamWriter,
    next: PendingFrame,
    /// Octets of data sent so far.
    sent: u64,
}

/// The frame that waits for window.
#[derive(Debug)]
enum PendingFrame {
    Nothing,
    /// Data, and whether it is the last.
    Data(Bytes, bool),
    Trailers(Box<HeaderMap>),
}

impl Outgoing {
    pub(crate) const fn new(writer: StreamWriter) -> Self {
        Self {
            writer,
            next: PendingFrame::Nothing,
            sent: 0,
        }
    }

    /// Octets of data sent so far.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether a frame waits for window on the other side.
    pub(crate) const fn is_waiting(&self) -> bool {
        !matches!(self.next, PendingFrame::Nothing)
    }

    pub(crate) fn reset(&self, reason: Reason) {
        self.writer.reset(reason);
    }

    /// Sends as much of `body` as is available and fits into the window; ready when all of it is
    /// sent.
    pub(crate) fn poll_send<B>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut B,
    ) -> Poll<Result<(), Unsent>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        // This also registers for a reset while there is nothing to send.
        if self.writer.poll_lost(cx).is_ready() {
            return Poll::Ready(Err(Unsent::Refused));
        }
        for _ in 0..FRAMES_MAX {
            let is_over = ready!(self.poll_next(cx)).map_err(|_| Unsent::Refused)?;
            if is_over {
                return Poll::Ready(Ok(()));
            }
            let frame = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(_)) => return Poll::Ready(Err(Unsent::Body)),
                None => {
                    self.next = PendingFrame::Data(Bytes::new(), true);
                    continue;
                }
            };
            match frame.into_data() {
                Ok(data) => self.next = PendingFrame::Data(data, body.is_end_stream()),
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        self.next = PendingFrame::Trailers(Box::new(trailers));
                    }
                }
            }
        }
        turn::end(cx);
        Poll::Pending
    }

    /// Sends the frame that waits. Ready when it is sent, with `true` if it was the last.
    fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Result<bool, Lost>> {
        let (connection, key) = (&self.writer.connection, self.writer.key);
        let is_last = match &mut self.next {
            PendingFrame::Nothing => return Poll::Ready(Ok(false)),
            PendingFrame::Data(data, is_last) => {
                let mut connection = connection.borrow_mut();
                let length = data.len();
                let polled = connection.poll_send(key, data, *is_last, cx);
                self.sent += (length - data.len()) as u64;
                ready!(polled)?;
                *is_last
            }
            PendingFrame::Trailers(trailers) => {
                connection.borrow_mut().send_trailers(key, trailers)?;
                true
            }
        };
        self.next = PendingFrame::Nothing;
        Poll::Ready(Ok(is_last))
    }
}
