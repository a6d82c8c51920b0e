//! One attempt of a request: a permit taken at a replica, which is released exactly once: at the
//! end of the response body, with an error, or by a drop when the client leaves.
//!
//! | | file |
//! |---|---|
//! | latency of requests as clients see it | `latency` |
//! | what policies learn from load reports in responses | `learning` |
//! | whether and when there may be another attempt | `retries` |

mod latency;
mod learning;
mod retries;

pub(crate) use latency::{LatencyMeter, RequestTimer, ServiceLatency};
pub(crate) use retries::{Hint, Retries, RetryPermit, follow};

use crate::forward::{
    Answer, AttemptTimeouts, Cause, End, Failure, Reply, RequestBody, ResponseBody, Watch, drain,
};
use crate::request_record::{AttemptHandle, AttemptKind, Ended, RecordHandle};
use crate::service::admission::{Permit, ReplicaPermit};
use crate::service::fleet::FleetReplica;
use core::cell::Cell;
use core::time::Duration;
use http::{HeaderMap, StatusCode};
use learning::take_report;
use slackwater_config::routes::RetryRules;
use slackwater_core::overload::Shed;
use slackwater_core::policy::{Carried, Explanation, Outcome, PickReason};
use slackwater_core::{Instant as CoreInstant, ReplicaId};
use slackwater_http::{FieldMap, Request};
use slackwater_tower::client::Lease;
use slackwater_tower::response::{GrpcStatus, ReadOutcome, read_head, read_trailers};
use slackwater_tower::wire::asks::set_time_left;
use std::rc::Rc;
use tokio::time::Instant;

/// Cause that is recorded for a response that was given up in favor of another.
const NOT_PASSED_ON: &str = "not passed on";

/// One attempt of a request.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Present until the attempt ends.
    lease: Option<Lease>,
    replica: Rc<FleetReplica>,
    /// Role of the attempt in its request.
    kind: AttemptKind,
    /// Outcome according to the response's head or trailers.
    outcome: Outcome,
    /// Status of a gRPC call, if known.
    grpc_status: Option<GrpcStatus>,
    /// Whether another attempt has replaced it.
    is_discarded: bool,
    /// The form of load reports in responses that the policy learns from.
    learning: Carried,
    /// The request's permit of the service.
    permit: Option<Permit>,
    /// The attempt's permit of the replica.
    replica_permit: Option<ReplicaPermit>,
    /// The request's record, while the attempt's response is the request's.
    record: RecordHandle,
    /// The attempt's own record.
    notes: AttemptHandle,
    /// Explanation of the pick, until the attempt starts.
    pub(crate) explanation: Option<Box<Explanation>>,
    /// When the response head arrived, on the balancer's clock.
    head_at: Option<CoreInstant>,
    /// The request's timer, once this response is the one that is forwarded.
    timer: Option<RequestTimer>,
    /// For one of two copies of a request: whether one of them has won.
    pair_decided: Option<Rc<Cell<bool>>>,
}

/// Why an attempt gave the client nothing.
#[derive(Debug)]
pub(crate) enum AttemptError {
    /// There is no response.
    Failed(Failure),
    /// The rules reject the response while another attempt is possible.
    Rejected(Box<RejectedResponse>),
}

impl AttemptError {
    /// Whether a replica dropped it because its other copy had started.
    pub(crate) const fn is_superseded(&self) -> bool {
        matches!(
            self,
            Self::Failed(Failure {
                cause: Cause::Shed(Shed::CopyStarted),
                ..
            })
        )
    }

    /// Whether [`Self::take_request`] would return the request.
    pub(crate) fn has_request(&self) -> bool {
        match self {
            Self::Failed(failure) => failure.request.is_some(),
            Self::Rejected(rejected) => rejected.reply.has_request(),
        }
    }

    /// Whether no replica has received any of the request.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.is_unsent)
    }

    /// Whether no replica could be reached to take the request.
    pub(crate) fn is_unreached(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.is_unsent && !matches!(failure.cause, Cause::Shed(_)))
    }

    /// Whether the replica had no room for another connection or stream.
    pub(crate) const fn is_full(&self) -> bool {
        matches!(
            self,
            Self::Failed(Failure {
                cause: Cause::Full,
                ..
            })
        )
    }

    /// Marks the request as received by a replica, as another copy.
    pub(crate) fn mark_received(&mut self) {
        if let Self::Failed(failure) = self {
            failure.is_unsent = false;
        }
    }

    /// Takes the request for another attempt.
    pub(crate) fn take_request(&mut self) -> Option<Box<Request<RequestBody>>> {
        match self {
            Self::Failed(failure) => failure.request.take(),
            Self::Rejected(rejected) => rejected.reply.take_request(),
        }
    }
}

