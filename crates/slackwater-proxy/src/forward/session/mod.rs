//! A client's connection, shared by its socket and its requests: its single deadline, its requests
//! in flight, and why it ends.
//!
//! Without requests, a connection may be idle for a limited time. From the first byte of a head
//! (HTTP/1.1), the head must be complete within its own time. While a request waits for its client,
//! bytes must move in either direction. A request that waits for its replica has a deadline
//! elsewhere. When the deadline passes, the state is checked again, because the deadline may have
//! been moved since.
//!
//! | | file |
//! |---|---|
//! | all clients of a worker, and the worker's phase | `clients` |
//! | an HTTP/1.1 connection, shared by its task and its request's body | `inbound` |
//! | the PROXY header that a connection may begin with | `proxy_header` |
//! | clients that reset too many requests | `resets` |

mod clients;
mod inbound;
mod proxy_header;
mod resets;

use crate::forward::counts::ClientEnd;
use crate::forward::head::{Cut, Origin};
use crate::forward::time::Deadline;
use crate::forward::wire::Budget;
use crate::tls::{Handshakes, NotSecured, Secured, refuse_plain};
use core::cell::Cell;
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;
use resets::Resets;
use std::io;
use std::rc::Rc;
use tokio::net::TcpStream;

pub(crate) use clients::{
    CONNECTION_LOAN_BYTES, CONNECTION_WINDOW_BYTES, STREAM_WINDOW_LARGE_BYTES,
};
pub use clients::{ClientSettings, Clients, Phase};
pub(crate) use inbound::{Inbound, RequestFraming, Upload};

/// How long a client that was answered early may continue to send, so that it is not cut off before
/// it has read the answer.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// State that a connection, its socket and its requests share.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) clients: Rc<Clients>,
    /// Budget for responses that replicas send before the client reads them.
    pub(crate) budget: Rc<Budget>,
    deadline: Deadline,
    requests: Cell<u32>,
    /// Number of requests that wait for their replica.
    awaiting_replica: Cell<u32>,
    /// Why the connection was ended, for its requests to read.
    pub(crate) cut: Rc<Cell<Cut>>,
    http2: Cell<bool>,
    /// Counts requests that the client reset. Over HTTP/1.1, that ends the connection.
    pub(crate) resets: Rc<Resets>,
    in_head: Cell<bool>,
    moved_at: Cell<u64>,
    end: Cell<Option<ClientEnd>>,
}

enum Overdue {
    NotYet,
    AskToEnd,
    Close,
}

impl Session {
    pub(crate) fn new(clients: &Rc<Clients>) -> Self {
        clients.add();
        let deadline = clients.deadlines.add();
        deadline.arm(clients.idle_ticks);
        Self {
            clients: Rc::clone(clients),
            budget: clients.memory.of_client(),
            deadline,
            requests: Cell::new(0),
            awaiting_replica: Cell::new(0),
            cut: Rc::default(),
            http2: Cell::new(false),
            resets: Rc::default(),
            in_head: Cell::new(false),
            moved_at: Cell::new(0),
            end: Cell::new(None),
        }
    }

    /// Records why the connection ends, or will end as soon as possible. The first reason counts.
    pub(crate) fn ended_by(&self, end: ClientEnd) {
        self.end.set(self.end.get().or(Some(end)));
    }

    /// Whether the connection ends because it was idle for too long.
    pub(crate) fn was_idle(&self) -> bool {
        self.end.get() == Some(ClientEnd::Idle)
    }

    /// Records why the connection ends before its first request, unless a drain had to end it
    /// anyway.
    fn refused_by(&self, end: ClientEnd) {
        let unasked = [ClientEnd::Drain, ClientEnd::CutOff];
        let before = self.end.get().filter(|before| unasked.contains(before));
        self.end.set(before.or(Some(end)));
    }

