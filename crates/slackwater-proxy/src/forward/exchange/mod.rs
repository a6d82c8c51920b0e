//! One request at one replica: a connection is chosen, the request is sent, and the response head
//! or a failure is returned.
//!
//! The replica may have closed an idle connection at any moment. A request that fails on one is
//! therefore sent again on another when that does no harm; `repeat` decides. A request that is
//! known not to have reached the application is returned with the failure, for another replica.
//! This includes requests that an agent answered in place of a server that is gone. It excludes
//! every request that may have been written to a connection that then failed.

mod failure;
mod repeat;

pub use failure::{Cause, Failure};

use crate::forward::counts::ReplicaEnd;
use crate::forward::head::error_field::{Unstarted, read_unstarted, unmark};
use crate::forward::head::hygiene;
use crate::forward::replica::http1::{Connection, Download, NoResponse, Sending};
use crate::forward::replica::http2;
use crate::forward::replica::multiplex::{Length, Multiplex, NoStream, StreamPermit};
use crate::forward::replica::{Pool, ReplicaOptions, Target, connect, is_own_lack};
use crate::forward::request::{BodyState, Progress, ReplayableRequest, RequestBody};
use crate::forward::response::{Answer, ResponseBody, ResponseSource, Unwatched, Watch, drain};
use crate::forward::time::{AttemptTimeouts, Deadline, Deadlines, Ticks};
use core::future::poll_fn;
use core::task::{Context, Poll};
use core::time::Duration;
use http::{HeaderValue, StatusCode};
use http_body::Body;
use repeat::FailedSend;
use slackwater_config::ReplicaAddress;
use slackwater_config::ReplicaProtocol;
use slackwater_core::overload::Shed;
use slackwater_http::proxy_protocol::Ends;
use slackwater_http::{Fields, Request, Response};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// Timers are rounded to milliseconds.
const WAIT_ROUNDING: Duration = Duration::from_millis(2);

/// A replica as a worker sees it: an address and connections to it.
#[derive(Debug)]
pub struct Replica {
    target: Rc<Target>,
    options: Rc<ReplicaOptions>,
    connections: Connections,
    deadlines: Rc<Deadlines>,
    first_byte_ticks: u64,
    stall_ticks: u64,
    tunnel_ticks: u64,
}

#[derive(Debug)]
enum Connections {
    Http1(Rc<Pool>),
    Http2(Rc<Multiplex>),
}

/// The connection that an exchange uses.
#[derive(Debug)]
enum Held {
    Http1(Rc<Pool>, Box<Connection>),
    Http2(StreamPermit),
}

/// A response whose body has not been read yet.
#[derive(Debug)]
pub struct Reply {
    response: Response<ResponseSource>,
    deadline: Deadline,
    stall_ticks: u64,
    replayable: Option<ReplayableRequest>,
    connect_took: Option<Duration>,
}

impl Reply {
    /// Time to open a connection, if a new one was opened.
    pub const fn connect_took(&self) -> Option<Duration> {
        self.connect_took
    }

    /// Status that the client receives.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The response head as the replica sent it.
    pub const fn response(&self) -> &Response<impl Sized> {
        &self.response
    }

    /// The header fields of the response.
    pub fn headers(&self) -> &Fields {
        self.response.headers()
    }

    /// The header fields, for changes.
    pub fn headers_mut(&mut self) -> &mut Fields {
        self.response.headers_mut()
    }

    /// Whether [`Self::take_request`] would return the request.
    pub(crate) fn has_request(&self) -> bool {
        self.replayable
            .as_ref()
            .is_some_and(ReplayableRequest::is_whole)
    }

    /// Takes the request, if it can be sent again. From then on, no more of its body is read.
    pub(crate) fn take_request(&mut self) -> Option<Box<Request<RequestBody>>> {
        self.replayable.take()?.into_request()
    }

    /// Returns the response for the client; `watch` observes how its body ends.
    pub fn into_response<W: Watch>(self, watch: W) -> Answer<W> {
        let Self {
            response,
            deadline,
            stall_ticks,
            replayable,
            connect_took: _,
        } = self;
        if let Some(replayable) = replayable {
            replayable.recycle();
        }
        let body = |source| ResponseBody::forwarded(source, deadline, stall_ticks, watch);
        Box::new(response.map(body))
    }
}

impl Replica {
    /// Makes a replica without connections.
    pub fn new(target: Target, options: &Rc<ReplicaOptions>, deadlines: &Rc<Deadlines>) -> Self {
        let connections = match options.protocol {
            ReplicaProtocol::Http1 => Connections::Http1(Rc::new(Pool::new(options, deadlines))),
            ReplicaProtocol::H2c => {
                let is_secure = target.is_secure();
                Connections::Http2(Rc::new(Multiplex::new(options, is_secure, deadlines)))
            }
        };
        Self {
            target: Rc::new(target),
            options: Rc::clone(options),
            connections,
            deadlines: Rc::clone(deadlines),
            first_byte_ticks: deadlines.ticks(options.first_byte),
            stall_ticks: deadlines.ticks(options.stall),
            tunnel_ticks: deadlines.ticks(options.tunnel),
        }
    }

