//! The capacity of one replica over time, which is what the neighbours on its machine leave, as a
//! pure value.
//!
//! A replica owns an *allocation* that no neighbour takes, and it also uses what is *spare* on its
//! machine. Spare capacity is permanently unequal from one replica to the next, drifts within
//! seconds and is taken in short bursts. From time to time, one replica of the fleet is *hobbled*:
//! its capacity falls to a tenth. So each replica copes with its fair share of the load most of the
//! time, but not always, and round robin cannot see that.
//!
//! Everything follows from the seed and the time since the start of the world, so both fleets have
//! the same conditions. The model is that of the antagonists in the paper's testbed [Prequal §5.1].
//! Contention that grows with use is absent on purpose.

use core::time::Duration;

use super::draw::{Draws, Stream};
use super::processor::Cores;

/// Behaviour of the neighbours of a fleet. Shares are of 1.
#[derive(Debug, Clone)]
pub(crate) struct Neighbourhood {
    /// A replica's average capacity over the fleet and over time, while it is not hobbled. Default
    /// 1.4 cores.
    pub(crate) capacity_mean: Cores,
    /// The part of `capacity_mean` that is the replica's own; the rest is the average spare.
    /// Default 0.65; at 1 the neighbours take nothing, at 0 they may take everything.
    pub(crate) allocation_share: f64,
    /// How far the spare capacity drifts over seconds: standard deviation of its logarithm. Default
    /// 0.4; 0 is steady.
    pub(crate) drift: f64,
    /// How far the spare capacity varies in bursts of some tenths of a second: standard deviation
    /// of its logarithm. Default 0.5; 0 is steady.
    pub(crate) burst: f64,
    /// The slow episodes; `None` if there are none.
    pub(crate) hobbles: Option<Hobbles>,
}

/// The slow episodes. Each chooses a replica at random, never the same twice in a row (unless it is
/// alone).
///
/// Spans are uniform between two bounds rather than exponential, so that a run of half a minute has
/// three or four episodes with any seed.
#[derive(Debug, Clone)]
pub(crate) struct Hobbles {
    /// The share of the capacity that is left. Default 0.1.
    pub(crate) share: f64,
    /// Time of the first episode, from the start of the world. Default 1 to 3 s.
    pub(crate) first: (Duration, Duration),
    /// Length of an episode. Default 1 to 3 s.
    pub(crate) length: (Duration, Duration),
    /// Pause between two episodes. Default 6 to 10 s: on average 2 s in every 10 s are slow.
    pub(crate) pause: (Duration, Duration),
}

impl Default for Neighbourhood {
    fn default() -> Self {
        Self {
            capacity_mean: Cores::from_milli(1_400),
            allocation_share: 0.65,
            drift: 0.4,
            burst: 0.5,
            hobbles: Some(Hobbles::default()),
        }
    }
}

impl Default for Hobbles {
    fn default() -> Self {
        let seconds = |least, most| (Duration::from_secs(least), Duration::from_secs(most));
        Self {
            share: 0.1,
            first: seconds(1, 3),
            length: seconds(1, 3),
            pause: seconds(6, 10),
        }
    }
}

/// The schedule of one replica's capacity.
#[derive(Debug, Clone)]
pub(crate) struct Neighbours {
    allocation: f64,
    headroom: f64,
    drift: Wander,
    burst: Wander,
    /// The next time at which the neighbours' load changes.
    next_tick: Duration,
    hobbles: Option<Episodes>,
    /// Slow episodes have no effect.
    is_calm: bool,
}

impl Neighbours {
    /// Interval of the neighbours' changes: short compared with a burst, long compared with a
    /// request.
    const TICK: Duration = Duration::from_millis(100);
    /// Time constant of the drift.
    const DRIFT_MEMORY: Duration = Duration::from_secs(10);
    /// Time constant of a burst.
    const BURST_MEMORY: Duration = Duration::from_millis(300);

    /// Returns the schedule of replica `index` out of `replicas`, from the start of the world
    /// `seed`.
    pub(crate) fn new(hood: &Neighbourhood, seed: u64, index: usize, replicas: usize) -> Self {
        let mean = hood.capacity_mean.as_f64();
        let allocation = mean * hood.allocation_share.clamp(0.0, 1.0);
        let wander = |stream, memory, spread| {
            Wander::new(Draws::new(seed, stream, index as u64), memory, spread)
        };
        Self {
            allocation,
            headroom: (mean - allocation) * inequality(seed, index, replicas),
            drift: wander(Stream::Drift, Self::DRIFT_MEMORY, hood.drift),
            burst: wander(Stream::Burst, Self::BURST_MEMORY, hood.burst),
            next_tick: Self::TICK,
            hobbles: hood
                .hobbles
                .as_ref()
                .map(|hobbles| Episodes::new(hobbles, seed, index, replicas)),
            is_calm: false,
        }
    }

    /// Turns the effect of slow episodes on or off, also that of a running one. Episodes begin and
    /// end all the same, so that both fleets agree on them afterwards.
    pub(crate) fn set_weather(&mut self, on: bool) {
        self.is_calm = !on;
    }

