//! One request on one replica.
//!
//! A connection that had been idle may have been closed by the replica at any moment, so a request that fails on one is
//! sent again on another one when that does no harm; `repeat` says when. A request that is known not to have reached the
//! application comes back with the failure, for another replica: also when an agent has answered it in place of a server
//! that is gone, but never once it may have been written to a connection that then failed.

use super::answer::{says_withdrawn, unmark};
use super::body::{Progress, RequestBody, ResponseBody, Upload, Watch};
use super::client::STALL_MAX;
use super::connect::Target;
use super::deadline::{Deadline, Deadlines};
use super::failure::{Cause, Failure};
use super::hygiene;
use super::multiplex::{self, Multiplex, Place};
use super::pool::{self, Pool};
use super::repeat::{Attempt, Ending, is_turned_away};
use super::spare::Spare;
use crate::config::{Limits, ReplicaProtocol, ReplicaSettings, Timeouts};
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use std::io;
use std::rc::Rc;
use tokio::time::Instant;

/// How to speak to a replica.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaOptions {
    pub(crate) protocol: ReplicaProtocol,
    /// To a connection.
    pub(crate) connect: Duration,
    /// To the response's head, from the moment when the last piece of the request was handed on.
    pub(crate) first_byte: Duration,
    /// Between two pieces of a response's body.
    pub(crate) stall: Duration,
    /// For which a connection that carries nothing is kept.
    pub(crate) idle: Duration,
    /// HTTP/1.1 connections that carry nothing, at most.
    pub(crate) idle_connections_max: usize,
    /// Requests at once on an HTTP/2 connection, at most.
    pub(crate) streams_max: usize,
    /// Size of a response's head, at most.
    pub(crate) head_bytes_max: usize,
    /// Fields of a response's head, at most.
    pub(crate) head_fields_max: usize,
    /// Whether it may be an agent, and so is believed when it says that its server is gone. An agent's own server is
    /// not: the mark is taken out of its responses, so that it can't have a request repeated elsewhere.
    pub(crate) may_be_agent: bool,
}

impl ReplicaOptions {
    /// As configured.
    pub(crate) fn new(settings: &ReplicaSettings, timeouts: &Timeouts, limits: &Limits) -> Self {
        Self {
            protocol: settings.protocol,
            connect: timeouts.connect,
            first_byte: timeouts.first_byte,
            stall: STALL_MAX,
            idle: timeouts.idle,
            idle_connections_max: settings.idle_connections_max as usize,
            streams_max: limits.streams_max as usize,
            head_bytes_max: limits.head_bytes_max as usize,
            head_fields_max: limits.head_fields_max as usize,
            may_be_agent: true,
        }
    }
}

/// A replica as a worker sees it: an address and connections to it.
#[derive(Debug)]
pub(crate) struct Replica {
    target: Target,
    options: Rc<ReplicaOptions>,
    connections: Connections,
    deadlines: Rc<Deadlines>,
    first_byte_ticks: u64,
    stall_ticks: u64,
}

#[derive(Debug)]
enum Connections {
    Http1(Rc<Pool>),
    Http2(Box<Multiplex>),
}

/// The connection that an exchange uses.
#[derive(Debug)]
pub(super) enum Held {
    Http1(Rc<Pool>, pool::Sender),
    Http2(multiplex::Sender, Place),
}

impl Held {
    /// The exchange is complete.
    pub(super) fn give_back(self) {
        if let Self::Http1(pool, sender) = self {
            pool.give_back(sender);
        }
    }
}

/// A response whose body has not been read yet.
#[derive(Debug)]
pub(crate) struct Reply {
    response: Response<Incoming>,
    held: Held,
    deadline: Deadline,
    stall_ticks: u64,
    spare: Option<Spare>,
}

impl Reply {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The response as the replica gave it.
    pub(crate) const fn response(&self) -> &Response<Incoming> {
        &self.response
    }

    /// Whether [`Self::take_request`] would give the request.
    pub(crate) fn has_request(&self) -> bool {
        self.spare.as_ref().is_some_and(Spare::is_whole)
    }

    /// The request, if it can be had again. Whatever is still read of its body stays unread from then on.
    pub(crate) fn take_request(&mut self) -> Option<Box<Request<RequestBody>>> {
        self.spare.take()?.into_request()
    }

