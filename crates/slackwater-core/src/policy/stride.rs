//! Turns in proportion to weights, without a queue: a static stride.
//!
//! The method of gRPC and Envoy for weighted round robin: in round g, replica i is skipped if (w ·
//! g + i · 32767) mod 65535 < 65535 − w, where w is its weight. A replica of weight 65535 has a
//! turn in every round, one of half of that in every second round. Neighbours of the same weight
//! are half a cycle apart, so that they are not skipped together. If all weights are 65535, this is
//! round robin.

use crate::draw::{Draw, below};
use crate::policy::candidates::Candidates;
use crate::policy::comparison::{Best, Comparison, Equals, Factor, Step, Values};
use crate::replica::{ReplicaId, ReplicaMap};

/// The weight with a turn in every round; the largest weight should be this.
pub(crate) const WEIGHT_MAX: u16 = u16::MAX;
/// Distance of neighbours in their cycles.
const OFFSET: u64 = 32_767;
/// Rounds that are searched for the turn of a replica that the query may go to.
const ROUNDS_MAX: usize = 8;

/// How turns are compared. Turn t belongs to the replica at place t mod n in round ⌊t / n⌋, with n
/// replicas.
pub(super) const TURNS: Comparison = Comparison {
    name: "next_turn_by_weight",
    formula: "the next turn; a replica is passed over in round g = ⌊turn / replicas⌋ where (weight \
              × g + place × 32767) mod 65535 < 65535 − weight",
    shared: &[
        Factor::count("turn", "turn"),
        Factor::count("replicas", "replicas"),
    ],
    factors: &[
        Factor::count("weight", "weight"),
        Factor::count("place", "place"),
        Factor::count("next_turn", "next turn"),
    ],
    order: &[Step::lowest("next_turn")],
    equals: Equals::First,
};

/// How weights are compared if no replica that the query may go to has a turn soon.
pub(super) const LARGEST: Comparison = Comparison {
    name: "largest_weight",
    formula: "no turn within eight rounds; the largest weight",
    shared: &[],
    factors: &[Factor::count("weight", "weight")],
    order: &[Step {
        best: Best::Highest,
        ..Step::lowest("weight")
    }],
    equals: Equals::Draw,
};

/// Computes turns from weights.
#[derive(Clone, Debug)]
pub(crate) struct StaticStride {
    weights: ReplicaMap<u16>,
    other_weight: u16,
    /// The next turn to look at. `None` before the first query; it then starts at random, so that
    /// many clients do not move in step.
    next: Option<u64>,
}

impl Default for StaticStride {
    fn default() -> Self {
        Self {
            weights: ReplicaMap::default(),
            other_weight: WEIGHT_MAX,
            next: None,
        }
    }
}

impl StaticStride {
    /// Reserves space for a replica that joins: its weight is set in a pick, which must not
    /// allocate.
    pub(crate) fn reserve(&mut self, replica: ReplicaId) {
        self.weights.reserve(replica);
    }

    pub(crate) fn set(&mut self, replica: ReplicaId, weight: u16) {
        self.weights.insert(replica, weight);
    }

    /// Sets the weight of replicas without their own.
    pub(crate) const fn set_others(&mut self, weight: u16) {
        self.other_weight = weight;
    }

    pub(crate) fn forget(&mut self, replica: ReplicaId) {
        self.weights.remove(replica);
    }

    /// The next replica with a turn that the query may go to. It looks at few replicas if the
    /// largest weight is [`WEIGHT_MAX`] and the others are not far below, and at all of them eight
    /// times at most.
    pub(crate) fn choose(
        &mut self,
        from: Candidates<'_>,
        draw: &mut dyn Draw,
    ) -> Option<ReplicaId> {
        let random = || u64::from(below(draw, u32::MAX));
        let start = self.next.unwrap_or_else(random);
        if let Some(chosen) = self.next_turn(from, start) {
            if from.is_explained() {
                self.explain_turns(from, start, chosen);
            }
            return Some(chosen);
        }
        // The query has tried the replicas with the largest weights, and the others rarely have a
        // turn.
        let chosen = self.largest(from, draw)?;
        if from.is_explained() {
            from.compare(&LARGEST, Values::NONE);
            let told = |replica| {
                let weight = u64::from(self.weight(replica));
                (u64::MAX - weight, Values::of([weight]))
            };
            (from.allowed()).for_each(|it| from.consider(it, || told(it)));
            from.keep(chosen, || told(chosen));
        }
        Some(chosen)
    }

