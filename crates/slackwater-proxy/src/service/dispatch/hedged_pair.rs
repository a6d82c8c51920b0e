//! Two copies of one request: the first good response head wins, and the other copy is cancelled.
//!
//! `copy_plan` decides why and when there is a second copy, and which replica gets it. A copy that
//! fails leaves the request to the other one. Only when both have failed does the request continue
//! as failed. The losing copy is dropped, which closes its connection or resets its stream. A copy
//! that a replica dropped because the other had started is neither a failure nor an attempt.

use super::attempts::{AttemptResponse, Attempts};
use super::second_copy::{CopyPlan, CopyTarget};
use crate::forward::{RequestBody, RequestTemplate};
use crate::request_record::{AttemptKind, Ended};
use crate::service::attempt::{Attempt, AttemptError, discard};
use crate::service::fleet::FleetReplica;
use core::cell::Cell;
use core::future::pending;
use core::pin::pin;
use core::time::Duration;
use http::{HeaderName, HeaderValue, StatusCode};
use slackwater_core::ReplicaId;
use slackwater_core::policy::Outcome;
use slackwater_core::tail::WatchEnd;
use slackwater_http::Request;
use slackwater_tower::response::{GrpcStatus, head_outcome};
use std::rc::Rc;
use tokio::time::{Instant, sleep_until};

/// Names the copy of a duplicated request that the response belongs to: `1` or `2`.
const X_SLACKWATER_ATTEMPT: HeaderName = HeaderName::from_static("x-slackwater-attempt");

/// A request whose copies all failed.
pub(crate) struct FailedAttempts {
    pub(super) error: AttemptError,
    /// All parts of the replicas that received it.
    pub(crate) tried: Vec<ReplicaId>,
    /// Number of replicas that received it.
    pub(crate) attempts: usize,
    /// A second copy whose response may stand in if no other attempt has one. Until then it holds
    /// its replica's permit.
    pub(super) second: Option<Box<Second>>,
}

/// A second copy that was sent, and its result. A response that is no answer is kept while another
/// attempt may still give a better one.
pub(super) struct Second {
    replica: Rc<FleetReplica>,
    home: Option<ReplicaId>,
    kind: AttemptKind,
    sent: AttemptResult,
}

impl Second {
    /// Whether its replica responded, whatever the rules say of the response.
    const fn has_response(&self) -> bool {
        matches!(self.sent, Ok(_) | Err(AttemptError::Rejected(_)))
    }

    /// Gives it up.
    pub(super) fn discard(self) {
        discard_sent(self.sent);
    }
}

type AttemptResult = Result<AttemptResponse, AttemptError>;

