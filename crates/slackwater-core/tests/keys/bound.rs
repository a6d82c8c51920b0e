//! The bound on the load of a key's replicas.

use crate::world::{MS, World, about};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::keys::KeySettings;
use slackwater_core::policy::{Event, Explanation, PickReason, Query, Ticket};
use slackwater_core::{LoadReport, Rif};

/// Keys by popularity: half of all queries are about the first two.
fn some_key(draw: &mut slackwater_core::SplitMix64) -> u32 {
    match below(draw, 4) {
        0 => 0,
        1 => 1,
        _ => 2 + below(draw, 500),
    }
}

/// Starts and ends queries of this client and of others. All replicas report at once what changes.
/// Returns how many picks had each reason.
fn play(policy: &str, factor: u32, replicas: u32) -> [u32; 3] {
    let settings = KeySettings {
        balance_factor_millionths: factor,
        ..KeySettings::default()
    };
    let mut world = World::new(policy, settings, 0..replicas);
    world.report_all();
    let mut tickets: Vec<Ticket> = Vec::new();
    let mut picks = [0; 3];
    for step in 0..6_000 {
        world.now += MS / 10;
        let target = 40 + below(&mut world.draw, 40) as usize;
        if tickets.len() < target {
            let before: u32 = world.replicas.values().map(|&it| world.rif(it)).sum();
            let number = some_key(&mut world.draw);
            let pick = world.pick(about(number));
            let replica = pick.ticket.replica();
            let place = [
                PickReason::KeyHome,
                PickReason::KeySet,
                PickReason::KeySpill,
            ];
            let place = place.iter().position(|&it| it == pick.reason);
            picks[place.expect("a reason of keys")] += 1;
            let others = before - (world.rif(replica) - 1) + replicas - 1;
            let cap = u64::from(others) * u64::from(factor) / (u64::from(replicas - 1) * 1_000_000);
            let is_bounded = u64::from(world.rif(replica)) <= cap;
            assert!(
                is_bounded || pick.reason == PickReason::KeySpill || factor == 0,
                "{policy}, {step}: {} of {cap}",
                world.rif(replica)
            );
            tickets.push(pick.ticket);
            world.report(replica);
        } else {
            let count = u32::try_from(tickets.len()).unwrap();
            let place = below(&mut world.draw, count) as usize;
            let ticket = tickets.swap_remove(place);
            let replica = ticket.replica();
            world.done(ticket);
            world.report(replica);
        }
        if step % 7 == 0 {
            let name = below(&mut world.draw, replicas);
            let replica = world.replicas[&name];
            let others = below(&mut world.draw, 12);
            world.others.insert(replica, others);
            world.report(replica);
        }
        if step % 50 == 0 {
            world.report_all();
        }
    }
    picks
}

const POLICIES: [&str; 6] = [
    "shortest_expected_delay",
    "prequal",
    "least_loaded",
    "random",
    "round_robin",
    "peak_ewma",
];

#[test]
fn no_home_or_set_pick_passes_the_cap_while_reports_are_exact() {
    for policy in POLICIES {
        for factor in [1_000_000, 1_250_000, 2_000_000] {
            let [home, set, spill] = play(policy, factor, 10);
            assert!(home > 500 && set > 100, "{policy}: {home}, {set}");
            assert!(factor > 1_000_000 || spill > 0, "{policy}: {spill}");
            let [home, set, _] = play(policy, factor, 2);
            assert!(home > 500 && set > 0, "{policy}, two: {home}, {set}");
        }
    }
}

#[test]
fn without_a_factor_every_query_goes_to_its_home() {
    for policy in POLICIES {
        let [_, set, spill] = play(policy, 0, 10);
        assert_eq!((set, spill), (0, 0), "{policy}");
    }
}

/// The loads of a key's set.
fn loads(world: &mut World) -> Vec<(u32, u64)> {
    let mut explanation = Explanation::new();
    let pick = world.pick_explained(about(0), &mut explanation);
    world.done(pick.expect("a replica").ticket);
    let choice = explanation.key().expect("it has a key");
    let set = choice.set().iter();
    let mut loads: Vec<_> = set.map(|it| (world.name(it.replica), it.load)).collect();
    loads.sort_unstable();
    loads
}

fn all_in_set() -> KeySettings {
    KeySettings {
        set: 16,
        ..KeySettings::default()
    }
}

/// `count` queries of this client in flight at the replica of this name.
fn send(world: &mut World, name: u32, count: u32) -> Vec<Ticket> {
    let replica = world.replicas[&name];
    let tickets = (0..count).map(|_| world.pick(Query::pinned(replica)).ticket);
    tickets.collect()
}

#[test]
fn without_reports_own_queries_are_the_load() {
    let mut world = World::new("random", all_in_set(), 0..4);
    send(&mut world, 1, 3);
    send(&mut world, 2, 1);
    assert_eq!(loads(&mut world), [(0, 0), (1, 3), (2, 1), (3, 0)]);
}

