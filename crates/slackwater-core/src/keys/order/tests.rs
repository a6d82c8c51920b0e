//! Orders of servers: shares, prefixes, and their definition.

use super::*;
use crate::NoDraw;
use crate::key::KeyHasher;
use crate::policy::{Event, Policy, Random};
use crate::replica::ReplicaIds;
use crate::time::Instant;
use alloc::vec;

/// An order of servers with these numbers of parts, in which all may be chosen.
fn order(weights: &[u32]) -> Order {
    let (mut order, mut loads) = (Order::default(), Loads::default());
    let mut policy = Random::new();
    let mut ids = ReplicaIds::new();
    for (name, &weight) in (0_u64..).zip(weights) {
        for part in 0..weight {
            let replica = ids.allocate().expect("room");
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
            order.add(replica);
            loads.add(replica);
            order.identify(replica, Identity { name, part });
        }
    }
    order.refresh(policy.fleet(), &mut loads);
    order
}

/// How many of a million keys have each server at each of the first places.
fn shares(order: &Order, keys: u64) -> Vec<[u64; 2]> {
    let hasher = KeyHasher::default();
    let mut shares = alloc::vec![[0; 2]; order.servers()];
    for number in 0..keys {
        let key = hasher.hash(&number.to_le_bytes());
        let first = order.first(key.to_bits(), 2);
        for (place, &server) in first.as_slice().iter().enumerate() {
            shares[server as usize][place] += 1;
        }
    }
    shares
}

#[test]
fn share_of_keys_is_that_of_the_parts_within_one_percent() {
    const KEYS: u64 = 1_000_000;
    let weights = [1, 2, 3, 4];
    let shares = shares(&order(&weights), KEYS);
    for (weight, [first, second]) in weights.into_iter().zip(&shares) {
        let expected = KEYS * u64::from(weight) / 10;
        assert!(
            first.abs_diff(expected) < expected / 100,
            "{weight}: {first}"
        );
        // Second: the sum over the other servers v of v/10 · w/(10 − v).
        let others = [1, 2, 3, 4].into_iter().filter(|&other| other != weight);
        let part = |other: u32| KEYS * u64::from(other * weight) / u64::from(10 * (10 - other));
        let expected: u64 = others.map(part).sum();
        assert!(
            second.abs_diff(expected) < expected / 100,
            "{weight}: {second}"
        );
    }
}

#[test]
fn many_servers_have_equal_shares() {
    let shares = shares(&order(&[1; 50]), 200_000);
    // Binomial: mean 4,000, standard deviation 63.
    let is_even = |count: &u64| count.abs_diff(4_000) < 300;
    assert!(shares.iter().flatten().all(is_even), "{shares:?}");
}

/// The scores of keys that differ by one bit have nothing to do with each other.
#[test]
fn keys_that_are_alike_have_different_orders() {
    let order = order(&[1; 16]);
    let mut same = 0;
    for number in 0..1_000_u64 {
        for bit in 0..64 {
            let [one, other] =
                [number, number ^ (1 << bit)].map(|key| order.first(key, 1).as_slice()[0]);
            same += u32::from(one == other);
        }
    }
    // Binomial: 64,000 of which a sixteenth is 4,000, standard deviation 61.
    assert!((3_600..4_400).contains(&same), "{same}");
}

#[test]
fn narrower_order_is_a_prefix_of_a_wider_one() {
    let order = order(&[1, 3, 1, 2, 1, 1, 5, 1, 1, 1]);
    for key in 0..500 {
        let wide = order.first(mix(key), 16);
        assert_eq!(wide.as_slice().len(), 10);
        let mut once = wide.as_slice().to_vec();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), 10, "each once");
        for width in 1..10 {
            let narrow = order.first(mix(key), width);
            assert_eq!(narrow.as_slice(), &wide.as_slice()[..width]);
        }
    }
}

#[test]
fn home_in_a_large_fleet_is_the_first_of_the_order() {
    let order = order(&[1; 100]);
    for key in (0..5_000).map(mix) {
        let [home, first] = [1, 2].map(|width| order.first(key, width).as_slice()[0]);
        assert_eq!(home, first);
    }
}

/// The order by definition.
#[test]
fn order_is_that_of_the_highest_scores() {
    for weights in [[1; 6], [2, 1, 4, 1, 1, 3]] {
        let order = order(&weights);
        for key in (0..500).map(mix) {
            let mut servers: Vec<_> = (0..6_u64).zip(weights).collect();
            servers.sort_by(|&(one, weight), &(other, other_weight)| {
                let score = |name| score(key ^ mix(name ^ mix(0)), mix(key) | 1);
                let cost = |name, weight: u32| minus_log2(score(name)) / u64::from(weight);
                let by_cost = cost(one, weight).cmp(&cost(other, other_weight));
                by_cost.then(score(other).cmp(&score(one)))
            });
            let first = order.first(key, 6);
            let found = first.as_slice().iter().map(|&server| u64::from(server));
            assert!(found.eq(servers.iter().map(|&(name, _)| name)), "{key:x}");
        }
    }
}

/// The parts of the others are 100 and 100 before, and 1 and 1 afterwards.
#[test]
fn new_common_divisor_of_weights_moves_no_key_of_the_others() {
    for (before, after) in [
        (vec![100, 100, 99], vec![1, 1]),
        (vec![1, 1, 1], vec![2, 2, 1]),
        (vec![30, 20, 7], vec![3, 2]),
        (vec![2, 4, 3], vec![4, 8, 3]),
    ] {
        let orders = [&before, &after].map(|weights| order(weights));
        let mut moved = 0;
        for key in (0..5_000).map(mix) {
            let [old, new] = [0, 1].map(|at: usize| orders[at].first(key, 3).as_slice().to_vec());
            let without = |order: &[u32]| -> Vec<_> {
                let kept = order.iter().copied().filter(|&server| server != 2);
                kept.collect()
            };
            assert_eq!(without(&old), without(&new), "{before:?}");
            moved += u32::from(old[0] != new[0]);
        }
        assert!((400..2_000).contains(&moved), "{before:?}: {moved}");
    }
}