impl Attempts<'_> {
    /// Sends the request by `first`, and a second copy of it if one becomes due.
    pub(crate) async fn send_pair(
        &self,
        mut copy_plan: CopyPlan<'_>,
        mut first: Box<Attempt>,
        mut request: Box<Request<RequestBody>>,
    ) -> Result<AttemptResponse, FailedAttempts> {
        let (mut due_at, template) = copy_plan.begin(&mut request).unzip();
        let mut pair = HedgedPair::new(&first);
        let home = first.home();
        first.join_pair(&pair.is_decided);
        let mut first = pin!(first.send(request, self.timeouts(1), self.rules(1), self.record));
        let (next, copy) = loop {
            let in_time = tokio::select! {
                biased;
                sent = first.as_mut() => Some(sent),
                () = until(due_at) => None,
            };
            if let Some(sent) = in_time {
                copy_plan.unsent();
                return match sent {
                    Ok(reply) => Ok(self.first_won(reply, home, copy_plan)),
                    Err(error) => {
                        pair.first_failed(&error, &mut copy_plan);
                        Err(pair.with(error))
                    }
                };
            }
            let template = template.as_ref().filter(|_| copy_plan.is_to_be_copied());
            let copy = template.and_then(RequestTemplate::request);
            let next = copy.and_then(|mut copy| Some((copy_plan.next(&mut copy)?, copy)));
            if let Some(next) = next {
                break next;
            }
            // Ask again later: the hedging budget may have refilled.
            due_at = copy_plan.again_at();
        };
        let (avoid, is_decided) = (pair.tried.clone(), Rc::clone(&pair.is_decided));
        // `due_at` is on tokio's clock, `began` on the balancer's; convert by elapsed time.
        let late = due_at.map_or(Duration::ZERO, |due_at| due_at.elapsed());
        let due_after = self.now().saturating_since(self.began).saturating_sub(late);
        let is_copied = Cell::new(false);
        let mut second =
            pin!(self.second(copy, next, &avoid, due_after, (&is_decided, &is_copied)));
        let mut is_second_out = true;
        let mut kept = None;
        loop {
            tokio::select! {
                biased;
                sent = first.as_mut(), if pair.first.is_none() => {
                    let is_answer = matches!(&sent, Ok(reply) if is_answer(reply));
                    if let Err(error) = &sent {
                        pair.first_failed(error, &mut copy_plan);
                    }
                    pair.first = Some(sent);
                    // The first copy failed or gave no good answer: wait for the second.
                    if !is_answer && is_second_out {
                        continue;
                    }
                }
                second = second.as_mut(), if is_second_out => {
                    is_second_out = false;
                    // If the first copy was dropped by its replica, only the result of the second
                    // counts.
                    let is_alone = pair.is_first_dropped();
                    match second {
                        None => copy_plan.unsent(),
                        Some(Second { home, kind, sent: Ok(mut reply), .. })
                            if is_alone || is_answer(&reply) =>
                        {
                            is_decided.set(true);
                            if let Some(rejected) = pair.first.take() {
                                discard_sent(rejected);
                            }
                            copy_plan.end(WatchEnd::Superseded);
                            self.served.set(home);
                            self.pass_on(&mut reply, kind);
                            return Ok(self.second_won(reply, kind));
                        }
                        Some(Second { replica, sent: Err(error), .. }) if is_alone => {
                            pair.second_failed(&error, &replica, &mut copy_plan);
                            return Err(pair.with(error));
                        }
                        Some(second) => {
                            match &second.sent {
                                Ok(_) => pair.count(&second.replica),
                                Err(error) => {
                                    pair.second_failed(error, &second.replica, &mut copy_plan);
                                }
                            }
                            pair.is_second_received =
                                !matches!(&second.sent, Err(error) if error.is_unsent());
                            kept = Some(second);
                        }
                    }
                }
            }
            if let Some(sent) = pair.first.take() {
                is_decided.set(sent.is_ok());
                let first = (sent, home, is_copied.get());
                return self.settle(pair, first, kept, copy_plan);
            }
        }
    }

    /// Ends the pair with the result of the first copy.
    fn settle(
        &self,
        pair: HedgedPair,
        (first, home, is_copied): (AttemptResult, Option<ReplicaId>, bool),
        second: Option<Second>,
        copy_plan: CopyPlan<'_>,
    ) -> Result<AttemptResponse, FailedAttempts> {
        match first {
            Err(error @ AttemptError::Failed(_)) => Err(FailedAttempts {
                second: second.filter(Second::has_response).map(Box::new),
                ..pair.with(error)
            }),
            first => {
                if let Some(second) = second {
                    second.discard();
                }
                let reply = first.map_err(|error| pair.with(error))?;
                let mut reply = self.first_won(reply, home, copy_plan);
                if is_copied {
                    mark(&mut reply, "1");
                }
                Ok(reply)
            }
        }
    }

    /// Returns the response of a second copy because no attempt has a better one.
    pub(super) fn stand_in(&self, second: Second) -> AttemptResponse {
        self.served.set(second.home);
        let reply = match second.sent {
            Ok(mut reply) => {
                self.pass_on(&mut reply, second.kind);
                reply
            }
            Err(AttemptError::Rejected(rejected)) => rejected.pass_on(self.record),
            Err(error) => return self.give_up(error),
        };
        self.second_won(reply, second.kind)
    }

    /// Sends the second copy; `None` if there is no replica for it.
    async fn second(
        &self,
        request: Box<Request<RequestBody>>,
        next: CopyTarget<'_>,
        avoid: &[ReplicaId],
        due_after: Duration,
        (is_decided, is_copied): (&Rc<Cell<bool>>, &Cell<bool>),
    ) -> Option<Second> {
        let kind = next.kind();
        let mut next = next.attempt(self.service, avoid, self.picked_for()).await?;
        let (replica, home) = (Rc::clone(next.replica()), next.home());
        is_copied.set(true);
        next.begin_copy(kind, due_after, self.record);
        next.join_pair(is_decided);
        let timeouts = self.timeouts(2);
        let sent = next.send(request, timeouts, self.rules(1), self.record);
        Some(Second {
            replica,
            home,
            kind,
            sent: sent.await,
        })
    }

    fn first_won(
        &self,
        mut reply: AttemptResponse,
        home: Option<ReplicaId>,
        copy_plan: CopyPlan<'_>,
    ) -> AttemptResponse {
        self.served.set(home);
        // An error may arrive sooner than an answer would, so its latency is not learned.
        let is_answer = is_answer(&reply);
        self.pass_on(&mut reply, AttemptKind::First);
        if is_answer {
            copy_plan.answered(reply.headers());
        } else {
            copy_plan.end(WatchEnd::Failed);
        }
        reply
    }

    /// Counts and marks the response of a second copy, which the client gets.
    fn second_won(&self, mut reply: AttemptResponse, kind: AttemptKind) -> AttemptResponse {
        let counts = self.service.counts();
        match kind {
            AttemptKind::Tie => counts.ties_won.add_one(),
            _ => counts.hedges_won.add_one(),
        }
        mark(&mut reply, "2");
        reply
    }

    /// Makes this response, of the attempt of that kind, the one that the client gets.
    fn pass_on(&self, reply: &mut AttemptResponse, kind: AttemptKind) {
        if let Some(attempt) = reply.body_mut().watch_mut() {
            return attempt.pass_on(self.record);
        }
        // It has no body, so no attempt is left that would record the end.
        self.record.pass_on(kind, GrpcStatus::of(reply.headers()));
        self.record.end(Ended::Complete);
    }
}

