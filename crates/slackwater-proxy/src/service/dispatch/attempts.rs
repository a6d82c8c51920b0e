//! One request and its attempts, each at another replica, until there is a response to forward or a
//! reason to stop.
//!
//! The client gets the last attempt's response, or that of a second copy of the first, or the
//! reason why the last attempt has none. The rules (`retries`) decide whether there may be another
//! attempt, and the policy picks its replica.

use super::hedged_pair::FailedAttempts;
use super::{PickedFor, Service};
use crate::forward::{
    Answer, AttemptTimeouts, Cause, RequestBody, answer, replicas_full, too_late,
};
use crate::request_record::{AttemptKind, RecordHandle};
use crate::service::attempt::{
    Attempt, AttemptError, Hint, RejectedResponse, RequestTimer, RetryPermit, follow,
};
use crate::service::keys::{RequestKey, remove_forged};
use core::cell::Cell;
use core::time::Duration;
use http_body::Body;
use slackwater_config::routes::RetryRules;
use slackwater_core::policy::{Outcome, Query};
use slackwater_core::{Instant as CoreInstant, ReplicaId};
use slackwater_http::Request;
use slackwater_tower::response::{grpc_failed, head_outcome};
use slackwater_tower::wire::tie::TIE;
use std::rc::Rc;
use tokio::time::Instant;

pub(crate) type AttemptResponse = Answer<Box<Attempt>>;

/// Options of a request's attempts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DispatchOptions<'r> {
    /// The request's own timeouts.
    pub(crate) timeouts: AttemptTimeouts,
    /// Retry rules, if they differ from the service's.
    pub(crate) rules: Option<&'r RetryRules>,
    /// Index of the request's route; `None` if no second copy may be sent, however late the
    /// response is.
    pub(crate) route: Option<usize>,
    /// The request's key, from [`Service::key`].
    pub(crate) key: Option<&'r RequestKey>,
    /// The replica that it sticks to, from [`Service::pinned`].
    pub(crate) pinned: Option<ReplicaId>,
}

/// State that all attempts of a request share.
#[derive(Clone)]
pub(crate) struct Attempts<'s> {
    pub(crate) service: &'s Service,
    pub(crate) record: &'s RecordHandle,
    key: Option<&'s RequestKey>,
    /// The [home](Attempt::home) of the attempt whose response is forwarded.
    pub(crate) served: &'s Cell<Option<ReplicaId>>,
    rules: &'s RetryRules,
    may_repeat: bool,
    /// The replica that the request sticks to.
    pinned: Option<ReplicaId>,
    /// Whether the body can be sent again, judged by its length if known.
    is_kept: bool,
    pub(crate) began: CoreInstant,
    /// Time from `began` to the response head, for all attempts together. Time spent without
    /// reaching a replica does not count.
    first_byte: Duration,
    /// Whether `first_byte` is less than the timeout of an attempt.
    is_own: bool,
    ends: Option<Instant>,
    /// The client's deadline.
    wanted: Option<Instant>,
}

impl Service {
    /// Returns the response of the picked replica, or of another one after that, to a request that
    /// was prepared for [`Self::protocol`].
    pub(crate) async fn handle(
        &self,
        mut request: Box<Request<RequestBody>>,
        record: &RecordHandle,
        options: &DispatchOptions<'_>,
    ) -> AttemptResponse {
        // Only routing lies between a request's head and this.
        let clock = self.balancer.clock();
        let mut began = record.begin_on(clock).unwrap_or_else(|| clock.now());
        let timer = RequestTimer::open(&self.latency_meter, began, record);
        let permit = match &self.limiter {
            None => None,
            Some(limiter) => match limiter.acquire(options.timeouts.wanted).await {
                Ok(permit) => {
                    began = self.balancer.now();
                    Some(permit)
                }
                Err(shed) => {
                    let response = shed.answer();
                    self.settle(timer, &response);
                    return response;
                }
            },
        };
        match &self.keys {
            Some(keys) => keys.pass_on(options.key, request.headers_mut()),
            None => remove_forged(request.headers_mut()),
        }
        let served = Cell::new(None);
        let attempt = self.attempt(request, &served, (record, options, began));
        let mut response = attempt.await;
        if let (Some(sticky), Some(replica)) = (&self.sticky, served.get()) {
            sticky.mark(response.headers_mut(), options.pinned, replica);
        }
        let status = response.status();
        match response.body_mut().watch_mut() {
            Some(attempt) => {
                attempt.keep(timer, status);
                if let Some(permit) = permit {
                    attempt.hold(permit);
                }
            }
            // The proxy's own answer, or a complete response, holds no permit.
            None => self.settle(timer, &response),
        }
        response
    }

