//! Subsets: the part of a large fleet that one client uses.
//!
//! With n clients and m replicas there are n × m connections, and as many idle probes. A client
//! with a [`Subset`] uses only some replicas, so that both grow with n × size. Every client draws
//! its own, so that all replicas are used.
//!
//! Clients that know no more than a seed take a random subset: the replicas whose names have the
//! lowest hashes with that seed, which is gRPC's `random_subsetting` (A68). A replica is then in
//! n × size / m subsets on average, with a standard deviation of about the square root of that.
//!
//! Clients that are numbered from 0 without gaps spread over the fleet evenly. Each *lot* of
//! [`LOT`] clients has the replicas in an order of its own, by the hashes of their names. Its
//! clients begin at evenly spaced places of that order, the first of them as far apart as possible
//! (the binary van der Corput sequence), and use the next `size` replicas, around the end. This
//! follows Rocksteadier. `[Reinventing Backend Subsetting at Google, doi 10.1145/3570937]`
//!
//! In both, a replica that joins or leaves changes at most two replicas of a subset.
//!
//! ```
//! use slackwater_core::subset::Subset;
//!
//! let names: Vec<u64> = (1..=100).collect();
//! let members = Subset::random(20, 7).of(&names);
//! assert_eq!(members.len(), 20);
//! assert_eq!(Subset::random(0, 7).of(&names).len(), 100, "no subset");
//! ```

use crate::key::KeyHasher;
use alloc::vec::Vec;

/// Number of clients that share an order of the replicas.
pub const LOT: u32 = 1 << LOT_BITS;
const LOT_BITS: u32 = 4;

/// Half of the seeds of all orders, so that they differ from those of keys: the ASCII codes of
/// `a subset` and `numbered`, in little-endian order.
const RANDOM: u64 = u64::from_le_bytes(*b"a subset");
const NUMBERED: u64 = u64::from_le_bytes(*b"numbered");

/// The replicas that a client uses.
#[derive(Clone, Copy, Debug)]
pub struct Subset {
    /// 0: all replicas.
    size: usize,
    order: KeyHasher,
    /// Where the client's replicas begin in the order, in lots' parts of the fleet.
    begins: u32,
}

impl Subset {
    /// A random subset of at most `size` replicas; 0: all. Each client needs another seed, of which
    /// all bits may differ.
    pub const fn random(size: usize, seed: u64) -> Self {
        Self {
            size,
            order: KeyHasher::with_seed(RANDOM, seed),
            begins: 0,
        }
    }

    /// The subset of client number `index`, from 0, of at most `size` replicas; 0: all.
    pub const fn numbered(size: usize, index: u32) -> Self {
        Self {
            size,
            order: KeyHasher::with_seed(NUMBERED, (index >> LOT_BITS) as u64),
            begins: (index % LOT).reverse_bits() >> (u32::BITS - LOT_BITS),
        }
    }

    /// The indices of the replicas that the client uses, in ascending order. `names` are the stable
    /// names of all replicas, such as [`Identity::name`](crate::key::Identity::name). The order of
    /// `names` makes no difference.
    pub fn of(&self, names: &[u64]) -> Vec<usize> {
        if self.size == 0 || names.len() <= self.size {
            return (0..names.len()).collect();
        }
        let hash = |name: u64| self.order.hash(&name.to_le_bytes());
        let mut order: Vec<_> = (0..names.len())
            .map(|index| (hash(names[index]), names[index], index))
            .collect();
        order.sort_unstable();
        let first = names.len() * self.begins as usize / LOT as usize;
        order.rotate_left(first);
        let mut members: Vec<_> = order[..self.size].iter().map(|it| it.2).collect();
        members.sort_unstable();
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, SplitMix64};
    use alloc::collections::BTreeSet;
    use alloc::vec;

    fn names(count: usize) -> Vec<u64> {
        let mut draw = SplitMix64::new(1);
        (0..count).map(|_| draw.draw()).collect()
    }

