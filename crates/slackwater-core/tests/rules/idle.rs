//! A3: probes that no query triggered.

use crate::world::{MS, World, load};
use core::time::Duration;
use slackwater_core::Instant;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Event, PickReason, Policy};

/// Runs the driver until `until`: it wakes up, probes, and returns answers at once. Returns when it
/// probed.
fn drive(world: &mut World, until: Instant) -> Vec<Instant> {
    let mut probed_at = Vec::new();
    while let Some(at) = world.policy.poll_timeout().filter(|&at| at <= until) {
        world.now = world.now.max(at);
        world.handle(Event::Timeout);
        for probe in world.probes() {
            probed_at.push(world.now);
            world.answer(probe, &load(1, 5));
        }
    }
    world.now = until;
    probed_at
}

#[test]
fn a3_idle_client_sends_two_probes_per_jittered_interval() {
    let mut world = World::new(10, PrequalSettings::default());
    let start = world.now;
    let probed_at = drive(&mut world, start + Duration::from_mins(1));
    assert_eq!(
        probed_at[..2],
        [start, start],
        "a new fleet is probed at once"
    );
    let mut gaps = Vec::new();
    for pair in probed_at.chunks_exact(2).collect::<Vec<_>>().windows(2) {
        assert_eq!(pair[0][0], pair[0][1], "two at a time");
        gaps.push(pair[1][0].saturating_since(pair[0][0]));
    }
    assert!(
        gaps.iter().all(|&gap| (75 * MS..=100 * MS).contains(&gap)),
        "{gaps:?}"
    );
    assert!(
        gaps.iter().any(|&gap| gap < 80 * MS),
        "down to three quarters"
    );
    assert!(gaps.iter().any(|&gap| gap > 95 * MS), "up to all of it");
    assert_eq!(world.policy.counters().probes_idle, probed_at.len() as u64);
}

#[test]
fn a3_pool_is_fresh_when_traffic_returns() {
    let mut world = World::new(10, PrequalSettings::default());
    let later = world.now + Duration::from_secs(30);
    drive(&mut world, later);
    let pick = world.pick();
    assert_ne!(pick.reason, PickReason::Fallback);
    assert!(pick.candidates >= 5, "{}", pick.candidates);
    assert!(pick.chosen.expect("by a report").age < Duration::from_secs(1));
}

#[test]
fn a3_query_probes_delay_idle_probes() {
    let mut world = World::new(10, PrequalSettings::default());
    let start = world.now;
    drive(&mut world, start);
    let idle = world.policy.counters().probes_idle;
    for _ in 0..100 {
        let _ = world.pick();
        for probe in world.probes() {
            world.answer(probe, &load(1, 5));
        }
        let next = world.now + 70 * MS;
        assert_eq!(drive(&mut world, next), []);
    }
    assert_eq!(world.policy.counters().probes_idle, idle);
    let next = world.now + 30 * MS;
    assert_eq!(
        drive(&mut world, next).len(),
        2,
        "100 ms after the last one"
    );
}

#[test]
fn a3_zero_idle_probes_disable_idle_probing() {
    let settings = PrequalSettings {
        idle_probes: 0,
        ..PrequalSettings::default()
    };
    let mut world = World::new(10, settings);
    let later = world.now + Duration::from_secs(5);
    assert_eq!(drive(&mut world, later), []);
    assert_eq!(world.policy.counters().probes_idle, 0);
}

#[test]
fn a3_empty_fleet_has_no_timeout() {
    let mut world = World::new(1, PrequalSettings::default());
    assert!(world.policy.poll_timeout().is_some());
    world.handle(Event::Removed(world.replicas[0]));
    assert_eq!(world.policy.poll_timeout(), None);
    world.join();
    assert!(world.policy.poll_timeout().is_some());
}
