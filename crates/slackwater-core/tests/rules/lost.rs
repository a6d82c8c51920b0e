//! Decision 0007: replicas that answered probes and stop while others go on.

use crate::world::{MS, World, load, quiet};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::{
    C3, C3Config, Event, Linear, LinearConfig, Outcome, PickReason, Policy, PolledPowerOfD,
    PolledPowerOfDConfig, Prequal, PrequalConfig, Query, ReplicaView, RifThenLatency,
    RifThenLatencyConfig, ShortestExpectedDelay, ShortestExpectedDelayConfig, WeightedRoundRobin,
    WeightedRoundRobinConfig,
};
use slackwater_core::{Instant, ReplicaId};

/// The replica, as a driver sees it.
fn view<P: Policy>(world: &World<P>, index: usize) -> ReplicaView {
    world.policy.snapshot(world.now).replicas[index]
}

/// Loses another probe of the replica, now or, if no probe is due, a little later.
fn lose<P: Policy>(world: &mut World<P>, index: usize, at: Instant) {
    let probe = world.probe(world.replicas[index]);
    world.now = world.now.max(at);
    world.lose(probe);
}

fn hear<P: Policy>(world: &mut World<P>, index: usize) {
    world.report(world.replicas[index], &load(1, 10));
}

/// Loses three probes in a row over this time after the last answer of the replica. `witness`
/// answers at the end.
fn fall_out<P: Policy>(world: &mut World<P>, index: usize, witness: usize) {
    hear(world, index);
    let heard_at = world.now;
    lose(world, index, heard_at + 100 * MS);
    lose(world, index, heard_at + 200 * MS);
    hear(world, witness);
    lose(world, index, heard_at + 500 * MS);
    assert!(view(world, index).lost);
}

/// The replicas of `picks` picks, each ended at once.
fn picked<P: Policy>(world: &mut World<P>, picks: usize) -> Vec<ReplicaId> {
    let pick = |_| {
        let ticket = world.pick().ticket;
        let replica = ticket.replica();
        let policy = &mut world.policy;
        policy.handle_query_done(world.now, ticket, Outcome::Success);
        replica
    };
    (0..picks).map(pick).collect()
}

#[test]
fn d7_replica_is_unreachable_after_three_lost_probes_and_500_ms() {
    let mut world = World::new(2, quiet());
    world.reports(&[(1, 10), (1, 10)]);
    hear(&mut world, 0);
    let heard_at = world.now;
    lose(&mut world, 0, heard_at + 100 * MS);
    lose(&mut world, 0, heard_at + 200 * MS);
    hear(&mut world, 1);
    lose(&mut world, 0, heard_at + 499 * MS);
    assert!(!view(&world, 0).lost, "too early");
    assert_eq!(world.pooled(), [0, 1]);
    lose(&mut world, 0, heard_at + 500 * MS);
    assert!(view(&world, 0).lost && !view(&world, 0).available && !view(&world, 0).unprobed);
    assert_eq!(world.pooled(), [1], "its report does not count");
    let other = world.replicas[1];
    assert!(picked(&mut world, 200).iter().all(|&it| it == other));
    // It is better than no replica.
    let pick = world.pick_for(Query::retry(&[other]));
    assert_eq!(pick.ticket.replica(), world.replicas[0]);
}

#[test]
fn d7_two_lost_probes_are_not_enough() {
    let mut world = World::new(2, quiet());
    hear(&mut world, 0);
    for seconds in 1..=2 {
        lose(&mut world, 0, Instant::EPOCH + Duration::from_secs(seconds));
        hear(&mut world, 1);
    }
    assert!(!view(&world, 0).lost);
    lose(&mut world, 0, Instant::EPOCH);
    assert!(
        view(&world, 0).lost,
        "it was lost although others answered in between"
    );
}