    fn members(subset: &Subset, names: &[u64]) -> BTreeSet<u64> {
        subset.of(names).into_iter().map(|at| names[at]).collect()
    }

    /// In how many subsets each replica is.
    fn uses(subsets: impl Iterator<Item = Subset>, names: &[u64]) -> Vec<usize> {
        let mut uses = vec![0; names.len()];
        for subset in subsets {
            for member in subset.of(names) {
                uses[member] += 1;
            }
        }
        uses
    }

    fn both() -> impl Iterator<Item = Subset> {
        let random = (0..64).map(|seed| Subset::random(20, seed));
        random.chain((0..64).map(|index| Subset::numbered(20, index)))
    }

    #[test]
    fn small_fleet_and_size_of_zero_are_whole() {
        for subset in both() {
            assert_eq!(subset.of(&names(20)).len(), 20);
            assert_eq!(subset.of(&names(21)).len(), 20);
            assert!(subset.of(&[]).is_empty());
        }
        assert_eq!(Subset::random(0, 1).of(&names(50)).len(), 50);
        assert_eq!(Subset::numbered(0, 1).of(&names(50)).len(), 50);
    }

    #[test]
    fn order_of_names_makes_no_difference() {
        let names = names(100);
        let reversed: Vec<_> = names.iter().rev().copied().collect();
        for subset in both() {
            let indices = subset.of(&names);
            assert!(indices.is_sorted());
            assert_eq!(members(&subset, &names), members(&subset, &reversed));
        }
    }

    #[test]
    fn a_replica_that_leaves_changes_at_most_two_members() {
        let mut names = names(101);
        let mut moved = 0;
        for subset in both() {
            let before = members(&subset, &names);
            for _ in 0..10 {
                names.rotate_left(1);
                let gone = names[0];
                let after = members(&subset, &names[1..]);
                let lost = before.difference(&after).count();
                assert!(lost <= 2, "{lost} of {subset:?}");
                assert!(before.contains(&gone) <= (lost > 0), "{subset:?}");
                moved += lost;
            }
        }
        // A fifth of the subsets have the replica.
        assert!(moved < 128 * 10 / 2, "{moved}");
    }

    #[test]
    fn random_subsets_are_spread_as_by_chance() {
        let uses = uses((0..250).map(|seed| Subset::random(20, seed)), &names(200));
        // Mean 25, standard deviation 4.7.
        let (least, most) = (uses.iter().min(), uses.iter().max());
        assert!(least >= Some(&6) && most <= Some(&44), "{uses:?}");
        assert!(most >= Some(&30), "by chance, not evenly: {uses:?}");
    }

    #[test]
    fn numbered_subsets_are_spread_evenly() {
        let names = names(203);
        for lots in [1, 4, 40] {
            let uses = uses((0..lots * LOT).map(|at| Subset::numbered(20, at)), &names);
            // Each lot uses each replica once or twice, 320 / 203 times on average.
            let (once, twice) = (lots as usize, 2 * lots as usize);
            assert!(uses.iter().all(|uses| (once..=twice).contains(uses)));
            let square = |uses: &usize| (uses * 203).abs_diff(320 * once).pow(2);
            let variance = uses.iter().map(square).sum::<usize>() / 203 / 203 / 203;
            // By chance it would be 1.4 for each lot.
            assert!(variance * 10 <= 3 * once, "{variance} with {lots} lots");
        }
        // The first half of a lot covers the fleet as evenly as it can.
        let uses = uses((0..8).map(|at| Subset::numbered(20, at)), &names);
        assert_eq!(uses.iter().max(), Some(&1));
    }

    #[test]
    fn lots_have_orders_of_their_own() {
        let names = names(200);
        let first = members(&Subset::numbered(20, 0), &names);
        let shared = |index| {
            let other = members(&Subset::numbered(20, index), &names);
            first.intersection(&other).count()
        };
        assert_eq!(shared(1), 0, "at the other end of the same order");
        assert_eq!(shared(8), 8, "next to it, 12 further on");
        assert!((1..=6).contains(&shared(LOT)), "{}", shared(LOT));
    }
}
