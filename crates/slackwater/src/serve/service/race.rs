//! Two copies of one request: the first good head wins, and the other copy is cancelled where it is.
//!
//! The second is sent when the first is late, to the replica that the policy has next. A copy that fails leaves the request to
//! the other one; only when both have failed does the request go on as one that failed. Whoever loses is dropped, which
//! closes its connection, or resets its stream.

use super::attempts::{Attempts, Reply};
use super::flight::{Flight, Member, Setback, discard};
use super::hedging::{Hedging, Watching};
use crate::access_log::{Ended, Trace};
use crate::forward::{RequestBody, Twin};
use core::cell::Cell;
use core::future::pending;
use core::pin::pin;
use http::{HeaderName, HeaderValue, Request, StatusCode};
use slackwater_core::ReplicaId;
use slackwater_core::overload::Priority;
use slackwater_core::policy::{Outcome, Query};
use slackwater_core::tail::WatchEnd;
use slackwater_tower::response::head_outcome;
use slackwater_tower::wire::asks::set_priority;
use std::rc::Rc;
use tokio::time::{Instant, sleep_until};

/// Which copy of a request that was sent twice the response is of: `1` or `2`.
const X_SLACKWATER_ATTEMPT: HeaderName = HeaderName::from_static("x-slackwater-attempt");

/// A request of which no copy was answered.
pub(super) struct Lost {
    pub(super) setback: Setback,
    /// All parts of the replicas that had it.
    pub(super) tried: Vec<ReplicaId>,
    /// How many had it.
    pub(super) attempts: usize,
}

/// A second copy that was sent, and what came of it.
struct Second {
    member: Rc<Member>,
    part: Option<ReplicaId>,
    reason: &'static str,
    sent: Result<Reply, Setback>,
}

impl Attempts<'_> {
    /// Sends the request by `first`, and a second copy of it if that is late.
    pub(super) async fn race(
        &self,
        (hedging, route): (&Hedging, usize),
        mut first: Box<Flight>,
        request: Box<Request<RequestBody>>,
    ) -> Result<Reply, Lost> {
        let mut watching = hedging.begin(route, &request);
        let due_at = watching.due_at();
        let twin = due_at.and_then(|_| Twin::of(&request));
        let mut lost = Losing::new(&first);
        let part = first.part();
        first.enter_race(&lost.is_decided);
        let mut first = pin!(first.send(request, self.patience(1), self.rules(1), self.trace));
        let in_time = tokio::select! {
            biased;
            sent = first.as_mut() => Some(sent),
            () = until(due_at) => None,
        };
        let copy = if in_time.is_none() && watching.is_to_be_copied() {
            twin.and_then(Twin::into_request)
        } else {
            None
        };
        let Some(copy) = copy else {
            watching.unsent();
            let sent = match in_time {
                Some(sent) => sent,
                None => first.await,
            };
            return match sent {
                Ok(reply) => Ok(self.first_won(reply, part, watching)),
                Err(setback) => Err(lost.with(setback)),
            };
        };
        let (avoid, is_decided) = (lost.tried.clone(), Rc::clone(&lost.is_decided));
        let is_copied = Cell::new(false);
        let mut second = pin!(self.second(copy, &avoid, (&is_decided, &is_copied), hedging));
        let mut is_second_out = true;
        loop {
            tokio::select! {
                biased;
                sent = first.as_mut(), if lost.first.is_none() => {
                    let is_answer = matches!(&sent, Ok(reply) if is_answer(reply));
                    lost.first = Some(sent);
                    if !is_answer && is_second_out {
                        continue;
                    }
                }
                second = second.as_mut(), if is_second_out => {
                    is_second_out = false;
                    match second {
                        None => watching.unsent(),
                        Some(Second { member, part, reason, sent: Ok(reply) })
                            if is_answer(&reply) =>
                        {
                            is_decided.set(true);
                            if let Some(unwanted) = lost.first.take() {
                                discard_sent(unwanted);
                            }
                            watching.end(WatchEnd::Superseded);
                            self.served.set(part);
                            return Ok(self.second_won(reply, &member, reason));
                        }
                        Some(Second { member, sent, .. }) => {
                            lost.tried.extend(&member.parts);
                            lost.attempts += 1;
                            lost.is_second_heard =
                                !matches!(&sent, Err(setback) if setback.is_unsent());
                            discard_sent(sent);
                        }
                    }
                }
            }
            match lost.first.take() {
                None => (),
                Some(Ok(reply)) => {
                    is_decided.set(true);
                    let mut reply = self.first_won(reply, part, watching);
                    if is_copied.get() {
                        mark(&mut reply, "1");
                    }
                    return Ok(reply);
                }
                Some(Err(setback)) => return Err(lost.with(setback)),
            }
        }
    }

    /// A second copy, to a replica that is not to be avoided; `None`: there is nowhere to send it to.
    async fn second(
        &self,
        mut request: Box<Request<RequestBody>>,
        avoid: &[ReplicaId],
        (is_decided, is_copied): (&Rc<Cell<bool>>, &Cell<bool>),
        hedging: &Hedging,
    ) -> Option<Second> {
        let mut next = self.service.pick(Query::hedge(avoid)).await?;
        if !self.service.members.may_choose(next.member()) || !next.enter() {
            next.cancel();
            return None;
        }
        let (member, part) = (Rc::clone(next.member()), next.part());
        let reason = next.reason().unwrap_or_default();
        member.counts().hedges.add_one();
        hedging.sent();
        is_copied.set(true);
        self.trace.copied();
        next.enter_race(is_decided);
        // Where requests queue, it waits behind those that have no other copy.
        set_priority(request.headers_mut(), Priority::Shadow);
        let patience = self.patience(2);
        // Nothing is noted of it unless it wins.
        let trace = Trace::default();
        let sent = next.send(request, patience, self.rules(1), &trace).await;
        Some(Second {
            member,
            part,
            reason,
            sent,
        })
    }

    fn first_won(
        &self,
        mut reply: Reply,
        part: Option<ReplicaId>,
        watching: Watching<'_>,
    ) -> Reply {
        self.served.set(part);
        // An error may come sooner than an answer would.
        let is_answer = is_answer(&reply);
        if let Some(flight) = reply.body_mut().watch_mut() {
            flight.leave_race();
        }
        if is_answer {
            watching.answered(reply.headers());
        } else {
            watching.end(WatchEnd::Failed);
        }
        reply
    }

    fn second_won(&self, mut reply: Reply, member: &Member, reason: &'static str) -> Reply {
        let status = reply.status();
        self.trace.copy_won(&member.config.name, reason, status);
        match reply.body_mut().watch_mut() {
            Some(flight) => flight.take_trace(self.trace),
            None => self.trace.end(Ended::Complete),
        }
        mark(&mut reply, "2");
        reply
    }
}

