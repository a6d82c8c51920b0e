//! What is known about a resource.

use super::{CONFIRMED_AFTER, MISSING_AFTER, WHY_BYTES_MAX};
use crate::content::Content;
use core::time::Duration;
use std::sync::Arc;

/// A resource that was subscribed to.
#[derive(Debug)]
pub(super) struct Subscription<C> {
    /// Its last good version.
    pub(super) known: Option<Known<C>>,
    /// When it counts as missing; or, if it is known, as confirmed.
    pub(super) due_at: Option<Duration>,
    /// Why there has been no good version since the last one.
    pub(super) failure: Option<Failure>,
}

/// A good version of a resource.
#[derive(Debug)]
pub(super) struct Known<C> {
    pub(super) version: String,
    pub(super) content: Arc<C>,
    /// The end of its time to live.
    pub(super) expires_at: Option<Duration>,
    pub(super) is_expired: bool,
}

/// Why there is no good new version of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) why: String,
    /// Whether the control plane was reached.
    pub(super) has_answered: bool,
}

impl Failure {
    /// A failure of an answer, or of the lack of one on an open stream.
    pub(super) fn of_answer(why: &str) -> Self {
        Self {
            why: why[..why.floor_char_boundary(WHY_BYTES_MAX)].to_owned(),
            has_answered: true,
        }
    }
}

/// What happened to a resource.
#[derive(Debug)]
pub(super) enum Event<C> {
    /// A version was accepted, or is confirmed.
    Accepted(String, Arc<C>),
    /// There is no good new version.
    Failed(Failure),
}

impl<C> Known<C> {
    fn event(&self) -> Event<C> {
        Event::Accepted(self.version.clone(), Arc::clone(&self.content))
    }
}

impl<C> Default for Subscription<C> {
    fn default() -> Self {
        Self {
            known: None,
            due_at: None,
            failure: None,
        }
    }
}

impl<C: Content> Subscription<C> {
    /// A stream was opened, on which the resource is requested.
    pub(super) fn begin(&mut self, now: Duration) {
        let patience = match self.known {
            Some(_) => CONFIRMED_AFTER,
            None => MISSING_AFTER,
        };
        self.due_at = Some(now + patience);
    }

    /// Accepts a version.
    pub(super) fn accept(&mut self, known: Known<C>) -> Event<C> {
        let event = known.event();
        *self = Self {
            known: Some(known),
            ..Self::default()
        };
        event
    }

    /// A heartbeat: the time to live begins anew, and nothing else changes.
    pub(super) fn renew(&mut self, expires_at: Option<Duration>) -> Option<Event<C>> {
        let known = self.known.as_mut()?;
        known.expires_at = expires_at;
        if !core::mem::take(&mut known.is_expired) {
            return None;
        }
        self.failure = None;
        Some(known.event())
    }

    /// Keeps a failure for readers that begin later, and returns it.
    pub(super) fn fail(&mut self, failure: Failure) -> Event<C> {
        Event::Failed(self.failure.insert(failure).clone())
    }

    /// Keeps a failure of an answer: the resource does not count as missing any more.
    pub(super) fn refuse(&mut self, why: &str) -> Event<C> {
        self.due_at = None;
        self.fail(Failure::of_answer(why))
    }

    /// The resource no longer exists, or never did.
    pub(super) fn remove(&mut self) -> Event<C> {
        let noun = C::NOUN;
        let why = match self.known.take() {
            Some(_) => format!("the control plane has removed the {noun}"),
            None => format!("the {noun} does not exist"),
        };
        self.refuse(&why)
    }

    /// Handles deadlines that have passed, and returns what has happened.
    pub(super) fn poll(&mut self, now: Duration) -> impl Iterator<Item = Event<C>> + use<C> {
        let noun = C::NOUN;
        let has_passed = |deadline: Option<Duration>| deadline.is_some_and(|at| at <= now);
        let mut confirmed = None;
        let mut failure = None;
        if has_passed(self.due_at) {
            self.due_at = None;
            match &self.known {
                // Nothing new since the last stream.
                Some(known) if !known.is_expired => {
                    confirmed = Some(known.event());
                    self.failure = None;
                }
                Some(_) => (),
                None => {
                    failure = Some(format!("the {noun} does not exist: no answer within 15 s"));
                }
            }
        }
        if let Some(known) = &mut self.known
            && has_passed(known.expires_at)
        {
            known.expires_at = None;
            known.is_expired = true;
            failure = Some(format!("the {noun}'s time to live has expired"));
        }
        let failure = failure.map(|why| self.fail(Failure::of_answer(&why)));
        confirmed.into_iter().chain(failure)
    }

    /// What is known and has not expired: the control plane need not send it again.
    pub(super) fn current(&self) -> Option<&Known<C>> {
        self.known.as_ref().filter(|known| !known.is_expired)
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        let expires_at = self.known.as_ref().and_then(|known| known.expires_at);
        self.due_at.into_iter().chain(expires_at).min()
    }
}
