//! How the agent handles a request: a probe is answered, any other request is forwarded to the
//! server and counted.
//!
//! A query is in flight from the moment it is forwarded until the last byte of its response; a
//! guard in the response's body counts it. Answers of the agent itself are no sign of the server's
//! health: probes, errors, and requests that are rejected while the agent is withdrawn do not count
//! at all. A request that cannot connect to the server counts as failed. `[T1]`
//!
//! If there is a queue, a request waits in it for its turn. It is in flight from the moment it
//! arrives, because waiting requests are load, too. A request that is rejected in the queue was
//! never sent, and ends as if it had been cancelled. So does the copy of a tied request whose other
//! copy has started elsewhere. `[H2]`

use super::presence::Presence;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use slackwater_config::Connect;
use slackwater_config::OrcaReports;
use slackwater_http::{Fields, Request, Response};
use slackwater_proxy::forward::{
    AttemptTimeouts, Cause, End as Ending, Failure, Handler, Origin, Replica, ReplicaCounts, Reply,
    RequestBody, ResponseBody, UnreadableCounts, Watch, answer, convert_to_grpc, is_grpc_call,
    prepare_request, refuse, turned_away,
};
use slackwater_proxy::orca::{wanted, write_trailers};
use slackwater_telemetry::latency_histogram::LatencyHistogram;
use slackwater_tower::response::grpc_failed;
use slackwater_tower::server::admission::{Admission, Entry, Permit, Shed, Waiting};
use slackwater_tower::server::{
    End, Load, QueryInFlight, end_by_head, end_by_trailers, respond_http,
};
use slackwater_tower::wire::ProbeKey;
use slackwater_tower::wire::asks::take_time;
use slackwater_tower::wire::carried::{CarriedField, LOAD};
use slackwater_tower::wire::headers::{HINT, read_hint};
use slackwater_tower::wire::tie::Tie;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// One worker's path to the server.
#[derive(Debug)]
pub(super) struct AgentHandler {
    pub(super) server: Replica,
    pub(super) presence: Presence,
    pub(super) load: Load,
    /// The queue before the server; `None` sends all requests there at once.
    pub(super) admission: Option<Admission>,
    pub(super) probe_path: Box<str>,
    /// Signs HTTP probes and their answers; `None` accepts probes of any sender.
    pub(super) probe_key: Option<ProbeKey>,
    pub(super) counts: Arc<ReplicaCounts>,
    /// Waiting times in the queue, however the waiting ended.
    pub(super) waits: Arc<LatencyHistogram>,
    pub(super) unreadable: Arc<UnreadableCounts>,
    /// How CONNECT is handled.
    pub(super) connect: Connect,
    /// The responses that carry a load report.
    pub(super) orca: OrcaReports,
    /// Whether all responses of the server carry its load, in header fields of our own.
    pub(super) reports: bool,
}

type Answer = slackwater_proxy::forward::Answer<Passing>;

impl Handler for AgentHandler {
    type Watch = Passing;

    async fn handle(&self, request: Box<Request<RequestBody>>, origin: &Rc<Origin>) -> Answer {
        let is_grpc_call = is_grpc_call(request.headers());
        let mut answer = self.answer(request, origin).await;
        if is_grpc_call {
            convert_to_grpc(&mut answer);
        }
        answer
    }

    fn unreadable(&self, answer: &Answer, origin: &Origin) {
        self.unreadable.add_one(answer.status());
        let client = origin.client(&Fields::new());
        tracing::debug!(%client, status = answer.status().as_u16(), "unreadable request rejected");
    }
}

impl AgentHandler {
    async fn answer(&self, mut request: Box<Request<RequestBody>>, origin: &Origin) -> Answer {
        if self.is_probe(&request) {
            let response = respond_http(&self.load, request.headers(), self.probe_key.as_ref());
            return Box::new(Response::from(response).map(|()| ResponseBody::own(Bytes::new())));
        }
        if self.presence.is_withdrawn() {
            self.presence.count_refused();
            return answer(Some(&Cause::Withdrawn));
        }
        // The tie's headers are for this agent alone.
        let tie = (self.admission.as_ref()).and_then(|it| it.tie(request.headers()));
        let protocol = self.server.protocol();
        let prepared = prepare_request(&mut request, protocol, self.connect, origin);
        if let Err(refusal) = prepared {
            return refuse(refusal);
        }
        self.pass_on(request, tie).await
    }

