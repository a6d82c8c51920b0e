//! The part of a fleet that this process uses, tier by tier.

use crate::fleet::Fleet;
use core::net::{IpAddr, SocketAddr};
use slackwater_core::key::KeyHasher;
use slackwater_core::subset::Subset;
use std::collections::BTreeMap;

/// The replicas of a fleet that a subset has. Each tier has a subset of its own, so that backups
/// are there when they are needed. So have its replicas of weight 0, which take no place of others
/// and may get a weight at run time.
pub(crate) fn subset_of(fleet: &Fleet, subset: &Subset) -> Fleet {
    let replicas = fleet.replicas();
    let mut tiers: BTreeMap<(u8, bool), Vec<usize>> = BTreeMap::new();
    for (at, replica) in replicas.iter().enumerate() {
        let tier = (replica.tier, replica.weight > 0);
        tiers.entry(tier).or_default().push(at);
    }
    let mut members = Vec::new();
    for tier in tiers.values() {
        let names: Vec<_> = tier.iter().map(|&at| name(replicas[at].address)).collect();
        members.extend(subset.of(&names).into_iter().map(|at| tier[at]));
    }
    members.sort_unstable();
    Fleet::new(members.into_iter().map(|at| replicas[at].clone()))
}

/// The stable name of a replica: a hash of its address, the same in all processes.
fn name(address: SocketAddr) -> u64 {
    let mut bytes = Vec::with_capacity(18);
    match address.ip() {
        IpAddr::V4(ip) => bytes.extend(ip.octets()),
        IpAddr::V6(ip) => bytes.extend(ip.octets()),
    }
    bytes.extend(address.port().to_be_bytes());
    KeyHasher::default().hash(&bytes).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::replica;

    #[test]
    fn each_tier_has_its_own_subset() {
        let tiered = (0..60).map(|host| {
            let mut replica = replica(host);
            replica.tier = host / 20;
            replica
        });
        let fleet = Fleet::new(tiered);
        let part = subset_of(&fleet, &Subset::random(5, 3));
        let of_tier = |tier| part.replicas().iter().filter(move |it| it.tier == tier);
        for tier in 0..3 {
            assert_eq!(of_tier(tier).count(), 5);
        }
        let places = part.replicas().iter().map(|it| it.address.ip());
        assert!(places.is_sorted(), "the order of the source");
        assert!(
            subset_of(&fleet, &Subset::random(0, 3))
                .change_to(&fleet)
                .is_empty()
        );
    }

    #[test]
    fn replicas_without_weight_take_no_place_of_others() {
        let fleet = Fleet::new((0..20).map(|host| {
            let mut replica = replica(host);
            replica.weight = u32::from(host % 4 == 0);
            replica
        }));
        let part = subset_of(&fleet, &Subset::random(5, 3));
        let weighted = part.replicas().iter().filter(|it| it.weight > 0);
        assert_eq!((weighted.count(), part.replicas().len()), (5, 10));
    }

    #[test]
    fn names_are_the_same_in_all_versions() {
        let name = |text: &str| name(text.parse().expect("an address"));
        assert_eq!(name("10.0.0.1:80"), 12_624_726_617_075_216_026);
        assert_eq!(name("[2001:db8::1]:443"), 659_950_028_383_319_920);
    }
}
