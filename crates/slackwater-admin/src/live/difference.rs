//! Differences between two readings of counts that only rise.

use super::messages::Counts;
use serde::Serialize;
use slackwater_telemetry::facts::RequestCounts;

/// The rise of a count. A count that has fallen has started again from 0.
pub(crate) fn risen(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// The rise of each count; counts that have not risen are left out.
pub(super) fn all_risen(before: Option<&Counts>, now: &Counts) -> Counts {
    let risen = |(name, &now): (&String, &u64)| {
        let before = before.and_then(|before| before.get(name));
        let risen = risen(before.copied().unwrap_or(0), now);
        (risen > 0).then(|| (name.clone(), risen))
    };
    now.iter().filter_map(risen).collect()
}

/// Plain counts, by the names of their fields.
pub(super) fn named(counts: &impl Serialize) -> Counts {
    let named = serde_json::to_value(counts).and_then(serde_json::from_value);
    named.unwrap_or_default()
}

/// The counts of a replica that the live data use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) sent: u64,
    pub(super) retries: u64,
    /// Responses by the first digit of the status, from 1.
    pub(super) classes: [u64; 5],
    /// Requests without a response, except those that clients gave up.
    pub(super) unanswered: u64,
    pub(super) grpc_failures: u64,
    /// Requests that clients gave up.
    pub(super) client_gone: u64,
}

impl Ended {
    pub(super) fn of(counts: &RequestCounts) -> Self {
        Self {
            sent: counts.sent,
            retries: counts.retries,
            classes: [
                counts.responses_1xx,
                counts.responses_2xx,
                counts.responses_3xx,
                counts.responses_4xx,
                counts.responses_5xx,
            ],
            unanswered: counts.connect_failures + counts.timeouts + counts.broken,
            grpc_failures: counts.grpc_failures,
            client_gone: counts.client_gone,
        }
    }

    /// Requests that failed at the replica.
    pub(super) const fn failed(&self) -> u64 {
        self.classes[4] + self.unanswered + self.grpc_failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_that_decreased_is_taken_as_restarted() {
        assert_eq!([risen(3, 10), risen(10, 10), risen(10, 3)], [7, 0, 3]);
    }

    #[test]
    fn unchanged_counts_are_left_out() {
        let counts = |pairs: &[(&str, u64)]| -> Counts {
            (pairs.iter())
                .map(|&(name, count)| (name.to_owned(), count))
                .collect()
        };
        let before = counts(&[("a", 1), ("b", 2)]);
        let now = counts(&[("a", 4), ("b", 2), ("c", 5), ("d", 0)]);
        assert_eq!(
            all_risen(Some(&before), &now),
            counts(&[("a", 3), ("c", 5)])
        );
        assert_eq!(all_risen(None, &before), before);
    }

    #[test]
    fn failed_counts_errors_and_missing_responses() {
        let counts = RequestCounts {
            sent: 20,
            retries: 2,
            responses_2xx: 11,
            responses_4xx: 1,
            responses_5xx: 2,
            connect_failures: 3,
            timeouts: 4,
            broken: 5,
            grpc_failures: 1,
            client_gone: 50,
            superseded: 60,
            ..RequestCounts::default()
        };
        let ended = Ended::of(&counts);
        assert_eq!((ended.sent, ended.retries), (20, 2));
        assert_eq!(ended.classes, [0, 11, 0, 1, 2]);
        assert_eq!(ended.failed(), 2 + (3 + 4 + 5) + 1);
    }
}
