//! Which requests are kept: a share of all, drawn at random, those that ask for it, and those that fail or are slow.

use super::decision::{Decision, Kept};
use super::ring::Ring;
use crate::config::DecisionSettings;
use crate::request_record::{Consumer, Detail, Record, Wish};
use crate::seed::draw_seed;
use core::cell::RefCell;
use core::time::Duration;
use http::{HeaderMap, HeaderName};
use slackwater_core::{Draw, SplitMix64};
use std::sync::Arc;

/// What a request's mark says: it is kept if it turns out to be slow, or to fail; or in any case, for this reason.
const MAY_BE: u8 = 0;
const SAMPLED: u8 = 1;
const ASKED: u8 = 2;

/// One worker's choice.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// Of 2^64 draws, as many are kept. `None`: all.
    below: Option<u64>,
    slower_than: Option<Duration>,
    failed: bool,
    header: Option<HeaderName>,
    draws: RefCell<SplitMix64>,
    ring: Arc<Ring>,
}

impl Keeper {
    pub(super) fn new(settings: &DecisionSettings, ring: Arc<Ring>) -> Self {
        Self::seeded(settings, ring, draw_seed())
    }

    pub(super) fn seeded(settings: &DecisionSettings, ring: Arc<Ring>, seed: u64) -> Self {
        let below = u128::from(settings.sample.millionths()) * (1 << 64) / 1_000_000;
        Self {
            // A share of 1 is 2^64, which does not fit.
            below: u64::try_from(below).ok(),
            slower_than: settings.slower_than,
            failed: settings.failed,
            header: settings.header.clone(),
            draws: RefCell::new(SplitMix64::new(seed)),
            ring,
        }
    }

    fn is_sampled(&self) -> bool {
        (self.below).is_none_or(|below| below > 0 && self.draws.borrow_mut().draw() < below)
    }

    /// Why a request is kept whose mark this is, now that it is over; `None`: it is not.
    fn reason(&self, mark: u8, failed: bool, took: Duration) -> Option<Kept> {
        if mark == ASKED {
            return Some(Kept::Asked);
        }
        if self.failed && failed {
            return Some(Kept::Failed);
        }
        if self.slower_than.is_some_and(|span| took >= span) {
            return Some(Kept::Slow);
        }
        (mark == SAMPLED).then_some(Kept::Sampled)
    }
}

impl Consumer for Keeper {
    fn wants(&self, headers: &HeaderMap) -> Option<Wish> {
        let is_asked = (self.header.as_ref()).is_some_and(|name| headers.contains_key(name));
        let mark = if is_asked {
            ASKED
        } else if self.is_sampled() {
            SAMPLED
        } else if self.failed || self.slower_than.is_some() {
            MAY_BE
        } else {
            return None;
        };
        Some(Wish {
            detail: Detail::Choices,
            mark,
        })
    }

    fn finished(&self, record: &Record, mark: u8) {
        if let Some(kept) = self.reason(mark, record.failed(), record.total()) {
            self.ring.push(Decision::of(record, kept));
        }
    }
}
