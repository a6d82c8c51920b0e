//! The neighbours on a machine: how much CPU they leave beyond the replica's allocation, over time.
//!
//! Spare capacity varies on three time scales around a median, and is skewed to the right. In
//! addition some machines of the neighbourhood are full, in turn. It changes every 10 ms, on a grid
//! that is staggered by replica so that the fleet does not change in step. It depends only on seed,
//! replica and time.

use super::Time;
use super::running::whole;
use crate::random::{Purpose, Stream};
use crate::scenario::{Antagonists, nanoseconds};
use core::time::Duration;

/// The neighbours of one replica.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    antagonists: Antagonists,
    /// The median, in cores.
    median: f64,
    stream: Stream,
    /// The constant part, weighted.
    fixed: f64,
    slow: Wander,
    fast: Wander,
    turns: Option<Turns>,
    next_step: Time,
}

impl Neighbours {
    /// Time between two changes: short compared with the faster process, long compared with the
    /// events of a query.
    pub(super) const STEP: Time = 10_000_000;

    /// Returns the neighbours of `replica` out of `replicas`, which is allocated `cores`, at
    /// time 0. The processes start from their stationary distribution.
    pub(super) fn new(
        antagonists: &Antagonists,
        cores: f64,
        (replica, replicas): (usize, usize),
        seed: u64,
    ) -> Self {
        let mut stream = Stream::new(seed, Purpose::Headroom, replica as u64);
        let variances = variances(antagonists);
        let [fixed, slow, fast] = variances.map(|variance| variance.sqrt() * stream.normal());
        let wander = |level, memory, variance: f64| Wander::new(level, memory, variance.sqrt());
        let stagger = Self::STEP * (replica as u64 + 1) / replicas.max(1) as u64;
        Self {
            antagonists: *antagonists,
            median: cores * antagonists.headroom_median,
            stream,
            fixed,
            slow: wander(slow, antagonists.slow, variances[1]),
            fast: wander(fast, antagonists.fast, variances[2]),
            turns: Turns::new(antagonists, replica, replicas, seed),
            next_step: stagger,
        }
    }

    pub(super) fn next_step(&self) -> Time {
        self.next_step
    }

    /// Plays the next change.
    pub(super) fn step(&mut self) {
        self.slow.step(&mut self.stream);
        self.fast.step(&mut self.stream);
        self.next_step = self.next_step.saturating_add(Self::STEP);
    }

    /// Returns the cores that are free now, beyond the allocation, until the next change.
    pub(super) fn headroom(&self) -> f64 {
        let since = self.next_step.saturating_sub(Self::STEP);
        if self.turns.is_some_and(|turns| turns.is_full(since)) {
            return 0.0;
        }
        let z = self.fixed + self.slow.level + self.fast.level;
        let sigma = if z < 0.0 {
            self.antagonists.sigma_below
        } else {
            self.antagonists.sigma_above
        };
        (self.median * (sigma * z).exp()).min(self.antagonists.headroom_max)
    }
}

/// Returns what each time scale contributes to the variance: the constant part, the slower process,
/// the faster one.
pub(super) fn variances(antagonists: &Antagonists) -> [f64; 3] {
    let (slow, fast) = (antagonists.slow_share, antagonists.fast_share);
    [(1.0 - (slow + fast)).max(0.0), slow, fast]
}

/// An Ornstein-Uhlenbeck process around 0, at the steps of the grid.
#[derive(Clone, Debug)]
struct Wander {
    level: f64,
    /// Factor of the past level in a step.
    keeps: f64,
    /// What a step adds, per unit normal.
    adds: f64,
}

impl Wander {
    /// Returns a process with this standard deviation that forgets within `memory`.
    fn new(level: f64, memory: Duration, deviation: f64) -> Self {
        let keeps = (-(Neighbours::STEP as f64) / nanoseconds(memory)).exp();
        Self {
            level,
            keeps,
            adds: deviation * (1.0 - keeps * keeps).sqrt(),
        }
    }

    fn step(&mut self, stream: &mut Stream) {
        self.level = self.keeps * self.level + self.adds * stream.normal();
    }
}

/// When this machine is full: each machine of the neighbourhood in turn, for the same time. One
/// begins as another ends.
#[derive(Clone, Copy, Debug)]
struct Turns {
    /// When the first turn begins.
    first: Time,
    lasts: Time,
    /// From the beginning of one turn to the beginning of the next.
    cycle: Time,
}

impl Turns {
    /// Returns `None` if no machine is ever full.
    fn new(antagonists: &Antagonists, replica: usize, replicas: usize, seed: u64) -> Option<Self> {
        let machines = antagonists.machines.max(replicas).max(1) as u64;
        let full = (antagonists.full_machines as u64).min(machines);
        let lasts = nanoseconds(antagonists.full_for);
        let apart = lasts / full as f64;
        (full > 0 && lasts > 0.0).then(|| Self {
            first: whole(place(replica as u64, machines, seed) as f64 * apart),
            lasts: whole(lasts),
            cycle: whole(machines as f64 * apart),
        })
    }

    fn is_full(&self, now: Time) -> bool {
        now.saturating_add(self.cycle - self.first) % self.cycle < self.lasts
    }
}

/// Returns the position of a machine in the order of turns. It is a bijection drawn by the seed
/// that needs no list of all machines.
fn place(machine: u64, machines: u64, seed: u64) -> u64 {
    let mut stream = Stream::new(seed, Purpose::FullTurns, 0);
    let bound = u32::try_from(machines).unwrap_or(u32::MAX);
    let stride = loop {
        let stride = 1 + u64::from(stream.below(bound));
        if have_no_common_divisor(stride, machines) {
            break stride;
        }
    };
    (machine * stride + u64::from(stream.below(bound))) % machines
}

fn have_no_common_divisor(mut a: u64, mut b: u64) -> bool {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}
