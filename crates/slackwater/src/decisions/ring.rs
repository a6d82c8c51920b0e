//! A worker's records: bounded in number and in bytes, and the oldest give way.

use super::decision::Decision;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Records of one worker.
#[derive(Debug)]
pub(super) struct Ring {
    records_max: usize,
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Oldest first, each with its size.
    records: VecDeque<(usize, Arc<Decision>)>,
    bytes: usize,
}

impl Ring {
    pub(super) fn new(records_max: usize, bytes_max: usize) -> Self {
        Self {
            records_max,
            bytes_max,
            kept: Mutex::default(),
        }
    }

    /// Keeps a record; the newest is kept even where it is too large alone.
    pub(super) fn push(&self, decision: Decision) {
        let bytes = decision.bytes();
        let decision = Arc::new(decision);
        let mut given_up = Vec::new();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.records.len() >= self.records_max.max(1)
            || (kept.bytes + bytes > self.bytes_max && !kept.records.is_empty())
        {
            let Some((bytes, oldest)) = kept.records.pop_front() else {
                break;
            };
            kept.bytes -= bytes;
            given_up.push(oldest);
        }
        kept.bytes += bytes;
        kept.records.push_back((bytes, decision));
        drop(kept);
        // Not under the lock.
        drop(given_up);
    }

    /// What is kept, oldest first.
    pub(super) fn decisions(&self) -> Vec<Arc<Decision>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.records
            .iter()
            .map(|(_, record)| Arc::clone(record))
            .collect()
    }
}
