//! Counts of a replica for its operator: ends of queries, and results of probes.
//!
//! Counts only rise, and never influence a decision. They are separate from the load tracker's own.

use crate::wire::datagram::Malformed;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use slackwater_core::tracker::{End, Totals};

const KINDS: usize = Malformed::ALL.len();

/// The counts of one replica since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadCounts {
    /// Queries answered in full.
    pub queries_succeeded: u64,
    /// Queries answered with an error, cut short by one, or lost to a panic.
    pub queries_failed: u64,
    /// Queries whose client left before it had the whole answer, and those that were rejected:
    /// unstarted, or by a response with pushback.
    pub queries_cancelled: u64,
    /// Probes over HTTP that were answered.
    pub http_answered: u64,
    /// Probes over HTTP that were refused: with status 400 because of their hint, or 403 because of
    /// their signature.
    pub http_refused: u64,
    /// Probes over UDP that were answered.
    pub udp_answered: u64,
    /// Replies over UDP that were dropped because the socket did not take them.
    pub udp_unsent: u64,
    /// Errors on receiving over UDP; most are the network's report that an earlier reply was not
    /// delivered.
    pub udp_receive_errors: u64,
    refused: [u64; KINDS],
}

impl LoadCounts {
    /// Datagrams refused for `reason`; they got no reply.
    pub const fn udp_refused(&self, reason: Malformed) -> u64 {
        self.refused[reason.index()]
    }
}

/// The live counts. Queries and probes are on different cache lines, so that a flood of one does
/// not slow the other.
#[derive(Debug, Default)]
pub(super) struct Counts {
    queries: QueryCounts,
    pub(super) probes: ProbeCounts,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct QueryCounts {
    succeeded: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ProbeCounts {
    pub(super) http_answered: AtomicU64,
    pub(super) http_refused: AtomicU64,
    pub(super) udp_answered: AtomicU64,
    pub(super) udp_unsent: AtomicU64,
    pub(super) udp_receive_errors: AtomicU64,
    udp_refused: [AtomicU64; KINDS],
}

impl ProbeCounts {
    pub(super) fn udp_refuse(&self, reason: Malformed) {
        add_one(&self.udp_refused[reason.index()]);
    }
}

impl Counts {
    pub(super) fn query_ended(&self, end: End) {
        add_one(match end {
            End::Success => &self.queries.succeeded,
            End::Failed => &self.queries.failed,
            End::Cancelled => &self.queries.cancelled,
        });
    }

    /// Totals of answered queries. Cancelled ones are left out: they do not show how busy the
    /// replica was.
    pub(super) fn totals(&self) -> Totals {
        let failed = self.queries.failed.load(Relaxed);
        Totals {
            finished: self.queries.succeeded.load(Relaxed) + failed,
            failed,
            cpu: None,
        }
    }

    pub(super) fn read(&self) -> LoadCounts {
        let Self { queries, probes } = self;
        LoadCounts {
            queries_succeeded: queries.succeeded.load(Relaxed),
            queries_failed: queries.failed.load(Relaxed),
            queries_cancelled: queries.cancelled.load(Relaxed),
            http_answered: probes.http_answered.load(Relaxed),
            http_refused: probes.http_refused.load(Relaxed),
            udp_answered: probes.udp_answered.load(Relaxed),
            udp_unsent: probes.udp_unsent.load(Relaxed),
            udp_receive_errors: probes.udp_receive_errors.load(Relaxed),
            refused: core::array::from_fn(|kind| probes.udp_refused[kind].load(Relaxed)),
        }
    }
}

pub(super) fn add_one(count: &AtomicU64) {
    add(count, 1);
}

pub(super) fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(more as u64, Relaxed);
}
