//! Timeouts of one attempt at a request, where they differ from those of its replica.

use super::deadline::Deadlines;
use core::time::Duration;
use tokio::time::Instant;

/// Timeouts of one attempt, up to the head of the response.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttemptTimeouts {
    /// From the moment when the last piece of the request was handed on; `None`: as configured for
    /// the replica.
    pub(crate) first_byte: Option<Duration>,
    /// For which the client may send nothing of a request that is not complete; `None`: as
    /// configured for the replica.
    pub(crate) client: Option<Duration>,
    /// Not longer than until then, whatever is still on its way.
    pub(crate) ends: Option<Instant>,
    /// Until when the client wants the answer, as far as it said so or `ends` does: the replica is
    /// told what is left of it.
    pub(crate) wanted: Option<Instant>,
}

/// The same in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    pub(crate) first_byte: u64,
    pub(crate) client: u64,
    ends_at: Option<u64>,
}

impl AttemptTimeouts {
    /// `first_byte` is as long as an attempt may take where nothing is said.
    pub(crate) fn ticks(self, deadlines: &Deadlines, first_byte: u64) -> Ticks {
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
    /// `wanted` ticks, or what is left until the end if that is less.
    pub(crate) fn left(self, deadlines: &Deadlines, wanted: u64) -> u64 {
        let left = |ends_at: u64| ends_at.saturating_sub(deadlines.now());
        (self.ends_at).map_or(wanted, |ends_at| wanted.min(left(ends_at)))
    }
}
