//! A client's HTTP/2 connection: all its requests run concurrently in one task.
//!
//! The connection's task also polls the streams that were woken, and writes only afterwards, so
//! that the output of many streams is sent together. When the connection ends, everything that runs
//! for it is dropped. RFC 9113

use super::date;
use super::runners::Runners;
use super::{Handler, Requests};
use crate::forward::counts::ClientEnd;
use crate::forward::head::{Cut, Origin};
use crate::forward::request::{BodyState, RequestBody};
use crate::forward::response::Answer;
use crate::forward::session::{
    CONNECTION_LOAN_BYTES, CONNECTION_WINDOW_BYTES, Clients, Inbound, LINGER, Phase,
    RequestInFlight, STREAM_WINDOW_LARGE_BYTES, Session,
};
use crate::forward::time::Deadline;
use crate::forward::wire::{
    Incoming, Loan, Outgoing, StreamReader, StreamWriter, Unsent, Wire, owners,
};
use crate::forward::wire::{buffers, turn};
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, ready};
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::{HeaderValue, Method, Version, header};
use http_body::Body;
use slackwater_http::http2::{Connection, Ended, Reason, RequestHead};
use slackwater_http::{Request, Value};
use slackwater_tower::wire::carried::LOAD;
use std::rc::Rc;

/// Maximum number of streams that one turn polls. A client may start hundreds at once, each of
/// which opens a connection to a replica.
const STREAMS_A_TURN: usize = 16;

/// Serves a connection to its end.
pub(crate) async fn serve<H: Handler>(
    clients: &Rc<Clients>,
    inbound: Rc<Inbound>,
    origin: Rc<Origin>,
    requests: Rc<Requests<H>>,
) {
    let Some((session, stream, unread)) = Rc::into_inner(inbound).map(Inbound::into_parts) else {
        return;
    };
    session.begin_http2();
    let connection = Rc::new(RefCell::new(Connection::new(clients.http2)));
    let mut wire = Wire::new(stream, unread, (), &connection);
    let mut carried = 0;
    let mut loan = Loan::of(Some(Rc::clone(&clients.memory.uploads)));
    let wants_end = Cell::new(false);
    let mut has_left = false;
    let polls_left = Rc::new(Cell::new(0));
    let mut streams = no_streams(&polls_left);
    let serving = poll_fn(|cx| {
        polls_left.set(STREAMS_A_TURN);
        if wants_end.take() {
            connection.borrow_mut().announce_leaving();
        }
        let polled = wire.poll(cx, |cx| {
            loop {
                let next = connection.borrow_mut().next_request();
                let Some((key, head)) = next else {
                    break;
                };
                let (reader, writer) = owners(&connection, key);
                streams.push(InTurn {
                    stream: Some(requests.http2.run(Job {
                        session: Rc::clone(&session),
                        origin: Rc::clone(&origin),
                        head,
                        reader,
                        writer,
                    })),
                    polls_left: Rc::clone(&polls_left),
                });
            }
            // The output of all streams is written together, after each has had its turn.
            while let Poll::Ready(Some(())) = streams.poll_next_unpin(cx) {}
            if connection.borrow().ended().is_some() {
                streams.clear();
            }
        });
        let mut connection = connection.borrow_mut();
        // A client that has not answered the PING by now does not delay the shutdown. But first
        // everything that has arrived is read: the last GOAWAY names the last request that is
        // served.
        if !has_left && !wire.has_more() && session.phase() >= Phase::Draining {
            has_left = true;
            connection.leave_now();
            session.leave();
        }
        // Octets of messages, in either direction, are progress for the stall timeout.
        if core::mem::replace(&mut carried, connection.carried()) < connection.carried() {
            session.moved();
        }
        // Replicas have taken a whole window of uploads, so a larger one does not just fill memory.
        if connection.taken() >= u64::from(CONNECTION_WINDOW_BYTES)
            && let Some(more) = loan.raise(CONNECTION_LOAN_BYTES)
        {
            connection.widen_all(more, STREAM_WINDOW_LARGE_BYTES);
        }
        polled
    });
    let served = session.carry(pin!(serving), |_| wants_end.set(true)).await;
    match connection.borrow().ended() {
        Some(Ended::Closed | Ended::GoneAway(_)) => session.ended_by(ClientEnd::Client),
        Some(Ended::Failed(_)) => session.ended_by(ClientEnd::Failed),
        Some(Ended::ByUs(_)) => session.ended_by(ClientEnd::Protocol),
        // The proxy ended the connection, and the reason is recorded already.
        None => (),
    }
    // Unless the client has left, it may still read the last output, and send: an immediate close
    // would reset the connection, and what it has not read would be lost.
    let is_ours = matches!(connection.borrow().ended(), None | Some(Ended::ByUs(_)));
    if served.is_some() && is_ours {
        let (deadline, linger) = (clients.deadlines.add(), clients.deadlines.ticks(LINGER));
        deadline.arm(linger);
        let lingering = poll_fn(|cx| {
            while let Poll::Ready(has_sent) = wire.poll_discard(cx) {
                if !has_sent {
                    return Poll::Ready(());
                }
                // A client that reads slowly sends updates of its windows. The drain has a timeout.
                if session.phase() >= Phase::Draining {
                    deadline.arm(linger);
                    session.moved();
                }
            }
            deadline.poll_passed(cx)
        });
        session.carry(pin!(lingering), |_| ()).await;
    }
}

