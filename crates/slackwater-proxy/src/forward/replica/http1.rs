//! An HTTP/1.1 connection to a replica, and one exchange on it.
//!
//! It has no task of its own: the task that waits for the response drives both directions. A
//! response may arrive before the request is fully sent; the rest of the request is then sent while
//! the response is read.

use crate::forward::counts::{ReplicaEnd, ReplicaEnds};
use crate::forward::head::hygiene;
use crate::forward::request::RequestBody;
use crate::forward::wire::buffers;
use crate::forward::wire::turn::{self, ROUNDS_MAX};
use crate::forward::wire::{
    BodySender, Fill, Loan, Out, SendError, Stream, WINDOW_FIRST_BYTES, beyond_first,
};
use bytes::{Bytes, BytesMut};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use http::{HeaderValue, Method, StatusCode, header};
use http_body::{Body, Frame};
use slackwater_http::Request;
use slackwater_http::http1::{
    BadKind, BodyDecoder, Decoded, Framing, HeadLimits, ResponseHead, encode_request, end_of_head,
    is_head_so_far, new_part, parse_response,
};
use slackwater_http::interim_count::InterimCount;
use slackwater_http::proxy_protocol::Ends;
use std::io;
use std::sync::Arc;
use tokio::io::AsyncWrite;

/// A connection with its unprocessed input and its pending output. Boxed, because it is large and
/// moved often.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    pub(crate) unread: Bytes,
    pub(crate) out: Out,
    /// The response's loan from its client's memory budget. Without a loan, reads are smaller.
    loan: Loan,
    /// The only client that may use the connection, if its PROXY header names one.
    pub(crate) client: Option<Arc<Ends>>,
    /// The reason to count if the connection ends now.
    pub(crate) end: ReplicaEnd,
    ends: Arc<ReplicaEnds>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.ends.add_one(self.end);
    }
}

/// Why there is no response.
#[derive(Debug)]
pub(crate) enum NoResponse {
    /// The connection ended. If no byte of the request was written, the request is whole again.
    Closed {
        wrote: bool,
        read: bool,
        error: Option<io::Error>,
    },
    /// The input is not HTTP/1.1.
    Bad(&'static str),
    /// The response head is larger than allowed.
    HeadTooLarge,
    /// The transfer coding is unknown.
    Coding,
    /// The client broke off the request, or its body does not have the declared length.
    Client,
}

impl fmt::Display for NoResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed {
                error: Some(error), ..
            } => write!(f, "the connection failed: {error}"),
            Self::Closed { read: true, .. } => f.write_str("the connection ended within a head"),
            Self::Closed { .. } => f.write_str("the connection ended before a response"),
            Self::Bad(reason) => write!(f, "not a response: {reason}"),
            Self::HeadTooLarge => f.write_str("the head is too large"),
            Self::Coding => f.write_str("an unknown transfer coding"),
            Self::Client => f.write_str("the request broke off"),
        }
    }
}

impl core::error::Error for NoResponse {}

impl Connection {
    /// Makes a connection from an open stream, for `client` only if there is one.
    pub(crate) fn new(stream: Stream, client: Option<Arc<Ends>>, ends: &Arc<ReplicaEnds>) -> Self {
        Self {
            stream,
            unread: Bytes::new(),
            out: Out::default(),
            loan: Loan::of(None),
            client,
            end: ReplicaEnd::default(),
            ends: Arc::clone(ends),
        }
    }

    /// Whether this idle connection can take another request. Unexpected data or the end of the
    /// stream rules that out. No system call is made unless the runtime has an event for the
    /// socket.
    pub(super) fn is_usable(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.unread.is_empty()
            && self.out.is_empty()
            && (!self.stream.may_be_readable(&mut cx)
                || buffers::poll_read(&mut self.stream, &mut cx).is_pending())
    }

