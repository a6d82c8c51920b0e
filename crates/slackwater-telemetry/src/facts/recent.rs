//! Results of a service's requests in the last seconds.

use core::time::Duration;
use serde::{Deserialize, Serialize};

/// Results of a service's requests in the last 10 seconds, or since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecentFacts {
    /// The time that the counts cover.
    pub span_ms: u64,
    /// Requests that ended.
    pub requests: u64,
    /// Requests that failed at the service.
    pub failed: u64,
    /// Failed requests of the newest 2 s; `None` if an earlier version does not report it.
    #[serde(default)]
    pub failed_newest: Option<u64>,
    /// Failed requests that were answered with 500 or above.
    pub responses_5xx: u64,
    /// Failed requests that were answered with a gRPC status that blames the server.
    pub grpc_failed: u64,
    /// Failed requests whose response broke off.
    pub broken: u64,
    /// Attempts that got no connection to a replica. This field and the next two count attempts: a
    /// request whose retry succeeds has not failed.
    pub attempts_unconnected: u64,
    /// Attempts that got no response in time.
    pub attempts_timed_out: u64,
    /// Attempts whose connection broke.
    pub attempts_broken: u64,
    /// Requests that were turned away because no replica, or no place in the queue, was free in
    /// time.
    #[serde(default)]
    pub shed: u64,
}

impl RecentFacts {
    /// The time that [`failed_newest`](Self::failed_newest) covers.
    pub const NEWEST_MS: u64 = 2_000;

    /// Words to add to the number of failed requests; empty unless the failures seem to be over.
    pub const fn ending(&self) -> &'static str {
        match self.failed_newest {
            Some(0) if self.failed > 0 => ", none in the last 2 s",
            _ => "",
        }
    }

    /// Requests per second.
    pub fn rate(&self) -> f64 {
        let seconds = Duration::from_millis(self.span_ms).as_secs_f64();
        if seconds > 0.0 {
            self.requests as f64 / seconds
        } else {
            0.0
        }
    }

    /// The share of failed requests in percent, rounded up.
    pub fn failed_percent(&self) -> u64 {
        let percent = (self.failed * 100).div_ceil(self.requests.max(1));
        percent.min(100)
    }
}
