//! Each rule as published, on tables and by picks.

use super::maglev::Maglev;
use super::ring::Ring;
use super::*;
use slackwater_core::keys::Identity;
use slackwater_core::{NoDraw, ReplicaIds};

const REPLICAS: usize = 8;

/// A policy with eight replicas, and their ids.
fn policy(rule: PeerRule) -> (Box<dyn Policy>, Vec<ReplicaId>) {
    let mut policy = build(rule);
    let mut ids = ReplicaIds::new();
    let replicas = (0..REPLICAS as u64).map(|name| {
        let replica = ids.allocate().expect("room");
        policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        let identity = Identity { name, part: 0 };
        policy.handle(
            Instant::EPOCH,
            Event::Identified(replica, identity),
            &mut NoDraw,
        );
        replica
    });
    let replicas = replicas.collect();
    (policy, replicas)
}

fn send(policy: &mut dyn Policy, key: u64) -> Ticket {
    let query = Query::first().with_key(KeyHash::from_bits(mixed(key)));
    let mut draw = SplitMix64::new(1);
    let decision = policy.choose(Instant::EPOCH, query, &mut draw, None);
    decision.pick().expect("a pick").ticket
}

fn end(policy: &mut dyn Policy, ticket: Ticket) {
    policy.handle_query_done(Instant::EPOCH, ticket, Outcome::Success);
}

/// Returns the replica of a key while nothing is in flight.
fn home(policy: &mut dyn Policy, key: u64) -> ReplicaId {
    let ticket = send(policy, key);
    let replica = ticket.replica();
    end(policy, ticket);
    replica
}

#[test]
fn each_key_has_its_home_and_all_replicas_have_keys() {
    for rule in PeerRule::ALL {
        let (mut policy, replicas) = policy(rule);
        let mut keys = vec![0; REPLICAS];
        for key in 0..4_000 {
            let replica = home(&mut *policy, key);
            assert_eq!(home(&mut *policy, key), replica, "{rule:?}");
            keys[replica.index()] += 1;
        }
        assert_eq!(replicas.len(), keys.len());
        let range = match rule {
            // 160 points each: the shares have a deviation of 8 %.
            PeerRule::Ring | PeerRule::RingBounded => 350..=650,
            // Binomial: 500, deviation 21. The bound is four deviations.
            _ => 416..=584,
        };
        assert!(keys.iter().all(|count| range.contains(count)), "{keys:?}");
    }
}

#[test]
fn few_keys_move_if_a_replica_leaves() {
    for rule in PeerRule::ALL {
        let (mut policy, replicas) = policy(rule);
        let before: Vec<_> = (0..4_000).map(|key| home(&mut *policy, key)).collect();
        policy.handle(Instant::EPOCH, Event::Removed(replicas[3]), &mut NoDraw);
        let after: Vec<_> = (0..4_000).map(|key| home(&mut *policy, key)).collect();
        let moved = |of_others: bool| {
            let pairs = before.iter().zip(&after);
            let pairs = pairs.filter(|(before, _)| (**before != replicas[3]) == of_others);
            pairs.filter(|(before, after)| before != after).count()
        };
        assert!((350..650).contains(&moved(false)), "{rule:?}");
        // Maglev moves a few others.
        let few = if rule == PeerRule::MaglevBounded {
            400
        } else {
            0
        };
        assert!(moved(true) <= few, "{rule:?}: {}", moved(true));
    }
}

#[test]
fn bounded_rules_go_on_from_a_full_replica() {
    for (rule, most) in [(PeerRule::RingBounded, 2), (PeerRule::MaglevBounded, 3)] {
        let (mut policy, _) = policy(rule);
        // Eight queries in flight give ten slots: one or two each. Envoy allows one more.
        let tickets: Vec<_> = (0..8).map(|_| send(&mut *policy, 5)).collect();
        let mut counts = vec![0; REPLICAS];
        for ticket in &tickets {
            counts[ticket.replica().index()] += 1;
        }
        let highest = counts.iter().copied().max();
        assert!(highest.is_some_and(|count| count <= most), "{counts:?}");
        let first = tickets[0].replica();
        for ticket in tickets {
            end(&mut *policy, ticket);
        }
        assert_eq!(home(&mut *policy, 5), first, "{rule:?}: it is free again");
    }
}

#[test]
fn rules_without_a_bound_stay_at_the_home() {
    for rule in [PeerRule::Ring, PeerRule::Rendezvous, PeerRule::OnePartition] {
        let (mut policy, _) = policy(rule);
        let first = send(&mut *policy, 5).replica();
        assert!((0..20).all(|_| send(&mut *policy, 5).replica() == first));
    }
    let (mut policy, _) = policy(PeerRule::TwoHomes);
    let mut seen: Vec<ReplicaId> = (0..20).map(|_| send(&mut *policy, 5).replica()).collect();
    seen.sort_unstable();
    assert_eq!(seen[9], seen[0], "ten queries each");
    assert_eq!(seen[19], seen[10]);
    assert_ne!(seen[0], seen[10]);
}

#[test]
fn next_replica_stands_in_for_all_keys_of_one_partition() {
    let (mut policy, replicas) = policy(PeerRule::OnePartition);
    let gone = replicas[2];
    let of_gone: Vec<u64> = (0..500)
        .filter(|&key| home(&mut *policy, key) == gone)
        .collect();
    policy.handle(Instant::EPOCH, Event::Removed(gone), &mut NoDraw);
    let stand_in = home(&mut *policy, of_gone[0]);
    assert!(
        of_gone
            .iter()
            .all(|&key| home(&mut *policy, key) == stand_in)
    );
}

#[test]
fn ring_has_the_nearest_point_or_the_next_one() {
    let ring = Ring::new(&[mixed(1), mixed(2), mixed(3)]);
    for key in 0..100 {
        let nearest = ring.nearest_that(key, |_| true);
        let next = ring.successor(key);
        let not_nearest = ring.nearest_that(key, |index| Some(index) != nearest);
        assert!(nearest.is_some() && next.is_some());
        assert_ne!(not_nearest, nearest);
        assert_eq!(ring.nearest_that(key, |_| false), nearest, "none fits");
    }
    assert_eq!(Ring::new(&[]).successor(1), None);
    assert_eq!(Ring::new(&[]).nearest_that(1, |_| true), None);
}

#[test]
fn maglev_table_is_even() {
    let names: Vec<u64> = (0..16).map(mixed).collect();
    let maglev = Maglev::new(&names);
    let mut places = [0; 16];
    for key in 0..65_537 {
        places[maglev.at(key).expect("a member")] += 1;
    }
    assert!(places.iter().all(|count| (4_096..=4_097).contains(count)));
    assert_eq!(Maglev::new(&[]).at(1), None);
}
