//! Which requests are kept: a share of all, drawn at random, those that ask for it, and those that
//! fail or are slow.

use super::decision::{Decision, Kept};
use super::ring::Ring;
use crate::request_record::{Consumer, Detail, Interest, RequestRecord};
use crate::sampling::Sampling;
use core::cell::RefCell;
use core::time::Duration;
use http::{HeaderMap, HeaderName};
use slackwater_config::DecisionSettings;
use std::sync::Arc;
use tokio::time::Instant;

/// What a request's mark says: it is kept if it turns out to be slow, or to fail; or in any case,
/// for this reason.
const MAY_BE: u8 = 0;
const SAMPLED: u8 = 1;
const ASKED: u8 = 2;

/// Where failed requests are kept by themselves, so many requests a second are noted in case they
/// fail: no cost that counts, and all of them where there are few.
const NOTED_PER_SECOND: u32 = 100;
/// After one that failed, all are noted for so long.
const NOTED_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Which requests are noted in case they fail, for there to be something to look at in an outage
/// although nobody has asked for it before.
#[derive(Debug)]
struct Noting {
    /// The second that is counted.
    since: Instant,
    noted: u32,
    /// All are noted up to then.
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

    /// Whether the request that comes now is noted.
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

/// One worker's choice.
#[derive(Debug)]
pub(crate) struct Keeper {
    sampling: RefCell<Sampling>,
    slower_than: Option<Duration>,
    /// Failed requests are kept, if they were noted.
    failed: bool,
    /// `None`: all requests are noted, or none.
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

    /// Why a request is kept whose mark this is, now that it is over and its client has `waited` so
    /// long; `None`: it is not.
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
    /// Whether a request that nobody asks for is noted, in case it turns out to be one to keep.
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
    fn wants(&self, headers: &HeaderMap) -> Option<Interest> {
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
    fn few_requests_are_all_noted_and_of_many_a_hundred_a_second() {
        let mut noting = Noting::new();
        let began = noting.since;
        let ms = |ms: u32| began + Duration::from_millis(ms.into());
        let noted = |noting: &mut Noting, from_ms: u32| {
            let requests = (0..1_000).map(|place| ms(from_ms + place));
            requests.filter(|now| noting.takes(*now)).count()
        };
        assert_eq!(noted(&mut noting, 0), 100);
        assert_eq!(noted(&mut noting, 1_000), 100);
        // One that was noted has failed.
        noting.failed(ms(2_000));
        assert_eq!(noted(&mut noting, 2_000), 1_000);
        assert_eq!(noted(&mut noting, 11_000), 1_000);
        assert_eq!(noted(&mut noting, 12_000), 100);
    }
}
