//! Seeded streams of draws, one for each purpose, so that no two purposes disturb each other: what arrivals draw does not
//! depend on what a policy draws.
//!
//! A stream is the core's [`SplitMix64`], started from seed, purpose and index; what is drawn from it is the same for ever.

use slackwater_core::{Draw, SplitMix64};

/// What a stream is drawn for. Each purpose has streams of its own, told apart by an index: the client, the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// When queries arrive.
    Arrivals = 1,
    /// What they cost.
    Cost = 2,
    /// Which of them fail.
    Failure = 3,
    /// How long queries and responses travel.
    QueryDelay = 4,
    /// How long probes and reports travel.
    ProbeDelay = 5,
    /// Which probes are lost.
    ProbeLoss = 6,
    /// What a policy draws.
    Policy = 7,
    /// What a clairvoyant draws.
    Clairvoyant = 8,
    /// Spare capacity on a replica's machine.
    Spare = 9,
    /// The order in which machines are full.
    FullTurns = 10,
    /// When a replica stalls.
    Stall = 11,
    /// How long a query waits without the CPU.
    IoWait = 12,
    /// Latencies from a replica's own trace.
    LatencyTrace = 13,
}

/// A stream of draws.
#[derive(Clone, Debug)]
pub struct Stream {
    draws: SplitMix64,
    /// Normals come in pairs; the second one waits here.
    second_normal: Option<f64>,
}

impl Stream {
    /// The stream of `purpose` and `index` in the run of `seed`.
    pub fn new(seed: u64, purpose: Purpose, index: u64) -> Self {
        let scrambled = |word: u64| SplitMix64::new(word).draw();
        let start = scrambled(scrambled(scrambled(seed) ^ purpose as u64) ^ index);
        Self {
            draws: SplitMix64::new(start),
            second_normal: None,
        }
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.draws.draw() >> 11) as f64 * STEP
    }

    /// Uniform in [`least`, `most`); `least` if the two are equal.
    pub fn uniform_between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.uniform()
    }

    /// Uniform in 0..`bound`; 0 for a `bound` of 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        slackwater_core::draw::below(&mut self.draws, bound)
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - uniform is above 0, so that the logarithm is finite.
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Normal with mean 0 and standard deviation 1, by the polar method (Marsaglia and Bray, 1964).
    pub fn normal(&mut self) -> f64 {
        if let Some(second) = self.second_normal.take() {
            return second;
        }
        loop {
            let (x, y) = (
                self.uniform_between(-1.0, 1.0),
                self.uniform_between(-1.0, 1.0),
            );
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.second_normal = Some(y * scale);
                return x * scale;
            }
        }
    }
}

impl Draw for Stream {
    fn draw(&mut self) -> u64 {
        self.draws.draw()
    }
}
