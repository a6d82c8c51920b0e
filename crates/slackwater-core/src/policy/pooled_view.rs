//! A pooled report, as those see it who look at a policy from outside.

use crate::replica::ReplicaId;
use crate::report::Rif;
use core::time::Duration;

/// A pooled report, as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PooledView {
    /// Whose report it is.
    pub replica: ReplicaId,
    /// The RIF that it counts with: as reported, but no less than this client alone had there
    /// `[Decision 0015]`, plus one for each query that this client sent there since; for
    /// `rif_then_latency` and `shortest_expected_delay` also less each that ended since.
    pub rif: Rif,
    /// Estimated latency, if known.
    pub latency: Option<Duration>,
    /// Time since the report was received.
    pub age: Duration,
    /// How many more queries it may decide; 2^32 − 1 where uses are not limited.
    pub uses_left: u32,
    /// Made from this client's own counts, because the replica answers no probes; for
    /// `rif_then_latency` and `shortest_expected_delay`, because one of the fleet doesn't. `[A13]`
    pub local: bool,
    /// Whether its RIF has reached the limit.
    pub hot: bool,
}
