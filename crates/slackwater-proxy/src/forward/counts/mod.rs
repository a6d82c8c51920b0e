//! Counters of a worker's requests and connections, and of how they ended at each replica, for the
//! admin server.
//!
//! Each counter has one writer, the worker that owns it. A load and a store are therefore enough,
//! and no request pays for a locked instruction.

mod connection_ends;
mod evidence;
mod unreadable;

pub use connection_ends::ReplicaEnds;
pub(crate) use connection_ends::{ClientEnd, ReplicaEnd};
pub use unreadable::{UnreadableCounts, unreadable_requests};

use connection_ends::ClientEnds;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use evidence::Evidence;
use http::StatusCode;
use slackwater_telemetry::facts::{ConnectionFacts, RequestCounts};
use slackwater_telemetry::latency_histogram::LatencyHistogram;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// A count with one writer and any number of readers.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add_one(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }

    fn reset(&self) {
        self.0.store(0, Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number with one writer and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct Level(AtomicU64);

impl Level {
    pub(crate) fn set(&self, level: u64) {
        self.0.store(level, Relaxed);
    }

    pub(crate) fn add_one(&self) {
        self.set(self.read() + 1);
    }

    pub(crate) fn subtract_one(&self) {
        self.set(self.read().saturating_sub(1));
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A moment or `None`, with one writer and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    /// Nanoseconds since [`BASE`], plus one; 0 for `None`.
    ns: AtomicU64,
}

static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Moment {
    pub(crate) fn set(&self, at: Option<Instant>) {
        let ns = at.map_or(0, |at| {
            let since = at.saturating_duration_since(*BASE);
            u64::try_from(since.as_nanos()).map_or(u64::MAX, |ns| ns.saturating_add(1))
        });
        self.ns.store(ns, Relaxed);
    }

    /// Time since the moment; zero if there is none.
    pub(crate) fn age(&self) -> Duration {
        let ns = self.ns.load(Relaxed).checked_sub(1);
        ns.map_or(Duration::ZERO, |ns| {
            BASE.elapsed().saturating_sub(Duration::from_nanos(ns))
        })
    }
}

/// A worker's connections with clients.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    pub(crate) begun: Count,
    pub(crate) ended: ClientEnds,
}

impl ConnectionCounts {
    /// Sums the ended connections of all workers, by reason.
    pub fn ended<'c>(workers: impl Iterator<Item = &'c Self>) -> Vec<(&'static str, u64)> {
        let mut sums = ClientEnd::ALL.map(|end| (end.as_str(), 0));
        for worker in workers {
            for ((_, sum), ended) in sums.iter_mut().zip(worker.ended.read()) {
                *sum += ended;
            }
        }
        sums.into()
    }

    /// Sums the connections of all workers.
    pub fn sum<'c>(workers: impl Iterator<Item = &'c Self>) -> ConnectionFacts {
        let mut sum = ConnectionFacts::default();
        for worker in workers {
            // Ended connections are read first, so that they never exceed the started ones.
            let ended = worker.ended.read().iter().sum();
            let begun = worker.begun.read();
            sum.begun += begun;
            sum.open += begun.saturating_sub(ended);
        }
        sum
    }
}

/// A worker's requests to one replica, and their outcomes; [`RequestCounts`] explains each.
#[derive(Debug, Default)]
pub struct ReplicaCounts {
    /// Attempts that have not ended.
    pub(crate) in_flight: Arc<Level>,
    /// Requests sent.
    pub sent: Count,
    pub(crate) retries: Count,
    pub(crate) hedges: Count,
    /// Connections opened.
    pub connections: Count,
    pub(crate) superseded: Count,
    /// Connections that could not be opened.
    pub connect_failures: Count,
    /// Requests that took too long.
    pub timeouts: Count,
    /// Responses that broke off, or were invalid.
    pub broken: Count,
    /// Responses whose gRPC status is a failure of the replica.
    pub grpc_failures: Count,
    pub(crate) reports_carried: Count,
    /// Requests for which there was no free connection or stream.
    pub full: Count,
    pub(crate) shed: Count,
    /// Requests whose client left before the response.
    pub client_gone: Count,
    /// Evidence of whether attempts get a response.
    pub(crate) evidence: Evidence,
    /// Latencies from the pick of the replica to the head of its response.
    pub heads: LatencyHistogram,
    /// Counts by the first digit of the status, from 1 to 5; any other status counts as 5.
    responses: [Count; 5],
}

impl ReplicaCounts {
    /// Makes counts of a replica that may still have requests in flight.
    pub(crate) fn new(in_flight: Arc<Level>) -> Self {
        Self {
            in_flight,
            ..Self::default()
        }
    }

    /// Counts a response with this status.
    pub fn count_response(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).wrapping_sub(1).min(4);
        self.responses[class].add_one();
    }

    /// Returns the current counts.
    pub fn read(&self) -> RequestCounts {
        let [informational, success, redirect, client, server] = &self.responses;
        RequestCounts {
            sent: self.sent.read(),
            retries: self.retries.read(),
            hedges: self.hedges.read(),
            superseded: self.superseded.read(),
            connections: self.connections.read(),
            responses_1xx: informational.read(),
            responses_2xx: success.read(),
            responses_3xx: redirect.read(),
            responses_4xx: client.read(),
            responses_5xx: server.read(),
            connect_failures: self.connect_failures.read(),
            timeouts: self.timeouts.read(),
            broken: self.broken.read(),
            grpc_failures: self.grpc_failures.read(),
            reports_carried: self.reports_carried.read(),
            full: self.full.read(),
            shed: self.shed.read(),
            client_gone: self.client_gone.read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_moment_has_age_zero() {
        let moment = Moment::default();
        assert_eq!(moment.age(), Duration::ZERO);
        let at = *BASE;
        moment.set(Some(at));
        let (least, age, most) = (at.elapsed(), moment.age(), at.elapsed());
        assert!(least <= age && age <= most, "{least:?} {age:?} {most:?}");
        moment.set(None);
        assert_eq!(moment.age(), Duration::ZERO);
    }
}
