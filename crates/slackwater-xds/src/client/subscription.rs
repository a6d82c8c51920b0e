//! What is known about a resource.

use super::{CONFIRMED_AFTER, MISSING_AFTER, Report};
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

    /// What is known and has not expired: the control plane need not send it again.
    pub(super) fn current(&self) -> Option<&Known> {
        self.known.as_ref().filter(|known| !known.is_expired)
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        let expires_at = self.known.as_ref().and_then(|known| known.expires_at);
        self.due_at.into_iter().chain(expires_at).min()
    }
}
