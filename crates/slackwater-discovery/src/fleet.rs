//! A fleet as a value: its replicas, and the changes from one fleet to the next.
//!
//! Two lists of the same replicas are the same fleet in any order, so that a shuffled answer
//! changes nothing.

use core::net::SocketAddr;
use slackwater_config::ReplicaConfig;
use std::collections::{BTreeMap, BTreeSet};

/// The replicas of one service at one time. No address appears twice.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    replicas: Vec<ReplicaConfig>,
}

/// The changes that turn one fleet into another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetChange {
    /// Indices in the new fleet of the replicas that were not in the old one.
    pub joined: Vec<usize>,
    /// Addresses of the replicas that are not in the new fleet.
    pub left: Vec<SocketAddr>,
    /// Indices in the new fleet of the replicas whose address is the same and whose other settings
    /// changed.
    pub altered: Vec<usize>,
}

impl FleetChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.joined.is_empty() && self.left.is_empty() && self.altered.is_empty()
    }
}

impl Fleet {
    /// Makes a fleet of replicas, in this order. If several have the same address, the first one
    /// counts.
    pub fn new(replicas: impl IntoIterator<Item = ReplicaConfig>) -> Self {
        let mut replicas: Vec<_> = replicas.into_iter().collect();
        let mut taken = BTreeSet::new();
        replicas.retain(|replica| taken.insert(replica.address));
        Self { replicas }
    }

    /// The replicas in the order of their source.
    pub fn replicas(&self) -> &[ReplicaConfig] {
        &self.replicas
    }

    /// Whether there is no replica.
    pub fn is_empty(&self) -> bool {
        self.replicas.is_empty()
    }

    /// How many replicas there are.
    pub fn len(&self) -> usize {
        self.replicas.len()
    }

    /// Number of `other`'s replicas that are also in this fleet.
    pub(super) fn shared(&self, other: &Self) -> usize {
        let here = self.by_address();
        let is_here = |replica: &&ReplicaConfig| here.contains_key(&replica.address);
        other.replicas.iter().filter(is_here).count()
    }

    /// Returns the changes that turn this fleet into `next`.
    pub fn change_to(&self, next: &Self) -> FleetChange {
        let mut before = self.by_address();
        let mut change = FleetChange::default();
        for (index, replica) in next.replicas.iter().enumerate() {
            match before.remove(&replica.address) {
                None => change.joined.push(index),
                Some(same) if same == replica => (),
                Some(_) => change.altered.push(index),
            }
        }
        change.left = before.into_keys().collect();
        change
    }

    fn by_address(&self) -> BTreeMap<SocketAddr, &ReplicaConfig> {
        let replicas = self.replicas.iter();
        replicas.map(|replica| (replica.address, replica)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fleet, replica};
    use slackwater_config::Zone;

    #[test]
    fn order_is_ignored_and_an_address_counts_once() {
        let one = fleet(&[1, 2, 3]);
        assert!(one.change_to(&fleet(&[3, 1, 2])).is_empty());
        assert_eq!(fleet(&[2, 1, 2, 1]).len(), 2);
        assert!(one.change_to(&fleet(&[3, 1, 2, 2])).is_empty());
    }

    #[test]
    fn a_change_lists_replicas_that_joined_left_or_were_altered() {
        let mut moved = replica(2);
        moved.probe_address.set_port(9);
        let mut elsewhere = replica(1);
        elsewhere.zone = Zone::new("b").expect("a zone");
        let next = Fleet::new([replica(4), moved, elsewhere]);
        let change = fleet(&[1, 2, 3]).change_to(&next);
        assert_eq!(change.joined, [0]);
        assert_eq!(change.altered, [1, 2]);
        assert_eq!(change.left, [replica(3).address]);
        assert_eq!(next.shared(&fleet(&[1, 2, 3])), 2);
    }
}
