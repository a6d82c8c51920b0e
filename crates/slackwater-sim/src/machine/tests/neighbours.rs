//! Spare capacity: its distribution, its memory, and full machines by turns.

use super::{MS, SECOND, cores, scenario};
use crate::machine::neighbours::Neighbours;
use crate::machine::{JobId, Machine};
use crate::scenario::{Antagonists, Group, Scenario};
use core::time::Duration;

/// The neighbourhood of the paper's section 5.1, nobody full.
const ANTAGONISTS: Antagonists = Antagonists {
    spare_median: 0.8,
    sigma_below: 0.68,
    sigma_above: 1.2,
    spare_max: 57.6,
    slow: Duration::from_secs(10),
    fast: Duration::from_millis(300),
    full_machines: 0,
    full_for: Duration::from_secs(80),
    machines: 0,
};

const CORES: f64 = 6.4;

fn fleet(antagonists: &Antagonists, replicas: usize) -> Vec<Neighbours> {
    (0..replicas)
        .map(|replica| Neighbours::new(antagonists, CORES, (replica, replicas), 1))
        .collect()
}

fn play(fleet: &mut [Neighbours], steps: usize) {
    for neighbours in fleet {
        (0..steps).for_each(|_| neighbours.step());
    }
}

fn spares(fleet: &[Neighbours]) -> Vec<f64> {
    fleet.iter().map(Neighbours::spare).collect()
}

/// Asserts that `share` of the values are below `bound`: four deviations of a binomial.
fn assert_share_below(values: &[f64], bound: f64, share: f64) {
    let count = values.len() as f64;
    let below = values.iter().filter(|value| **value < bound).count() as f64;
    let deviation = (count * share * (1.0 - share)).sqrt();
    assert!(
        (below - share * count).abs() < 4.0 * deviation,
        "{below} of {count} below {bound}"
    );
}

#[test]
fn spare_capacity_has_its_median_and_skew_from_the_beginning_and_for_ever() {
    let mut fleet = fleet(&ANTAGONISTS, 5_000);
    for steps in [0, 300] {
        play(&mut fleet, steps);
        let spares = spares(&fleet);
        // Normal quantiles at one deviation: 0.1587 and 0.8413; at two: 0.9772.
        assert_share_below(&spares, 0.8 * CORES * f64::exp(-0.68), 0.1587);
        assert_share_below(&spares, 0.8 * CORES, 0.5);
        assert_share_below(&spares, 0.8 * CORES * f64::exp(1.2), 0.8413);
        assert_share_below(&spares, 0.8 * CORES * f64::exp(2.4), 0.9772);
        assert!(spares.iter().all(|spare| *spare <= 57.6));
        assert!(spares.contains(&57.6));
    }
}

#[test]
fn spare_capacity_remembers_on_three_time_scales() {
    // With the same sigma on both sides the logarithm is normal, and correlates as the three parts do.
    let antagonists = Antagonists {
        sigma_below: 1.0,
        sigma_above: 1.0,
        spare_max: f64::MAX,
        ..ANTAGONISTS
    };
    let mut fleet = fleet(&antagonists, 5_000);
    let levels = |fleet: &[Neighbours]| -> Vec<f64> {
        spares(fleet)
            .iter()
            .map(|spare| (spare / (0.8 * CORES)).ln())
            .collect()
    };
    let before = levels(&fleet);
    let mut seconds = 0.0;
    for (steps, total) in [(30, 0.3), (170, 2.0), (800, 10.0)] {
        play(&mut fleet, steps);
        seconds += steps as f64 / 100.0;
        assert!(f64::abs(seconds - total) < 1e-9);
        let pairs = before.iter().zip(levels(&fleet));
        let correlation = pairs.map(|(a, b)| a * b).sum::<f64>() / 5_000.0;
        let expected = 0.7 + 0.2 * f64::exp(-total / 10.0) + 0.1 * f64::exp(-total / 0.3);
        // A product of two normals has a variance of at most 2: an error of 0.02 for the mean of 5,000.
        assert!(
            (correlation - expected).abs() < 0.08,
            "{correlation}, not {expected}"
        );
    }
}

