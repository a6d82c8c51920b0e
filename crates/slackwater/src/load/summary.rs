//! The results of a run, as the figures that go into JSON. The table for people is in
//! [`super::table`].
//!
//! The names in the JSON are an interface (`docs/reference/load.md` lists them). All JSON files of
//! Slackwater's commands use `p50_ms`, `p99_ms`, `p999_ms`, `errors` and `requests` for the same
//! things.

use super::latency::LatencyFigures;
use super::outcome::ErrorKind;
use super::plan::Plan;
use super::record::Record;
use core::array::from_fn;
use core::time::Duration;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// The figures of one run. Only arrivals after the warm-up count.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Summary {
    pub(crate) target: String,
    pub(crate) protocol: &'static str,
    pub(crate) arrivals: &'static str,
    /// Target rate, in arrivals per second.
    pub(crate) rate: f64,
    pub(crate) seed: u64,
    pub(crate) timeout_ms: f64,
    pub(crate) warmup_seconds: f64,
    /// Length of the measured part; shorter than requested if it was interrupted.
    pub(crate) seconds: f64,
    /// Whether the schedule was stopped before its end.
    pub(crate) interrupted: bool,
    /// Arrivals that ended, errors included.
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) errors_by_kind: Counts<{ ErrorKind::ALL.len() }>,
    /// The message of the first failure of each kind that occurred, by the kind's name.
    pub(crate) first_failures: BTreeMap<&'static str, String>,
    /// Due but not ended when the summary was made; in none of the other figures. 0 after a whole
    /// run.
    pub(crate) unfinished: u64,
    /// Answers by class of status, `1xx` to `5xx`.
    pub(crate) statuses: Counts<5>,
    /// Latency of all requests from their intended start. A timeout and an overload contribute the
    /// whole timeout, any other failure the time until it was noticed.
    #[serde(flatten)]
    pub(crate) latency: LatencyFigures,
    /// Latency of the requests that ended without an error.
    pub(crate) without_errors: LatencyFigures,
    /// Good answers per second that arrived within the measured part.
    pub(crate) achieved_rate: f64,
    /// From the intended start to the moment the request left the generator's queue.
    pub(crate) sent_late: LatencyFigures,
    /// Arrivals that found all connections in use and waited for one.
    pub(crate) waited_for_connection: u64,
    /// Connections opened in the whole run, warm-up included.
    pub(crate) connections_opened: u64,
    /// Bytes of the bodies of answers.
    pub(crate) body_bytes: u64,
}

/// Counts by name, in a fixed order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts<const N: usize>([(&'static str, u64); N]);

impl<const N: usize> Counts<N> {
    fn new(names: [&'static str; N], counts: [u64; N]) -> Self {
        Self(from_fn(|place| (names[place], counts[place])))
    }

    /// The counts that are not 0.
    pub(super) fn seen(self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.into_iter().filter(|(_, count)| *count > 0)
    }

    #[cfg(test)]
    pub(super) fn of(self, name: &str) -> u64 {
        let mut seen = self.seen();
        seen.find(|(own, _)| *own == name)
            .map_or(0, |(_, count)| count)
    }
}

impl<const N: usize> Serialize for Counts<N> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0)
    }
}

impl Summary {
    /// Summarises `record` as it is at `elapsed` since the start of the run.
    pub(super) fn new(
        plan: &Plan,
        record: &Record,
        elapsed: Duration,
        connections_opened: u64,
    ) -> Self {
        let requests = record.all.count();
        let schedule_ended = record.schedule_ended.unwrap_or(elapsed);
        let seconds = schedule_ended.saturating_sub(plan.warmup).as_secs_f64();
        let first_failures = ErrorKind::ALL.into_iter().zip(&record.first_failures);
        Self {
            target: plan.target.to_string(),
            protocol: plan.protocol_name(),
            arrivals: plan.arrivals.name(),
            rate: plan.rate_per_second,
            seed: plan.seed,
            timeout_ms: plan.timeout.as_secs_f64() * 1e3,
            warmup_seconds: plan.warmup.as_secs_f64(),
            seconds,
            interrupted: record.is_interrupted || record.schedule_ended.is_none(),
            requests,
            errors: record.errors.iter().sum(),
            errors_by_kind: Counts::new(ErrorKind::ALL.map(ErrorKind::name), record.errors),
            first_failures: first_failures
                .filter_map(|(kind, message)| Some((kind.name(), message.clone()?)))
                .collect(),
            unfinished: record.issued.saturating_sub(requests),
            statuses: Counts::new(["1xx", "2xx", "3xx", "4xx", "5xx"], record.statuses),
            latency: record.all.figures(),
            without_errors: record.good.figures(),
            achieved_rate: if seconds > 0.0 {
                record.good_in_time as f64 / seconds
            } else {
                0.0
            },
            sent_late: record.sent_late.figures(),
            waited_for_connection: record.waited,
            connections_opened,
            body_bytes: record.body_bytes,
        }
    }
}
