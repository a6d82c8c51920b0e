//! Troubles of a machine: stalls, a spell of lower capacity, a cold start.

use super::running::whole;
use super::{NEVER, Time};
use crate::random::{Purpose, Stream};
use crate::scenario::{Hobble, Stall, nanoseconds};
use core::time::Duration;

/// Stalls: the machine alternates between running, for an exponential or a constant time, and doing
/// nothing for a fixed time.
#[derive(Clone, Debug)]
pub(super) struct Stalls {
    stream: Stream,
    every: f64,
    regular: bool,
    lasts: Time,
    stalled: bool,
    next_edge: Time,
}

impl Stalls {
    /// Returns the stalls of a replica, which runs at time 0.
    pub(super) fn new(stall: &Stall, replica: usize, seed: u64) -> Self {
        let mut stalls = Self {
            stream: Stream::new(seed, Purpose::Stall, replica as u64),
            every: nanoseconds(stall.every),
            regular: stall.regular,
            lasts: time(stall.lasts),
            stalled: true,
            next_edge: 0,
        };
        stalls.step();
        if stall.regular {
            // Replicas of one kind do not all stall at once.
            let within = stalls.stream.uniform() * stalls.every;
            stalls.next_edge = whole(within).max(1);
        }
        stalls
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Returns how long the present stall still lasts; 0 outside a stall.
    pub(super) fn rest(&self, now: Time) -> Time {
        if self.stalled {
            self.next_edge.saturating_sub(now)
        } else {
            0
        }
    }

    pub(super) fn next_edge(&self) -> Time {
        self.next_edge
    }

    /// Plays the next edge: a stall begins or ends.
    pub(super) fn step(&mut self) {
        self.stalled = !self.stalled;
        let until_next = if self.stalled {
            self.lasts
        } else if self.regular {
            whole(self.every)
        } else {
            whole(self.stream.exponential(self.every))
        };
        self.next_edge = self.next_edge.saturating_add(until_next.max(1));
    }
}

/// A spell of lower capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spell {
    from: Time,
    until: Time,
    /// The share of the capacity, or of the speed, that is left.
    left: f64,
    /// Latency in nanoseconds of queries that arrive in the spell, where latencies are replayed.
    latency: Option<f64>,
    next_edge: Time,
}

impl Spell {
    /// Returns the spell. `replays`: latencies are replayed, and the spell may replace them. The
    /// speed then stays.
    pub(super) fn new(hobble: &Hobble, replays: bool) -> Self {
        let latency = hobble.latency.filter(|_| replays).map(nanoseconds);
        Self {
            from: time(hobble.from),
            until: time(hobble.until),
            left: if latency.is_some() {
                1.0
            } else {
                hobble.capacity
            },
            latency,
            next_edge: time(hobble.from),
        }
    }

    pub(super) fn next_edge(&self) -> Time {
        self.next_edge
    }

    /// Plays the next edge: the spell begins or ends.
    pub(super) fn step(&mut self) {
        self.next_edge = if self.next_edge < self.until {
            self.until
        } else {
            NEVER
        };
    }

    fn holds(&self, now: Time) -> bool {
        (self.from..self.until).contains(&now)
    }

    /// Returns the share of the capacity that is left now: 1 outside the spell.
    pub(super) fn left(&self, now: Time) -> f64 {
        if self.holds(now) { self.left } else { 1.0 }
    }

    /// Returns the latency of a query that arrives now; `None`: the usual one.
    pub(super) fn latency(&self, now: Time) -> Option<f64> {
        self.latency.filter(|_| self.holds(now))
    }
}

/// A cold start: queries cost more at first.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColdStart {
    since: Time,
    slowness: f64,
    warm_after: Time,
}

impl ColdStart {
    pub(super) fn new(since: Time, slowness: f64, warm_after: Time) -> Self {
        Self {
            since,
            slowness,
            warm_after,
        }
    }

    /// Returns the factor on the cost of queries that arrive now; 1 once the start is over.
    pub(super) fn slowness(&self, now: Time) -> f64 {
        let age = now.saturating_sub(self.since);
        if age >= self.warm_after {
            return 1.0;
        }
        let cold = 1.0 - age as f64 / self.warm_after as f64;
        1.0 + (self.slowness - 1.0) * cold
    }
}

/// Converts to a point in time, or to a span.
fn time(duration: Duration) -> Time {
    Time::try_from(duration.as_nanos()).unwrap_or(NEVER)
}