    fn is_probe(&self, request: &Request<RequestBody>) -> bool {
        request.uri().path() == &*self.probe_path && request.method() == Method::GET
    }

    async fn pass_on(&self, mut request: Box<Request<RequestBody>>, tie: Option<Tie>) -> Answer {
        let mut query = self.load.arrive();
        if self.load.notes_hints() {
            take_hint(&mut query, request.headers_mut());
        }
        let mut passing = Passing {
            query: Some(query),
            permit: None,
            counts: Arc::clone(&self.counts),
            has_failed: false,
            tells: None,
        };
        if let Some(admission) = &self.admission {
            let admitted = match admission.arrive(admission.asks(request.headers()), tie) {
                Entry::Begin(permit) => Ok(permit),
                Entry::Shed(why) => Err(why),
                Entry::Wait(waiting) => self.wait(waiting, &mut request).await,
            };
            match admitted {
                Ok(_) if self.presence.is_withdrawn() => {
                    // The agent withdrew while the request waited. No connection is tried on behalf
                    // of a waiting request.
                    self.presence.count_refused();
                    passing.end(End::Cancelled);
                    return answer(Some(&Cause::Withdrawn));
                }
                Ok(permit) => {
                    permit.begin();
                    passing.permit = Some(permit);
                }
                Err(why) => {
                    passing.end(End::Cancelled);
                    return turned_away(why);
                }
            }
        }
        self.counts.sent.add_one();
        let wanted = wanted(self.orca, request.headers_mut());
        let is_connect = *request.method() == Method::CONNECT;
        match self
            .server
            .exchange(request, &AttemptTimeouts::default())
            .await
        {
            Ok(mut reply) => {
                self.presence.note_answer(reply.connect_took().is_some());
                self.counts.count_response(reply.status());
                if reply.connect_took().is_some() {
                    self.counts.connections.add_one();
                }
                if grpc_failed(reply.headers()) {
                    self.counts.grpc_failures.add_one();
                }
                passing.head_ready(end_by_head(reply.status(), reply.headers()));
                let status = reply.status();
                if status == StatusCode::SWITCHING_PROTOCOLS || is_connect && status.is_success() {
                    // A tunnel may last for hours without traffic, so it holds no permit.
                    passing.permit = None;
                }
                let load = self.load_of(&passing, &mut reply);
                if let Some(wanted) = wanted
                    && wanted.write_head(reply.headers_mut(), || self.load.report(None))
                {
                    passing.tells = Some(self.load.clone());
                }
                let mut response = reply.into_response(passing);
                response.body_mut().load = load;
                response
            }
            Err(Failure { cause, .. }) => self.fail(passing, &cause),
        }
    }

    /// Returns the field for the load that a response's head must carry, if any. The field replaces
    /// the one that the server itself may have sent.
    fn load_of(&self, passing: &Passing, reply: &mut Reply) -> Option<CarriedField> {
        let query = passing.query.as_ref().filter(|_| self.reports)?;
        reply.headers_mut().remove(LOAD);
        Some(query.carried_field())
    }

    /// Waits for the request's turn. The server then receives what is left of the request's
    /// timeout.
    async fn wait(
        &self,
        waiting: Waiting,
        request: &mut Request<RequestBody>,
    ) -> Result<Permit, Shed> {
        let standing = Standing {
            since: Instant::now(),
            waits: &self.waits,
        };
        let permit = waiting.await?;
        take_time(request.headers_mut(), standing.since.elapsed());
        Ok(permit)
    }

    fn fail(&self, passing: Passing, cause: &Cause) -> Answer {
        match cause {
            Cause::NoConnection(error) => {
                self.counts.connect_failures.add_one();
                passing.end(End::Failed);
                return self.withdraw(error);
            }
            Cause::Broken(error) => {
                tracing::debug!(%error, "server closed the connection before it responded");
                self.counts.broken.add_one();
                passing.end(End::Failed);
            }
            Cause::Withdrawn | Cause::Shed(_) => {
                self.counts.count_response(StatusCode::SERVICE_UNAVAILABLE);
                passing.end(End::Failed);
            }
            Cause::Coding | Cause::HeadTooLarge | Cause::Switched => {
                self.counts.broken.add_one();
                passing.end(End::Failed);
            }
            Cause::FirstByte => {
                self.counts.timeouts.add_one();
                passing.end(End::Failed);
            }
            Cause::Full => {
                self.counts.full.add_one();
                passing.end(End::Cancelled);
            }
            Cause::ClientStalled | Cause::ClientBroken | Cause::TooLarge => {
                drop(passing);
            }
        }
        answer(Some(cause))
    }

