//! What is known about a resource.

use super::{CONFIRMED_AFTER, MISSING_AFTER, Report, failed};
use crate::assignment::Assignment;
use core::time::Duration;
use std::sync::Arc;

/// A resource that was subscribed to.
#[derive(Debug, Default)]
pub(super) struct Subscription {
    /// Its last good version.
    pub(super) known: Option<Known>,
    /// When it counts as missing; or, if it is known, as confirmed.
    pub(super) due_at: Option<Duration>,
    /// The last report, if it was a failure.
    pub(super) failure: Option<Report>,
}

/// A good version of a resource.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) version: String,
    pub(super) assignment: Arc<Assignment>,
    /// The end of its time to live.
    pub(super) expires_at: Option<Duration>,
    pub(super) is_expired: bool,
}

impl Known {
    pub(super) fn report(&self, name: &str) -> Report {
        Report::Accepted {
            name: name.to_owned(),
            version: self.version.clone(),
            assignment: Arc::clone(&self.assignment),
        }
    }
}

impl Subscription {
    /// A stream was opened, on which the resource is requested.
    pub(super) fn begin(&mut self, now: Duration) {
        let patience = match self.known {
            Some(_) => CONFIRMED_AFTER,
            None => MISSING_AFTER,
        };
        self.due_at = Some(now + patience);
    }

    /// Keeps a failure for readers that begin later, and returns it.
    pub(super) fn fail(&mut self, failure: Report) -> Report {
        self.failure.insert(failure).clone()
    }

    /// Handles deadlines that have passed, and returns what is to be reported.
    pub(super) fn poll(&mut self, now: Duration, name: &str) -> impl Iterator<Item = Report> {
        let has_passed = |deadline: Option<Duration>| deadline.is_some_and(|at| at <= now);
        let mut confirmed = None;
        let mut failure = None;
        if has_passed(self.due_at) {
            self.due_at = None;
            match &self.known {
                // Nothing new since the last stream.
                Some(known) if !known.is_expired => {
                    confirmed = Some(known.report(name));
                    self.failure = None;
                }
                Some(_) => (),
                None => failure = Some("the resource does not exist: no answer within 15 s"),
            }
        }
        if let Some(known) = &mut self.known
            && has_passed(known.expires_at)
        {
            known.expires_at = None;
            known.is_expired = true;
            failure = Some("the resource's time to live has expired");
        }
        let failure = failure.map(|why| self.fail(failed(name, why)));
        confirmed.into_iter().chain(failure)
    }

    /// What is known and has not expired: the control plane need not send it again.
    pub(super) fn current(&self) -> Option<&Known> {
        self.known.as_ref().filter(|known| !known.is_expired)
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        let expires_at = self.known.as_ref().and_then(|known| known.expires_at);
        self.due_at.into_iter().chain(expires_at).min()
    }
}