    /// Waits for the TLS handshake; `None` if it failed, or took too long.
    pub(crate) async fn carry_handshake(
        &self,
        handshakes: &Handshakes,
        stream: TcpStream,
    ) -> Option<Secured> {
        self.deadline.arm(self.clients.handshake_ticks);
        // A client that has started before the drain may complete its handshake, because it cannot
        // know about the drain.
        let accepted = self.carry(pin!(handshakes.accept(stream)), |_| ()).await;
        match accepted {
            None => handshakes.count_timed_out(),
            Some(Err(NotSecured::Ended)) => (),
            // Its handshake is counted, and its deadline still runs.
            Some(Err(NotSecured::Plain(stream))) => {
                self.carry(pin!(refuse_plain(stream)), |_| ()).await;
            }
            Some(Ok(secured)) => {
                self.deadline.arm(self.clients.idle_ticks);
                return Some(secured);
            }
        }
        self.refused_by(ClientEnd::Handshake);
        None
    }

    /// Reads the required PROXY header within the time for a head, and puts its addresses into
    /// `origin`. Returns `false` if the connection must be closed.
    pub(crate) async fn carry_proxy_header(
        &self,
        stream: &mut TcpStream,
        origin: &mut Origin,
    ) -> bool {
        self.deadline.arm(self.clients.head_ticks);
        let is_trusted = (origin.proxied().unwrap_or_default().iter())
            .any(|network| network.contains(origin.peer));
        let refused = if is_trusted {
            match self.carry_unasked(proxy_header::read(stream)).await {
                Some(Ok(header)) => {
                    if let Some((from, to)) = header.addresses {
                        *origin = origin.proxied_from(from, to);
                    }
                    self.deadline.arm(self.clients.idle_ticks);
                    return true;
                }
                Some(Err(error)) => error.to_string(),
                None => "timed out".to_owned(),
            }
        } else {
            "not allowed from that address".to_owned()
        };
        self.refused_by(ClientEnd::ProxyHeader);
        if self.end.get() == Some(ClientEnd::ProxyHeader) {
            origin.rules.proxy_headers_refused.add_one();
        }
        tracing::debug!(from = %origin.peer, why = refused, "connection closed: no valid PROXY header");
        false
    }

    /// Waits for data that precedes any request, at most until the drain starts.
    async fn carry_unasked<T>(
        &self,
        asking: impl Future<Output = io::Result<T>>,
    ) -> Option<io::Result<T>> {
        let unwelcome = Cell::new(false);
        let mut asking = pin!(asking);
        let asking = poll_fn(|cx| {
            if unwelcome.get() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            asking.as_mut().poll(cx)
        });
        self.carry(pin!(asking), |_| unwelcome.set(true)).await
    }