    /// Closes the connection for this reason.
    pub(crate) fn close(mut self, end: ReplicaEnd) {
        self.end = end;
    }

    /// Sets whether the replica sees an orderly end or a reset when the connection ends.
    pub(crate) fn end_in_order(&self, in_order: bool) {
        self.stream.end_in_order(in_order);
    }

    /// Ends the connection in order. TLS needs a close alert, without which the end would look like
    /// a truncation; the write is not awaited.
    pub(crate) fn shut(&mut self, cx: &mut Context<'_>) {
        let _ = Pin::new(&mut self.stream).poll_shutdown(cx);
    }

    /// Appends more input; `false` if the replica has ended the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if !self.loan.is_lent() {
            self.loan.raise(beyond_first(0));
        }
        let bytes_max = if self.loan.is_lent() {
            buffers::READ_BYTES
        } else {
            WINDOW_FIRST_BYTES as usize
        };
        let read = buffers::poll_read_some(&mut self.stream, cx, bytes_max);
        let more = ready!(read)?;
        if more.is_empty() {
            return Poll::Ready(Ok(false));
        }
        if self.unread.is_empty() {
            self.unread = more;
        } else {
            let mut joined = BytesMut::from(core::mem::take(&mut self.unread));
            joined.extend_from_slice(&more);
            self.unread = joined.freeze();
        }
        Poll::Ready(Ok(true))
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.out.poll_flush(&mut self.stream, cx)
    }
}

/// A request that is being sent, until the response head arrives.
#[derive(Debug)]
pub(crate) struct Sending {
    upload: Option<BodySender>,
    limits: HeadLimits,
    method: Method,
    /// Octets of `unread` that were already searched for the end of a head.
    searched: usize,
    /// Whether a byte was written.
    wrote: bool,
    /// Whether a byte was read.
    read: bool,
    interim: InterimCount,
    /// The first piece of the body, until something is written.
    first: Bytes,
    write_error: Option<io::Error>,
}

impl Sending {
    /// Encodes the head of a request for sending.
    pub(crate) fn new(
        connection: &mut Connection,
        request: &Request<RequestBody>,
        upgrade: Option<&HeaderValue>,
        limits: HeadLimits,
    ) -> Self {
        let framing = framing(request);
        connection.loan = Loan::of(request.body().budget().cloned());
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        encode_request(
            connection.out.text(),
            method,
            uri,
            headers,
            framing,
            upgrade,
        );
        Self {
            upload: Some(BodySender::new(framing)),
            limits,
            method: request.method().clone(),
            searched: 0,
            wrote: false,
            read: false,
            interim: InterimCount::default(),
            first: Bytes::new(),
            write_error: None,
        }
    }

    /// Returns the rest of the request, to be sent while the response is read.
    pub(crate) fn into_upload(self) -> Option<BodySender> {
        self.upload
    }