    /// Returns the proxy's own answer to a request for this service, and counts it.
    pub(crate) fn refused(
        &self,
        answer: AttemptResponse,
        record: &RecordHandle,
    ) -> AttemptResponse {
        let timer = RequestTimer::open(&self.latency_meter, self.balancer.now(), record);
        self.settle(timer, &answer);
        answer
    }

    /// Counts a response that is complete already.
    fn settle(&self, mut timer: RequestTimer, response: &AttemptResponse) {
        let now = self.balancer.now();
        timer.head(response.status(), now);
        if grpc_failed(response.headers()) {
            timer.complete_as_failed(now);
        } else {
            timer.complete(now);
        }
    }

    async fn attempt(
        &self,
        mut request: Box<Request<RequestBody>>,
        served: &Cell<Option<ReplicaId>>,
        (record, options, began): (&RecordHandle, &DispatchOptions<'_>, CoreInstant),
    ) -> AttemptResponse {
        let (timeouts, pinned) = (&options.timeouts, options.pinned);
        let rules = options.rules.unwrap_or(self.retries.rules());
        let _awaited = self.retries.await_response();
        let attempts = Attempts {
            service: self,
            record,
            key: options.key,
            served,
            rules,
            may_repeat: rules.may_repeat(&request),
            pinned,
            is_kept: request.body().size_hint().lower() <= u64::from(rules.body_bytes_max),
            began,
            first_byte: timeouts.first_byte.unwrap_or(self.first_byte),
            is_own: timeouts.first_byte.is_some(),
            ends: timeouts.ends,
            wanted: timeouts.wanted,
        };
        // The body is also kept for requests that may not be repeated: it may turn out that no
        // replica received them.
        if rules.may_follow(&request) {
            request.body_mut().keep(rules.body_bytes_max as usize);
        }
        let query = pinned.map_or_else(Query::first, Query::pinned);
        let Some(mut first) = self.pick_at(began, query, attempts.picked_for()).await else {
            return answer(None);
        };
        let mut is_full_home = false;
        if !first.try_acquire() {
            is_full_home = attempts.sticks_to(&first.replica().parts);
            let other = self.wait_for_replica(first, attempts.picked_for(), timeouts.wanted);
            let Some(other) = Box::pin(other).await else {
                return attempts.no_room();
            };
            first = other;
        }
        // A second copy would go to another replica than the one that the request is pinned to.
        let route = options
            .route
            .filter(|_| attempts.may_repeat && pinned.is_none());
        let copy = route.and_then(|_| self.copy_for_trial(&request));
        let response = self.begin(&attempts, first, request, route).await;
        if is_full_home {
            // The session stays there: the next request may find room again.
            served.set(None);
        }
        if let Some(copy) = copy
            && head_outcome(response.status(), response.headers()) == Outcome::Success
        {
            self.try_out(&copy, record);
        }
        response
    }

    /// Runs the first attempt and those that follow it. `route` is set if a second copy may be
    /// sent.
    async fn begin(
        &self,
        attempts: &Attempts<'_>,
        mut first: Box<Attempt>,
        request: Box<Request<RequestBody>>,
        route: Option<usize>,
    ) -> AttemptResponse {
        first.begin(AttemptKind::First, attempts.record);
        let picked_for = attempts.picked_for();
        if let Some(copy_plan) =
            route.and_then(|route| self.copy_plan(route, &first, &request, picked_for))
        {
            let sent = Box::pin(attempts.send_pair(copy_plan, first, request)).await;
            return match sent {
                Ok(response) => response,
                Err(failed) => Box::pin(attempts.clone().go_on(failed)).await,
            };
        }
        let (home, replica) = (first.home(), Rc::clone(first.replica()));
        let rules = attempts.rules(1);
        match first
            .send(request, attempts.timeouts(1), rules, attempts.record)
            .await
        {
            Ok(response) => {
                attempts.served.set(home);
                response
            }
            Err(error) => {
                let failed = FailedAttempts {
                    error,
                    tried: replica.parts.clone(),
                    attempts: 1,
                    second: None,
                };
                Box::pin(attempts.clone().go_on(failed)).await
            }
        }
    }
}

impl<'s> Attempts<'s> {
    /// The rules by which a response may be rejected; `None` if there can be no attempt after
    /// number `attempt`, from 1.
    pub(crate) fn rules(&self, attempt: u32) -> Option<&'s RetryRules> {
        let is_last = attempt >= self.rules.attempts_max;
        (self.may_repeat && !is_last).then_some(self.rules)
    }

