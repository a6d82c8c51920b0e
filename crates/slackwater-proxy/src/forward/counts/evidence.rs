//! Records whether a worker's attempts at a replica get a response. The replica's state depends on
//! it if there are no health checks.

use super::{Count, Level, Moment};
use core::time::Duration;
use slackwater_core::Instant as CoreInstant;
use slackwater_telemetry::attempt_failure::{AttemptEvidence, DownAfter, FailureKind, LastFailure};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Number of failures that can decide whether a replica is down.
#[expect(clippy::cast_possible_truncation, reason = "it is a small number")]
const NEWEST: usize = DownAfter::AGAIN.failures as usize;

/// The newest consecutive failures.
#[derive(Debug, Default)]
struct Recent {
    /// Times of the failures, newest first.
    at: [Option<Instant>; NEWEST],
    last: Option<(FailureKind, String)>,
}

/// A worker's evidence about one replica. A response costs at most two stores; only a failure takes
/// the lock.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Attempts without a response.
    failures: Count,
    /// Failures since the last response.
    in_a_row: Count,
    /// Time of the first of these consecutive failures.
    first_at: Moment,
    recent: Mutex<Recent>,
    /// Time of the last response, in nanoseconds on the balancer's clock, plus one; 0 if there was
    /// none.
    answered_ns: Level,
}

impl Evidence {
    /// Records that an attempt got a response of any status, at this time on the balancer's clock.
    pub(crate) fn note_response(&self, at: CoreInstant) {
        self.answered_ns.set(at.as_nanos().saturating_add(1));
        if self.in_a_row.read() > 0 {
            self.in_a_row.reset();
        }
    }

    /// Records that an attempt got no response, for this reason and with this error.
    pub(crate) fn note_failure(&self, kind: FailureKind, error: String) {
        let now = Some(Instant::now());
        let mut recent = self.recent();
        if self.in_a_row.read() == 0 {
            self.first_at.set(now);
            recent.at = Default::default();
        }
        recent.at.rotate_right(1);
        if let Some(newest) = recent.at.first_mut() {
            *newest = now;
        }
        recent.last = Some((kind, error));
        self.in_a_row.add_one();
        self.failures.add_one();
    }

    /// Forgets the failures: from now on, another replica is at this address.
    pub(crate) fn forget(&self) {
        self.in_a_row.reset();
        *self.recent() = Recent::default();
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        // A poisoned lock is harmless: nothing panics while it is held.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the evidence; `now` is on the balancer's clock.
    pub(crate) fn read(&self, now: CoreInstant) -> AttemptEvidence {
        let recent = self.recent();
        let mut ages: Vec<_> = recent.at.iter().flatten().map(Instant::elapsed).collect();
        let last = recent.last.clone().map(|(kind, error)| LastFailure {
            kind,
            error,
            age: ages.first().copied().unwrap_or_default(),
        });
        let answered_ns = self.answered_ns.read().checked_sub(1);
        let in_a_row = self.in_a_row.read();
        if in_a_row == 0 {
            ages.clear();
        }
        AttemptEvidence {
            failures: self.failures.read(),
            in_a_row,
            ages,
            // Read after the age of the last failure, so that it is never the smaller of the two.
            first_age: self.first_at.age(),
            last,
            answered_age: answered_ns
                .map(|ns| Duration::from_nanos(now.as_nanos().saturating_sub(ns))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> CoreInstant {
        CoreInstant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_response_ends_consecutive_failures_and_the_last_failure_is_kept() {
        let evidence = Evidence::default();
        assert_eq!(evidence.read(at(0)), AttemptEvidence::default());
        evidence.note_failure(FailureKind::Refused, "refused".to_owned());
        evidence.note_failure(FailureKind::Refused, "refused".to_owned());
        let read = evidence.read(at(0));
        assert_eq!(
            (read.failures, read.in_a_row, read.answered_age),
            (2, 2, None)
        );
        let last = read.last.expect("two failed");
        assert_eq!(last.kind, FailureKind::Refused);
        assert_eq!(last.error, "refused");
        assert!(read.first_age >= last.age);
        assert_eq!(read.ages.len(), 2);
        evidence.note_response(at(30));
        let read = evidence.read(at(50));
        assert_eq!((read.failures, read.in_a_row), (2, 0));
        assert_eq!(read.answered_age, Some(Duration::from_millis(20)));
        assert!(read.last.is_some() && read.ages.is_empty());
        evidence.note_failure(FailureKind::Refused, "refused".to_owned());
        evidence.forget();
        let read = evidence.read(at(60));
        assert_eq!((read.failures, read.in_a_row, read.last), (3, 0, None));
    }
}
