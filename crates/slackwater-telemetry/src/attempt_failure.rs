//! Attempts that got no response: the kind of failure, and what several in a row mean for a
//! replica.
//!
//! An attempt *fails* here if the replica gave no response at all. A response with a bad status is
//! a response; the policy's health rules decide whether a replica returns too many of them.

use crate::date::since_epoch_ms;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use slackwater_core::named;
use std::time::SystemTime;

/// How many attempts in a row, over all workers, have to fail before a replica is down, and how
/// long ago the first of them failed at the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownAfter {
    /// The number of attempts.
    pub failures: u64,
    /// The least age of the first one.
    pub time: Duration,
}

impl DownAfter {
    /// A replica that was not down lately.
    pub const FIRST: Self = Self {
        failures: 3,
        time: Duration::from_millis(500),
    };
    /// A replica that was down and has responded since, less than [`Self::LATELY`] ago. One that
    /// fails half of its attempts often fails three in a row, and would flap between two states.
    pub const AGAIN: Self = Self {
        failures: 10,
        time: Duration::from_secs(1),
    };
    /// For how long [`Self::AGAIN`] applies after a replica is no longer down.
    pub const LATELY: Duration = Duration::from_mins(1);
}

named! {
    /// Why an attempt got no response.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FailureKind by as_str {
        /// Nothing listens at the address.
        Refused = "connection refused",
        /// The connection was not established within `timeouts.connect`.
        ConnectTimedOut = "connect timed out",
        /// The connection failed for another reason: no route, or no TLS.
        ConnectFailed = "connect failed",
        /// The connection was closed before the response, or carried something that is not HTTP.
        Closed = "connection closed before the response",
        /// No response within `timeouts.first_byte`.
        NoResponse = "no response in time",
        /// The replica's agent cannot connect to its server.
        Withdrawn = "the agent's server cannot be connected to",
    }
}

impl FailureKind {
    /// How an operator can fix it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Refused => "start the server; if it runs, compare its address with this one",
            Self::ConnectTimedOut => {
                "check that the machine runs and that no firewall drops connections; the limit is timeouts.connect"
            }
            Self::ConnectFailed => {
                "check the address, the route to it and, with TLS, both certificates"
            }
            Self::Closed => {
                "look for a crash in the server's log; check that it speaks the configured protocol"
            }
            Self::NoResponse => {
                "see whether the server hangs or is overloaded; the limit is timeouts.first_byte"
            }
            Self::Withdrawn => "start the server behind the agent; the agent's log has the cause",
        }
    }
}

/// A worker's last attempt that got no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The full error message.
    pub error: String,
    /// Its age.
    pub age: Duration,
}

/// One worker's record of its attempts at a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptEvidence {
    /// Attempts without a response since the worker started.
    pub failures: u64,
    /// Attempts without a response since the worker's last response.
    pub in_a_row: u64,
    /// Age of the first failure in a row.
    pub first_age: Duration,
    /// How long ago the newest of those in a row failed, at most as many as
    /// [`DownAfter::AGAIN`] takes.
    pub ages: Vec<Duration>,
    /// The last failure; `None` if there was none.
    pub last: Option<LastFailure>,
    /// Age of the worker's last response; `None` if there was none.
    pub answered_age: Option<Duration>,
}

/// Attempts in a row that got no response, over all workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// Number of these attempts.
    pub in_a_row: u64,
    /// Age of the first one.
    pub first_age: Duration,
    /// The last one.
    pub last: LastFailure,
}

impl Failing {
    /// Returns whether they are enough to declare the replica down.
    pub fn is_down(&self, after: DownAfter) -> bool {
        self.in_a_row >= after.failures && self.first_age >= after.time
    }

    /// Merges the failures of all workers; `None` if a response has come since the last failure.
    pub fn of<'e>(workers: impl Iterator<Item = &'e AttemptEvidence> + Clone) -> Option<Self> {
        let answered_age = workers.clone().filter_map(|it| it.answered_age).min();
        let mut failing: Option<Self> = None;
        for evidence in workers {
            let Some(last) = &evidence.last else { continue };
            // Another worker's later response refutes the failures of a worker that has not tried
            // since.
            let is_refuted = answered_age.is_some_and(|answered| answered <= last.age);
            if evidence.in_a_row == 0 || is_refuted {
                continue;
            }
            // If another worker got a response in between, only the failures after it count.
            let (in_a_row, first_age) = match answered_age {
                Some(answered) if evidence.first_age > answered => {
                    let after = evidence.ages.iter().filter(|age| **age < answered);
                    (after.count() as u64, answered)
                }
                _ => (evidence.in_a_row, evidence.first_age),
            };
            failing = Some(match failing {
                None => Self {
                    in_a_row,
                    first_age,
                    last: last.clone(),
                },
                Some(other) => Self {
                    in_a_row: other.in_a_row + in_a_row,
                    first_age: other.first_age.max(first_age),
                    last: if last.age < other.last.age {
                        last.clone()
                    } else {
                        other.last
                    },
                },
            });
        }
        failing
    }
}

