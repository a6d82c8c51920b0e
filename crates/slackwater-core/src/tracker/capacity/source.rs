//! Where a capacity comes from, for operators who wonder about its value.

use crate::named;

named! {
    /// Source of the capacity that is reported now. `[Decision 0009]`
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum CapacitySource by as_str {
        /// CPU contention: how long the replica's threads waited for a CPU.
        Waits = "waits",
        /// How latency grows with RIF.
        Latency = "latency",
        /// The cores that it may use: the other estimates are more than these can carry.
        Cores = "cores",
    }
}
