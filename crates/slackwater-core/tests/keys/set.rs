//! A key's set, when its replicas are out, tried, pinned or spared.

use crate::world::{MS, World, about, key};
use core::time::Duration;
use slackwater_core::health::HealthSettings;
use slackwater_core::keys::KeySettings;
use slackwater_core::policy::{
    Attempt, Decision, Event, Explanation, Outcome, POLICIES, PickReason, Query,
};
use slackwater_core::{LoadReport, Quantile, ReplicaId, Rif, SplitMix64};
use std::collections::BTreeMap;

fn world() -> World {
    World::new("shortest_expected_delay", KeySettings::default(), 0..20)
}

fn replicas_of(world: &World, names: &[u32]) -> Vec<ReplicaId> {
    names.iter().map(|name| world.replicas[name]).collect()
}

#[test]
fn home_that_is_taken_out_is_replaced_by_the_next_in_order_and_comes_back() {
    let mut world = world();
    let (set, _) = world.set(5);
    assert_eq!(world.goes(about(5)), (set[0], PickReason::KeyHome));
    world.available(set[0], false);
    assert_eq!(world.goes(about(5)), (set[1], PickReason::KeyHome));
    assert_eq!(world.set(5).0[..3], set[1..]);
    world.available(set[1], false);
    assert_eq!(world.goes(about(5)), (set[2], PickReason::KeyHome));
    world.available(set[0], true);
    world.available(set[1], true);
    assert_eq!(world.set(5).0, set);
    assert_eq!(world.goes(about(5)), (set[0], PickReason::KeyHome));
}

#[test]
fn home_that_drains_is_replaced_by_the_next_in_order_and_comes_back() {
    let mut world = world();
    let (set, _) = world.set(5);
    let replica = world.replicas[&set[0]];
    let mut report = LoadReport::new(Rif::ZERO, None);
    for (draining, home) in [(true, set[1]), (false, set[0])] {
        report.draining = draining;
        world.handle(Event::SiblingReport(replica, &report));
        assert_eq!(world.goes(about(5)), (home, PickReason::KeyHome));
    }
}

#[test]
fn further_attempts_go_to_the_next_of_the_set_and_last_to_others() {
    for entry in POLICIES.iter().filter(|it| it.name != "prequal_sync") {
        let mut world = World::new(entry.name, KeySettings::default(), 0..20);
        let (set, _) = world.set(5);
        for tried in 1..4 {
            let avoid = replicas_of(&world, &set[..tried]);
            for query in [Query::retry(&avoid), Query::hedge(&avoid)] {
                let went = world.goes(query.with_key(key(5)));
                assert_eq!(went, (set[tried], PickReason::KeySet), "{}", entry.name);
            }
        }
        let avoid = replicas_of(&world, &set);
        let (name, reason) = world.goes(Query::retry(&avoid).with_key(key(5)));
        assert!(!set.contains(&name), "{}", entry.name);
        assert_eq!(reason, PickReason::KeySpill, "{}", entry.name);
    }
}

#[test]
fn first_attempt_that_spares_the_home_goes_to_the_next() {
    let mut world = world();
    let (set, _) = world.set(5);
    let avoid = replicas_of(&world, &set[..1]);
    let query = Query {
        avoid: &avoid,
        ..about(5)
    };
    assert_eq!(world.goes(query), (set[1], PickReason::KeySet));
}

/// Health gives a replica that joins a part of its share, and keeps other queries from it.
#[test]
fn home_that_health_spares_passes_queries_on_within_its_set() {
    let mut world = World::watched("shortest_expected_delay", 0..9);
    world.now += Duration::from_secs(100);
    world.goes(about(0));
    world.join(9);
    let number = (0..1_000)
        .find(|&number| world.set(number).0[0] == 9)
        .unwrap();
    let mut picks = BTreeMap::new();
    for _ in 0..200 {
        world.now += MS;
        *picks.entry(world.goes(about(number)).1).or_insert(0) += 1;
    }
    let reasons: Vec<_> = picks.keys().copied().collect();
    assert_eq!(
        reasons,
        [PickReason::KeyHome, PickReason::KeySet],
        "{picks:?}"
    );
}

/// That a home gets less than its share may be found only when the next query chooses.
#[test]
fn no_query_leaves_the_set_when_health_begins_to_spare_the_home() {
    let mut health = HealthSettings::default();
    health.out_max = Quantile::ZERO;
    let mut picks = BTreeMap::new();
    for seed in 0..20 {
        let mut world = World::watched_by(health.clone(), "round_robin", 0..6);
        world.draw = SplitMix64::new(seed);
        let (set, _) = world.set(5);
        for number in 0..90 {
            let pick = world.pick(about(number));
            world.now += MS;
            let is_bad = world.name(pick.ticket.replica()) == set[0];
            let outcome = [Outcome::Success, Outcome::Failed][usize::from(is_bad)];
            world.end(pick.ticket, outcome);
        }
        world.now += 100 * MS;
        *picks.entry(world.goes(about(5)).1).or_insert(0) += 1;
    }
    let reasons: Vec<_> = picks.keys().copied().collect();
    assert_eq!(
        reasons,
        [PickReason::KeyHome, PickReason::KeySet],
        "{picks:?}"
    );
}

#[test]
fn set_that_is_down_as_a_whole_spills() {
    let mut world = world();
    let (set, _) = world.set(5);
    for &name in &set {
        world.available(name, false);
    }
    let (next, _) = world.set(5);
    assert!(next.iter().all(|name| !set.contains(name)), "the next four");
    let avoid = replicas_of(&world, &next);
    let query = Query::retry(&avoid).with_key(key(5));
    let (name, reason) = world.goes(query);
    assert!(!set.contains(&name) && !next.contains(&name));
    assert_eq!(reason, PickReason::KeySpill);
}

