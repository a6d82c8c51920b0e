//! Partitions of the keys, and more homes for those that are hot.

use crate::world::{MS, World, about, key};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::keys::KeySettings;
use slackwater_core::policy::{PickReason, Ticket};
use std::collections::{BTreeMap, VecDeque};

const HOT: u32 = 3;

fn settings(replicate_max: u8) -> KeySettings {
    KeySettings {
        partitions: 256,
        replicate_max,
        replicate_time: Duration::from_secs(2),
        ..KeySettings::default()
    }
}

/// Traffic of one query each 5 ms that takes 100 ms, so that 20 are in flight. `hot` of 100 are
/// about one key.
struct Traffic {
    world: World,
    in_flight: VecDeque<(slackwater_core::Instant, Ticket)>,
    went: BTreeMap<u32, u32>,
}

impl Traffic {
    fn new(settings: KeySettings, replicas: u32) -> Self {
        Self {
            world: World::new("least_loaded", settings, 0..replicas),
            in_flight: VecDeque::new(),
            went: BTreeMap::new(),
        }
    }

    fn run(&mut self, seconds: u32, hot: u32) {
        self.went.clear();
        for _ in 0..seconds * 200 {
            self.world.now += 5 * MS;
            while let Some((at, _)) = self.in_flight.front()
                && *at + 100 * MS <= self.world.now
            {
                let (_, ticket) = self.in_flight.pop_front().unwrap();
                self.world.done(ticket);
            }
            let number = if below(&mut self.world.draw, 100) < hot {
                HOT
            } else {
                10 + below(&mut self.world.draw, 100_000)
            };
            let pick = self.world.pick(about(number));
            if number == HOT {
                let name = self.world.name(pick.ticket.replica());
                *self.went.entry(name).or_default() += 1;
            }
            self.in_flight.push_back((self.world.now, pick.ticket));
        }
    }

    fn homes(&mut self) -> u8 {
        self.world.set(HOT).1
    }
}

#[test]
fn hot_partition_grows_along_its_order_and_shrinks_when_it_is_cold() {
    let mut traffic = Traffic::new(settings(8), 20);
    let (order, homes) = traffic.world.set(HOT);
    assert_eq!(homes, 1);
    // A twentieth of the load is one replica's share. 8 % is more than half of what one or two
    // would have, and less than half of four's.
    traffic.run(2, 8);
    assert_eq!(traffic.homes(), 1, "it has not lasted long enough");
    traffic.run(1, 8);
    assert_eq!(traffic.homes(), 2);
    traffic.run(20, 8);
    let (grown, homes) = traffic.world.set(HOT);
    assert_eq!((&grown, homes), (&order, 4), "a prefix of one order");
    // More, up to the most.
    traffic.run(20, 40);
    let (grown, homes) = traffic.world.set(HOT);
    assert_eq!((&grown[..4], homes), (&order[..], 8));
    traffic.run(5, 40);
    let homes: Vec<_> = grown.iter().map(|it| traffic.went.get(it)).collect();
    assert!(
        homes.iter().all(|it| it.is_some_and(|&it| it > 20)),
        "{homes:?}"
    );
    let view = traffic
        .world
        .policy
        .snapshot(traffic.world.now)
        .keys
        .unwrap();
    assert_eq!(view.replicated, 1);
    let busiest = &view.partitions[0];
    let choice = traffic.world.set(HOT).0;
    assert_eq!(busiest.homes, 8);
    let servers: Vec<_> = (busiest.servers.iter().map(|&it| traffic.world.name(it))).collect();
    assert_eq!(servers, choice);
    // 40 % of 200 a second, each for 100 ms.
    assert!(
        (60_000..100_000).contains(&busiest.query_rate_millis),
        "{busiest:?}"
    );
    assert!(
        (6_000..10_000).contains(&busiest.in_flight_millis),
        "{busiest:?}"
    );
    // Hysteresis: a load that would not have made it grow lets it be.
    traffic.run(2, 0);
    assert_eq!(traffic.homes(), 8, "it has not lasted long enough");
    traffic.run(20, 0);
    assert_eq!(traffic.homes(), 1);
    let view = traffic
        .world
        .policy
        .snapshot(traffic.world.now)
        .keys
        .unwrap();
    assert_eq!(view.replicated, 0);
}

#[test]
fn partition_between_the_two_limits_keeps_its_homes() {
    let mut traffic = Traffic::new(settings(2), 20);
    traffic.run(10, 20);
    assert_eq!(traffic.homes(), 2);
    // One home is enough for 2.5 %; two become one below half of that.
    traffic.run(20, 3);
    assert_eq!(traffic.homes(), 2);
    traffic.run(20, 0);
    assert_eq!(traffic.homes(), 1);
}

#[test]
fn partitions_are_not_replicated_by_default() {
    let mut traffic = Traffic::new(settings(1), 20);
    traffic.run(10, 60);
    assert_eq!(traffic.homes(), 1);
}

#[test]
fn there_are_no_more_homes_than_replicas() {
    let mut traffic = Traffic::new(settings(16), 3);
    traffic.run(30, 90);
    assert_eq!(traffic.homes(), 3);
    traffic.world.leave(0);
    traffic.run(1, 90);
    assert_eq!(traffic.world.set(HOT).0.len(), 2);
}

#[test]
fn fleet_may_change_while_a_partition_is_replicated() {
    let mut traffic = Traffic::new(settings(4), 20);
    traffic.run(20, 40);
    let (order, homes) = traffic.world.set(HOT);
    assert_eq!(homes, 4);
    // One home is taken out: the next takes its place, and the rest stay.
    traffic.world.available(order[1], false);
    let (next, homes) = traffic.world.set(HOT);
    assert_eq!(
        (next[0], next[1], next[2], homes),
        (order[0], order[2], order[3], 4)
    );
    traffic.run(2, 40);
    traffic.world.available(order[1], true);
    assert_eq!(traffic.world.set(HOT), (order.clone(), 4));
    for name in 30..60 {
        traffic.world.join(name);
    }
    traffic.run(2, 40);
    let (wide, homes) = traffic.world.set(HOT);
    assert_eq!(homes, 4);
    let stayed: Vec<_> = wide.iter().filter(|it| order.contains(it)).collect();
    let mut in_order = order.iter().filter(|it| stayed.contains(it));
    assert!(stayed.iter().all(|it| in_order.next() == Some(it)));
}

#[test]
fn keys_of_a_partition_share_their_set() {
    let mut world = World::new("random", settings(1), 0..20);
    let partition = |number: u32| key(number).to_bits() >> 56;
    let mut sets: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for number in 0..4_000 {
        let (set, _) = world.set(number);
        let other = sets.entry(partition(number)).or_insert_with(|| set.clone());
        assert_eq!(*other, set);
    }
    assert_eq!(sets.len(), 256);
    assert_eq!(world.goes(about(1)).1, PickReason::KeyHome);
    // However many keys there are, only partitions are kept and the busiest are shown.
    let view = world.policy.snapshot(world.now).keys.unwrap();
    assert_eq!(view.partitions.len(), 16);
}