/// A response that is forwarded only if there is no better one.
#[derive(Debug)]
pub(crate) struct RejectedResponse {
    reply: Reply,
    attempt: Box<Attempt>,
}

impl RejectedResponse {
    /// When the replica requests a retry.
    pub(crate) fn hint(&self) -> Hint {
        Hint::of(self.reply.response().headers())
    }

    /// Forwards the response, because there is no better one.
    pub(crate) fn pass_on(mut self, record: &RecordHandle) -> Answer<Box<Attempt>> {
        self.attempt.pass_on(record);
        self.reply.into_response(self.attempt)
    }

    /// Gives the response up.
    pub(crate) fn discard(mut self) {
        self.attempt.is_discarded = true;
        discard(self.reply.into_response(self.attempt).into_body());
    }
}

/// Drains a response that is not forwarded, if its end is near, so that its connection can be
/// reused.
pub(crate) fn discard(mut body: ResponseBody<Box<Attempt>>) {
    let Some(attempt) = body.watch_mut() else {
        return;
    };
    attempt.is_discarded = true;
    drain(body);
}

/// Ends the attempt of a response that is read no further, because no client needs the rest. That
/// is no evidence about the replica.
pub(crate) fn settle(body: &mut ResponseBody<Box<Attempt>>) {
    if let Some(attempt) = body.watch_mut() {
        attempt.end_with(attempt.outcome, RequestTimer::complete, || None);
    }
}

impl Attempt {
    pub(crate) fn new(lease: Lease, replica: Rc<FleetReplica>, learning: Carried) -> Self {
        replica.counts().in_flight.add_one();
        Self {
            lease: Some(lease),
            replica,
            kind: AttemptKind::First,
            outcome: Outcome::Success,
            grpc_status: None,
            is_discarded: false,
            learning,
            permit: None,
            replica_permit: None,
            record: RecordHandle::default(),
            notes: AttemptHandle::default(),
            explanation: None,
            head_at: None,
            timer: None,
            pair_decided: None,
        }
    }

    /// Makes it one of two copies of its request.
    pub(crate) fn join_pair(&mut self, is_decided: &Rc<Cell<bool>>) {
        self.pair_decided = Some(Rc::clone(is_decided));
    }

    /// Starts the attempt for this request, which records it.
    pub(crate) fn begin(&mut self, kind: AttemptKind, record: &RecordHandle) {
        self.kind = kind;
        if let Some(lease) = &self.lease {
            let (name, explanation) = (&self.replica.name, self.explanation.take());
            self.notes = record.begin_attempt(kind, name, lease.view(), explanation);
        }
    }

    /// Starts it as a second copy, which was due this long after the first.
    pub(crate) fn begin_copy(
        &mut self,
        kind: AttemptKind,
        due_after: Duration,
        record: &RecordHandle,
    ) {
        self.begin(kind, record);
        self.notes.due_after(due_after);
    }

    /// Marks its response as the one that the client gets.
    pub(crate) fn pass_on(&mut self, record: &RecordHandle) {
        self.pass_on_at(record, None);
    }

    fn pass_on_at(&mut self, record: &RecordHandle, at: Option<CoreInstant>) {
        record.pass_on_at(self.kind, self.grpc_status, at);
        self.record = record.clone();
        self.pair_decided = None;
    }

    /// Holds the request's permit of the service until the end of the response.
    pub(crate) fn hold(&mut self, permit: Permit) {
        self.permit = Some(permit);
    }

    /// Ends an attempt that was never sent.
    pub(crate) fn cancel(mut self: Box<Self>) {
        self.end(Outcome::Dropped);
    }

    pub(crate) fn replica(&self) -> &Rc<FleetReplica> {
        &self.replica
    }

    /// The replica part that a session may stay at from now on. A trial has none: its replica is
    /// taken out, so the session would have to move again.
    pub(crate) fn home(&self) -> Option<ReplicaId> {
        let lease = self.lease.as_ref()?;
        (lease.reason() != PickReason::Trial).then(|| lease.replica())
    }

    /// Acquires a permit of the replica. Returns `false`, and counts it, if there is none.
    pub(crate) fn try_acquire(&mut self) -> bool {
        let Some(replica_limiter) = &self.replica.replica_limiter else {
            return true;
        };
        self.replica_permit = replica_limiter.try_acquire();
        if self.replica_permit.is_none() {
            self.replica.counts().full.add_one();
        }
        self.replica_permit.is_some()
    }

