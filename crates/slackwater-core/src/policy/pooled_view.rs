//! A pooled report as seen from outside a policy.

use crate::replica::ReplicaId;
use crate::report::Rif;
use core::time::Duration;

/// A pooled report, as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PooledView {
    /// The replica that the report is from.
    pub replica: ReplicaId,
    /// The RIF that counts: as reported, but at least what this client alone had there `[Decision
    /// 0015]`, plus one for each query that this client sent there since. For `rif_then_latency`
    /// and `shortest_expected_delay`, also minus each that ended since, and plus those that other
    /// clients are assumed to have sent alike `[Decision 0029]`.
    pub rif: Rif,
    /// Estimated latency, if known.
    pub latency: Option<Duration>,
    /// Time since the report was received.
    pub age: Duration,
    /// How many more queries it may decide. 2^32 − 1 if uses are not limited.
    pub uses_left: u32,
    /// Whether it was made from this client's own counts because the replica answers no probes; for
    /// `rif_then_latency` and `shortest_expected_delay`, because one of the fleet answers none.
    /// `[A13]`
    pub local: bool,
    /// Whether its RIF has reached the limit.
    pub hot: bool,
}
