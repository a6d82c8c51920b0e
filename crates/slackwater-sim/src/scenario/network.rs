//! The network between clients and replicas.

use core::time::Duration;

/// The network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Delay of one way, equally for queries, responses and probes.
    pub delay: Delay,
    /// The share of probes that are lost, from 0 to 1; queries are never lost.
    pub probe_loss: f64,
}

/// A one-way delay, uniform between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The shortest.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
}

impl Network {
    /// No delay and no loss.
    pub const NONE: Self = Self {
        delay: Delay {
            least: Duration::ZERO,
            most: Duration::ZERO,
        },
        probe_loss: 0.0,
    };
}