    /// Takes over a permit that was already acquired.
    pub(crate) fn hold_replica_permit(&mut self, replica_permit: ReplicaPermit) {
        self.replica_permit = Some(replica_permit);
    }

    /// Sends the request and waits for the response head, for at most the default timeouts or
    /// `timeouts`. A response that `rules` reject is an error, if the request can be sent again.
    pub(crate) async fn send(
        mut self: Box<Self>,
        mut request: Box<Request<RequestBody>>,
        timeouts: AttemptTimeouts,
        rules: Option<&RetryRules>,
        record: &RecordHandle,
    ) -> Result<Answer<Box<Self>>, AttemptError> {
        self.replica.count_sent();
        if let Some(lease) = &self.lease {
            let upload = request.body().progress();
            let pick = (lease.view(), Some(lease.picked_at()));
            record.attempt(self.kind, &self.replica.name, pick, upload);
        }
        if let Some(wanted) = timeouts.wanted {
            let left = wanted.saturating_duration_since(Instant::now());
            set_time_left(request.headers_mut(), left);
        }
        let target = self.replica.connections.target();
        self.notes.mark(target, request.headers_mut());
        match self.replica.connections.exchange(request, &timeouts).await {
            Ok(mut reply) => {
                let status = reply.status();
                if let Some(took) = reply.connect_took() {
                    record.connected(self.kind, took);
                    self.notes.connected(took);
                    self.replica.counts().connections.add_one();
                }
                let read = read_head(status, reply.headers());
                self.notes.head(status, read.grpc_status);
                self.note(read);
                self.learn(reply.headers_mut());
                self.head_ready();
                self.replica.counts().count_response(status);
                let is_refused = rules.is_some_and(|rules| rules.refuse(reply.response()));
                if is_refused && reply.has_request() {
                    let rejected = RejectedResponse {
                        reply,
                        attempt: self,
                    };
                    return Err(AttemptError::Rejected(Box::new(rejected)));
                }
                // Neither of two copies represents the request before it has won.
                if self.pair_decided.is_none() {
                    self.pass_on_at(record, self.head_at);
                }
                Ok(reply.into_response(self))
            }
            Err(failure) => {
                self.fail(&failure);
                Err(AttemptError::Failed(failure))
            }
        }
    }

    fn head_ready(&mut self) {
        if let Some(lease) = &mut self.lease {
            let at = lease.head_ready(self.outcome);
            let latency = at.saturating_since(lease.picked_at());
            let counts = self.replica.counts();
            counts.heads.add(latency);
            counts.evidence.note_response(at);
            self.head_at = Some(at);
        }
    }

    /// Keeps the timer of the request, because its response is the request's and is not complete.
    pub(crate) fn keep(&mut self, mut timer: RequestTimer, status: StatusCode) {
        if let Some(at) = self.head_at {
            timer.head(status, at);
        }
        self.timer = Some(timer);
    }

    /// Passes a load report in the response to the policy, and removes it from the response.
    fn learn(&self, headers: &mut impl FieldMap) {
        if let Some(report) = take_report(self.learning, headers)
            && let Some(lease) = &self.lease
        {
            self.replica.counts().reports_carried.add_one();
            lease.handle_carried_report(&report);
        }
    }

    /// Records the outcome and the status of a gRPC call, as read from the response.
    fn note(&mut self, read: ReadOutcome) {
        self.outcome = read.outcome;
        self.grpc_status = read.grpc_status.or(self.grpc_status);
        if read.grpc_status.is_some_and(GrpcStatus::blames_server) {
            self.replica.counts().grpc_failures.add_one();
        }
    }