#[test]
fn d7_first_reply_makes_the_replica_available() {
    let mut world = World::new(2, quiet());
    fall_out(&mut world, 0, 1);
    hear(&mut world, 0);
    assert!(!view(&world, 0).lost && view(&world, 0).available);
    assert_eq!(world.pooled(), [1, 0]);
    // Its time starts again.
    let heard_at = world.now;
    hear(&mut world, 1);
    for ms in [100, 200, 300, 400] {
        lose(&mut world, 0, heard_at + ms * MS);
        hear(&mut world, 1);
    }
    assert!(view(&world, 0).available);
}

#[test]
fn d7_unreachable_replica_is_not_balanced_by_local_measurements() {
    let mut world = World::new(2, quiet());
    fall_out(&mut world, 0, 1);
    world.now += Duration::from_secs(11);
    hear(&mut world, 1);
    let now = world.now;
    lose(&mut world, 0, now);
    assert!(view(&world, 0).unprobed && !view(&world, 0).available);
    world.now += Duration::from_secs(2);
    world.refresh();
    let other = world.replicas[1];
    assert!(picked(&mut world, 200).iter().all(|&it| it == other));
    assert_eq!(world.rif_of(world.replicas[0]), None, "nothing in its name");
    hear(&mut world, 0);
    assert!(view(&world, 0).available);
}

#[test]
fn d7_replica_that_never_replied_is_unprobed() {
    let mut world = World::new(2, quiet());
    for _ in 0..10 {
        world.now += 500 * MS;
        hear(&mut world, 1);
        let now = world.now;
        lose(&mut world, 0, now);
    }
    assert!(view(&world, 0).unprobed && view(&world, 0).available && !view(&world, 0).lost);
}

#[test]
fn d7_if_no_replica_replies_none_is_unreachable() {
    let mut world = World::new(2, quiet());
    world.reports(&[(1, 10), (1, 10)]);
    let heard_at = world.now;
    for ms in [100, 300, 600] {
        lose(&mut world, 0, heard_at + ms * MS);
        lose(&mut world, 1, heard_at + ms * MS);
    }
    assert!(!view(&world, 0).lost && !view(&world, 1).lost);
}

#[test]
fn d7_if_the_last_replica_stops_replying_none_is_unreachable() {
    let mut world = World::new(3, quiet());
    world.reports(&[(1, 10), (1, 10), (1, 10)]);
    fall_out(&mut world, 0, 2);
    fall_out(&mut world, 1, 2);
    let now = world.now;
    for ms in [100, 300, 500] {
        assert!(view(&world, 0).lost && view(&world, 1).lost, "{ms}");
        lose(&mut world, 2, now + ms * MS);
    }
    assert!((0..3).all(|index| view(&world, index).available && !view(&world, index).lost));
    let all = picked(&mut world, 200);
    assert!((0..3).all(|index| all.contains(&world.replicas[index])));
    // The problem was only its own.
    hear(&mut world, 2);
    let now = world.now;
    lose(&mut world, 0, now);
    assert!(view(&world, 0).lost && view(&world, 1).available);
}

/// The replicas stop answering, one after the other.
fn none_is_unreachable_at_the_end<P: Policy>(policy: P) {
    let name = policy.name();
    let mut world = World::of(3, policy);
    let mut lost_when_gone = |gone: usize, span| {
        let gone = world.replicas[..gone].to_vec();
        answer_some(&mut world, span, 0, &gone);
        let views = world.policy.snapshot(world.now).replicas;
        views.iter().filter(|view| view.lost).count()
    };
    for (gone, lost) in [(0, 0), (1, 1), (2, 2), (3, 0)] {
        let found = lost_when_gone(gone, Duration::from_secs(20));
        assert_eq!(found, lost, "{name}, {gone} gone");
    }
    for step in 0..400 {
        assert_eq!(lost_when_gone(3, 50 * MS), 0, "{name}, step {step}");
    }
    // One answers again.
    let found = lost_when_gone(2, Duration::from_secs(20));
    assert_eq!(found, 2, "{name}");
}