/// A set for streams. Once it has polled as many as it holds it wakes its task, which would poll
/// the connection in vain. So it holds one more, which never ends and is polled only once.
fn no_streams<F: Future + Unpin>(polls_left: &Rc<Cell<usize>>) -> FuturesUnordered<InTurn<F>> {
    let streams = FuturesUnordered::new();
    streams.push(InTurn {
        stream: None,
        polls_left: Rc::clone(polls_left),
    });
    streams
}

/// A stream's work, deferred to the connection's next turn once this turn has polled enough
/// streams.
struct InTurn<F> {
    /// `None` never ends.
    stream: Option<F>,
    polls_left: Rc<Cell<usize>>,
}

impl<F: Future + Unpin> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(left) = self.polls_left.get().checked_sub(1) else {
            turn::end(cx);
            return Poll::Pending;
        };
        self.polls_left.set(left);
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll(cx),
            None => Poll::Pending,
        }
    }
}

/// Detects a client that has taken nothing of a response that is ready for it. Progress on other
/// streams does not count: each stream holds a replica.
struct Untaken<'s> {
    session: &'s Session,
    /// When it has taken too long; armed while data waits for the client.
    deadline: Option<Deadline>,
    /// Octets sent when the deadline was armed.
    sent: Option<u64>,
}

impl<'s> Untaken<'s> {
    const fn new(session: &'s Session) -> Self {
        Self {
            session,
            deadline: None,
            sent: None,
        }
    }

    /// Becomes ready when the client has stalled for too long. If the whole connection makes no
    /// progress, the session ends it as a whole.
    fn poll(&mut self, outgoing: &Outgoing, cx: &Context<'_>) -> Poll<()> {
        if !outgoing.is_waiting() {
            self.sent = None;
            return Poll::Pending;
        }
        let clients = &self.session.clients;
        let deadline = (self.deadline).get_or_insert_with(|| clients.deadlines.add());
        let sent = Some(outgoing.sent());
        if core::mem::replace(&mut self.sent, sent) != sent {
            deadline.arm(clients.stall_ticks);
        }
        loop {
            ready!(deadline.poll_passed(cx));
            if self.session.still_for() < clients.stall_ticks {
                return Poll::Ready(());
            }
            deadline.arm(clients.stall_ticks);
        }
    }
}

/// Serves requests of all connections of a worker.
pub(super) type Exchanges = Runners<Job, ()>;

/// A request that is served, and where its response goes.
#[derive(Debug)]
pub(super) struct Job {
    session: Rc<Session>,
    origin: Rc<Origin>,
    head: RequestHead,
    reader: StreamReader,
    writer: StreamWriter,
}

/// Serves requests with this handler.
pub(super) fn exchanges<H: Handler>(handler: &Rc<H>) -> Exchanges {
    let handler = Rc::clone(handler);
    Runners::new(move |job| answer(job, Rc::clone(&handler)))
}