#[test]
fn in_a_panic_keys_still_have_their_homes() {
    for entry in POLICIES {
        let mut world = World::new(entry.name, KeySettings::default(), 0..6);
        let (set, _) = world.set(5);
        for name in 0..6 {
            world.available(name, false);
        }
        let (name, reason) = world.goes(about(5));
        assert!(set.contains(&name), "{}", entry.name);
        assert!(
            name == set[0] || entry.name == "prequal_sync",
            "{}",
            entry.name
        );
        let is_own = [PickReason::Panic, PickReason::KeyHome].contains(&reason);
        assert!(
            is_own || entry.name == "prequal_sync",
            "{}: {reason}",
            entry.name
        );
        world.available(set[2], true);
        assert_eq!(world.goes(about(5)).0, set[2], "{}", entry.name);
    }
}

#[test]
fn pinned_query_stays_pinned() {
    let mut world = world();
    let (set, _) = world.set(5);
    let other = (0..20).find(|name| !set.contains(name)).unwrap();
    let replica = world.replicas[&other];
    let pinned = Query::pinned(replica).with_key(key(5));
    assert_eq!(world.goes(pinned), (other, PickReason::Pinned));
    let room = Query::with_room(replica).with_key(key(5));
    assert_eq!(world.goes(room), (other, PickReason::Room));
    world.available(other, false);
    assert_eq!(world.goes(pinned), (set[0], PickReason::KeyHome));
}

#[test]
fn empty_fleet_has_no_replica() {
    let mut world = World::new("random", KeySettings::default(), []);
    assert!(world.try_pick(about(5)).is_none());
    world.join(1);
    assert_eq!(world.goes(about(5)), (1, PickReason::KeyHome));
    world.leave(1);
    assert!(world.try_pick(about(5)).is_none());
}

/// Queries about this key and others. The replica of the name `bad` fails.
fn traffic(world: &mut World, rounds: u32, bad: Option<u32>) {
    for round in 0..rounds {
        world.now += MS;
        let pick = world.pick(about(if round % 3 == 0 { 5 } else { round }));
        let outcome = if Some(world.name(pick.ticket.replica())) == bad {
            Outcome::Failed
        } else {
            Outcome::Success
        };
        world.end(pick.ticket, outcome);
    }
}

#[test]
fn home_that_fails_is_ejected_tried_by_health_and_comes_back() {
    let mut world = World::watched("shortest_expected_delay", 0..6);
    let (set, _) = world.set(5);
    traffic(&mut world, 3_000, Some(set[0]));
    let before = world.policy.counters();
    assert!(before.picks.of(PickReason::Trial) > 0);
    assert_eq!(before.health.ejections, 1);
    assert_eq!(world.set(5).0[0], set[1], "the next in order");
    traffic(&mut world, 20_000, None);
    assert_eq!(world.goes(about(5)), (set[0], PickReason::KeyHome));
    let after = world.policy.counters();
    assert_eq!(after.picks.total(), before.picks.total() + 20_002);
    assert_eq!(after.picks.of(PickReason::Trial), after.health.trials);
}

/// Rounds probe the first homes and random others, and the answers decide.
#[test]
fn rounds_probe_the_homes_of_a_key() {
    for hint_homes in [0, 1, 2, 3, 8] {
        let settings = KeySettings {
            hint_homes,
            ..KeySettings::default()
        };
        let mut world = World::new("prequal_sync", settings, 0..20);
        let set = {
            let (set, _) = world.set(5);
            replicas_of(&world, &set)
        };
        let hinted = usize::from(hint_homes).min(3);
        let mut strangers = 0;
        for _ in 0..50 {
            let (now, draw) = (world.now, &mut world.draw);
            let mut explanation = Explanation::new();
            let decision = world
                .policy
                .choose(now, about(5), draw, Some(&mut explanation));
            let Decision::Probe(mut round) = decision else {
                panic!("it probes");
            };
            let targets: Vec<_> = round.targets().collect();
            assert_eq!(targets.len(), 3, "as without a key");
            let homes = set.iter().take(hinted.min(set.len()));
            assert!(homes.clone().all(|home| targets.contains(home)));
            strangers += targets.iter().filter(|it| !set.contains(it)).count();
            // The one that reports the lowest load gets it.
            for (rif, &target) in (0..).zip(&targets) {
                let report = LoadReport::new(Rif::new(rif), Some(MS));
                round.handle_report(target, &report);
            }
            let query = Query {
                round: Some(&round),
                ..about(5)
            };
            let pick = world.policy.choose(now, query, &mut world.draw, None);
            let pick = pick.pick().unwrap();
            let went = pick.ticket.replica();
            let expected = match set.iter().position(|it| *it == went) {
                Some(0) => PickReason::KeyHome,
                Some(_) => PickReason::KeySet,
                None => PickReason::KeySpill,
            };
            assert_eq!((went, pick.reason), (targets[0], expected));
            world
                .policy
                .handle_query_done(now, pick.ticket, Outcome::Success);
        }
        assert_eq!(strangers == 0, hinted == 3, "{hint_homes}");
        // A query that has tried a home does not probe it.
        let avoid = [set[0]];
        let retry = Query::retry(&avoid).with_key(key(5));
        let decision = world.policy.choose(world.now, retry, &mut world.draw, None);
        let Decision::Probe(round) = decision else {
            panic!("it probes");
        };
        assert!(round.targets().all(|it| it != set[0]));
    }
}

#[test]
fn trials_need_no_key() {
    let mut world = world();
    let query = Query {
        attempt: Attempt::Trial,
        ..about(5)
    };
    assert!(world.try_pick(query).is_none());
}
