//! A client's HTTP/2 connection: all its requests at once, in one task.
//!
//! The task of the connection runs those of its streams, too, each when it is woken, and only then writes: what many
//! streams have to say leaves together. When the connection ends, all that runs for it is dropped with it. RFC 9113

use super::body::ResponseBody;
use super::client::{Clients, Handler};
use super::date;
use super::http2_body::{Incoming, Outgoing, Unsent};
use super::inbound::Inbound;
use super::noted_stream::{NotedStream, Notes};
use super::origin::Origin;
use super::request_body::{RequestBody, Wait};
use super::session::{Busy, Session};
use bytes::Bytes;
use core::cell::Cell;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use futures_util::stream::{FuturesUnordered, StreamExt};
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderValue, Method, Request, Response, header};
use http_body::Body;
use std::rc::Rc;

/// What a client may send on one stream, and on a connection, before a replica took it.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// What may wait in a connection for a stream's window, before the stream has to wait itself.
const SEND_BUFFER_BYTES: usize = 400 << 10;

/// Streams that we reset because of what the client sent on them, at most; then the connection ends. (CVE-2025-8671)
const FAULTY_STREAMS_MAX: usize = 1024;

/// How clients' connections are set up.
pub(super) fn builder(streams_max: u32, head_bytes_max: u32) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(streams_max)
        .max_header_list_size(head_bytes_max)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_local_error_reset_streams(Some(FAULTY_STREAMS_MAX));
    builder
}

/// Serves a connection to its end.
pub(super) async fn serve<H: Handler>(
    clients: &Rc<Clients>,
    inbound: Rc<Inbound>,
    origin: Rc<Origin>,
    handler: Rc<H>,
) {
    let Some((session, stream, unread)) = Rc::into_inner(inbound).map(Inbound::into_parts) else {
        return;
    };
    session.begin_http2();
    let io = NotedStream {
        stream,
        unread,
        notes: Rc::clone(&session),
    };
    let handshake = pin!(clients.http2.handshake(io));
    let Some(Ok(mut connection)) = session.carry(handshake, |_| ()).await else {
        return;
    };
    let served = Served {
        session: Rc::clone(&session),
        origin,
        handler,
    };
    let wants_end = Cell::new(false);
    let mut streams = FuturesUnordered::new();
    let serving = poll_fn(|cx| {
        if wants_end.take() {
            connection.graceful_shutdown();
        }
        loop {
            match connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, reply)))) => {
                    // In a box, because it is large and moved around on its way into the set.
                    streams.push(Box::pin(served.clone().answer(request, reply)));
                }
                // What a client did wrong it was told; that it left is its own affair.
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        // Whatever a stream says wakes this task, and is written when its turn comes: together with what else is said
        // until then.
        while let Poll::Ready(Some(())) = streams.poll_next_unpin(cx) {}
        Poll::Pending
    });
    session.carry(pin!(serving), |_| wants_end.set(true)).await;
}

/// What all requests of a connection need.
struct Served<H> {
    session: Rc<Session>,
    origin: Rc<Origin>,
    handler: Rc<H>,
}

impl<H> Clone for Served<H> {
    fn clone(&self) -> Self {
        Self {
            session: Rc::clone(&self.session),
            origin: Rc::clone(&self.origin),
            handler: Rc::clone(&self.handler),
        }
    }
}

impl<H: Handler> Served<H> {
    /// One request and its response.
    async fn answer(self, request: Request<RecvStream>, mut reply: SendResponse<Bytes>) {
        let is_head = *request.method() == Method::HEAD;
        let Some(response) = self.respond(request, &mut reply).await else {
            return;
        };
        let (mut head, mut body) = response.into_parts();
        let mut is_end = body.is_end_stream();
        if !is_end && !head.headers.contains_key(header::CONTENT_LENGTH) {
            if let Some(length) = body.size_hint().exact() {
                head.headers
                    .insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            }
            // An answer of our own to a HEAD: its length is told, and nothing else of it.
            is_end = is_head && body.own_length().is_some();
        }
        if !head.headers.contains_key(header::DATE) {
            let date = date::with_now(HeaderValue::from_bytes);
            head.headers
                .extend(date.ok().map(|date| (header::DATE, date)));
        }
        // It fails for fields that HTTP/2 has no place for, and when the client has gone.
        let Ok(stream) = reply.send_response(Response::from_parts(head, ()), is_end) else {
            reply.send_reset(Reason::INTERNAL_ERROR);
            return;
        };
        if is_end {
            return;
        }
        let mut outgoing = Outgoing::new(stream);
        let sent = poll_fn(|cx| {
            let sent = outgoing.poll_send(cx, &mut body);
            if let Some(busy) = &body.busy {
                busy.await_replica(body.awaits_replica());
            }
            if sent.is_pending() && body.poll_untaken(cx).is_ready() {
                return Poll::Ready(Err(Unsent::Body));
            }
            sent
        });
        if let Err(Unsent::Body) = sent.await {
            outgoing.reset(Reason::INTERNAL_ERROR);
        }
    }

    /// The response to a request; `None` if the client has taken it back.
    async fn respond(
        &self,
        request: Request<RecvStream>,
        reply: &mut SendResponse<Bytes>,
    ) -> Option<Response<ResponseBody<H::Watch>>> {
        let busy = Busy::new(&self.session);
        let unanswered = self.session.resets.begin();
        let clients = &self.session.clients;
        let (mut head, stream) = request.into_parts();
        clients.tell_certificate(&mut head.headers, &self.origin);
        let incoming = Incoming::new(stream, &head.headers);
        let body = RequestBody::http2(incoming, &clients.deadlines);
        let progress = body.progress();
        let request = Box::new(Request::from_parts(head, body));
        let mut handling = pin!(self.handler.handle(request, &self.origin));
        let mut response = poll_fn(|cx| {
            if let Poll::Ready(response) = handling.as_mut().poll(cx) {
                return Poll::Ready(Some(response));
            }
            reply.poll_reset(cx).map(|_| None)
        })
        .await?;
        // What we say to a client that broke off its own request is no answer that it waited for.
        if !progress.is_some_and(|progress| progress.state() == Wait::Broken) {
            unanswered.answered();
        }
        response.body_mut().busy = Some(busy);
        Some(response)
    }
}

impl Notes for Rc<Session> {
    fn received(&self) {
        Session::received(self);
    }

    fn written(&self) {
        self.moved();
    }
}