    /// The response for the client; `watch` hears how its body ended.
    pub(crate) fn into_response<W: Watch>(self, watch: W) -> Response<ResponseBody<W>> {
        let Self {
            response,
            held,
            deadline,
            stall_ticks,
            spare: _,
        } = self;
        response
            .map(|incoming| ResponseBody::forwarded(incoming, held, deadline, stall_ticks, watch))
    }
}

impl Replica {
    pub(crate) fn new(
        target: Target,
        options: &Rc<ReplicaOptions>,
        deadlines: &Rc<Deadlines>,
    ) -> Self {
        let connections = match options.protocol {
            ReplicaProtocol::Http1 => Connections::Http1(Rc::new(Pool::new(options, deadlines))),
            ReplicaProtocol::H2c => {
                Connections::Http2(Box::new(Multiplex::new(options, deadlines)))
            }
        };
        Self {
            target,
            options: Rc::clone(options),
            connections,
            deadlines: Rc::clone(deadlines),
            first_byte_ticks: deadlines.ticks(options.first_byte),
            stall_ticks: deadlines.ticks(options.stall),
        }
    }

    /// Where it listens.
    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    /// What it speaks.
    pub(crate) fn protocol(&self) -> ReplicaProtocol {
        self.options.protocol
    }

    /// It gets no more requests: idle connections are closed, and the others when they have carried what they carry.
    pub(crate) fn retire(&self) {
        if let Connections::Http1(pool) = &self.connections {
            pool.retire();
        }
    }

    /// Closes connections that have been idle for too long. To be called now and then.
    pub(crate) fn sweep(&self) {
        match &self.connections {
            Connections::Http1(pool) => pool.sweep(),
            Connections::Http2(multiplex) => multiplex.sweep(),
        }
    }

    /// Sends a request that [`prepare_request`](super::prepare_request) has prepared, and waits for the response's head:
    /// as long as configured, or as `first_byte` says instead.
    pub(crate) async fn exchange(
        &self,
        mut request: Box<Request<RequestBody>>,
        first_byte: Option<Duration>,
    ) -> Result<Reply, Failure> {
        let first_byte_ticks =
            first_byte.map_or(self.first_byte_ticks, |span| self.deadlines.ticks(span));
        let deadline = self.deadlines.add();
        let mut may_be_written = false;
        if let Some(mut held) = self.open_connection() {
            let spare = Spare::of(&request);
            let began = Instant::now();
            match self
                .send(&mut held, request, &deadline, first_byte_ticks)
                .await
            {
                Ok(response) => return self.reply(response, held, deadline, spare),
                Err(attempt) => {
                    (request, may_be_written) = attempt.again(spare, began.elapsed())?;
                }
            }
        }
        // In a box, so that the usual way does not carry its size around.
        let anew = Box::pin(self.exchange_anew(request, deadline, first_byte_ticks)).await;
        anew.map_err(|failure| Failure {
            is_unsent: failure.is_unsent && !may_be_written,
            ..failure
        })
    }

    async fn exchange_anew(
        &self,
        request: Box<Request<RequestBody>>,
        deadline: Deadline,
        first_byte_ticks: u64,
    ) -> Result<Reply, Failure> {
        let mut held = match self.new_connection().await {
            Ok(held) => held,
            Err(error) => {
                return Err(Failure {
                    cause: Cause::Unreachable(error),
                    request: Some(request),
                    is_unsent: true,
                });
            }
        };
        let spare = Spare::of(&request);
        match self
            .send(&mut held, request, &deadline, first_byte_ticks)
            .await
        {
            Ok(response) => self.reply(response, held, deadline, spare),
            Err(attempt) => Err(attempt.fail(spare)),
        }
    }

