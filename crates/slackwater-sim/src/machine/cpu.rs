//! A CPU that queries share, and how much of it they may use: allocation, spare capacity, the
//! bucket, contention.
//!
//! Capacity is the allocation plus what the neighbours leave. Each query has at most one core.
//! While the queries want more than the capacity they get it, up to a burst, and the bucket drains
//! by the excess. Below capacity it refills by what is unused, up to its size. Once it is empty the
//! replica is *held*: it uses its capacity and no more, and loses part of it to contention, until
//! its queries want less than its capacity again. A CPU starts with a full bucket.

use super::neighbours::Neighbours;
use super::running::whole;
use super::{NEVER, Time};
use crate::scenario::{Replay, ReplayStep, Sharing};
use std::sync::Arc;

/// A shared CPU.
#[derive(Clone, Debug)]
pub(super) struct SharedCpu {
    sharing: Sharing,
    neighbours: Option<Around>,
    /// Current cores beyond the allocation.
    headroom: f64,
    /// When the spare cores change.
    next_step: Time,
    /// Content of the bucket in core-nanoseconds.
    bucket: f64,
    /// Cores by which the bucket fills, or drains if negative.
    inflow: f64,
    held: bool,
}

/// What sets the cores beyond the allocation.
#[derive(Clone, Debug)]
pub(super) enum Around {
    /// Random neighbours.
    Neighbours(Box<Neighbours>),
    /// Recorded cores.
    Recorded(Recorded),
}

/// A replica's steps in a replay.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    replay: Arc<Replay>,
    replica: usize,
    /// The position of the current step.
    place: usize,
}

impl Recorded {
    pub(super) const fn new(replay: Arc<Replay>, replica: usize) -> Self {
        Self {
            replay,
            replica,
            place: 0,
        }
    }

    fn at(&self, place: usize) -> Option<&ReplayStep> {
        self.replay.replicas.get(self.replica)?.get(place)
    }
}

impl Around {
    fn headroom(&self, sharing: &Sharing) -> f64 {
        match self {
            Self::Neighbours(neighbours) => neighbours.headroom(),
            Self::Recorded(recorded) => {
                let cores = recorded.at(recorded.place).map_or(0.0, |step| step.cores);
                (cores - sharing.cores).max(0.0)
            }
        }
    }

    fn next_step(&self) -> Time {
        match self {
            Self::Neighbours(neighbours) => neighbours.next_step(),
            Self::Recorded(recorded) => {
                let next = recorded.at(recorded.place + 1);
                next.map_or(NEVER, |step| step.from_ns)
            }
        }
    }

    fn step(&mut self) {
        match self {
            Self::Neighbours(neighbours) => neighbours.step(),
            Self::Recorded(recorded) => recorded.place += 1,
        }
    }
}

/// The current rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Service that each query attains within a nanosecond.
    pub(super) each: f64,
    /// Cores in use.
    pub(super) used: f64,
}

impl SharedCpu {
    /// A bucket below this counts as empty, in core-nanoseconds. Otherwise rounding errors could
    /// keep it from being empty.
    const EMPTY: f64 = 1.0;

    pub(super) fn new(sharing: &Sharing, neighbours: Option<Around>) -> Self {
        Self {
            sharing: *sharing,
            headroom: neighbours.as_ref().map_or(0.0, |it| it.headroom(sharing)),
            next_step: neighbours.as_ref().map_or(NEVER, Around::next_step),
            neighbours,
            bucket: sharing.bucket * 1e9,
            inflow: 0.0,
            held: false,
        }
    }

    /// Returns the cores that the replica has, of which a hobble leaves the share `left`.
    fn cores(&self, left: f64) -> f64 {
        (self.sharing.cores + self.headroom) * left
    }

    /// Returns [`cores`](Self::cores) less what contention takes.
    pub(super) fn capacity(&self, left: f64) -> f64 {
        let kept = if self.held {
            1.0 - self.sharing.contention_loss
        } else {
            1.0
        };
        self.cores(left) * kept
    }

    /// Returns the pace from now on with `queries` in service. It holds until the queries, `left`
    /// or the spare capacity change or the bucket is empty.
    pub(super) fn settle(&mut self, queries: usize, left: f64) -> Pace {
        let wanted = queries as f64;
        let cores = self.cores(left);
        if wanted < cores {
            self.held = false;
        } else if wanted > cores && self.bucket < Self::EMPTY {
            self.held = true;
        }
        let used = if self.held {
            cores
        } else {
            wanted.min(self.sharing.burst * cores)
        };
        self.inflow = cores - used;
        let each = if self.held {
            self.capacity(left) / wanted
        } else {
            used / wanted.max(1.0)
        };
        Pace { each, used }
    }

    /// Returns the pace of a stall. Nothing runs, which is less than the capacity, so the bucket
    /// fills.
    pub(super) fn pause(&mut self, left: f64) -> Pace {
        self.settle(0, left)
    }

    pub(super) fn elapse(&mut self, nanoseconds: f64) {
        let level = self.bucket + self.inflow * nanoseconds;
        self.bucket = level.clamp(0.0, self.sharing.bucket * 1e9);
    }

    /// Returns when the bucket is empty at the present pace.
    pub(super) fn bucket_empty(&self, now: Time) -> Time {
        if self.inflow < 0.0 {
            now.saturating_add(whole(self.bucket / -self.inflow))
        } else {
            NEVER
        }
    }

    /// Returns when the spare capacity changes.
    pub(super) fn next_step(&self) -> Time {
        self.next_step
    }

    /// Returns whether a change of the spare capacity could change the pace. It cannot while the
    /// queries need no more than the allocation.
    pub(super) fn headroom_matters(&self, queries: usize, left: f64) -> bool {
        self.held || queries as f64 > self.sharing.cores * left
    }

    /// Changes the spare capacity.
    pub(super) fn step(&mut self) {
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.step();
            self.headroom = neighbours.headroom(&self.sharing);
            self.next_step = neighbours.next_step();
        }
    }

    pub(super) fn allocation(&self) -> f64 {
        self.sharing.cores
    }
}
