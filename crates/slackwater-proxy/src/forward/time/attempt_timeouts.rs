//! Timeouts of one attempt that override those of its replica.

use super::deadline::Deadlines;
use core::time::Duration;
use tokio::time::Instant;

/// Timeouts of one attempt, up to the response head.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttemptTimeouts {
    /// Timeout from the moment when the last piece of the request was handed on; `None`: as
    /// configured for the replica.
    pub(crate) first_byte: Option<Duration>,
    /// Longest time that the client sends nothing of an incomplete request; `None`: as configured
    /// for the replica.
    pub(crate) client: Option<Duration>,
    /// The attempt must end by then, even if it makes progress.
    pub(crate) ends: Option<Instant>,
    /// The client's deadline, as far as it sent one or `ends` sets one. It ends waits in queues,
    /// and the remaining time is forwarded to the replica.
    pub(crate) wanted: Option<Instant>,
}

/// The timeouts in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    pub(crate) first_byte: u64,
    pub(crate) client: u64,
    ends_at: Option<u64>,
}

impl AttemptTimeouts {
    /// Converts to ticks. `first_byte` is the default timeout of an attempt.
    pub(crate) fn ticks(&self, deadlines: &Deadlines, first_byte: u64) -> Ticks {
        let ticks = |span| deadlines.ticks(span);
        let left = |ends: Instant| ticks(ends.saturating_duration_since(Instant::now()));
        Ticks {
            first_byte: self.first_byte.map_or(first_byte, ticks),
            client: self.client.map_or(first_byte, ticks),
            ends_at: (self.ends).map(|ends| deadlines.now().saturating_add(left(ends))),
        }
    }
}

impl Ticks {
    /// Returns `wanted` ticks, or the ticks until the end if these are fewer.
    pub(crate) fn left(self, deadlines: &Deadlines, wanted: u64) -> u64 {
        let left = |ends_at: u64| ends_at.saturating_sub(deadlines.now());
        (self.ends_at).map_or(wanted, |ends_at| wanted.min(left(ends_at)))
    }
}