    /// The replica's capacity now: from the last change until the next.
    pub(crate) fn capacity(&self) -> Cores {
        let beyond = self.headroom * self.drift.factor() * self.burst.factor();
        let share = self
            .hobbles
            .as_ref()
            .filter(|hobbles| hobbles.here && !self.is_calm)
            .map_or(1.0, |h| h.share);
        Cores::from_f64((self.allocation + beyond) * share)
    }

    /// The capacity that the replica owns, whatever its neighbours do.
    pub(crate) fn allocation(&self) -> Cores {
        Cores::from_f64(self.allocation)
    }

    /// Returns whether a slow episode affects this replica now.
    pub(crate) fn is_hobbled(&self) -> bool {
        let hobbles = self.hobbles.as_ref();
        hobbles.is_some_and(|hobbles| hobbles.here && !self.is_calm)
    }

    /// Returns when the capacity changes next, since the start of the world.
    pub(crate) fn next_change(&self) -> Duration {
        let hobbles = self
            .hobbles
            .as_ref()
            .map_or(Duration::MAX, Episodes::next_change);
        self.next_tick.min(hobbles)
    }

    /// Applies the next change if it is due at `now`, and returns its time. Call it until it
    /// returns `None`: changes that a late caller missed are returned one by one, in order.
    pub(crate) fn poll_change(&mut self, now: Duration) -> Option<Duration> {
        let at = self.next_change();
        if at > now {
            return None;
        }
        if self.next_tick == at {
            self.drift.step();
            self.burst.step();
            self.next_tick = at.saturating_add(Self::TICK);
        }
        if let Some(hobbles) = &mut self.hobbles
            && hobbles.next_change() == at
        {
            hobbles.step();
        }
        Some(at)
    }
}

/// The share of replica `index` in the spare capacity, with a mean of 1. The shares are fixed (1/n,
/// 3/n, … (2n−1)/n) and only their order is drawn, so that each seed gives a fleet of the same
/// strength.
fn inequality(seed: u64, index: usize, replicas: usize) -> f64 {
    let mut draws = Draws::new(seed, Stream::Inequality, 0);
    let mut ranks: Vec<usize> = (0..replicas).collect();
    for place in (1..replicas).rev() {
        ranks.swap(place, draws.below(place + 1));
    }
    ranks
        .get(index)
        .map_or(1.0, |&rank| (2 * rank + 1) as f64 / replicas as f64)
}

/// A factor with mean 1 that wanders and comes back: the exponential of an Ornstein-Uhlenbeck
/// process.
#[derive(Debug, Clone)]
struct Wander {
    draws: Draws,
    spread: f64,
    /// The factor by which the past decays in one tick.
    keeps: f64,
    level: f64,
}

impl Wander {
    fn new(mut draws: Draws, memory: Duration, spread: f64) -> Self {
        let level = draws.normal();
        let keeps = (-Neighbours::TICK.div_duration_f64(memory)).exp();
        Self {
            draws,
            spread,
            keeps,
            level,
        }
    }

    fn step(&mut self) {
        let news = (1.0 - self.keeps * self.keeps).sqrt() * self.draws.normal();
        self.level = self.keeps * self.level + news;
    }

    fn factor(&self) -> f64 {
        (self.spread * self.level - self.spread * self.spread / 2.0).exp()
    }
}

/// The slow episodes of the fleet, from the perspective of one replica.
#[derive(Debug, Clone)]
struct Episodes {
    draws: Draws,
    share: f64,
    length: (Duration, Duration),
    pause: (Duration, Duration),
    index: usize,
    replicas: usize,
    /// The replica of the next episode, or of the running one.
    victim: usize,
    starts: Duration,
    ends: Duration,
    /// Whether an episode runs at this replica.
    here: bool,
    /// Whether an episode runs.
    running: bool,
}

impl Episodes {
    fn new(hobbles: &Hobbles, seed: u64, index: usize, replicas: usize) -> Self {
        let mut draws = Draws::new(seed, Stream::Hobble, 0);
        let victim = draws.below(replicas);
        let starts = draws.between(hobbles.first.0, hobbles.first.1);
        let ends = starts + draws.between(hobbles.length.0, hobbles.length.1);
        Self {
            draws,
            share: hobbles.share.clamp(0.0, 1.0),
            length: hobbles.length,
            pause: hobbles.pause,
            index,
            replicas,
            victim,
            starts,
            ends,
            here: false,
            running: false,
        }
    }

    fn next_change(&self) -> Duration {
        if self.running { self.ends } else { self.starts }
    }

    fn step(&mut self) {
        self.running = !self.running;
        self.here = self.running && self.victim == self.index;
        if !self.running {
            let others = self.replicas.saturating_sub(1);
            self.victim = (self.victim + 1 + self.draws.below(others)) % self.replicas.max(1);
            self.starts = self.ends + self.draws.between(self.pause.0, self.pause.1);
            self.ends = self.starts + self.draws.between(self.length.0, self.length.1);
        }
    }
}

#[cfg(test)]
mod tests;
