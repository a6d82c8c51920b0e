//! Bodies over HTTP/2, one stream's worth each: as they come in, and as they go out.
//!
//! What comes in may be followed by as much once it is handed on, so a reader that is slow holds no more than a window. What
//! goes out waits for room in the other side's window, one piece at a time.

use bytes::Bytes;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, header};
use http_body::{Body, Frame};
use std::io;

/// A last piece up to this size goes to the connection at once: nothing comes behind it that would have to wait.
const LAST_BYTES_MAX: usize = 4 << 10;

/// A body as it comes in.
#[derive(Debug)]
pub(super) struct Incoming {
    stream: RecvStream,
    /// Octets to come, if that is known.
    left: Option<u64>,
    is_data_done: bool,
}

impl Incoming {
    /// The body that follows a head with these fields, whose length `h2` has checked.
    pub(super) fn new(stream: RecvStream, headers: &HeaderMap) -> Self {
        let left = if stream.is_end_stream() {
            Some(0)
        } else {
            let said = headers.get(header::CONTENT_LENGTH);
            said.and_then(|length| length.to_str().ok()?.parse().ok())
        };
        Self {
            stream,
            left,
            is_data_done: false,
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    /// Octets to come, if that is known.
    pub(super) const fn left(&self) -> Option<u64> {
        self.left
    }

    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        while !self.is_data_done {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) if data.is_empty() => (),
                Some(Ok(data)) => {
                    // It fails for who gives back more than came.
                    let _ = self.stream.flow_control().release_capacity(data.len());
                    let length = data.len() as u64;
                    self.left = self.left.map(|left| left.saturating_sub(length));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(self.broken_off(error)),
                None => self.is_data_done = true,
            }
        }
        Poll::Ready(match ready!(self.stream.poll_trailers(cx)) {
            Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Err(error) => self.broken_off(error),
        })
    }

    /// `NO_ERROR` comes from who has said all and wants to hear no more; any other reset is no end. RFC 9113 §8.1
    fn broken_off(&self, error: h2::Error) -> Option<io::Result<Frame<Bytes>>> {
        let is_end = error.is_reset()
            && error.reason() == Some(Reason::NO_ERROR)
            && self.left.is_none_or(|left| left == 0);
        (!is_end).then(|| Err(io::Error::other(error)))
    }
}

/// Why a body was not sent to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    /// It broke off itself; the stream is to be reset.
    Body,
    /// The other side wants no more of it, or is gone.
    Refused,
}

/// A body on its way out.
#[derive(Debug)]
pub(super) struct Outgoing {
    stream: SendStream<Bytes>,
    /// It waits for room; and whether it is the last one.
    piece: Option<(Bytes, bool)>,
}

impl Outgoing {
    pub(super) const fn new(stream: SendStream<Bytes>) -> Self {
        Self {
            stream,
            piece: None,
        }
    }

    pub(super) fn reset(&mut self, reason: Reason) {
        self.stream.send_reset(reason);
    }

    /// Hands on as much of `body` as there is, and as there is room for; ready when that is all of it.
    pub(super) fn poll_send<B>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut B,
    ) -> Poll<Result<(), Unsent>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        // Also so that a reset is heard of while there is nothing to send.
        if self.stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Unsent::Refused));
        }
        loop {
            if let Some((piece, is_last)) = self.piece.take() {
                if self.poll_room(cx)?.is_pending() {
                    self.piece = Some((piece, is_last));
                    return Poll::Pending;
                }
                self.hand_on(piece, is_last)?;
                if is_last {
                    return Poll::Ready(Ok(()));
                }
            }
            let frame = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(_)) => return Poll::Ready(Err(Unsent::Body)),
                None => {
                    self.hand_on(Bytes::new(), true)?;
                    return Poll::Ready(Ok(()));
                }
            };
            match frame.into_data() {
                Ok(data) => {
                    let is_last = body.is_end_stream();
                    if is_last && data.len() <= LAST_BYTES_MAX {
                        self.hand_on(data, true)?;
                        return Poll::Ready(Ok(()));
                    }
                    if !data.is_empty() {
                        // The rest is asked for when the piece is handed on. Without a piece in hand, room that is
                        // taken would be missed by other streams.
                        self.stream.reserve_capacity(1);
                        self.piece = Some((data, is_last));
                    }
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        let sent = self.stream.send_trailers(trailers);
                        return Poll::Ready(sent.map_err(|_| Unsent::Refused));
                    }
                }
            }
        }
    }

    /// Ready when the window has some room.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Unsent> {
        while self.stream.capacity() == 0 {
            match self.stream.poll_capacity(cx) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Some(Ok(_))) => (),
                Poll::Ready(Some(Err(_)) | None) => return Err(Unsent::Refused),
            }
        }
        Ok(Poll::Ready(()))
    }

    fn hand_on(&mut self, piece: Bytes, is_last: bool) -> Result<(), Unsent> {
        let sent = self.stream.send_data(piece, is_last);
        sent.map_err(|_| Unsent::Refused)
    }
}
