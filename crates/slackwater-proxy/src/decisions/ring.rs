//! A worker's records, bounded in number and in bytes.
//!
//! When the ring is full, the reason that uses the most room gives up its oldest record. A single
//! reason can therefore use all the room, and no reason can push another one below an equal share:
//! a burst of failures leaves the sample, and a sample of everything leaves the failures.

use super::decision::{Decision, Kept};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Records of one worker.
#[derive(Debug)]
pub(super) struct Ring {
    records_max: usize,
    bytes_max: usize,
    /// Grouped by the reason to keep them.
    kept: Mutex<[Records; Kept::COUNT]>,
}

/// Records that are kept for one reason.
#[derive(Debug, Default)]
struct Records {
    /// Oldest first, each with its size.
    records: VecDeque<(usize, Arc<Decision>)>,
    bytes: usize,
}

impl Records {
    fn add(&mut self, bytes: usize, decision: Arc<Decision>) {
        self.bytes += bytes;
        self.records.push_back((bytes, decision));
    }

    fn give_up(&mut self) -> Option<Arc<Decision>> {
        let (bytes, oldest) = self.records.pop_front()?;
        self.bytes -= bytes;
        Some(oldest)
    }
}

impl Ring {
    pub(super) fn new(records_max: usize, bytes_max: usize) -> Self {
        Self {
            records_max,
            bytes_max,
            kept: Mutex::default(),
        }
    }

    /// Stores a record. The newest is kept even if it alone exceeds the limit.
    pub(super) fn push(&self, decision: Decision) {
        let (bytes, own) = (decision.bytes(), decision.kept as usize);
        let decision = Arc::new(decision);
        let mut given_up = Vec::new();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let records: usize = kept.iter().map(|it| it.records.len()).sum();
            let used: usize = kept.iter().map(|it| it.bytes).sum();
            // The new record counts as present.
            let most = if records >= self.records_max.max(1) {
                largest(&mut *kept, own, |it| it.records.len(), 1)
            } else if used + bytes > self.bytes_max {
                largest(&mut *kept, own, |it| it.bytes, bytes)
            } else {
                break;
            };
            let Some(oldest) = most.and_then(Records::give_up) else {
                break;
            };
            given_up.push(oldest);
        }
        if let Some(records) = kept.get_mut(own) {
            records.add(bytes, decision);
        }
        drop(kept);
        // Freed after the lock is released.
        drop(given_up);
    }

    /// Returns all records, grouped by reason, each group oldest first.
    pub(super) fn decisions(&self) -> Vec<Arc<Decision>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let records = kept.iter().flat_map(|it| &it.records);
        records.map(|(_, record)| Arc::clone(record)).collect()
    }
}

/// Returns the largest non-empty group by `measure`. The group at `own` counts as larger by `more`,
/// the size of the new record.
fn largest(
    kept: &mut [Records],
    own: usize,
    measure: impl Fn(&Records) -> usize,
    more: usize,
) -> Option<&mut Records> {
    let kept = kept.iter_mut().enumerate();
    let kept = kept.filter(|(_, it)| !it.records.is_empty());
    let size = |place: usize, it: &Records| measure(it) + if place == own { more } else { 0 };
    let most = kept.max_by_key(|(place, it)| size(*place, it));
    most.map(|(_, it)| it)
}
