//! What a capacity is known by, for people who wonder about one.

use super::{CAPACITY_MAX, CAPACITY_MIN, CapacityEstimator};

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

impl CapacityEstimator {
    /// What told the capacity that [`Self::fill`] reports now; `None` while that is not known.
    pub fn source(&self) -> Option<CapacitySource> {
        let capacity = self.capacity()?;
        let waits = self.contention.capacity();
        let waits = waits.map(|it| it.clamp(CAPACITY_MIN, CAPACITY_MAX));
        Some(if self.most().is_some_and(|most| most <= capacity) {
            CapacitySource::Cores
        } else if waits == Some(capacity) {
            CapacitySource::Waits
        } else {
            CapacitySource::Latency
        })
    }
}
