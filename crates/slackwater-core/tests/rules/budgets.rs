//! A9: how often a report is used.

use crate::world::{World, load, quantile, quiet, quiet_default, rate};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Event, Policy};

/// The uses that the reports of each of 100 replicas get, over `rounds` of them.
fn drawn(probe_rate: u32, remove_rate: u32, rounds: usize) -> Vec<u32> {
    drawn_at(quiet(), probe_rate, remove_rate, rounds)
}

fn drawn_at(
    mut settings: PrequalSettings,
    probe_rate: u32,
    remove_rate: u32,
    rounds: usize,
) -> Vec<u32> {
    settings.probe_rate = rate(probe_rate);
    settings.remove_rate = rate(remove_rate);
    let mut world = World::new(100, settings);
    let mut uses = Vec::new();
    for _ in 0..rounds {
        for replica in world.replicas.clone() {
            world.report(replica, &load(1, 1));
            uses.push(world.pool().last().expect("just put in").uses_left);
        }
    }
    uses
}

#[test]
fn a9_report_is_used_once_at_default_settings() {
    for (probe_rate, remove_rate, least, most) in [
        // Equation (1) gives 1.32, 3.39 and 11.76.
        (3_000_000, 1_000_000, 1, 1),
        (1_000_000, 250_000, 2, 3),
        (500_000, 250_000, 4, 5),
    ] {
        let uses = drawn_at(quiet_default(), probe_rate, remove_rate, 5);
        let found = (uses.iter().min(), uses.iter().max());
        assert_eq!(
            found,
            (Some(&least), Some(&most)),
            "at {probe_rate} millionths"
        );
    }
    let shipped = PrequalSettings {
        probe_rate: rate(3_000_000),
        ..quiet_default()
    };
    let mut world = World::new(8, shipped);
    world.reports(&[(1, 1), (2, 2), (3, 3)]);
    assert_eq!(world.pick().ticket.replica(), world.replicas[0]);
    assert_eq!(world.pooled(), [1, 2], "used, and gone");
}

#[test]
fn a9_mean_uses_match_equation_1_by_random_rounding() {
    for (probe_rate, remove_rate, least, thousandths) in [
        (3_000_000, 1_000_000, 1, 1_316),
        (1_000_000, 250_000, 3, 3_390),
        (500_000, 250_000, 11, 11_765),
        (4_000_000, 250_000, 1, 1_000),
    ] {
        let uses = drawn(probe_rate, remove_rate, 40);
        assert!(uses.iter().all(|&uses| uses == least || uses == least + 1));
        let mean = f64::from(uses.iter().sum::<u32>()) / f64::from(4_000);
        // A share of at most one half among 4,000 draws: standard deviation 0.008; the limit is
        // five of them.
        assert!(
            (mean - f64::from(thousandths) / 1_000.0).abs() < 0.04,
            "{mean}, not {thousandths}"
        );
    }
}

#[test]
fn a9_uses_are_drawn_once_and_decrease_by_one() {
    let settings = PrequalSettings {
        probe_rate: rate(1_000_000),
        remove_rate: rate(250_000),
        rif_limit_quantile: quantile(1_000_000),
        ..quiet()
    };
    let mut world = World::new(100, settings);
    let [first, second] = [world.replicas[0], world.replicas[1]];
    world.report(first, &load(1, 1));
    world.report(second, &load(1, 50));
    let budget = world.pool()[0].uses_left;
    let others = world.pool()[1].uses_left;
    assert!((3..=4).contains(&budget));
    for left in (0..budget).rev() {
        let pick = world.pick();
        assert_eq!(pick.ticket.replica(), first);
        assert_eq!(
            pick.chosen.expect("by a report").uses_left,
            left + 1,
            "before this query"
        );
        let now_left = world
            .pool()
            .iter()
            .find(|view| view.replica == first)
            .map(|v| v.uses_left);
        assert_eq!(now_left, (left > 0).then_some(left));
    }
    assert_eq!(world.policy.counters().removed_spent, 1);
    assert_eq!(
        world.pool()[0].uses_left,
        others,
        "only what decides is spent"
    );
}

#[test]
fn a9_reuse_limit_follows_the_available_fleet() {
    let settings = PrequalSettings {
        probe_rate: rate(3_000_000),
        remove_rate: rate(1_000_000),
        ..quiet()
    };
    let mut world = World::new(26, settings);
    let uses = |world: &mut World| {
        world.report(world.replicas[0], &load(1, 1));
        world.pool().last().expect("just put in").uses_left
    };
    // n = 26: 2 / (10/26 · 3 − 1) = 13. n = 25: 25. n = 24: no solution; two entries give 1.
    assert_eq!(uses(&mut world), 13);
    world.handle(Event::Available(world.replicas[25], false));
    assert_eq!(uses(&mut world), 25);
    world.handle(Event::Removed(world.replicas[24]));
    assert_eq!(uses(&mut world), 1);
    world.handle(Event::Available(world.replicas[25], true));
    assert_eq!(uses(&mut world), 25);
    world.join();
    assert_eq!(uses(&mut world), 13);
}

/// The uses that reports get in a fleet of `replicas`.
fn uses_of_a_report(replicas: usize, settings: PrequalSettings) -> u32 {
    let mut world = World::new(replicas, settings);
    world.report(world.replicas[0], &load(1, 1));
    world.pool().last().expect("just put in").uses_left
}

#[test]
fn a9_default_is_one_use_unless_the_pool_would_empty() {
    let capped = |reuse_max, probe_rate| PrequalSettings {
        probe_rate: rate(probe_rate),
        remove_rate: rate(1_000_000),
        reuse_max,
        ..quiet()
    };
    let default = PrequalSettings::default().reuse_max;
    for replicas in [6, 24, 25, 26, 100] {
        assert_eq!(uses_of_a_report(replicas, capped(default, 3_000_000)), 1);
    }
    // n = 26: 13 by equation (1).
    assert_eq!(uses_of_a_report(26, capped(4, 3_000_000)), 4);
    assert_eq!(uses_of_a_report(26, capped(13, 3_000_000)), 13);
    assert_eq!(uses_of_a_report(26, capped(14, 3_000_000)), 13);
    // At half a probe per query, two entries need 2 / (24/26 · 0.5) = 4.33 uses, and no cap takes
    // them.
    assert!((4..=5).contains(&uses_of_a_report(26, capped(1, 500_000))));
}

#[test]
fn a9_reuse_limit_uses_the_measured_report_rate() {
    let settings = PrequalSettings {
        probe_rate: rate(3_000_000),
        remove_rate: rate(1_000_000),
        probes_outstanding_max: 1,
        idle_probes: 1,
        ..quiet()
    };
    let mut world = World::new(100, settings);
    for _ in 0..128 {
        let _ = world.pick();
        let probe = world.probes()[0];
        world.answer(probe, &load(1, 1));
    }
    // One report per query: (1 − 16/100) · 1 − 1 < 0, so two entries: 2 / 0.98 = 2.04.
    let _ = world.pick();
    let probe = world.probes()[0];
    world.answer(probe, &load(1, 1));
    assert!((2..=3).contains(&world.pool().last().expect("just put in").uses_left));
}