    /// What its picks are for.
    pub(crate) const fn picked_for(&self) -> PickedFor<'s> {
        PickedFor {
            record: self.record,
            key: self.key,
        }
    }

    /// Whether the request sticks to one of these parts.
    fn sticks_to(&self, parts: &[ReplicaId]) -> bool {
        self.pinned.is_some_and(|pinned| parts.contains(&pinned))
    }

    pub(crate) fn now(&self) -> CoreInstant {
        self.service.balancer.now()
    }

    /// Whether the request's time is over, or its client's.
    fn is_over(&self) -> bool {
        self.wanted.is_some_and(|wanted| Instant::now() >= wanted)
    }

    /// The time left for all attempts together.
    fn left(&self) -> Duration {
        let left = self
            .first_byte
            .saturating_sub(self.now().saturating_since(self.began));
        let to_the_end = |ends: Instant| ends.saturating_duration_since(Instant::now());
        self.ends.map_or(left, |ends| left.min(to_the_end(ends)))
    }

    /// The timeouts of attempt number `attempt`, from 1, up to the response head.
    pub(crate) fn timeouts(&self, attempt: u32) -> AttemptTimeouts {
        let may_be_followed = || {
            let has_other = self.service.fleet.count() > attempt as usize;
            self.rules.on.timeout && self.is_kept && has_other && self.rules(attempt).is_some()
        };
        let own = self.rules.attempt_timeout.filter(|_| may_be_followed());
        let first_byte = if attempt == 1 && !self.is_own {
            // As long as a single attempt may take.
            own
        } else {
            Some(own.map_or(self.left(), |own| own.min(self.left())))
        };
        AttemptTimeouts {
            first_byte,
            client: Some(self.first_byte),
            ends: self.ends,
            wanted: self.wanted,
        }
    }

    /// Runs further attempts, after the first one, or both of its copies, failed.
    async fn go_on(mut self, failed: FailedAttempts) -> AttemptResponse {
        let FailedAttempts {
            error,
            tried,
            attempts,
            second,
        } = failed;
        match (self.try_again(error, tried, attempts).await, second) {
            (Err(AttemptError::Failed(_)), Some(second)) => self.stand_in(*second),
            (tried, second) => {
                if let Some(second) = second {
                    second.discard();
                }
                tried.unwrap_or_else(|error| self.give_up(error))
            }
        }
    }

    /// Returns the first response that the rules accept, or why the last attempt has none.
    async fn try_again(
        &mut self,
        mut error: AttemptError,
        mut tried: Vec<ReplicaId>,
        mut attempt: usize,
    ) -> Result<AttemptResponse, AttemptError> {
        // A session stays at its replica, which may have room again for the next request.
        let stays = self.sticks_to(&tried) && error.is_full();
        let mut waits = 0;
        let mut sent_at = self.began;
        loop {
            // Time that was spent without reaching a replica does not count against the timeout.
            if error.is_unreached() {
                self.began += self.now().saturating_since(sent_at);
            }
            // Without another replica there is no reason to wait.
            let has_other = attempt < self.service.fleet.count();
            attempt += 1;
            let number = u32::try_from(attempt).unwrap_or(u32::MAX);
            let wait = has_other.then(|| self.wait(&error, number, waits));
            let Some(wait) = wait.flatten() else {
                return Err(error);
            };
            let _permit = match wait {
                RetryWait::None => None,
                RetryWait::First(permit, span) => {
                    waits += 1;
                    if !span.is_zero() {
                        tokio::time::sleep(span).await;
                    }
                    Some(permit)
                }
            };
            let Some(mut next) = self.service.pick_free(&tried, self.picked_for()).await else {
                return Err(error);
            };
            let Some(mut request) = error.take_request() else {
                next.cancel();
                return Err(error);
            };
            // Retries are not tied.
            request.headers_mut().remove(TIE);
            // A rejected response is only discarded now that another attempt is certain: until then
            // it may be the best one.
            if let AttemptError::Rejected(rejected) = error {
                rejected.discard();
            }
            let home = next.home();
            tried.extend(&next.replica().parts);
            next.replica().counts().retries.add_one();
            let (timeouts, rules) = (self.timeouts(number), self.rules(number));
            sent_at = self.now();
            next.begin(AttemptKind::Retry, self.record);
            let sent = next.send(request, timeouts, rules, self.record);
            match sent.await {
                Ok(response) => {
                    self.served.set(home.filter(|_| !stays));
                    return Ok(response);
                }
                Err(another) => error = another,
            }
        }
    }

    /// Returns the response to a request that is not tried again.
    pub(super) fn give_up(&self, error: AttemptError) -> AttemptResponse {
        match error {
            AttemptError::Failed(failure) => match failure.cause {
                Cause::Full => self.no_room(),
                cause @ Cause::Shed(_) => answer(Some(&cause)),
                _ if failure.is_unsent && self.is_over() => self.no_room(),
                cause => answer(Some(&cause)),
            },
            AttemptError::Rejected(rejected) => RejectedResponse::pass_on(*rejected, self.record),
        }
    }

    /// Returns the response to a request that was not sent: its time is over, or no replica had
    /// room.
    fn no_room(&self) -> AttemptResponse {
        let counts = self.service.counts();
        if self.is_over() {
            counts.shed_deadline.add_one();
            too_late()
        } else {
            counts.shed_replicas_full.add_one();
            replicas_full()
        }
    }

    /// Returns the wait before attempt number `attempt`; `None` if there is no such attempt.
    fn wait(&self, error: &AttemptError, attempt: u32, waits: u32) -> Option<RetryWait<'s>> {
        let retries = &self.service.retries;
        if attempt > self.rules.attempts_max || !error.has_request() {
            return None;
        }
        let wanted = |wanted: Instant| wanted.saturating_duration_since(Instant::now());
        let left = (self.wanted).map_or(self.left(), |it| self.left().min(wanted(it)));
        let hint = match error {
            // Without time for an answer, another attempt would be wasted work.
            _ if error.is_unsent() => return (!left.is_zero()).then_some(RetryWait::None),
            AttemptError::Failed(failure)
                if self.may_repeat && follow(self.rules, &failure.cause) =>
            {
                Hint::None
            }
            AttemptError::Failed(_) => return None,
            AttemptError::Rejected(rejected) => rejected.hint(),
        };
        let wait = retries.wait(waits, hint, left)?;
        Some(RetryWait::First(retries.acquire_permit()?, wait))
    }
}

/// What precedes another attempt.
enum RetryWait<'r> {
    /// Nothing.
    None,
    /// A wait, and a budget permit until the attempt has ended.
    First(RetryPermit<'r>, Duration),
}