/// Serves one request and its response.
async fn answer<H: Handler>(job: Job, handler: Rc<H>) {
    let Job {
        session,
        origin,
        head,
        reader,
        writer,
    } = job;
    let is_head = head.method == Method::HEAD;
    let Some(response) = respond(&session, &origin, &*handler, head, reader, &writer).await else {
        return;
    };
    let (status, mut headers, mut body) = response.into_parts();
    let mut is_end = body.is_end_stream();
    if !is_end && !headers.contains_key(header::CONTENT_LENGTH) {
        if let Some(length) = body.size_hint().exact() {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        // The proxy's own answer to HEAD has a length and no body.
        is_end = is_head && body.own_length().is_some();
    }
    if !headers.contains_key(header::DATE) {
        date::with_now(|date| {
            headers.extend(Value::from_bytes(date).map(|it| (header::DATE, it)));
        });
    }
    if let Some(load) = body.load.take() {
        headers.insert(LOAD, load.value());
    }
    // This fails if the client has gone.
    let told = writer.respond(status, &headers, is_end);
    buffers::take_headers_back(headers);
    if told.is_err() || is_end {
        return;
    }
    let mut outgoing = Outgoing::new(writer);
    let mut untaken = Untaken::new(&session);
    let sent = poll_fn(|cx| {
        let sent = outgoing.poll_send(cx, &mut body);
        if let Some(in_flight) = &body.in_flight {
            in_flight.await_replica(body.awaits_replica());
        }
        if sent.is_pending() && body.poll_untaken(cx).is_ready() {
            return Poll::Ready(Err(Unsent::Body));
        }
        if sent.is_pending() && untaken.poll(&outgoing, cx).is_ready() {
            return Poll::Ready(Err(Unsent::Untaken));
        }
        sent
    })
    .await;
    match sent {
        Err(Unsent::Body) => outgoing.reset(Reason::INTERNAL_ERROR),
        Err(Unsent::Untaken) => {
            outgoing.reset(Reason::CANCEL);
            // The request record reads there why its response was cut off.
            let before = session.cut.replace(Cut::ClientStalled);
            drop(body);
            session.cut.set(before);
        }
        Ok(()) | Err(Unsent::Refused) => (),
    }
}

/// Returns the response to a request, or `None` if the client has reset it.
async fn respond<H: Handler>(
    session: &Rc<Session>,
    origin: &Rc<Origin>,
    handler: &H,
    head: RequestHead,
    reader: StreamReader,
    writer: &StreamWriter,
) -> Option<Answer<H::Watch>> {
    let in_flight = RequestInFlight::new(session);
    let unanswered = session.resets.begin();
    // The client may have reset the stream while it waited for its turn.
    let is_lost = poll_fn(|cx| Poll::Ready(writer.poll_lost(cx).is_ready()));
    if is_lost.await {
        buffers::take_headers_back(head.headers);
        return None;
    }
    let clients = &session.clients;
    let mut incoming = Incoming::new(reader, head.length);
    if !incoming.is_end_stream() && head.headers.contains_key(header::EXPECT) {
        incoming.expect_continue();
    }
    let body = RequestBody::http2(incoming, session);
    let progress = body.progress();
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = head.uri;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = head.headers;
    clients.set_certificate(request.headers_mut(), origin);
    let mut handling = pin!(handler.handle(Box::new(request), origin));
    let mut response = poll_fn(|cx| {
        if let Poll::Ready(response) = handling.as_mut().poll(cx) {
            return Poll::Ready(Some(response));
        }
        writer.poll_lost(cx).map(|_| None)
    })
    .await?;
    // If the client broke off its own request, the proxy's answer does not count as one.
    if !progress.is_some_and(|progress| progress.state() == BodyState::Broken) {
        if response.body().is_own() {
            unanswered.answered_here();
        } else {
            unanswered.answered();
        }
    }
    response.body_mut().in_flight = Some(in_flight);
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::task::Waker;

    /// Makes `count` streams that end once they have been polled this often, in a set that was
    /// polled before.
    fn streams(
        count: usize,
        polls: usize,
        polls_left: &Rc<Cell<usize>>,
    ) -> FuturesUnordered<InTurn<impl Future<Output = ()> + use<>>> {
        let mut streams = no_streams(polls_left);
        let left = polls_left.replace(1);
        let noop = &mut Context::from_waker(Waker::noop());
        assert!(streams.poll_next_unpin(noop).is_pending());
        polls_left.set(left);
        for _ in 0..count {
            let mut polls = polls;
            streams.push(InTurn {
                stream: Some(poll_fn(move |_| {
                    polls -= 1;
                    if polls == 0 {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })),
                polls_left: Rc::clone(polls_left),
            });
        }
        streams
    }

    #[tokio::test]
    async fn a_turn_polls_a_limited_number_of_streams() {
        let polls_left = Rc::default();
        let mut streams = streams(2 * STREAMS_A_TURN + 1, 1, &polls_left);
        let mut done_by_turn = Vec::new();
        poll_fn(|cx| {
            polls_left.set(STREAMS_A_TURN);
            let before = streams.len();
            while let Poll::Ready(Some(())) = streams.poll_next_unpin(cx) {}
            done_by_turn.push(before - streams.len());
            // The one that never ends is left.
            if streams.len() == 1 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        // A deferred stream wakes the connection itself; otherwise this loop would not end.
        assert_eq!(done_by_turn, [STREAMS_A_TURN, STREAMS_A_TURN, 1]);
    }

    #[tokio::test]
    async fn deferred_streams_wait_until_the_runtime_has_polled_the_sockets() {
        let polls_left = Rc::new(Cell::new(0));
        let mut streams = streams(2, 1, &polls_left);
        let waker = std::sync::Arc::new(Woken::default());
        let task = Waker::from(std::sync::Arc::clone(&waker));
        let polled = streams.poll_next_unpin(&mut Context::from_waker(&task));
        assert!(polled.is_pending());
        assert!(!waker.take(), "not before the runtime's turn");
        tokio::task::yield_now().await;
        assert!(waker.take(), "but then");
    }

    #[test]
    fn streams_that_wait_do_not_wake_their_connection() {
        let polls_left = Rc::new(Cell::new(STREAMS_A_TURN));
        let waker = std::sync::Arc::new(Woken::default());
        let task = Waker::from(std::sync::Arc::clone(&waker));
        for count in [0, 1, 3] {
            let mut streams = streams(count, 2, &polls_left);
            let polled = streams.poll_next_unpin(&mut Context::from_waker(&task));
            assert!(polled.is_pending());
            assert!(!waker.take(), "{count}");
        }
    }

    #[derive(Debug, Default)]
    struct Woken(core::sync::atomic::AtomicBool);

    impl Woken {
        fn take(&self) -> bool {
            self.0.swap(false, core::sync::atomic::Ordering::Relaxed)
        }
    }

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, core::sync::atomic::Ordering::Relaxed);
        }
    }
}