    /// Polls a connection until it ends; `None` if a deadline or the end of the drain ended it.
    pub(crate) async fn carry<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        ask_to_end: impl Fn(Pin<&mut C>),
    ) -> Option<C::Output> {
        let mut asked_to_end = false;
        poll_fn(|cx| {
            loop {
                let phase = self.clients.phase.get();
                // HTTP/2 can announce which requests it still accepts. Closing any other connection
                // could cross a request.
                let end = if self.http2.get() {
                    Phase::Leaving
                } else {
                    Phase::Draining
                };
                if phase >= end && !asked_to_end {
                    asked_to_end = true;
                    self.ended_by(ClientEnd::Drain);
                    ask_to_end(connection.as_mut());
                }
                if phase == Phase::Stopped {
                    self.cut.set(Cut::Off);
                    self.end.set(Some(ClientEnd::CutOff));
                    return Poll::Ready(None);
                }
                if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                    return Poll::Ready(Some(ended));
                }
                if self.resets.is_flood() {
                    tracing::debug!("client connection closed: too many reset requests");
                    self.cut.set(Cut::Off);
                    self.ended_by(ClientEnd::Resets);
                    return Poll::Ready(None);
                }
                if self.deadline.poll_passed(cx).is_pending() {
                    return Poll::Pending;
                }
                match self.overdue(asked_to_end) {
                    Overdue::NotYet => (),
                    Overdue::AskToEnd => {
                        asked_to_end = true;
                        ask_to_end(connection.as_mut());
                    }
                    Overdue::Close => return Poll::Ready(None),
                }
            }
        })
        .await
    }

    /// Records progress: octets of a message were taken from the client, or written to it. Other
    /// data is not progress.
    pub(crate) fn moved(&self) {
        self.moved_at.set(self.clients.deadlines.now());
    }

    /// Ticks since the last progress.
    pub(crate) fn still_for(&self) -> u64 {
        let now = self.clients.deadlines.now();
        now.saturating_sub(self.moved_at.get())
    }

    /// Records that part of a head may have arrived.
    pub(crate) fn in_head(&self) {
        // HTTP/2 has frames between requests that do not start a head.
        if self.requests.get() == 0 && !self.http2.get() && !self.in_head.replace(true) {
            self.deadline.arm(self.clients.head_ticks);
        }
    }

    /// Switches to HTTP/2: the data so far does not start a head.
    pub(crate) fn begin_http2(&self) {
        self.http2.set(true);
        self.in_head.set(false);
        self.deadline.arm(self.clients.idle_ticks);
    }

    /// The phase of the worker.
    pub(crate) fn phase(&self) -> Phase {
        self.clients.phase.get()
    }

    /// Gives the client a limited time to read the last answer.
    pub(crate) fn linger(&self) {
        self.in_head.set(true);
        let ticks = self.clients.deadlines.ticks(LINGER);
        self.deadline.arm(ticks.min(self.clients.head_ticks));
    }

    /// Called when the last GOAWAY is queued: a client without requests only has to read that, and
    /// the unwritten rest of its responses.
    pub(crate) fn leave(&self) {
        if self.requests.get() == 0 {
            self.deadline.arm(self.ticks_without_request());
        }
    }

    /// Longest time that the connection may be without a request.
    fn ticks_without_request(&self) -> u64 {
        if self.http2.get() && self.phase() >= Phase::Draining {
            self.clients.deadlines.ticks(LINGER)
        } else {
            self.clients.idle_ticks
        }
    }

    fn overdue(&self, asked_to_end: bool) -> Overdue {
        let (requests, awaiting_replica) = (self.requests.get(), self.awaiting_replica.get());
        if requests > 0 {
            let stall = self.clients.stall_ticks;
            let left = if requests == awaiting_replica {
                stall
            } else {
                stall.saturating_sub(self.still_for())
            };
            if left == 0 {
                self.cut.set(Cut::ClientStalled);
                self.ended_by(ClientEnd::Stalled);
                return Overdue::Close;
            }
            self.deadline.arm(left);
            return Overdue::NotYet;
        }
        // The end of a response may still be on its way.
        let left = self
            .ticks_without_request()
            .saturating_sub(self.still_for());
        if self.http2.get() && left > 0 {
            self.deadline.arm(left);
            return Overdue::NotYet;
        }
        self.ended_by(if self.in_head.get() {
            ClientEnd::HeadLate
        } else {
            ClientEnd::Idle
        });
        if self.http2.get() && !asked_to_end {
            self.deadline.arm(self.clients.head_ticks);
            return Overdue::AskToEnd;
        }
        Overdue::Close
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A session without a reason was dropped with its worker.
        self.clients
            .remove(self.end.get().unwrap_or(ClientEnd::CutOff));
    }
}

/// A request on a connection, until the end of its response.
#[derive(Debug)]
pub(crate) struct RequestInFlight {
    session: Rc<Session>,
    awaits_replica: Cell<bool>,
}

impl RequestInFlight {
    /// Starts a request that waits for its replica.
    pub(crate) fn new(session: &Rc<Session>) -> Self {
        session.in_head.set(false);
        if session.requests.replace(session.requests.get() + 1) == 0 {
            session.deadline.arm(session.clients.stall_ticks);
        }
        let in_flight = Self {
            session: Rc::clone(session),
            awaits_replica: Cell::new(false),
        };
        in_flight.await_replica(true);
        in_flight
    }

    /// Sets whether the request waits for its replica, which has its own timeout, or for its
    /// client, whose time starts now.
    pub(crate) fn await_replica(&self, awaits: bool) {
        if self.awaits_replica.replace(awaits) == awaits {
            return;
        }
        let waiting = &self.session.awaiting_replica;
        if awaits {
            waiting.set(waiting.get() + 1);
        } else {
            waiting.set(waiting.get() - 1);
            self.session.moved();
        }
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.await_replica(false);
        let session = &self.session;
        let requests = session.requests.get() - 1;
        session.requests.set(requests);
        if requests == 0 {
            session.deadline.arm(session.ticks_without_request());
        }
    }
}