    /// The address of the replica.
    pub(crate) fn target(&self) -> &ReplicaAddress {
        self.target.address()
    }

    /// The protocol of the replica.
    pub fn protocol(&self) -> ReplicaProtocol {
        self.options.protocol
    }

    /// Retires the replica, which gets no more requests. Idle connections are closed, and the
    /// others when they are done.
    pub(crate) fn retire(&self) {
        if let Connections::Http1(pool) = &self.connections {
            pool.retire();
        }
    }

    /// Closes connections that have been idle for too long. Must be called from time to time.
    pub fn sweep(&self) {
        match &self.connections {
            Connections::Http1(pool) => pool.sweep(),
            Connections::Http2(multiplex) => multiplex.sweep(),
        }
    }

    /// Sends a request that [`prepare_request`](super::prepare_request) has prepared, and waits for
    /// the response head, for as long as configured or as `timeouts` overrides.
    pub async fn exchange(
        &self,
        mut request: Box<Request<RequestBody>>,
        timeouts: &AttemptTimeouts,
    ) -> Result<Reply, Failure> {
        let ticks = timeouts.ticks(&self.deadlines, self.first_byte_ticks);
        let deadline = self.deadlines.add();
        let mut may_be_written = false;
        if let Some(held) = self.open_connection(&request) {
            let began = Instant::now();
            match self.send(held, request, &deadline, ticks).await {
                Ok((response, replayable)) => return self.reply(response, deadline, replayable),
                Err(failed) => {
                    (request, may_be_written) = failed.replay(began.elapsed())?;
                }
            }
        }
        // Boxed, so that the usual path does not carry its size.
        let anew = self.exchange_anew(request, deadline, (ticks, *timeouts));
        Box::pin(anew).await.map_err(|failure| Failure {
            is_unsent: failure.is_unsent && !may_be_written,
            ..failure
        })
    }

    async fn exchange_anew(
        &self,
        request: Box<Request<RequestBody>>,
        deadline: Deadline,
        (ticks, timeouts): (Ticks, AttemptTimeouts),
    ) -> Result<Reply, Failure> {
        let began = Instant::now();
        let held = match self.new_connection(&request, timeouts).await {
            Ok(held) => held,
            Err(no_stream) => {
                return Err(Failure {
                    cause: self.cause(no_stream),
                    request: Some(request),
                    is_unsent: true,
                });
            }
        };
        let connect_took = Some(began.elapsed());
        match self.send(held, request, &deadline, ticks).await {
            Ok((response, replayable)) => Ok(Reply {
                connect_took,
                ..self.reply(response, deadline, replayable)?
            }),
            Err(failed) => Err(failed.fail()),
        }
    }

    /// Returns the cause of a failure to get a connection. A lack of this process is no evidence
    /// against a replica. An agent withdraws then, so that requests go to other replicas.
    fn cause(&self, no_stream: NoStream) -> Cause {
        match no_stream {
            NoStream::Unreachable(error) if is_own_lack(&error) => {
                self.options.warn_of_own_lack(&error);
                if self.options.may_be_agent {
                    Cause::Full
                } else {
                    Cause::NoConnection(error)
                }
            }
            NoStream::Unreachable(error) => Cause::NoConnection(error),
            NoStream::Full => Cause::Full,
        }
    }

    /// Handles a response. An agent that withdrew or shed the request has not forwarded it,
    /// whatever the method, so the request may go to another replica. Exceptions are a body that
    /// has outgrown the replay buffer, and a deadline that has passed.
    fn reply(
        &self,
        mut response: Response<ResponseSource>,
        deadline: Deadline,
        replayable: Option<ReplayableRequest>,
    ) -> Result<Reply, Failure> {
        if !self.options.may_be_agent {
            unmark(&mut response);
        } else if let Some(unstarted) = read_unstarted(&response) {
            let cause = match unstarted {
                Unstarted::Withdrawn => Cause::Withdrawn,
                Unstarted::Shed(shed) => Cause::Shed(shed),
            };
            // A client without time left does not need another attempt.
            let is_wanted = unstarted != Unstarted::Shed(Shed::Deadline);
            let request = replayable
                .filter(|_| is_wanted)
                .and_then(ReplayableRequest::into_request);
            // The rest is drained so that a replica that sheds many requests does not have to
            // accept a new connection for each.
            let source = response.into_body();
            drain(ResponseBody::forwarded(
                source,
                deadline,
                self.stall_ticks,
                Unwatched,
            ));
            return Err(Failure {
                cause,
                request,
                is_unsent: true,
            });
        }
        if !hygiene::prepare_response(&mut response) {
            return Err(Failure::new(Cause::Coding));
        }
        let stall_ticks = if response.body().is_tunnel() {
            self.tunnel_ticks
        } else {
            self.stall_ticks
        };
        Ok(Reply {
            response,
            deadline,
            stall_ticks,
            replayable,
            connect_took: None,
        })
    }

