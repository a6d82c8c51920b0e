//! What a capacity is known by, for people who wonder about one.

/// What told the capacity that is reported now. `[Decision 0009]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CapacitySource {
    /// The system: how long the replica's threads waited for a CPU.
    Waits,
    /// How latency grows with RIF.
    Latency,
    /// The cores that it may use at most: what else is known would be more than they can carry.
    Cores,
}

impl CapacitySource {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Waits, Self::Latency, Self::Cores];

    /// It in one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Latency => "latency",
            Self::Cores => "cores",
        }
    }
}
