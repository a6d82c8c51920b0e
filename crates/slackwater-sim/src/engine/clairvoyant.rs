//! Balancers that see everything: bounds to compare policies with.
//!
//! All clients share one. It sees the current state of each replica, and each query that has been
//! sent and not yet finished, including those on the network.

use super::replicas::Replicas;
use crate::machine::Time;
use crate::policy::Clairvoyant;
use crate::random::{Purpose, Stream};
use core::cmp::Ordering;
use core::ops::Range;

/// The least capacity that a replica counts as having. It makes a suspended replica the last choice
/// instead of dividing by zero.
const CORES_MIN: f64 = 1e-6;

/// The known queries of a replica.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// Queries sent and not finished.
    unfinished: u32,
    /// Queries sent and not arrived: their number, and their total cost.
    coming: u32,
    coming_ns: f64,
}

/// The balancer.
#[derive(Debug)]
pub(super) struct Central {
    rule: Clairvoyant,
    draw: Stream,
    sent: Vec<Sent>,
}

impl Central {
    pub(super) fn new(rule: Clairvoyant, replicas: usize, seed: u64) -> Self {
        Self {
            rule,
            draw: Stream::new(seed, Purpose::Clairvoyant, 0),
            sent: vec![Sent::default(); replicas],
        }
    }

    /// Returns the best replica among `numbers` for a query of this cost, other than `avoid`, with
    /// ties at random. `None` if no replica takes queries.
    pub(super) fn choose(
        &mut self,
        now: Time,
        replicas: &mut Replicas,
        numbers: Range<u32>,
        cost_ns: f64,
        avoid: &[u32],
    ) -> Option<u32> {
        let mut best: Option<(f64, u32)> = None;
        let mut ties = 0_u32;
        for number in numbers {
            let replica = replicas.at(number as usize);
            if !replica.is_up || replica.is_draining || avoid.contains(&number) {
                continue;
            }
            let score = self.score(now, replicas, number, cost_ns);
            let order = best.map_or(Ordering::Less, |(least, _)| score.total_cmp(&least));
            ties = match order {
                Ordering::Less => 1,
                Ordering::Equal => ties + 1,
                Ordering::Greater => continue,
            };
            if ties == 1 || self.draw.below(ties) == 0 {
                best = Some((score, number));
            }
        }
        best.map(|(_, number)| number)
    }

    /// Returns the score of a replica. Lower is better.
    fn score(&self, now: Time, replicas: &mut Replicas, number: u32, cost_ns: f64) -> f64 {
        let sent = self.sent[number as usize];
        let machine = &mut replicas.at_mut(number as usize).machine;
        match self.rule {
            Clairvoyant::JoinShortestQueue => f64::from(sent.unfinished),
            Clairvoyant::WeightedByCapacity => {
                f64::from(sent.unfinished + 1) / machine.capacity_cores(now).max(CORES_MIN)
            }
            Clairvoyant::Greedy => {
                let finish = machine.finish_estimate(now, cost_ns);
                if sent.coming == 0 {
                    return finish;
                }
                // Queries on their way count as queued before this one.
                let speed = machine.capacity_cores(now).max(CORES_MIN) * machine.speed(now);
                finish + sent.coming_ns / speed
            }
        }
    }

    pub(super) fn sent(&mut self, number: u32, cost_ns: f64) {
        let sent = &mut self.sent[number as usize];
        sent.unfinished += 1;
        sent.coming += 1;
        sent.coming_ns += cost_ns;
    }

    /// Counts a query that has arrived at its replica.
    pub(super) fn arrived(&mut self, number: u32, cost_ns: f64) {
        let sent = &mut self.sent[number as usize];
        sent.coming -= 1;
        sent.coming_ns = if sent.coming == 0 {
            0.0 // rounding errors would add up otherwise
        } else {
            sent.coming_ns - cost_ns
        };
    }

    /// Counts a query that had arrived and has ended.
    pub(super) fn finished(&mut self, number: u32) {
        self.sent[number as usize].unfinished -= 1;
    }

    /// Returns whether every query that was sent is finished.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.sent
            .iter()
            .all(|sent| sent.unfinished == 0 && sent.coming == 0)
    }
}
