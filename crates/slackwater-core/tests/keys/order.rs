//! The replicas of a key, as the fleet changes and for other clients.

use crate::world::{World, about, identity, key};
use slackwater_core::keys::{Identity, KeySettings};
use slackwater_core::policy::{Event, PickReason, Query, Ticket};
use std::collections::BTreeSet;

const KEYS: u32 = 2_000;

fn homes(world: &mut World) -> Vec<u32> {
    (0..KEYS).map(|it| world.goes(about(it)).0).collect()
}

#[test]
fn replica_that_leaves_moves_only_its_keys() {
    for policy in ["shortest_expected_delay", "random", "prequal"] {
        let mut world = World::new(policy, KeySettings::default(), 0..20);
        let before = homes(&mut world);
        world.leave(7);
        let after = homes(&mut world);
        let moved = before.iter().zip(&after).filter(|(old, new)| old != new);
        assert!(moved.clone().all(|(&old, _)| old == 7), "{policy}");
        let count = moved.count();
        assert_eq!(count, before.iter().filter(|&&it| it == 7).count());
        assert!((50..150).contains(&count), "a twentieth of them: {count}");
    }
}

#[test]
fn replica_that_joins_gets_keys_and_moves_no_others() {
    let mut world = World::new("random", KeySettings::default(), 0..20);
    let before = homes(&mut world);
    world.join(20);
    let after = homes(&mut world);
    let moved = before.iter().zip(&after).filter(|(old, new)| old != new);
    assert!(moved.clone().all(|(_, &new)| new == 20));
    assert!((50..150).contains(&moved.count()));
}

#[test]
fn clients_agree_on_sets_whatever_the_order_in_which_replicas_join() {
    for partitions in [0, 64] {
        let settings = || KeySettings {
            partitions,
            ..KeySettings::default()
        };
        let mut first = World::new("random", settings(), 0..12);
        // The second has seen other replicas come and go, and learns of weights in another order.
        let mut second = World::new("least_loaded", settings(), [40, 41, 3]);
        second.leave(41);
        for name in (0..12).rev().filter(|&it| it != 3) {
            second.join(name);
        }
        second.leave(40);
        for number in 0..200 {
            assert_eq!(first.set(number), second.set(number), "{partitions}");
        }
        first.available(5, false);
        second.available(5, false);
        for number in 0..200 {
            assert_eq!(first.set(number), second.set(number), "{partitions}");
        }
    }
}

#[test]
fn without_names_clients_agree_if_replicas_join_in_the_same_order() {
    let mut worlds = [(); 2].map(|()| {
        let mut world = World::new("random", KeySettings::default(), []);
        for name in 0..8 {
            let replica = world.ids.allocate().unwrap();
            world.replicas.insert(name, replica);
            world.handle(Event::Added(replica));
        }
        world
    });
    let sets = [0, 1].map(|place: usize| (0..100).map(|it| worlds[place].set(it)).collect());
    let [first, second]: [Vec<_>; 2] = sets;
    assert_eq!(first, second);
    let homes: BTreeSet<_> = first.iter().map(|(set, _)| set[0]).collect();
    assert_eq!(homes.len(), 8, "all have some");
}

#[test]
fn new_name_moves_keys() {
    let mut world = World::new("random", KeySettings::default(), 0..10);
    let before = homes(&mut world);
    let replica = world.replicas[&4];
    world.handle(Event::Identified(replica, identity(99)));
    let after = homes(&mut world);
    let moved = before.iter().zip(&after).filter(|(old, new)| old != new);
    assert!(moved.clone().count() > 200);
    assert!(moved.clone().all(|(&old, &new)| old == 4 || new == 4));
    // Unknown replicas have no names.
    world.leave(4);
    world.handle(Event::Identified(replica, identity(4)));
    assert!(homes(&mut world).iter().all(|&it| it != 4));
}

/// A server of three parts is in a set once, and its queries go to all of its parts.
#[test]
fn parts_of_a_server_are_one_place_of_a_set() {
    let settings = KeySettings {
        balance_factor_millionths: 0,
        ..KeySettings::default()
    };
    let mut world = World::new("random", settings, 0..3);
    let parts: Vec<_> = (0..3)
        .map(|part| {
            let name = Identity::new(b"large", part);
            let replica = world.join_as(name);
            world.replicas.insert(100 + part, replica);
            replica
        })
        .collect();
    let mut first = 0;
    for number in 0..1_000 {
        let (set, _) = world.set(number);
        assert_eq!(set.len(), 4, "{set:?}");
        assert_eq!(set.iter().filter(|&&it| it >= 100).count(), 1);
        first += u32::from(set[0] >= 100);
    }
    assert!((450..550).contains(&first), "three of six parts: {first}");
    // One key: as long as they are in flight, the parts get one after another.
    let number = (0..100).find(|&it| world.set(it).0[0] >= 100).unwrap();
    let tickets: Vec<_> = (0..3).map(|_| world.pick(about(number)).ticket).collect();
    let gone: BTreeSet<_> = tickets.iter().map(Ticket::replica).collect();
    assert_eq!(gone, parts.iter().copied().collect());
    // A retry goes to another server.
    let avoid = [parts[1]];
    let retry = Query::retry(&avoid).with_key(key(number));
    let (name, reason) = world.goes(retry);
    assert!(name < 100, "{name}");
    assert_eq!(reason, PickReason::KeySet);
}