#[test]
fn d7_if_probing_ends_everywhere_no_replica_becomes_unreachable_again() {
    let prequal = PrequalConfig::default;
    none_is_unreachable_at_the_end(Prequal::new(prequal()));
    let config = ShortestExpectedDelayConfig::default();
    none_is_unreachable_at_the_end(ShortestExpectedDelay::new(prequal(), &config));
    let config = PolledPowerOfDConfig::default();
    none_is_unreachable_at_the_end(PolledPowerOfD::with(config));
}

#[test]
fn d7_one_replica_always_stays_available() {
    let mut world = World::new(3, quiet());
    fall_out(&mut world, 0, 2);
    fall_out(&mut world, 1, 2);
    let available = |world: &World| -> Vec<_> {
        let replicas = world.policy.snapshot(world.now).replicas;
        replicas.iter().map(|view| view.available).collect()
    };
    assert_eq!(available(&world), [false, false, true]);
    let last = world.replicas[2];
    world.handle(Event::Available(last, false));
    assert_eq!(available(&world), [true, true, false]);
    let pick = world.pick();
    assert_eq!(pick.reason, PickReason::Fallback, "and this is no panic");
    world.handle(Event::Available(last, true));
    assert_eq!(available(&world), [false, false, true]);

    let mut draining = load(0, 10);
    draining.draining = true;
    world.report(last, &draining);
    assert_eq!(available(&world), [true, true, false]);
    hear(&mut world, 2);
    assert_eq!(available(&world), [false, false, true]);

    world.handle(Event::Removed(last));
    assert_eq!(available(&world), [true, true]);
    world.join();
    assert_eq!(available(&world), [false, false, true]);
}

#[test]
fn d7_replies_of_an_unavailable_replica_prove_that_probes_work() {
    let mut world = World::new(3, quiet());
    let witness = world.replicas[1];
    world.handle(Event::Available(witness, false));
    hear(&mut world, 2);
    fall_out(&mut world, 0, 1);
    let only = world.replicas[2];
    assert!(picked(&mut world, 200).iter().all(|&it| it == only));
}

/// All replicas except `gone` answer at once during this time.
fn answer_all<P: Policy>(world: &mut World<P>, span: Duration, gone: Option<ReplicaId>) {
    let end = world.now + span;
    while world.now < end {
        world.now += 10 * MS;
        world.handle(Event::Timeout);
        for probe in world.probes() {
            if Some(probe.replica) != gone {
                world.answer(probe, &load(1, 10));
            }
        }
    }
}

/// Plays this time, while this share of all probes is lost, and replicas in `gone` answer none.
/// Returns how often a replica that answers was seen, and how often as lost or unprobed.
fn answer_some<P: Policy>(
    world: &mut World<P>,
    span: Duration,
    loss_percent: u32,
    gone: &[ReplicaId],
) -> (u32, u32) {
    let end = world.now + span;
    let (mut seen, mut out) = (0, 0);
    while world.now < end {
        world.now += 50 * MS;
        world.handle(Event::Timeout);
        for probe in world.probes() {
            if gone.contains(&probe.replica) || below(&mut world.draw, 100) < loss_percent {
                world.lose(probe);
            } else {
                world.answer(probe, &load(1, 10));
            }
        }
        for view in world.policy.snapshot(world.now).replicas {
            if !gone.contains(&view.replica) {
                seen += 1;
                out += u32::from(view.lost || view.unprobed);
            }
        }
    }
    (seen, out)
}

