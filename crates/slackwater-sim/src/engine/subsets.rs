//! The part of the fleet that each client uses.

use super::query::slot_number;
use crate::scenario::Subsets;
use slackwater_core::key::KeyHasher;
use slackwater_core::subset::Subset;

/// The replicas of each client, by number.
#[derive(Debug)]
pub(super) struct Members(Vec<Vec<u32>>);

impl Members {
    pub(super) fn new(subsets: Subsets, clients: usize, replicas: usize, seed: u64) -> Self {
        let hasher = KeyHasher::with_seed(seed, 0);
        let names = (0..replicas).map(|replica| hasher.hash(&replica.to_le_bytes()).to_bits());
        let names: Vec<_> = names.collect();
        let of = |client: usize| {
            let subset = if subsets.numbered {
                Subset::numbered(subsets.size, slot_number(client))
            } else {
                let own = hasher.hash(&client.to_be_bytes());
                Subset::random(subsets.size, own.to_bits())
            };
            subset.of(&names).into_iter().map(slot_number).collect()
        };
        Self((0..clients).map(of).collect())
    }

    /// Returns whether a client uses a replica.
    pub(super) fn has(&self, client: u32, replica: u32) -> bool {
        let members = self.0.get(client as usize);
        members.is_some_and(|members| members.binary_search(&replica).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_subset_of_its_own() {
        for numbered in [false, true] {
            let subsets = Subsets { size: 5, numbered };
            let members = Members::new(subsets, 40, 50, 3);
            assert!(members.0.iter().all(|members| members.len() == 5));
            assert!(members.0.iter().skip(1).all(|other| *other != members.0[0]));
            let used = (0..50).all(|replica| (0..40).any(|client| members.has(client, replica)));
            assert!(used, "no replica is without a client");
            assert!(!members.has(40, 0), "no such client");
        }
    }
}