    /// Sends, and waits for the head of the final response.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        body: &mut RequestBody,
    ) -> Poll<Result<ResponseHead, NoResponse>> {
        if self.write_error.is_none() {
            self.send(cx, connection, body)?;
        }
        loop {
            let mut head = ready!(self.poll_head(cx, connection))?;
            if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
                if !self.interim.add_one() {
                    return Poll::Ready(Err(NoResponse::Bad("too many interim responses")));
                }
                hygiene::prepare_interim(&mut head.headers);
                body.send_interim(head.status, &head.headers);
                buffers::take_headers_back(head.headers);
                continue;
            }
            return Poll::Ready(Ok(head));
        }
    }

    /// Writes as much as possible. If the replica stops reading, its response may still arrive.
    fn send(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        body: &mut RequestBody,
    ) -> Result<(), NoResponse> {
        for _ in 0..ROUNDS_MAX {
            let Some(upload) = &mut self.upload else {
                return Ok(());
            };
            let filled = if self.wrote {
                upload.fill(cx, body, &mut connection.out)
            } else {
                self.fill_first(cx, connection, body)
            };
            let fill = filled.map_err(|_| NoResponse::Client)?;
            let flushed = connection.poll_flush(cx);
            if connection.out.take_moved() {
                self.wrote = true;
                self.first = Bytes::new();
            }
            match flushed {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) => {
                    self.write_error = Some(error);
                    return Ok(());
                }
                Poll::Ready(Ok(())) if fill == Fill::Done => self.upload = None,
                Poll::Ready(Ok(())) if fill == Fill::Waiting => return Ok(()),
                Poll::Ready(Ok(())) => (),
            }
        }
        turn::end(cx);
        Ok(())
    }

    /// Only one piece is sent with the head, so that it can be put back if not even the head could
    /// be written.
    fn fill_first(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        body: &mut RequestBody,
    ) -> Result<Fill, SendError<io::Error>> {
        let Some(upload) = &mut self.upload else {
            return Ok(Fill::Done);
        };
        if !self.first.is_empty() {
            return Ok(Fill::Full);
        }
        let mut watched = Watched {
            body,
            first: &mut self.first,
        };
        let fill = upload.take_one(cx, &mut watched, &mut connection.out)?;
        Ok(fill.unwrap_or(Fill::Full))
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
    ) -> Poll<Result<ResponseHead, NoResponse>> {
        loop {
            if connection.unread.len() > self.searched
                && let Some(head) = self.look(&mut connection.unread)
            {
                return Poll::Ready(head);
            }
            match ready!(connection.poll_read(cx)) {
                Ok(true) => self.read = true,
                Ok(false) => return Poll::Ready(Err(self.closed(None))),
                Err(error) => return Poll::Ready(Err(self.closed(Some(error)))),
            }
        }
    }

    /// Looks for a head in what was read; `None` if it is not complete.
    fn look(&mut self, unread: &mut Bytes) -> Option<Result<ResponseHead, NoResponse>> {
        if let Some(end) = end_of_head(unread, self.searched) {
            self.searched = 0;
            if end > self.limits.bytes_max {
                return Some(Err(NoResponse::HeadTooLarge));
            }
            let head = unread.split_to(end);
            let room = buffers::lend_headers();
            let head = parse_response(&head, &self.method, self.limits, room);
            return Some(head.map_err(|bad| match bad.kind {
                BadKind::Coding => NoResponse::Coding,
                BadKind::HeadTooLarge => NoResponse::HeadTooLarge,
                _ => NoResponse::Bad(bad.reason),
            }));
        }
        if unread.len() > self.limits.bytes_max {
            return Some(Err(NoResponse::HeadTooLarge));
        }
        // Data that cannot be a head is rejected immediately, not only when the limit is reached.
        if !is_head_so_far(new_part(unread, self.searched)) {
            return Some(Err(NoResponse::Bad("not a head")));
        }
        self.searched = unread.len();
        None
    }

    fn closed(&mut self, error: Option<io::Error>) -> NoResponse {
        NoResponse::Closed {
            wrote: self.wrote,
            read: self.read,
            error: self.write_error.take().or(error),
        }
    }

    /// Takes the piece that was taken from the body but not sent, if nothing was written.
    pub(crate) fn take_first(&mut self) -> Bytes {
        core::mem::take(&mut self.first)
    }
}

/// Chooses the framing of a request: its length if known, otherwise chunks.
fn framing(request: &Request<RequestBody>) -> Framing {
    let said = request.headers().get(header::CONTENT_LENGTH);
    let said = said.and_then(|length| length.to_str().ok()?.parse().ok());
    match said {
        Some(length) => Framing::Known(length),
        None => match request.body().size_hint().exact() {
            Some(0) => Framing::Absent,
            Some(length) => Framing::Known(length),
            None => Framing::Chunked,
        },
    }
}

/// A request body that keeps a copy of its first piece.
struct Watched<'a> {
    body: &'a mut RequestBody,
    first: &'a mut Bytes,
}