/// Two copies of a request, before either has won.
struct HedgedPair {
    /// Whether one of them has won; the other is dropped.
    is_decided: Rc<Cell<bool>>,
    /// Result of the first copy, if it is not an answer.
    first: Option<AttemptResult>,
    /// Whether a replica has received the second copy.
    is_second_received: bool,
    tried: Vec<ReplicaId>,
    attempts: usize,
}

impl HedgedPair {
    fn new(first: &Attempt) -> Self {
        Self {
            is_decided: Rc::default(),
            first: None,
            is_second_received: false,
            tried: first.replica().parts.clone(),
            attempts: 1,
        }
    }

    /// Whether a replica dropped the first copy because the second had started.
    fn is_first_dropped(&self) -> bool {
        matches!(&self.first, Some(Err(error)) if error.is_superseded())
    }

    fn first_failed(&mut self, error: &AttemptError, copy_plan: &mut CopyPlan<'_>) {
        if error.is_superseded() {
            copy_plan.dropped();
            // It does not count as an attempt, and its replica may be picked again.
            self.attempts -= 1;
            self.tried.clear();
        }
    }

    fn second_failed(
        &mut self,
        error: &AttemptError,
        replica: &FleetReplica,
        copy_plan: &mut CopyPlan<'_>,
    ) {
        if error.is_superseded() {
            copy_plan.dropped();
        } else {
            self.count(replica);
        }
    }

    /// Counts the second copy as an attempt.
    fn count(&mut self, replica: &FleetReplica) {
        self.attempts += 1;
        self.tried.extend(&replica.parts);
    }

    fn with(self, mut error: AttemptError) -> FailedAttempts {
        if self.is_second_received {
            error.mark_received();
        }
        FailedAttempts {
            error,
            tried: self.tried,
            attempts: self.attempts,
            second: None,
        }
    }
}

async fn until(due_at: Option<Instant>) {
    match due_at {
        Some(due_at) => sleep_until(due_at).await,
        None => pending().await,
    }
}

/// Whether a response wins. A response that blames its replica, or that requests a later retry,
/// does not: the other copy may do better.
fn is_answer(reply: &AttemptResponse) -> bool {
    reply.status() != StatusCode::TOO_MANY_REQUESTS
        && head_outcome(reply.status(), reply.headers()) == Outcome::Success
}

/// Discards a copy that is no longer needed.
fn discard_sent(sent: AttemptResult) {
    match sent {
        Ok(reply) => discard(reply.into_body()),
        Err(AttemptError::Rejected(rejected)) => rejected.discard(),
        Err(AttemptError::Failed(_)) => (),
    }
}

fn mark(reply: &mut AttemptResponse, attempt: &'static str) {
    let attempt = HeaderValue::from_static(attempt);
    reply.headers_mut().insert(X_SLACKWATER_ATTEMPT, attempt);
}
