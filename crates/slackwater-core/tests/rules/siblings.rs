//! Siblings: data from other clients on the same machine. `[A11]` `[Decision 0006]`

use crate::silence::fall_silent;
use crate::world::{MS, World, load, quiet};
use slackwater_core::policy::{
    Event, POLICIES, Policy, PolicySettings, RifThenLatency, RifThenLatencyConfig,
};
use slackwater_core::{NoDraw, ReplicaId, Rif, SplitMix64};

fn rif_then_latency(replicas: usize) -> World<RifThenLatency> {
    let config = quiet().validate().expect("in range");
    let policy = RifThenLatency::new(config, &RifThenLatencyConfig::default());
    World::of(replicas, policy)
}

/// The RIF that each replica counts with.
fn rifs<P: Policy>(world: &World<P>) -> Vec<Option<u32>> {
    let replicas = world.replicas.iter();
    replicas.map(|&replica| world.rif_of(replica)).collect()
}

fn told<P: Policy>(world: &mut World<P>, replica: ReplicaId, rif: u32) {
    let (now, draw) = (world.now, &mut world.draw);
    world
        .policy
        .handle(now, Event::SiblingReport(replica, &load(rif, 10)), draw);
}

fn siblings_queries_count<P: Policy>(mut world: World<P>) {
    world.reports(&[(4, 10), (5, 10), (6, 10)]);
    let second = world.replicas[1];
    world.handle(Event::SiblingQueries(second, 3));
    assert_eq!(rifs(&world), [Some(4), Some(8), Some(6)]);
    world.handle(Event::SiblingQueries(second, u32::MAX));
    assert_eq!(rifs(&world)[1], Some(u32::MAX), "it does not wrap");
    let probe = world.probe(second);
    world.answer(probe, &load(7, 10));
    assert_eq!(
        rifs(&world)[1],
        Some(7),
        "the replica's own word has them all"
    );
    let views = world.policy.snapshot(world.now).replicas;
    assert!(
        views.iter().all(|view| view.in_flight == 0),
        "they are not this client's own"
    );
}

#[test]
fn sibling_queries_count_until_the_replica_reports() {
    siblings_queries_count(World::new(3, quiet()));
    siblings_queries_count(rif_then_latency(3));
}

#[test]
fn sibling_queries_to_unpooled_replica_are_ignored() {
    let mut world = World::new(3, quiet());
    let first = world.replicas[0];
    world.handle(Event::SiblingQueries(first, 3));
    told(&mut world, first, 4);
    assert_eq!(world.rif_of(first), Some(4));
}

fn siblings_answers_are_kept<P: Policy>(mut world: World<P>) {
    let [first, second] = [world.replicas[0], world.replicas[1]];
    told(&mut world, first, 9);
    told(&mut world, second, 2);
    assert_eq!(rifs(&world), [Some(9), Some(2), None]);
    let counters = world.policy.counters();
    assert_eq!((counters.probes_sent, counters.probes_answered), (0, 0));
    assert_eq!(world.pick().ticket.replica(), second, "they decide");
    told(&mut world, first, 1);
    assert_eq!(rifs(&world)[0], Some(1), "the newer one counts");
    let gone = world.replicas[2];
    world.handle(Event::Removed(gone));
    told(&mut world, gone, 0);
    assert_eq!(world.policy.counters().reports_unknown, 1);
    assert_eq!(world.rif_of(gone), None);
}

#[test]
fn sibling_reports_are_pooled_like_own_reports() {
    siblings_answers_are_kept(World::new(3, quiet()));
    siblings_answers_are_kept(rif_then_latency(3));
}

/// Hot is relative to all known reports, including those to siblings.
#[test]
fn sibling_reports_count_for_the_limit() {
    let mut world = World::new(3, quiet());
    for (index, rif) in [(0, 3), (1, 8), (2, 20)] {
        let replica = world.replicas[index];
        told(&mut world, replica, rif);
    }
    let limit = world.policy.snapshot(world.now).rif_limit;
    assert_eq!(limit, Some(Rif::new(20)));
}

/// A sibling's report took no round trip of this client, so it does not set the pace of the answers
/// for unprobed replicas. `[A13]` `[Decision 0002]`
#[test]
fn a13_sibling_reports_do_not_quicken_local_answers() {
    let mut world = World::new(2, quiet());
    fall_silent(&mut world, 1);
    let answers = world.replicas[0];
    for _ in 0..64 {
        let probe = world.probe(answers);
        world.now += 20 * MS;
        world.answer(probe, &load(1, 10));
    }
    for _ in 0..64 {
        told(&mut world, answers, 1);
    }
    let before = world.policy.counters().probes_local;
    for _ in 0..100 {
        world.refresh();
    }
    let local = world.policy.counters().probes_local - before;
    assert!((4..=6).contains(&local), "{local} in 100 ms");
}

#[test]
fn policies_without_reports_ignore_siblings() {
    for entry in POLICIES {
        let policy = (entry.build)(&PolicySettings::default());
        if [
            "prequal",
            "linear",
            "c3",
            "rif_then_latency",
            "shortest_expected_delay",
        ]
        .contains(&policy.name())
        {
            continue;
        }
        let mut ids = slackwater_core::ReplicaIds::new();
        let mut policy = policy;
        let now = slackwater_core::Instant::from_nanos(1);
        let replica = ids.allocate().expect("room");
        policy.handle(now, Event::Added(replica), &mut NoDraw);
        let before = policy.snapshot(now);
        policy.handle(now, Event::SiblingQueries(replica, 3), &mut NoDraw);
        policy.handle(
            now,
            Event::SiblingReport(replica, &load(4, 10)),
            &mut SplitMix64::new(1),
        );
        assert_eq!(policy.snapshot(now), before, "{}", entry.name);
    }
}