/// What is known of a race while nobody has won it.
struct Losing {
    /// Whoever is still out has lost.
    is_decided: Rc<Cell<bool>>,
    /// What has come of the first copy, if that is no answer.
    first: Option<Result<Reply, Setback>>,
    /// A replica has had the second copy.
    is_second_heard: bool,
    tried: Vec<ReplicaId>,
    attempts: usize,
}

impl Losing {
    fn new(first: &Flight) -> Self {
        Self {
            is_decided: Rc::default(),
            first: None,
            is_second_heard: false,
            tried: first.member().parts.clone(),
            attempts: 1,
        }
    }

    fn with(self, mut setback: Setback) -> Lost {
        if self.is_second_heard {
            setback.set_heard();
        }
        Lost {
            setback,
            tried: self.tried,
            attempts: self.attempts,
        }
    }
}

async fn until(due_at: Option<Instant>) {
    match due_at {
        Some(due_at) => sleep_until(due_at).await,
        None => pending().await,
    }
}

/// Whether a response ends a race: one that blames its replica does not, nor one that asks to come later. The other copy may do
/// better.
fn is_answer(reply: &Reply) -> bool {
    reply.status() != StatusCode::TOO_MANY_REQUESTS
        && head_outcome(reply.status(), reply.headers()) == Outcome::Success
}

/// A copy of which nothing is wanted any more.
fn discard_sent(sent: Result<Reply, Setback>) {
    match sent {
        Ok(reply) => discard(reply),
        Err(Setback::Refused(unwanted)) => unwanted.discard(),
        Err(Setback::Failed(_)) => (),
    }
}

fn mark(reply: &mut Reply, attempt: &'static str) {
    let attempt = HeaderValue::from_static(attempt);
    reply.headers_mut().insert(X_SLACKWATER_ATTEMPT, attempt);
}