impl Body for Watched<'_> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let polled = Pin::new(&mut *self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            *self.first = data.clone();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// A response body that is being received, and the rest of its request.
#[derive(Debug)]
pub(crate) struct Download {
    pub(crate) connection: Box<Connection>,
    decoder: BodyDecoder,
    /// Whether the connection, and with it the body, has ended.
    has_ended: bool,
    /// Whether the connection may be used again afterwards.
    pub(crate) keep_alive: bool,
    /// Boxed, because it is seldom there: most requests are sent before their response begins.
    upload: Option<Box<(BodySender, RequestBody)>>,
    /// Whether this is a tunnel for another protocol instead of a body.
    pub(crate) is_tunnel: bool,
}

impl Download {
    pub(crate) fn new(
        connection: Box<Connection>,
        head: &ResponseHead,
        limits: HeadLimits,
        upload: Option<Box<(BodySender, RequestBody)>>,
    ) -> Self {
        Self {
            connection,
            decoder: BodyDecoder::new(head.body, limits),
            has_ended: false,
            keep_alive: head.keep_alive,
            upload,
            is_tunnel: head.is_tunnel,
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        !self.is_tunnel && (self.has_ended || self.decoder.is_done())
    }

    /// Remaining octets, if known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.decoder.left()
    }

    /// Returns the connection if it can take another request: both sides of the exchange must be
    /// complete.
    pub(crate) fn into_reusable(self) -> Option<Box<Connection>> {
        let Self {
            mut connection,
            keep_alive,
            upload,
            ..
        } = self;
        connection.end = ReplicaEnd::Answered;
        connection.loan = Loan::of(None);
        let is_done = connection.unread.is_empty() && connection.out.is_empty();
        (keep_alive && upload.is_none() && is_done).then_some(connection)
    }

    /// Continues to send the request. A failure to send all of it does not affect the response.
    pub(crate) fn poll_upload(&mut self, cx: &mut Context<'_>) {
        for _ in 0..ROUNDS_MAX {
            let Some(upload) = &mut self.upload else {
                return;
            };
            let (sender, body) = &mut **upload;
            let filled = sender.fill(cx, body, &mut self.connection.out);
            let flushed = self
                .connection
                .out
                .poll_flush(&mut self.connection.stream, cx);
            match (filled, flushed) {
                (Ok(_), Poll::Pending) | (Ok(Fill::Waiting), Poll::Ready(Ok(()))) => return,
                (Ok(Fill::Full), Poll::Ready(Ok(()))) => (),
                (Ok(Fill::Done), Poll::Ready(Ok(()))) => self.upload = None,
                (Err(_), _) | (_, Poll::Ready(Err(_))) => {
                    self.upload = None;
                    self.keep_alive = false;
                }
            }
        }
        turn::end(cx);
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.poll_upload(cx);
        loop {
            if self.has_ended {
                return Poll::Ready(None);
            }
            let decoded = self.decoder.decode(&mut self.connection.unread);
            let decoded = match decoded {
                Ok(decoded) => decoded,
                Err(bad) => {
                    let error = io::Error::new(io::ErrorKind::InvalidData, bad);
                    return Poll::Ready(Some(Err(error)));
                }
            };
            return Poll::Ready(match decoded {
                Decoded::Data(data) => Some(Ok(Frame::data(data))),
                Decoded::Trailers(trailers) => Some(Ok(Frame::trailers(trailers))),
                Decoded::End => None,
                Decoded::Starved => match ready!(self.connection.poll_read(cx)) {
                    Ok(true) => continue,
                    Ok(false) if self.decoder.may_end() => {
                        self.has_ended = true;
                        None
                    }
                    Ok(false) => Some(Err(io::ErrorKind::UnexpectedEof.into())),
                    Err(error) => Some(Err(error)),
                },
            });
        }
    }
}
