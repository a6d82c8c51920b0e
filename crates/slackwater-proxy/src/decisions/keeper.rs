//! Decides which requests are kept: a random share, those with the header that requests it, and
//! those that fail or are slow.

use super::decision::{Decision, Kept};
use super::ring::Ring;
use crate::request_record::{Consumer, Detail, Interest, RequestRecord};
use crate::sampling::Sampling;
use core::cell::RefCell;
use core::time::Duration;
use http::HeaderName;
use slackwater_config::DecisionSettings;
use slackwater_http::Fields;
use std::sync::Arc;
use tokio::time::Instant;

/// Values of a request's mark: kept only if it turns out to be slow or to fail, or kept in any
/// case, for this reason.
const MAY_BE: u8 = 0;
const SAMPLED: u8 = 1;
const ASKED: u8 = 2;

/// If failed requests are kept by default, this many requests a second are recorded in case they
/// fail. The cost is negligible, and at low traffic all requests are covered.
const NOTED_PER_SECOND: u32 = 100;
/// After a failure, all requests are recorded for this long.
const NOTED_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Decides which requests are recorded in case they fail, so that an outage leaves decisions to
/// look at even if none were requested before.
#[derive(Debug)]
struct Noting {
    /// Start of the second that is counted.
    since: Instant,
    noted: u32,
    /// Until then, all requests are recorded.
    until: Option<Instant>,
}

impl Noting {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            noted: 0,
            until: None,
        }
    }

    /// Whether the current request is recorded.
    fn takes(&mut self, now: Instant) -> bool {
        if self.until.is_some_and(|until| now < until) {
            return true;
        }
        if now.saturating_duration_since(self.since) >= Duration::from_secs(1) {
            (self.since, self.noted) = (now, 0);
        }
        let takes = self.noted < NOTED_PER_SECOND;
        self.noted += u32::from(takes);
        takes
    }

    fn failed(&mut self, now: Instant) {
        self.until = now.checked_add(NOTED_AFTER_FAILURE);
    }
}

/// One worker's rules for keeping requests.
#[derive(Debug)]
pub(crate) struct Keeper {
    sampling: RefCell<Sampling>,
    slower_than: Option<Duration>,
    /// Whether failed requests are kept, if they were recorded.
    failed: bool,
    /// `None`: all requests are recorded, or none.
    noting: Option<RefCell<Noting>>,
    header: Option<HeaderName>,
    ring: Arc<Ring>,
}

impl Keeper {
    pub(super) fn new(settings: &DecisionSettings, ring: Arc<Ring>) -> Self {
        Self::with(Sampling::new(settings.sample), settings, ring)
    }

    pub(super) fn with(sampling: Sampling, settings: &DecisionSettings, ring: Arc<Ring>) -> Self {
        Self {
            sampling: RefCell::new(sampling),
            slower_than: settings.slower_than,
            failed: settings.failed != Some(false),
            noting: (settings.failed.is_none()).then(|| RefCell::new(Noting::new())),
            header: settings.header.clone(),
            ring,
        }
    }

    /// Returns why a finished request with this mark is kept, or `None` if it is not. The client
    /// has `waited` this long.
    fn reason(&self, mark: u8, failed: bool, waited: Duration) -> Option<Kept> {
        if mark == ASKED {
            return Some(Kept::Asked);
        }
        if self.failed && failed {
            return Some(Kept::Failed);
        }
        if self.slower_than.is_some_and(|span| waited >= span) {
            return Some(Kept::Slow);
        }
        (mark == SAMPLED).then_some(Kept::Sampled)
    }
}

impl Keeper {
    /// Whether a request without the header is recorded, in case it turns out to be one to keep.
    fn notes(&self) -> bool {
        if self.slower_than.is_some() {
            return true;
        }
        match &self.noting {
            Some(noting) => noting.borrow_mut().takes(Instant::now()),
            None => self.failed,
        }
    }
}

impl Consumer for Keeper {
    fn wants(&self, headers: &Fields) -> Option<Interest> {
        let is_asked = (self.header.as_ref()).is_some_and(|name| headers.contains_key(name));
        let mark = if is_asked {
            ASKED
        } else if self.sampling.borrow_mut().takes() {
            SAMPLED
        } else if self.notes() {
            MAY_BE
        } else {
            return None;
        };
        Some(Interest {
            detail: Detail::Choices,
            mark,
        })
    }

    fn finished(&self, record: &RequestRecord, mark: u8) {
        if let Some(noting) = self.noting.as_ref().filter(|_| record.failed()) {
            noting.borrow_mut().failed(Instant::now());
        }
        if let Some(kept) = self.reason(mark, record.failed(), record.waited()) {
            self.ring.push(Decision::of(record, kept));
            record.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_a_hundred_requests_a_second_are_recorded() {
        let mut noting = Noting::new();
        let began = noting.since;
        let ms = |ms: u32| began + Duration::from_millis(ms.into());
        let noted = |noting: &mut Noting, from_ms: u32| {
            let requests = (0..1_000).map(|place| ms(from_ms + place));
            requests.filter(|now| noting.takes(*now)).count()
        };
        assert_eq!(noted(&mut noting, 0), 100);
        assert_eq!(noted(&mut noting, 1_000), 100);
        // A recorded request has failed.
        noting.failed(ms(2_000));
        assert_eq!(noted(&mut noting, 2_000), 1_000);
        assert_eq!(noted(&mut noting, 11_000), 1_000);
        assert_eq!(noted(&mut noting, 12_000), 100);
    }
}
