//! Spare capacity: its distribution, its memory, and machines that are full in turn.

use super::{MS, SECOND, cores, drain, scenario};
use crate::machine::neighbours::{Neighbours, variances};
use crate::machine::{JobId, Machine};
use crate::scenario::{Antagonists, Group, Hobble, Scenario, Service, Sharing};
use core::time::Duration;
use std::collections::BTreeSet;

/// The neighbourhood of the paper's section 5.1, without full machines.
const ANTAGONISTS: Antagonists = Antagonists {
    headroom_median: 0.8,
    sigma_below: 0.68,
    sigma_above: 1.2,
    headroom_max: 57.6,
    slow: Duration::from_secs(10),
    slow_share: 0.2,
    fast: Duration::from_millis(300),
    fast_share: 0.1,
    full_machines: 0,
    full_for: Duration::from_secs(80),
    machines: 0,
};

const CORES: f64 = 6.4;

fn fleet(antagonists: &Antagonists, replicas: usize) -> Vec<Neighbours> {
    fleet_of_seed(1, antagonists, replicas)
}

fn fleet_of_seed(seed: u64, antagonists: &Antagonists, replicas: usize) -> Vec<Neighbours> {
    (0..replicas)
        .map(|replica| Neighbours::new(antagonists, CORES, (replica, replicas), seed))
        .collect()
}

fn play(fleet: &mut [Neighbours], steps: usize) {
    for neighbours in fleet {
        (0..steps).for_each(|_| neighbours.step());
    }
}