    /// Explains the next turn of each replica, starting from this one.
    fn explain_turns(&self, from: Candidates<'_>, start: u64, chosen: ReplicaId) {
        let count = from.replicas().len() as u64;
        from.compare(&TURNS, Values::of([start, count]));
        let told = |index: u64, replica| {
            let weight = self.weight(replica);
            let first = start + (index + count - start % count) % count;
            let mut turns = (0..ROUNDS_MAX as u64).map(|round| first + round * count);
            let turn = turns.find(|turn| has_turn(weight, turn / count, index));
            let values = [Some(weight.into()), Some(index), turn];
            (turn.unwrap_or(u64::MAX), Values::of_known(values))
        };
        for (index, &replica) in (0..).zip(from.replicas()) {
            from.consider(replica, || told(index, replica));
            if replica == chosen {
                from.keep(chosen, || told(index, chosen));
            }
        }
    }

    /// The replica with the largest weight that the query may go to. Equals are drawn, since many
    /// clients may do this at once.
    fn largest(&self, from: Candidates<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        let largest = from.allowed().map(|replica| self.weight(replica)).max()?;
        let equals = || (from.allowed()).filter(|&replica| self.weight(replica) == largest);
        let index = below(draw, u32::try_from(equals().count()).unwrap_or(u32::MAX));
        equals().nth(index as usize)
    }

    fn next_turn(&mut self, from: Candidates<'_>, start: u64) -> Option<ReplicaId> {
        let replicas = from.replicas();
        let mut turn = start;
        let chosen = (0..replicas.len() * ROUNDS_MAX).find_map(|_| {
            let count = replicas.len() as u64;
            let (round, index) = (turn / count, turn % count);
            turn += 1;
            let replica = *replicas.get(usize::try_from(index).ok()?)?;
            let has_turn = has_turn(self.weight(replica), round, index);
            (has_turn && from.allows(replica)).then_some(replica)
        });
        self.next = Some(turn);
        chosen
    }

    fn weight(&self, replica: ReplicaId) -> u16 {
        let weight = self.weights.find(replica);
        weight.copied().unwrap_or(self.other_weight)
    }
}