/// Who is full now.
fn full(fleet: &[Neighbours]) -> Vec<bool> {
    spares(fleet).iter().map(|spare| *spare == 0.0).collect()
}

#[test]
fn machines_are_full_by_turns_always_as_many_and_each_for_its_time() {
    let antagonists = Antagonists {
        full_machines: 6,
        full_for: Duration::from_secs(3),
        ..ANTAGONISTS
    };
    let mut fleet = fleet(&antagonists, 20);
    // A cycle is 20 / 6 of 3 s: 10 s.
    let mut turns = vec![0; 20];
    for _ in 0..1_000 {
        let full = full(&fleet);
        let count = full.iter().filter(|full| **full).count();
        // The machines' steps are up to 10 ms apart, so that one may come before another has gone.
        assert!((5..=7).contains(&count), "{count}");
        for (turn, full) in turns.iter_mut().zip(full) {
            *turn += u32::from(full);
        }
        play(&mut fleet, 1);
    }
    assert!(
        turns.iter().all(|turn| (299..=301).contains(turn)),
        "{turns:?}"
    );
}

#[test]
fn a_small_fleet_has_its_share_of_a_large_neighbourhoods_turns() {
    let antagonists = Antagonists {
        full_machines: 1,
        full_for: Duration::from_secs(1),
        machines: 100,
        ..ANTAGONISTS
    };
    let mut fleet = fleet(&antagonists, 2);
    let mut turns = [0; 2];
    for _ in 0..10_000 {
        for (turn, full) in turns.iter_mut().zip(full(&fleet)) {
            *turn += u32::from(full);
        }
        play(&mut fleet, 1);
    }
    assert_eq!(turns, [100, 100]);
}

fn testbed() -> Scenario {
    Scenario {
        antagonists: Some(ANTAGONISTS),
        ..scenario(Group::healthy(3, cores(CORES)))
    }
}

#[test]
fn neighbours_follow_from_seed_and_replica_and_time_alone() {
    let capacity_at = |seed, replica, work: f64, every: u64| {
        let mut machine = Machine::new(&testbed(), replica, seed);
        let mut finished = Vec::new();
        for (job, now) in (0..20 * SECOND)
            .step_by(usize::try_from(every).unwrap())
            .enumerate()
        {
            while machine.next_event() <= now {
                machine.advance(machine.next_event(), &mut finished);
            }
            machine.arrive(now, JobId(u32::try_from(job).unwrap()), work);
        }
        machine.clear(20 * SECOND);
        machine.capacity_cores(20 * SECOND + 55 * MS)
    };
    let capacity = capacity_at(1, 0, 1e6, SECOND);
    assert!(capacity > CORES);
    // Bit for bit the same, however hard the replica works and however often it is looked at.
    assert_eq!(
        capacity.to_bits(),
        capacity_at(1, 0, 300e6, 10 * MS).to_bits()
    );
    assert_ne!(capacity.to_bits(), capacity_at(1, 1, 1e6, SECOND).to_bits());
    assert_ne!(capacity.to_bits(), capacity_at(2, 0, 1e6, SECOND).to_bits());
}

#[test]
fn a_change_of_capacity_is_played_when_it_matters_and_only_then() {
    let mut machine = Machine::new(&testbed(), 0, 1);
    for job in 0..6 {
        machine.arrive(0, JobId(job), 10e9);
    }
    // No more queries than the allocation holds.
    assert_eq!(machine.next_event(), 10 * SECOND);
    machine.arrive(0, JobId(6), 10e9);
    // The first of three replicas takes its steps a third into the 10 ms.
    assert_eq!(machine.next_event(), 3_333_333);
    assert_eq!(machine.capacity_cores(3_333_332).to_bits(), {
        let mut untouched = Machine::new(&testbed(), 0, 1);
        untouched.capacity_cores(3_333_332).to_bits()
    });
    let before = machine.capacity_cores(3_333_332);
    assert!((machine.capacity_cores(3_333_333) - before).abs() > 1e-6);
}
