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

/// What a request's mark says: it is kept if it turns out to be slow, or to fail; or in any case,
/// for this reason.
const MAY_BE: u8 = 0;
const SAMPLED: u8 = 1;
const ASKED: u8 = 2;

/// One worker's choice.
#[derive(Debug)]
pub(crate) struct Keeper {
    sampling: RefCell<Sampling>,
    slower_than: Option<Duration>,
    failed: bool,
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
            failed: settings.failed,
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

impl Consumer for Keeper {
    fn wants(&self, headers: &HeaderMap) -> Option<Interest> {
        let is_asked = (self.header.as_ref()).is_some_and(|name| headers.contains_key(name));
        let mark = if is_asked {
            ASKED
        } else if self.sampling.borrow_mut().takes() {
            SAMPLED
        } else if self.failed || self.slower_than.is_some() {
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
        if let Some(kept) = self.reason(mark, record.failed(), record.waited()) {
            self.ring.push(Decision::of(record, kept));
            record.keep();
        }
    }
}
