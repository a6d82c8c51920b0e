//! Two copies of one request: the first good head wins, and the other copy is cancelled where it is.
//!
//! Why and when there is a second, and who gets it, is not decided here (`copying`). A copy that fails leaves the request to
//! the other one; only when both have failed does the request go on as one that failed. Whoever loses is dropped, which
//! closes its connection, or resets its stream. A copy that a replica dropped because the other had begun is no failure, and
//! no try.

use super::attempts::{Attempts, Reply};
use super::copying::{Copying, Next};
use super::flight::{Flight, Member, Setback};
use crate::access_log::{Ended, Trace};
use crate::forward::{RequestBody, Twin};
use core::cell::Cell;
use core::future::pending;
use core::pin::pin;
use http::{HeaderName, HeaderValue, Request};
use slackwater_core::ReplicaId;
use slackwater_core::policy::Outcome;
use slackwater_core::tail::WatchEnd;
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
    /// Sends the request by `first`, and a second copy of it if there is to be one.
    pub(super) async fn race(
        &self,
        mut copying: Copying<'_>,
        mut first: Box<Flight>,
        mut request: Box<Request<RequestBody>>,
    ) -> Result<Reply, Lost> {
        let due_at = copying.due_at();
        let twin = due_at.and_then(|_| Twin::of(&request));
        if twin.is_some() {
            copying.begin(&mut request);
        }
        let mut lost = Losing::new(&first);
        let part = first.part();
        first.enter_race(&lost.is_decided);
        let mut first = pin!(first.send(request, self.patience(1), self.rules(1), self.trace));
        let in_time = tokio::select! {
            biased;
            sent = first.as_mut() => Some(sent),
            () = until(due_at) => None,
        };
        let mut copy = None;
        if in_time.is_none() && copying.is_to_be_copied() {
            copy = twin.and_then(Twin::into_request);
        }
        let next = copy.and_then(|mut copy| Some((copying.next(&mut copy)?, copy)));
        let Some((next, copy)) = next else {
            copying.unsent();
            let sent = match in_time {
                Some(sent) => sent,
                None => first.await,
            };
            return match sent {
                Ok(reply) => Ok(self.first_won(reply, part, copying)),
                Err(setback) => {
                    lost.first_failed(&setback, &mut copying);
                    Err(lost.with(setback))
                }
            };
        };
        let (avoid, is_decided) = (lost.tried.clone(), Rc::clone(&lost.is_decided));
        let mut second = pin!(self.second(copy, next, &avoid, &is_decided));
        let mut is_second_out = true;
        loop {
            tokio::select! {
                biased;
                sent = first.as_mut(), if lost.first.is_none() => match sent {
                    Ok(reply) => {
                        is_decided.set(true);
                        let mut reply = self.first_won(reply, part, copying);
                        if lost.is_second_tried || is_second_out {
                            mark(&mut reply, "1");
                        }
                        return Ok(reply);
                    }
                    Err(setback) => {
                        lost.first_failed(&setback, &mut copying);
                        if !is_second_out {
                            return Err(lost.with(setback));
                        }
                        lost.first = Some(setback);
                    }
                },
                second = second.as_mut(), if is_second_out => {
                    is_second_out = false;
                    match second {
                        None => copying.unsent(),
                        Some(Second { member, part, reason, sent: Ok(reply) }) => {
                            is_decided.set(true);
                            if let Some(Setback::Refused(unwanted)) = lost.first.take() {
                                unwanted.discard();
                            }
                            copying.end(WatchEnd::Superseded);
                            self.served.set(part);
                            return Ok(self.second_won(reply, &member, reason));
                        }
                        Some(Second { member, sent: Err(setback), .. }) => {
                            lost.second_failed(&setback, &member, &mut copying);
                            // That the first was dropped says nothing of the request.
                            if lost.first.as_ref().is_some_and(Setback::is_twin_s) {
                                return Err(lost.with(setback));
                            }
                            if let Setback::Refused(unwanted) = setback {
                                unwanted.discard();
                            }
                        }
                    }
                    if let Some(setback) = lost.first.take() {
                        return Err(lost.with(setback));
                    }
                }
            }
        }
    }

    /// The second copy; `None`: there is nowhere to send it to.
    async fn second(
        &self,
        request: Box<Request<RequestBody>>,
        next: Next<'_>,
        avoid: &[ReplicaId],
        is_decided: &Rc<Cell<bool>>,
    ) -> Option<Second> {
        let kind = next.kind();
        let mut next = next.flight(self.service, avoid).await?;
        let (member, part) = (Rc::clone(next.member()), next.part());
        let reason = next.reason().unwrap_or_default();
        self.trace.copied(kind);
        next.enter_race(is_decided);
        let patience = self.patience(u32::MAX);
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

    fn first_won(&self, mut reply: Reply, part: Option<ReplicaId>, copying: Copying<'_>) -> Reply {
        self.served.set(part);
        let mut told = Outcome::Success;
        if let Some(flight) = reply.body_mut().watch_mut() {
            flight.leave_race();
            told = flight.told();
        }
        // An error may come sooner than an answer would, and so may what ends with its head.
        let is_answer = told == Outcome::Success && !reply.status().is_server_error();
        copying.end(if is_answer {
            WatchEnd::Answered
        } else {
            WatchEnd::Failed
        });
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
    /// Why the first copy was not answered.
    first: Option<Setback>,
    tried: Vec<ReplicaId>,
    attempts: usize,
    is_second_tried: bool,
}

impl Losing {
    fn new(first: &Flight) -> Self {
        Self {
            is_decided: Rc::default(),
            first: None,
            tried: first.member().parts.clone(),
            attempts: 1,
            is_second_tried: false,
        }
    }

    fn first_failed(&mut self, setback: &Setback, copying: &mut Copying<'_>) {
        if setback.is_twin_s() {
            copying.dropped();
            // It was no try, and its replica is as good as any.
            self.attempts -= 1;
            self.tried.clear();
        }
    }

    fn second_failed(&mut self, setback: &Setback, member: &Member, copying: &mut Copying<'_>) {
        self.is_second_tried = true;
        if setback.is_twin_s() {
            copying.dropped();
        } else {
            self.attempts += 1;
            self.tried.extend(&member.parts);
        }
    }

    fn with(self, setback: Setback) -> Lost {
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

fn mark(reply: &mut Reply, attempt: &'static str) {
    let attempt = HeaderValue::from_static(attempt);
    reply.headers_mut().insert(X_SLACKWATER_ATTEMPT, attempt);
}