/// Attempts in a row that got no response, for display; `docs/reference/admin.md` documents each
/// field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureFacts {
    /// The kind of the last failure.
    pub cause: String,
    /// The full error message.
    pub error: String,
    /// The remedy.
    pub remedy: String,
    /// Their number.
    pub in_a_row: u64,
    /// Time of the first failure, in milliseconds since 1970.
    pub first_at_ms: u64,
    /// Time of the last failure, in milliseconds since 1970. Nothing newer is known of the replica.
    pub last_at_ms: u64,
}

impl FailureFacts {
    /// Converts `failing`, with `now` as the reference of its ages.
    pub fn new(failing: &Failing, now: SystemTime) -> Self {
        let at_ms =
            |age: Duration| since_epoch_ms(now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH));
        Self {
            cause: failing.last.kind.as_str().to_owned(),
            error: failing.last.error.clone(),
            remedy: failing.last.kind.remedy().to_owned(),
            in_a_row: failing.in_a_row,
            first_at_ms: at_ms(failing.first_age),
            last_at_ms: at_ms(failing.last.age),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn evidence(in_a_row: u64, first: u64, last: u64, answered: Option<u64>) -> AttemptEvidence {
        AttemptEvidence {
            failures: in_a_row + 5,
            in_a_row,
            first_age: ms(first),
            ages: [last, first]
                .into_iter()
                .take(usize::try_from(in_a_row).unwrap())
                .map(ms)
                .collect(),
            last: Some(LastFailure {
                kind: FailureKind::Refused,
                error: format!("{last} ms ago"),
                age: ms(last),
            }),
            answered_age: answered.map(ms),
        }
    }

    fn of(workers: &[AttemptEvidence]) -> Option<Failing> {
        Failing::of(workers.iter())
    }

    #[test]
    fn failures_of_all_workers_count_until_one_gets_a_response() {
        let both = [evidence(2, 900, 100, None), evidence(1, 700, 50, None)];
        let failing = of(&both).expect("nothing came");
        assert_eq!((failing.in_a_row, failing.first_age), (3, ms(900)));
        assert_eq!(failing.last.error, "50 ms ago");
        assert!(failing.is_down(DownAfter::FIRST) && !failing.is_down(DownAfter::AGAIN));
        // The other worker got a response after both workers' last failures.
        let refuted = [both[0].clone(), evidence(0, 700, 50, Some(20))];
        assert_eq!(of(&refuted), None);
    }

    #[test]
    fn failure_after_another_workers_response_counts() {
        let workers = [evidence(2, 900, 100, None), evidence(0, 0, 500, Some(300))];
        let failing = of(&workers).expect("a failure came after it");
        // One of the two failures came before that response.
        assert_eq!((failing.in_a_row, failing.first_age), (1, ms(300)));
        assert!(!failing.is_down(DownAfter::FIRST));
    }

    #[test]
    fn down_needs_a_number_of_failures_and_a_duration() {
        for (in_a_row, first, is_down, is_down_again) in [
            (2, 9_000, false, false),
            (3, 499, false, false),
            (3, 500, true, false),
            (9, 9_000, true, false),
            (10, 999, true, false),
            (10, 1_000, true, true),
        ] {
            let failing = Failing {
                in_a_row,
                first_age: ms(first),
                last: LastFailure {
                    kind: FailureKind::Refused,
                    error: String::new(),
                    age: ms(0),
                },
            };
            let found = [DownAfter::FIRST, DownAfter::AGAIN].map(|after| failing.is_down(after));
            assert_eq!(found, [is_down, is_down_again], "{in_a_row} in {first} ms");
        }
    }

    #[test]
    fn without_failures_nothing_is_reported() {
        assert_eq!(of(&[AttemptEvidence::default()]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn failure_facts_convert_ages_to_timestamps() {
        let failing = of(&[evidence(4, 900, 100, None)]).expect("nothing came");
        let now = SystemTime::UNIX_EPOCH + ms(10_000);
        let facts = FailureFacts::new(&failing, now);
        assert_eq!((facts.first_at_ms, facts.last_at_ms), (9_100, 9_900));
        assert_eq!((&*facts.cause, facts.in_a_row), ("connection refused", 4));
    }
}