fn has_turn(weight: u16, round: u64, index: u64) -> bool {
    let (weight, all) = (u64::from(weight), u64::from(WEIGHT_MAX));
    (weight * (round % all) + index * OFFSET) % all >= all - weight
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::SplitMix64;
    use crate::policy::fleet::Fleet;
    use crate::policy::query::Query;
    use crate::policy::waits::Waits;
    use crate::replica::ReplicaIds;
    use crate::time::Instant;
    use alloc::vec::Vec;

    /// The places of the first `count` turns of replicas with these weights.
    fn turns(weights: &[Option<u16>], avoid: &[usize], count: usize) -> Vec<Option<usize>> {
        turns_drawn(weights, avoid, count, &mut || 0)
    }

    fn turns_drawn(
        weights: &[Option<u16>],
        avoid: &[usize],
        count: usize,
        draw: &mut dyn Draw,
    ) -> Vec<Option<usize>> {
        let mut ids = ReplicaIds::new();
        let (mut fleet, mut stride) = (Fleet::default(), StaticStride::default());
        let replicas: Vec<_> = weights.iter().filter_map(|_| ids.allocate()).collect();
        for (&replica, &weight) in replicas.iter().zip(weights) {
            fleet.add(replica);
            if let Some(weight) = weight {
                stride.set(replica, weight);
            }
        }
        let avoid: Vec<_> = avoid.iter().map(|&place| replicas[place]).collect();
        let waits = Waits::default();
        let from = Candidates::new(Instant::EPOCH, &fleet, &waits, Query::retry(&avoid));
        let turn = |_| {
            let chosen = stride.choose(from, draw)?;
            replicas.iter().position(|&replica| replica == chosen)
        };
        (0..count).map(turn).collect()
    }

    fn places<const N: usize>(places: [usize; N]) -> Vec<Option<usize>> {
        places.into_iter().map(Some).collect()
    }

    #[test]
    fn turns_match_hand_calculation() {
        // The first has every turn. The second: (32768 · g + 32767) mod 65535 is 32767, 0, 32768,
        // 1, 32769, …, and it has a turn at 32767 or more.
        let found = turns(&[Some(65_535), Some(32_768)], &[], 9);
        assert_eq!(found, places([0, 1, 0, 0, 1, 0, 0, 1, 0]));
        // 21845 · g mod 65535 is 0, 21845, 43690, 0, …: the first has every third turn, at 43690 or
        // more. The second is shifted by 32767: 32767, 54612, 10922, ….
        let found = turns(&[Some(21_845), Some(21_845), Some(65_535)], &[], 10);
        assert_eq!(found, places([2, 1, 2, 0, 2, 2, 1, 2, 0, 2]));
    }

    #[test]
    fn without_weights_turns_are_equal_and_empty_fleet_has_none() {
        let found = turns(&[None, None, None], &[], 7);
        assert_eq!(found, places([0, 1, 2, 0, 1, 2, 0]));
        assert_eq!(turns(&[], &[], 1), [None]);
    }

    #[test]
    fn avoided_are_skipped_and_largest_weight_wins_after_eight_rounds() {
        let found = turns(&[None, None, None], &[1], 5);
        assert_eq!(found, places([0, 2, 0, 2, 0]));
        let found = turns(&[Some(65_535), Some(1), Some(2), Some(1)], &[0], 5);
        assert_eq!(found, places([2, 2, 2, 2, 2]));
        assert_eq!(turns(&[None, None], &[0, 1], 1), [None]);
    }

    /// How many of 600 clients, each at its first query, go to each place.
    fn first_turns(weights: &[Option<u16>], avoid: &[usize]) -> Vec<i32> {
        let mut counts = alloc::vec![0; weights.len()];
        for seed in 0..600 {
            let draw = &mut SplitMix64::new(seed);
            let found = turns_drawn(weights, avoid, 1, draw);
            counts[found[0].expect("a replica")] += 1;
        }
        counts
    }

    #[test]
    fn clients_that_start_together_spread_over_replicas() {
        // Binomial: mean 200, standard deviation 11.5; the limit is six of them.
        let even = |count: &i32| (count - 200).abs() < 70;
        let counts = first_turns(&[None; 3], &[]);
        assert!(counts.iter().all(even), "{counts:?}");
        let counts = first_turns(&[Some(65_535), Some(65_535), Some(32_768)], &[]);
        // 2/5, 2/5 and 1/5 of 600.
        assert!(
            counts
                .iter()
                .zip([240, 240, 120])
                .all(|(count, mean)| (count - mean).abs() < 72),
            "{counts:?}"
        );
        // None of these is likely to have a turn within eight rounds.
        let counts = first_turns(&[Some(65_535), Some(1), Some(1), Some(1)], &[0]);
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(even), "{counts:?}");
    }

    #[test]
    fn shares_over_a_full_cycle_are_exact() {
        let mut counts = [0_u32; 3];
        let weights = [Some(65_535), Some(1), Some(40_000)];
        let all = 65_535 + 1 + 40_000;
        for place in turns(&weights, &[], all).into_iter().flatten() {
            counts[place] += 1;
        }
        assert_eq!(counts, [65_535, 1, 40_000]);
    }
}