#[test]
fn replica_without_a_report_counts_in_proportion_to_those_with_one() {
    let mut world = World::new("random", all_in_set(), 0..4);
    let _tickets = [
        send(&mut world, 0, 4),
        send(&mut world, 1, 5),
        send(&mut world, 3, 2),
    ];
    // 0, 1 and 2 report: this client has 9 there, and all clients have 29.
    for (name, others) in [(0, 10), (1, 5), (2, 5)] {
        let replica = world.replicas[&name];
        world.others.insert(replica, others);
        world.report(replica);
    }
    // 2 × (29 + 1) / (9 + 1)
    assert_eq!(loads(&mut world), [(0, 14), (1, 10), (2, 5), (3, 6)]);
    // After a second the reports no longer count.
    world.now += Duration::from_millis(999);
    assert_eq!(loads(&mut world)[0], (0, 14));
    world.now += MS;
    // A query looks at the age of its home's report, and of one other in turn.
    for _ in 0..4 {
        loads(&mut world);
    }
    assert_eq!(loads(&mut world), [(0, 4), (1, 5), (2, 0), (3, 2)]);
}

#[test]
fn load_is_the_report_plus_what_was_sent_since_and_at_least_what_is_in_flight() {
    let mut world = World::new("random", all_in_set(), 0..2);
    let replica = world.replicas[&0];
    world.others.insert(replica, 7);
    world.report(replica);
    let mut tickets = send(&mut world, 0, 3);
    assert_eq!(loads(&mut world)[0], (0, 10));
    world.done(tickets.pop().unwrap());
    assert_eq!(loads(&mut world)[0], (0, 9));
    world.handle(Event::SiblingQueries(replica, 2));
    assert_eq!(loads(&mut world)[0], (0, 11));
    // A report that does not know of them yet.
    world.handle(Event::CarriedReport(
        replica,
        &LoadReport::new(Rif::ZERO, None),
    ));
    assert_eq!(loads(&mut world)[0], (0, 2));
    world.done(tickets.pop().unwrap());
    assert_eq!(loads(&mut world)[0], (0, 1));
    world.handle(Event::SiblingReport(
        replica,
        &LoadReport::new(Rif::new(u32::MAX), None),
    ));
    assert_eq!(loads(&mut world)[0], (0, u64::from(u32::MAX)));
}

#[test]
fn reports_of_responses_on_rates_have_no_load() {
    for (policy, load) in [("weighted_round_robin", 7), ("shortest_expected_delay", 0)] {
        let mut world = World::new(policy, all_in_set(), 0..2);
        let replica = world.replicas[&0];
        world.others.insert(replica, 7);
        world.report(replica);
        let carried = LoadReport::new(Rif::ZERO, None);
        world.handle(Event::CarriedReport(replica, &carried));
        assert_eq!(loads(&mut world)[0], (0, load), "{policy}");
    }
}

#[test]
fn home_at_its_cap_spills_to_the_set_and_a_full_set_to_all() {
    let mut world = World::new("least_loaded", KeySettings::default(), 0..20);
    world.report_all();
    let (set, homes) = world.set(0);
    assert_eq!((set.len(), homes), (4, 1));
    let fill = |world: &mut World, names: &[u32]| {
        for name in names {
            let replica = world.replicas[name];
            world.others.insert(replica, 30);
        }
        world.report_all();
    };
    assert_eq!(world.goes(about(0)), (set[0], PickReason::KeyHome));
    fill(&mut world, &set[..1]);
    let (name, reason) = world.goes(about(0));
    assert!(set[1..].contains(&name));
    assert_eq!(reason, PickReason::KeySet);
    fill(&mut world, &set);
    let (name, reason) = world.goes(about(0));
    assert!(!set.contains(&name));
    assert_eq!(reason, PickReason::KeySpill);
    let picks = world.policy.counters().picks;
    let keyed = [
        PickReason::KeyHome,
        PickReason::KeySet,
        PickReason::KeySpill,
        PickReason::LeastLoaded,
    ];
    assert_eq!(keyed.map(|it| picks.of(it)), [2, 1, 1, 0]);
    assert_eq!(picks.total(), 4);
}

/// A weighted server has the cap of all its parts together.
#[test]
fn cap_of_a_server_is_in_proportion_to_its_parts() {
    let mut world = World::new("random", all_in_set(), 0..6);
    for part in 0..4 {
        let identity = slackwater_core::keys::Identity::new(b"large", part);
        let replica = world.join_as(identity);
        world.replicas.insert(100 + part, replica);
    }
    send(&mut world, 0, 7);
    let mut explanation = Explanation::new();
    let pick = world.pick_explained(about(0), &mut explanation).unwrap();
    world.done(pick.ticket);
    for server in explanation.key().unwrap().set() {
        // 2 × (load + parts) of the others, by their parts, rounded down, times its own
        let cap = match world.name(server.replica) {
            0 => 2 * 9 / 9,
            100.. => 4 * (2 * (7 + 6) / 6),
            _ => 2 * (7 + 9) / 9,
        };
        assert_eq!(server.cap, Some(cap));
    }
}