    fn fail(&mut self, failure: &Failure) {
        let counts = self.replica.counts();
        if let Some((kind, error)) = failure.evidence() {
            counts.evidence.note_failure(kind, error);
        }
        let outcome = match &failure.cause {
            Cause::NoConnection(_) => {
                counts.connect_failures.add_one();
                Outcome::NoConnection
            }
            // Its connections are full, possibly with responses that clients do not read. That is
            // no evidence about the replica.
            Cause::Full => {
                counts.full.add_one();
                Outcome::Dropped
            }
            Cause::Broken(_) if failure.is_unsent => {
                counts.broken.add_one();
                Outcome::NoConnection
            }
            Cause::Shed(Shed::CopyStarted) => {
                counts.superseded.add_one();
                Outcome::Dropped
            }
            Cause::Shed(shed) => {
                counts.count_response(StatusCode::SERVICE_UNAVAILABLE);
                counts.shed.add_one();
                match shed {
                    // The client's deadline was too short, which is no evidence about the replica's
                    // load.
                    Shed::Deadline => Outcome::Dropped,
                    _ => Outcome::PushedBack,
                }
            }
            Cause::Withdrawn => {
                counts.count_response(StatusCode::SERVICE_UNAVAILABLE);
                Outcome::NoConnection
            }
            Cause::Broken(_) | Cause::Coding | Cause::HeadTooLarge | Cause::Switched => {
                counts.broken.add_one();
                Outcome::Broken
            }
            Cause::FirstByte => {
                counts.timeouts.add_one();
                Outcome::TimedOut
            }
            Cause::ClientStalled | Cause::ClientBroken | Cause::TooLarge => {
                counts.client_gone.add_one();
                Outcome::Dropped
            }
        };
        tracing::debug!(
            replica = self.replica.config.name,
            target = %self.replica.connections.target(),
            cause = %failure.cause,
            "attempt failed"
        );
        self.end_because(outcome, || Some(failure.cause.to_string().into()));
    }

    fn end(&mut self, outcome: Outcome) {
        self.end_because(outcome, || None);
    }

    fn end_because(&mut self, outcome: Outcome, cause: impl FnOnce() -> Option<Box<str>>) {
        self.end_with(outcome, RequestTimer::leave, cause);
    }

    /// Ends the attempt, and closes the request's timer, if any, with `close` at the time that the
    /// policy receives. Returns that time, unless the attempt had ended before.
    fn end_with(
        &mut self,
        outcome: Outcome,
        close: fn(RequestTimer, CoreInstant),
        cause: impl FnOnce() -> Option<Box<str>>,
    ) -> Option<CoreInstant> {
        let at = self.lease.take()?.finish(outcome);
        self.replica.counts().in_flight.subtract_one();
        if let Some(timer) = self.timer.take() {
            close(timer, at);
        }
        self.notes.end(outcome, cause);
        Some(at)
    }
}

impl Watch for Box<Attempt> {
    fn passed(&self, bytes: usize) {
        self.record.passed(bytes);
    }

    fn trailers(&mut self, trailers: &mut HeaderMap) {
        let read = read_trailers(trailers, self.outcome);
        if let Some(status) = read.grpc_status {
            self.record.grpc_ended(status);
            self.notes.grpc_ended(status);
        }
        self.note(read);
        self.learn(trailers);
    }

    fn finish(mut self, end: End) {
        let ended = match end {
            End::Complete => Ended::Complete,
            End::Broken => Ended::Broken,
            End::Stalled | End::TooLong => Ended::Stalled,
            End::TunnelIdle => Ended::TunnelIdle,
        };
        let is_discarded = self.is_discarded;
        let has_failed_in_grpc = self.grpc_status.is_some_and(GrpcStatus::blames_server);
        let outcome = match end {
            End::Complete => self.outcome,
            End::TunnelIdle => Outcome::Success,
            End::Broken => {
                self.replica.counts().broken.add_one();
                Outcome::Broken
            }
            End::Stalled => {
                self.replica.counts().timeouts.add_one();
                Outcome::TimedOut
            }
            // The client may have taken it too slowly, which is no evidence against the replica.
            End::TooLong => {
                self.replica.counts().timeouts.add_one();
                Outcome::Dropped
            }
        };
        let at = self.end_with(
            outcome,
            match end {
                End::Complete if has_failed_in_grpc => RequestTimer::complete_as_failed,
                End::Complete | End::TunnelIdle => RequestTimer::complete,
                End::Broken | End::Stalled | End::TooLong => RequestTimer::break_off,
            },
            || is_discarded.then(|| NOT_PASSED_ON.into()),
        );
        self.record.end_at(ended, at);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.lease.is_none() {
            return;
        }
        if self.is_discarded {
            // The response may have been rejected although its status is a success.
            let outcome = match self.outcome {
                Outcome::Success => Outcome::Failed,
                outcome => outcome,
            };
            self.end_because(outcome, || Some(NOT_PASSED_ON.into()));
        } else if self
            .pair_decided
            .as_ref()
            .is_some_and(|pair_decided| pair_decided.get())
        {
            self.replica.counts().superseded.add_one();
            self.end_because(Outcome::Dropped, || Some("the other copy won".into()));
        } else {
            self.replica.counts().client_gone.add_one();
            self.end_because(Outcome::Dropped, || Some("given up".into()));
        }
    }
}
