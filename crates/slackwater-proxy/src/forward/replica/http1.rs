//! A connection to a replica that speaks HTTP/1.1, and one exchange on it.
//!
//! No task of its own: whoever waits for the response drives both directions. A response may come
//! before the request is sent; then the rest of the request goes on while the response is read.

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
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body::{Body, Frame};
use slackwater_http::http1::{
    BadKind, BodyDecoder, Decoded, Framing, HeadLimits, ResponseHead, encode_request, end_of_head,
    is_head_so_far, new_part, parse_response,
};
use slackwater_http::interim_count::InterimCount;
use slackwater_http::proxy_protocol::Ends;
use std::io;
use std::sync::Arc;
use tokio::io::AsyncWrite;

/// A connection, with what came in and was not used yet, and what is to go out. In a box, for it is
/// large and handed on often.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    pub(crate) unread: Bytes,
    pub(crate) out: Out,
    /// What the response may have of its client's budget: without any, less is read at once.
    loan: Loan,
    /// Whose it is alone, where its PROXY header says so.
    pub(crate) client: Option<Arc<Ends>>,
    /// Why it ends, if it does now.
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
    /// The connection ended. If not a byte of the request was written, the request is whole again.
    Closed {
        wrote: bool,
        read: bool,
        error: Option<io::Error>,
    },
    /// What came is not HTTP/1.1.
    Bad(&'static str),
    /// Its head is larger than is allowed.
    HeadTooLarge,
    /// A transfer coding that is not known.
    Coding,
    /// The client broke the request off, or it is not as long as it says.
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
    pub(crate) fn new(stream: Stream, ends: &Arc<ReplicaEnds>) -> Self {
        Self {
            stream,
            unread: Bytes::new(),
            out: Out::default(),
            loan: Loan::of(None),
            client: None,
            end: ReplicaEnd::default(),
            ends: Arc::clone(ends),
        }
    }

    /// Whether nothing speaks against another request on this idle connection. Anything that came
    /// unasked does, as the end does. No system call is made unless the runtime knows of something.
    pub(super) fn is_usable(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.unread.is_empty()
            && self.out.is_empty()
            && buffers::poll_read(&mut self.stream, &mut cx).is_pending()
    }

    /// Closes it, for this reason.
    pub(crate) fn close(mut self, end: ReplicaEnd) {
        self.end = end;
    }

    /// Whether the replica hears of an end, or of a failure, when it ends.
    pub(crate) fn end_in_order(&self, in_order: bool) {
        self.stream.end_in_order(in_order);
    }

    /// Ends it in order. TLS has a word for that, without which it would look cut off; it is not
    /// waited for.
    pub(crate) fn shut(&mut self, cx: &mut Context<'_>) {
        let _ = Pin::new(&mut self.stream).poll_shutdown(cx);
    }

    /// Reads behind what has been read; `false` if the replica has ended.
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

/// A request on its way, until the head of its response is there.
#[derive(Debug)]
pub(crate) struct Sending {
    upload: Option<BodySender>,
    limits: HeadLimits,
    method: Method,
    /// Octets of `unread` that were searched for a head's end.
    searched: usize,
    /// A byte was written.
    wrote: bool,
    /// A byte was read.
    read: bool,
    interim: InterimCount,
    /// The first piece of the body, while nothing was written.
    first: Bytes,
    write_error: Option<io::Error>,
}

impl Sending {
    /// Puts the head of a request on its way.
    pub(crate) fn new(
        connection: &mut Connection,
        request: &Request<RequestBody>,
        upgrade: Option<&HeaderValue>,
        limits: HeadLimits,
    ) -> Self {
        let framing = framing(request);
        connection.loan = Loan::of(request.body().budget().cloned());
        encode_request(connection.out.text(), request, framing, upgrade);
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

    /// What is left of the request to send beside the response.
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

    /// Writes as much as goes. If the replica takes no more, its response may still be there.
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

    /// One piece only goes with the head, so that it can be put back if not even the head could be
    /// written.
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
            let unread = &mut connection.unread;
            if let Some(end) = end_of_head(unread, self.searched) {
                self.searched = 0;
                if end > self.limits.bytes_max {
                    return Poll::Ready(Err(NoResponse::HeadTooLarge));
                }
                let head = unread.split_to(end);
                let room = buffers::lend_headers();
                return Poll::Ready(
                    parse_response(&head, &self.method, self.limits, room).map_err(|bad| match bad
                        .kind
                    {
                        BadKind::Coding => NoResponse::Coding,
                        BadKind::HeadTooLarge => NoResponse::HeadTooLarge,
                        _ => NoResponse::Bad(bad.reason),
                    }),
                );
            }
            if unread.len() > self.limits.bytes_max {
                return Poll::Ready(Err(NoResponse::HeadTooLarge));
            }
            if !is_head_so_far(new_part(unread, self.searched)) {
                return Poll::Ready(Err(NoResponse::Bad("not a head")));
            }
            self.searched = unread.len();
            match ready!(connection.poll_read(cx)) {
                Ok(true) => self.read = true,
                Ok(false) => return Poll::Ready(Err(self.closed(None))),
                Err(error) => return Poll::Ready(Err(self.closed(Some(error)))),
            }
        }
    }

    fn closed(&mut self, error: Option<io::Error>) -> NoResponse {
        NoResponse::Closed {
            wrote: self.wrote,
            read: self.read,
            error: self.write_error.take().or(error),
        }
    }

    /// The piece that was taken in vain, if nothing was written.
    pub(crate) fn take_first(&mut self) -> Bytes {
        core::mem::take(&mut self.first)
    }
}

/// How a request is framed: by its length where that is known, else in chunks.
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

/// A request's body whose first piece is noted.
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

/// A response's body on its way in, and what is left of its request on its way out.
#[derive(Debug)]
pub(crate) struct Download {
    pub(crate) connection: Box<Connection>,
    decoder: BodyDecoder,
    /// The connection has ended, and with it the body.
    has_ended: bool,
    /// The connection may be used again after this.
    pub(crate) keep_alive: bool,
    upload: Option<(BodySender, RequestBody)>,
    /// It is no body but another protocol.
    pub(crate) is_tunnel: bool,
}

impl Download {
    pub(crate) fn new(
        connection: Box<Connection>,
        head: &ResponseHead,
        limits: HeadLimits,
        upload: Option<(BodySender, RequestBody)>,
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

    /// Octets to come, if that is known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.decoder.left()
    }

    /// The connection, if it is fit for another request: both sides of the exchange are complete.
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

    /// Goes on sending the request. That it can't be sent to its end leaves the response as it is.
    pub(crate) fn poll_upload(&mut self, cx: &mut Context<'_>) {
        for _ in 0..ROUNDS_MAX {
            let Some((sender, body)) = &mut self.upload else {
                return;
            };
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
