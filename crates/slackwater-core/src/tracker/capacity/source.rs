//! What a capacity is known by, for people who wonder about one.

use crate::named;

named! {
    /// What told the capacity that is reported now. `[Decision 0009]`
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum CapacitySource by as_str {
        /// The system: how long the replica's threads waited for a CPU.
        Waits = "waits",
        /// How latency grows with RIF.
        Latency = "latency",
        /// The cores that it may use at most: what else is known would be more than they can carry.
        Cores = "cores",
    }
}