    /// Returns an open connection that can take the request.
    fn open_connection(&self, request: &Request<RequestBody>) -> Option<Held> {
        match &self.connections {
            Connections::Http1(pool) => {
                let connection = pool.take(self.client_of(request))?;
                Some(Held::Http1(Rc::clone(pool), connection))
            }
            Connections::Http2(multiplex) => {
                Some(Held::Http2(multiplex.find(Length::of(request.body()))?))
            }
        }
    }

    /// Returns the client whose own connection the request needs; `None` if any connection will do.
    fn client_of<'r>(&self, request: &'r Request<RequestBody>) -> Option<&'r Arc<Ends>> {
        let tells = self.target.forwards_client();
        tells.then(|| request.extensions().get()).flatten()
    }

    /// Opens a connection, or waits for a stream, but not beyond the request's end. A wait for a
    /// stream also ends at the client's deadline; a connect does not, because one that is cut is
    /// evidence against the replica.
    async fn new_connection(
        &self,
        request: &Request<RequestBody>,
        AttemptTimeouts { ends, wanted, .. }: AttemptTimeouts,
    ) -> Result<Held, NoStream> {
        let longest = self.options.connect;
        let within = |end: Option<Instant>| {
            let left = |end: Instant| end.saturating_duration_since(Instant::now());
            end.map_or(longest, |end| longest.min(left(end)))
        };
        match &self.connections {
            Connections::Http1(pool) => {
                let client = self.client_of(request).cloned();
                let opened = connect(&self.target, client.as_deref(), within(ends)).await;
                let stream = opened.map_err(NoStream::Unreachable)?;
                let connection = Connection::new(stream, client, &self.options.ends);
                Ok(Held::Http1(Rc::clone(pool), Box::new(connection)))
            }
            Connections::Http2(multiplex) => {
                let length = Length::of(request.body());
                let (target, options) = (Rc::clone(&self.target), Rc::clone(&self.options));
                let (multiplex, wait) = (Rc::clone(multiplex), (within(ends), within(wanted)));
                let mut opening = Box::pin(async move {
                    let opening = multiplex.find_or_open(&target, &options, length, wait);
                    opening.await
                });
                let Some(ends) = ends else {
                    return opening.await.map(Held::Http2);
                };
                // A wait for a stream ends first, by itself.
                let cut = tokio::time::timeout_at(ends + WAIT_ROUNDING, &mut opening);
                let Ok(opened) = cut.await else {
                    // Later requests may use the connection.
                    tokio::task::spawn_local(opening);
                    return Err(NoStream::Unreachable(io::ErrorKind::TimedOut.into()));
                };
                opened.map(Held::Http2)
            }
        }
    }

    /// Sends a request on a connection, and waits for the response head.
    async fn send(
        &self,
        held: Held,
        request: Box<Request<RequestBody>>,
        deadline: &Deadline,
        ticks: Ticks,
    ) -> Result<(Response<ResponseSource>, Option<ReplayableRequest>), FailedSend> {
        deadline.arm(ticks.left(&self.deadlines, ticks.first_byte));
        match held {
            Held::Http1(pool, connection) => {
                self.send_http1(pool, connection, request, deadline, ticks)
                    .await
            }
            Held::Http2(permit) => self.send_http2(permit, request, deadline, ticks).await,
        }
    }

    async fn send_http1(
        &self,
        pool: Rc<Pool>,
        mut connection: Box<Connection>,
        mut request: Box<Request<RequestBody>>,
        deadline: &Deadline,
        ticks: Ticks,
    ) -> Result<(Response<ResponseSource>, Option<ReplayableRequest>), FailedSend> {
        let limits = self.options.head_limits;
        let upgrade = request.body().upgrade();
        let progress = request.body().progress();
        let has_body = !request.body().is_end_stream();
        let replay = request.body().replay();
        let mut sending = Sending::new(&mut connection, &request, upgrade.as_ref(), limits);
        let sent = poll_fn(
            |cx| match sending.poll(cx, &mut connection, request.body_mut()) {
                Poll::Ready(sent) => Poll::Ready(sent.map_err(Ok)),
                Poll::Pending => self
                    .poll_late(cx, progress.as_deref(), deadline, ticks)
                    .map(|cause| Err(Err(cause))),
            },
        );
        let head = match sent.await {
            Ok(head) => head,
            Err(failed) => {
                connection.end = match &failed {
                    Ok(NoResponse::Client) => ReplicaEnd::GivenUp,
                    Ok(_) => ReplicaEnd::Failed,
                    Err(Cause::FirstByte) => ReplicaEnd::Late,
                    Err(_) => ReplicaEnd::GivenUp,
                };
                return Err(FailedSend::http1(
                    failed, sending, request, has_body, replay,
                ));
            }
        };
        if head.status == StatusCode::SWITCHING_PROTOCOLS
            && !is_what_was_asked(upgrade.as_ref(), head.upgrade.as_ref())
        {
            connection.end = ReplicaEnd::Failed;
            // The connection now carries a protocol that the client does not understand.
            return Err(FailedSend::new(Cause::Switched));
        }
        let upload = sending.into_upload();
        let upload = upload.map(|upload| Box::new((upload, request.body_mut().take())));
        let download = Download::new(connection, &head, limits, upload);
        let mut response = Response::new(ResponseSource::Http1(download, pool));
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Ok((response, ReplayableRequest::new(request, has_body, replay)))
    }

    async fn send_http2(
        &self,
        permit: StreamPermit,
        mut request: Box<Request<RequestBody>>,
        deadline: &Deadline,
        ticks: Ticks,
    ) -> Result<(Response<ResponseSource>, Option<ReplayableRequest>), FailedSend> {
        let progress = request.body().progress();
        let has_body = !request.body().is_end_stream();
        let replay = request.body().replay();
        let sent_at = self.deadlines.now();
        let mut sending = match http2::Sending::begin(&permit, &mut request) {
            Ok(sending) => sending,
            Err(lost) => return Err(FailedSend::not_begun(lost, request)),
        };
        let sent = poll_fn(|cx| match sending.poll(cx, request.body_mut()) {
            Poll::Ready(sent) => Poll::Ready(Ok(sent)),
            Poll::Pending => self
                .poll_late(cx, progress.as_deref(), deadline, ticks)
                .map(Err),
        });
        let sent = sent.await;
        let replayable = |request| ReplayableRequest::new(request, has_body, replay);
        match sent {
            Ok(Ok(head)) => {
                permit.answered();
                let download = sending.into_download(head.length, request.body_mut(), permit);
                let mut response = Response::new(ResponseSource::Http2(download));
                *response.status_mut() = head.status;
                *response.headers_mut() = head.headers;
                Ok((response, replayable(request)))
            }
            Ok(Err(failed)) => {
                // A connection that the replica is about to close must not carry another attempt.
                let _ = permit.check();
                let replayable = replayable(request);
                Err(FailedSend::http2(failed, progress.as_deref(), replayable))
            }
            Err(cause) => {
                if matches!(cause, Cause::FirstByte) {
                    permit.unanswered(sent_at);
                }
                Err(FailedSend {
                    replayable: replayable(request),
                    ..FailedSend::new(cause)
                })
            }
        }
    }

    /// Ready when the time for the head is over. Progress of the upload extends the time.
    fn poll_late(
        &self,
        cx: &Context<'_>,
        progress: Option<&Progress>,
        deadline: &Deadline,
        ticks: Ticks,
    ) -> Poll<Cause> {
        while deadline.poll_passed(cx).is_ready() {
            let Some(progress) = progress else {
                return Poll::Ready(Cause::FirstByte);
            };
            let still_for = self.deadlines.now().saturating_sub(progress.moved_at());
            let may_be_still = match progress.state() {
                // This attempt may have little time, but another one would wait for the same
                // client.
                BodyState::AwaitsClient => ticks.client.max(ticks.first_byte),
                _ => ticks.first_byte,
            };
            if still_for >= may_be_still || ticks.left(&self.deadlines, 1) == 0 {
                return Poll::Ready(match progress.state() {
                    BodyState::AwaitsReplica => Cause::FirstByte,
                    BodyState::AwaitsClient => Cause::ClientStalled,
                    BodyState::Broken => Cause::ClientBroken,
                    BodyState::TooLarge => Cause::TooLarge,
                });
            }
            // Once the client continues, the replica is the one to wait for, and at most for its
            // own time.
            let look_again = (may_be_still - still_for).min(ticks.first_byte);
            deadline.arm(ticks.left(&self.deadlines, look_again));
        }
        Poll::Pending
    }
}

/// Whether the replica switches to the protocol that the client requested.
fn is_what_was_asked(asked: Option<&HeaderValue>, changed: Option<&HeaderValue>) -> bool {
    matches!((asked, changed), (Some(asked), Some(changed))
        if asked.as_bytes().eq_ignore_ascii_case(changed.as_bytes()))
}