fn spares(fleet: &[Neighbours]) -> Vec<f64> {
    fleet.iter().map(Neighbours::headroom).collect()
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
fn spare_capacity_keeps_its_median_and_skew() {
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

/// The neighbourhood with the same sigma on both sides: the logarithm of its spare capacity is
/// normal.
const SYMMETRIC: Antagonists = Antagonists {
    sigma_below: 1.0,
    sigma_above: 1.0,
    headroom_max: f64::MAX,
    ..ANTAGONISTS
};

/// Returns the normals that the fleet's spare capacities come from.
fn levels(fleet: &[Neighbours]) -> Vec<f64> {
    let level = |spare: &f64| (spare / (0.8 * CORES)).ln();
    spares(fleet).iter().map(level).collect()
}

/// Returns the mean of the products of 5,000 pairs. A product of two normals has a variance of at
/// most 2, so the mean's error is at most 0.02.
fn covariance(before: &[f64], after: &[f64]) -> f64 {
    before.iter().zip(after).map(|(a, b)| a * b).sum::<f64>() / 5_000.0
}

/// Returns the correlation of 5,000 pairs, which does not depend on their variances. For normals
/// its error is (1 - r²) / √5,000: at most 0.006 where r is 0.77 or more.
fn correlation(before: &[f64], after: &[f64]) -> f64 {
    covariance(before, after) / (covariance(before, before) * covariance(after, after)).sqrt()
}

#[test]
fn spare_capacity_is_correlated_on_three_time_scales() {
    let mut fleet = fleet(&SYMMETRIC, 5_000);
    let before = levels(&fleet);
    for (steps, seconds) in [(30, 0.3), (170, 2.0), (800, 10.0)] {
        play(&mut fleet, steps);
        let found = correlation(&before, &levels(&fleet));
        let expected = 0.7 + 0.2 * f64::exp(-seconds / 10.0) + 0.1 * f64::exp(-seconds / 0.3);
        // The bound is four errors. With the weights of the two processes swapped, the difference
        // would be 0.06.
        assert!((found - expected).abs() < 0.024, "{found}, not {expected}");
    }
}

#[test]
fn spare_capacity_variance_is_stationary() {
    // Both processes forget their start many times over.
    let antagonists = Antagonists {
        slow: Duration::from_millis(50),
        slow_share: 0.2,
        fast: Duration::from_millis(30),
        fast_share: 0.1,
        ..SYMMETRIC
    };
    let mut fleet = fleet(&antagonists, 5_000);
    for steps in [0, 50] {
        play(&mut fleet, steps);
        let levels = levels(&fleet);
        let variance = covariance(&levels, &levels);
        assert!((variance - 1.0).abs() < 0.08, "{variance}");
    }
}

/// Returns which machines are full now.
fn full(fleet: &[Neighbours]) -> Vec<bool> {
    spares(fleet).iter().map(|spare| *spare == 0.0).collect()
}

#[test]
fn machines_are_full_in_turn_for_equal_times() {
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
        // The machines' steps are up to 10 ms apart, so one machine may become full before another
        // is free.
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
fn order_of_full_machines_depends_on_the_seed() {
    let antagonists = Antagonists {
        full_machines: 3,
        ..ANTAGONISTS
    };
    let mut orders = BTreeSet::new();
    for seed in 0..30 {
        let full = full(&fleet_of_seed(seed, &antagonists, 12));
        assert_eq!(full.iter().filter(|full| **full).count(), 3, "{seed}");
        orders.insert(full);
    }
    assert!(orders.len() > 10, "{orders:?}");
}

#[test]
fn small_fleet_gets_its_share_of_full_turns() {
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
fn neighbours_depend_only_on_seed_replica_and_time() {
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
    // The bits are the same, however hard the replica works and however often the machine is read.
    assert_eq!(
        capacity.to_bits(),
        capacity_at(1, 0, 300e6, 10 * MS).to_bits()
    );
    assert_ne!(capacity.to_bits(), capacity_at(1, 1, 1e6, SECOND).to_bits());
    assert_ne!(capacity.to_bits(), capacity_at(2, 0, 1e6, SECOND).to_bits());
}

#[test]
fn capacity_change_is_an_event_only_if_it_matters() {
    let mut machine = Machine::new(&testbed(), 0, 1);
    for job in 0..6 {
        machine.arrive(0, JobId(job), 10e9);
    }
    // There are no more queries than the allocation has cores.
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

#[test]
fn hobble_also_reduces_spare_capacity() {
    let mut hobbled = testbed();
    hobbled.fleet[0].hobble = Some(Hobble {
        from: Duration::ZERO,
        until: Duration::from_secs(1),
        capacity: 0.5,
        latency: None,
    });
    let whole = Machine::new(&testbed(), 0, 1).capacity_cores(0);
    let half = Machine::new(&hobbled, 0, 1).capacity_cores(0);
    assert!((half - whole / 2.0).abs() < 1e-12, "{half} of {whole}");
}

#[test]
fn throttled_replica_is_released_when_its_machine_has_capacity() {
    // Two machines, each full for a second in turn.
    let scenario = Scenario {
        antagonists: Some(Antagonists {
            full_machines: 1,
            full_for: Duration::from_secs(1),
            ..ANTAGONISTS
        }),
        ..scenario(Group::healthy(
            2,
            Service::Shared(Sharing {
                cores: 2.0,
                bucket: 0.0,
                burst: 3.0,
                contention_loss: 0.5,
            }),
        ))
    };
    let mut full = [0, 1]
        .map(|replica| Machine::new(&scenario, replica, 1))
        .into_iter()
        .find_map(|mut machine| (machine.capacity_cores(0) <= 2.0).then_some(machine))
        .unwrap();
    (0..3).for_each(|job| full.arrive(0, JobId(job), 1.5e9));
    full.cancel(0, JobId(2));
    // There are as many queries as cores, and the replica is held: half speed for one second, and
    // full speed after it.
    let ends = drain(&mut full);
    let expected = 2 * SECOND;
    assert!(
        ends.iter()
            .all(|(_, end)| end.abs_diff(expected) <= 10 * MS),
        "{ends:?}"
    );
}

#[test]
fn faster_process_may_have_a_larger_share() {
    let antagonists = Antagonists {
        slow_share: 0.1,
        fast: Duration::from_millis(100),
        fast_share: 0.6,
        ..SYMMETRIC
    };
    let mut fleet = fleet(&antagonists, 5_000);
    let before = levels(&fleet);
    let variance = covariance(&before, &before);
    assert!((variance - 1.0).abs() < 0.08, "{variance}");
    play(&mut fleet, 20);
    let found = covariance(&before, &levels(&fleet));
    let expected = 0.3 + 0.1 * f64::exp(-0.02) + 0.6 * f64::exp(-2.0);
    // The bound is four errors of a covariance.
    assert!((found - expected).abs() < 0.08, "{found}, not {expected}");
}

/// Published results name their seeds, so the constant part must not be off by a rounding error.
#[test]
fn variance_shares_of_the_testbed_are_exact() {
    let shares = variances(&ANTAGONISTS);
    assert!(
        shares
            .iter()
            .zip([0.7_f64, 0.2, 0.1])
            .all(|(found, share)| found.to_bits() == share.to_bits()),
        "{shares:?}"
    );
}