/// Plays a policy for minutes with this loss. One in ten thousand living replicas may be out at a
/// time. If half of the fleet stops answering, each of them is found, and so is the whole fleet.
fn bears_loss<P: Policy>(policy: P, loss_percent: u32) {
    let name = policy.name();
    let case = format!("{name}, {loss_percent} % lost");
    let second = Duration::from_secs(1);
    let mut world = World::of(12, policy);
    // The loss shows itself while few replicas have lost several probes in a row.
    answer_some(&mut world, 20 * second, loss_percent, &[]);
    let (seen, out) = answer_some(&mut world, 300 * second, loss_percent, &[]);
    assert!(out <= seen / 2_000, "{case}: {out} of {seen}");

    let gone = world.replicas[..6].to_vec();
    let (seen, out) = answer_some(&mut world, 20 * second, loss_percent, &gone);
    assert!(out <= seen / 100, "{case}: {out} of {seen}");
    let views = world.policy.snapshot(world.now).replicas;
    let found = views.iter().filter(|view| view.lost).count();
    assert!(found == 6, "{case}: {found} of 6 are found");

    let all = world.replicas.clone();
    answer_some(&mut world, 60 * second, loss_percent, &all);
    let views = world.policy.snapshot(world.now).replicas;
    assert!(views.iter().all(|view| view.unprobed), "{case}");
    assert!(views.iter().any(|view| view.available), "{case}");
}

#[test]
fn d7_living_replicas_stay_available_while_probes_are_lost() {
    let prequal = PrequalConfig::default;
    for loss_percent in [0, 5, 30, 50] {
        bears_loss(Prequal::new(prequal()), loss_percent);
        let config = RifThenLatencyConfig::default();
        bears_loss(RifThenLatency::new(prequal(), &config), loss_percent);
        let config = PolledPowerOfDConfig::default();
        bears_loss(PolledPowerOfD::with(config), loss_percent);
    }
}

#[test]
fn d7_lost_probes_of_others_raise_the_number_that_counts() {
    let mut world = World::new(12, quiet());
    let needed = |world: &mut World| {
        hear(world, 0);
        let start = world.now;
        for lost in 1..=20 {
            lose(world, 0, start + lost * 500 * MS);
            hear(world, 1);
            if view(world, 0).lost {
                return lost;
            }
        }
        panic!("it is never lost");
    };
    assert_eq!(needed(&mut world), 3);
    for _ in 0..100 {
        for index in 1..12 {
            lose(&mut world, index, Instant::EPOCH);
            hear(&mut world, index);
        }
    }
    let at_half = needed(&mut world);
    assert!(
        (13..=15).contains(&at_half),
        "half of the probes: {at_half}"
    );
    // Replicas that come back show no loss, and the old loss is forgotten.
    for _ in 0..100 {
        for index in 1..12 {
            hear(&mut world, index);
        }
    }
    assert_eq!(needed(&mut world), 3);
}

fn loses<P: Policy>(policy: P, within: Duration) {
    let name = policy.name();
    let mut world = World::of(3, policy);
    answer_all(&mut world, Duration::from_secs(2), None);
    let gone = world.replicas[0];
    answer_all(&mut world, within, Some(gone));
    assert!(view(&world, 0).lost, "{name}");
    assert!(!picked(&mut world, 200).contains(&gone), "{name}");
    assert_eq!(world.policy.fleet().available().len(), 2, "{name}");
    answer_all(&mut world, within, None);
    assert!(world.policy.fleet().is_available(gone), "{name}");
    assert_eq!(world.policy.fleet().available().len(), 3, "{name}");
}

#[test]
fn d7_every_probing_policy_detects_unreachable_replicas() {
    let prequal = PrequalConfig::default;
    let second = Duration::from_secs(1);
    loses(Prequal::new(prequal()), second);
    loses(Linear::new(prequal(), &LinearConfig::default()), second);
    loses(C3::new(prequal(), &C3Config::default()), second);
    let config = RifThenLatencyConfig::default();
    loses(RifThenLatency::new(prequal(), &config), second);
    let config = ShortestExpectedDelayConfig::default();
    loses(ShortestExpectedDelay::new(prequal(), &config), second);
    // Three of its polls are lost, half a second each.
    loses(
        PolledPowerOfD::with(PolledPowerOfDConfig::default()),
        2 * second,
    );
    let weighted = WeightedRoundRobinConfig::default();
    loses(WeightedRoundRobin::with(weighted), 60 * second);
}