    /// Handles a failed connection to the server. Nothing of the request reached it, so the sender
    /// may retry it elsewhere, whether or not the agent withdraws.
    fn withdraw(&self, error: &io::Error) -> Answer {
        self.presence.lose(error);
        self.presence.count_refused();
        answer(Some(&Cause::Withdrawn))
    }
}

/// Takes the hint of a request's probes out of its head: it is for this agent alone. A malformed
/// one is ignored.
fn take_hint(query: &mut QueryInFlight, headers: &mut Fields) {
    if let Ok(hint) = read_hint(headers) {
        query.set_hint(&hint);
    }
    headers.remove(HINT);
}

/// A request in the queue.
struct Standing<'w> {
    since: Instant,
    waits: &'w LatencyHistogram,
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.waits.add(self.since.elapsed());
    }
}

/// A forwarded request, until the end of its response. If it is dropped before that, its client has
/// left.
#[derive(Debug)]
pub(super) struct Passing {
    /// `None` once ended.
    query: Option<QueryInFlight>,
    /// The permit to run at the server.
    permit: Option<Permit>,
    counts: Arc<ReplicaCounts>,
    /// The trailers report an error of the server.
    has_failed: bool,
    /// The load that the trailers report.
    tells: Option<Load>,
}

impl Passing {
    fn head_ready(&mut self, end: End) {
        if let Some(query) = &mut self.query {
            query.head_ready(end);
            if let Some(latency) = query.latency() {
                self.counts.heads.add(latency);
            }
        }
        if let Some(permit) = &mut self.permit {
            permit.head_ready(end);
        }
    }

    fn end(mut self, end: End) {
        // If the head came first, the permit has this already.
        if let Some(permit) = &mut self.permit {
            permit.head_ready(end);
        }
        if let Some(query) = self.query.take() {
            query.finish(end);
        }
    }
}

impl Watch for Passing {
    fn trailers(&mut self, trailers: &mut HeaderMap) {
        if grpc_failed(trailers) {
            self.counts.grpc_failures.add_one();
            self.has_failed = end_by_trailers(trailers) == End::Failed;
        }
        if let Some(load) = &self.tells {
            write_trailers(trailers, &load.report(None));
        }
    }

    fn finish(self, ending: Ending) {
        match ending {
            Ending::Complete if self.has_failed => self.end(End::Failed),
            Ending::Complete | Ending::TunnelIdle => self.end(End::Success),
            Ending::Broken | Ending::Stalled | Ending::TooLong => {
                self.counts.broken.add_one();
                self.end(End::Failed);
            }
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // The query ends as cancelled when it is dropped.
        if self.query.is_some() {
            self.counts.client_gone.add_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_config::{Limits, ReplicaAddress, ReplicaSettings, Timeouts};
    use slackwater_proxy::forward::{Deadlines, ReplicaOptions, Target};
    use slackwater_telemetry::facts::Lifecycle;

    #[test]
    fn request_without_a_free_stream_is_not_counted_as_given_up() {
        let (timeouts, limits) = (Timeouts::default(), Limits::default());
        let options = ReplicaOptions::new(&ReplicaSettings::default(), &timeouts, &limits);
        let deadlines = Deadlines::new(timeouts.shortest());
        let (address, load) = (ReplicaAddress::Tcp(([127, 0, 0, 1], 1).into()), Load::new());
        let handler = AgentHandler {
            server: Replica::new(
                Target::new(address.clone(), None),
                &Rc::new(options),
                &deadlines,
            ),
            presence: Presence::new(address, load.clone(), Lifecycle::default()),
            load,
            admission: None,
            probe_path: "/".into(),
            probe_key: None,
            counts: Arc::default(),
            waits: Arc::default(),
            unreadable: Arc::default(),
            connect: Connect::Refuse,
            orca: OrcaReports::Never,
            reports: false,
        };
        let passing = Passing {
            query: Some(handler.load.arrive()),
            permit: None,
            counts: Arc::clone(&handler.counts),
            has_failed: false,
            tells: None,
        };
        let answer = handler.fail(passing, &Cause::Full);
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        let counts = handler.counts.read();
        assert_eq!((counts.full, counts.client_gone), (1, 0));
    }
}