    /// What a response means. An agent that has withdrawn sent nothing on, whatever the method, so the request may go
    /// elsewhere; without a spare, because it has a body, it is lost.
    fn reply(
        &self,
        mut response: Response<Incoming>,
        held: Held,
        deadline: Deadline,
        spare: Option<Spare>,
    ) -> Result<Reply, Failure> {
        if !self.options.may_be_agent {
            unmark(&mut response);
        } else if says_withdrawn(&response) {
            return Err(Failure {
                cause: Cause::Withdrawn,
                request: spare.and_then(Spare::into_request),
                is_unsent: true,
            });
        }
        // `Upgrade` is never passed on, so no client waits for one.
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Failure::new(Cause::Switched));
        }
        if !hygiene::prepare_response(&mut response) {
            return Err(Failure::new(Cause::Coding));
        }
        Ok(Reply {
            response,
            held,
            deadline,
            stall_ticks: self.stall_ticks,
            spare,
        })
    }

    /// A connection that is there already and has room.
    fn open_connection(&self) -> Option<Held> {
        match &self.connections {
            Connections::Http1(pool) => {
                let sender = pool.take()?;
                Some(Held::Http1(Rc::clone(pool), sender))
            }
            Connections::Http2(multiplex) => {
                let (sender, place) = multiplex.find()?;
                Some(Held::Http2(sender, place))
            }
        }
    }

    async fn new_connection(&self) -> io::Result<Held> {
        match &self.connections {
            Connections::Http1(pool) => {
                let sender = pool.open(&self.target, &self.options).await?;
                Ok(Held::Http1(Rc::clone(pool), sender))
            }
            Connections::Http2(multiplex) => {
                let (sender, place) = multiplex.find_or_open(&self.target, &self.options).await?;
                Ok(Held::Http2(sender, place))
            }
        }
    }

    /// Sends a request on a connection, and waits for the response's head.
    async fn send(
        &self,
        held: &mut Held,
        request: Box<Request<RequestBody>>,
        deadline: &Deadline,
        first_byte_ticks: u64,
    ) -> Result<Response<Incoming>, Attempt> {
        let progress = request.body().progress();
        let sent = match held {
            Held::Http1(_, sender) => {
                let sending = pin!(sender.try_send_request(*request));
                self.in_time(sending, progress.as_deref(), deadline, first_byte_ticks)
                    .await
            }
            Held::Http2(sender, _) => {
                let sending = pin!(sender.try_send_request(*request));
                self.in_time(sending, progress.as_deref(), deadline, first_byte_ticks)
                    .await
            }
        };
        match sent {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(attempt(error, progress.as_deref(), self.options.protocol)),
            Err(cause) => {
                if let (Held::Http2(_, place), Cause::FirstByte) = (held, &cause) {
                    place.give_up_connection();
                }
                Err(Attempt {
                    cause,
                    unsent: None,
                    ending: Ending::Other,
                })
            }
        }
    }

    /// Waits for a response, not longer than allowed.
    async fn in_time<T>(
        &self,
        mut sending: Pin<&mut impl Future<Output = T>>,
        progress: Option<&Progress>,
        deadline: &Deadline,
        first_byte_ticks: u64,
    ) -> Result<T, Cause> {
        deadline.arm(first_byte_ticks);
        poll_fn(|cx| match sending.as_mut().poll(cx) {
            Poll::Ready(sent) => Poll::Ready(Ok(sent)),
            Poll::Pending => self
                .poll_late(cx, progress, deadline, first_byte_ticks)
                .map(Err),
        })
        .await
    }

    /// Ready when the time for the head is over. A request that is still on its way up moves the end.
    fn poll_late(
        &self,
        cx: &Context<'_>,
        progress: Option<&Progress>,
        deadline: &Deadline,
        first_byte_ticks: u64,
    ) -> Poll<Cause> {
        while deadline.poll_passed(cx).is_ready() {
            let Some(progress) = progress else {
                return Poll::Ready(Cause::FirstByte);
            };
            let still_for = self.deadlines.now().saturating_sub(progress.moved_at());
            if still_for >= first_byte_ticks {
                return Poll::Ready(match progress.state() {
                    Upload::Replica => Cause::FirstByte,
                    Upload::Client => Cause::ClientStalled,
                    Upload::Broken => Cause::ClientBroken,
                });
            }
            deadline.arm(first_byte_ticks - still_for);
        }
        Poll::Pending
    }
}

/// What hyper's error means for the request.
fn attempt(
    mut error: TrySendError<Request<RequestBody>>,
    progress: Option<&Progress>,
    protocol: ReplicaProtocol,
) -> Attempt {
    let unsent = error.take_message().map(Box::new);
    let error = error.into_error();
    if progress.is_some_and(|progress| progress.state() == Upload::Broken) {
        return Attempt {
            cause: Cause::ClientBroken,
            unsent,
            ending: Ending::Other,
        };
    }
    let ending = match protocol {
        ReplicaProtocol::Http1 if !error.is_parse() => Ending::Closed,
        ReplicaProtocol::H2c if is_turned_away(&error) => Ending::TurnedAway,
        _ => Ending::Other,
    };
    Attempt {
        cause: Cause::Broken(error),
        unsent,
        ending,
    }
}
