//! Quotas: when they are used up and renewed, their neighbours, and estimates of work under them.

use super::{MS, SECOND, advance_until, drain, scenario};
use crate::machine::quota;
use crate::machine::{JobId, Machine, Time};
use crate::random::{Purpose, Stream};
use crate::scenario::{Group, Hobble, Neighbour, Quota, Service, nanoseconds};
use core::time::Duration;
use std::collections::BTreeSet;

/// A fifth of a core.
const QUOTA: Quota = Quota {
    cpu: Duration::from_millis(20),
    period: Duration::from_millis(100),
    at_once: 1.0,
    neighbour: None,
};
const PERIOD: Time = 100 * MS;

/// A neighbour that comes for one to three seconds, and takes a half.
const NEIGHBOUR: Neighbour = Neighbour {
    share: 0.5,
    least: Duration::from_secs(1),
    most: Duration::from_secs(3),
};

fn of_seed(group: Group, replica: usize, seed: u64) -> Machine {
    let group = Group {
        count: 100,
        ..group
    };
    Machine::new(&scenario(group), replica, seed)
}

fn group(quota: Quota) -> Group {
    Group::healthy(1, Service::Quota(quota))
}

fn limited(quota: Quota) -> Machine {
    of_seed(group(quota), 0, 1)
}

/// A group with a neighbour that is there, or away, for the whole test.
fn beside(quota: Quota) -> Group {
    let ages = Duration::from_hours(240);
    let neighbour = Some(Neighbour {
        least: ages,
        most: ages,
        ..NEIGHBOUR
    });
    group(Quota { neighbour, ..quota })
}

/// Returns a seed with which that neighbour is there, or away.
fn seed_where(is_there: bool) -> u64 {
    let found = (1..100).find(|seed| {
        let capacity = of_seed(beside(QUOTA), 0, *seed).capacity_cores(0);
        (capacity < 0.15) == is_there
    });
    found.expect("even chances")
}

/// Returns the events of a machine that always has work, from time `from` on.
fn events(mut machine: Machine, from: Time) -> Vec<Time> {
    machine.arrive(from, JobId(99), 1_000e9);
    let next = |_| {
        let event = machine.next_event();
        machine.advance(event, &mut Vec::new());
        event
    };
    (0..8).map(next).collect()
}

/// Returns when one of the first periods of a replica begins, after the quota of the one before was
/// used up for long.
fn begins(replica: usize, seed: u64) -> Time {
    let events = events(of_seed(group(QUOTA), replica, seed), 0);
    let mut pairs = events.windows(2);
    let found = pairs.find(|pair| pair[1] - pair[0] > 70 * MS);
    found.expect("it is used up")[1]
}

/// Asserts that two times differ by a few nanoseconds, of which each period may add three.
fn assert_near(found: Time, expected: Time) {
    assert!(found.abs_diff(expected) < 30, "{found}, not {expected}");
}

/// Returns when work that arrives at `now` ends.
fn end_of(machine: &mut Machine, now: Time, work: f64) -> Time {
    advance_until(machine, now);
    machine.arrive(now, JobId(0), work);
    drain(machine)[0].1
}

#[test]
fn work_stops_at_the_quota_and_resumes_in_the_next_period() {
    let begin = begins(0, 1);
    let mut machine = limited(QUOTA);
    advance_until(&mut machine, begin);
    machine.arrive(begin, JobId(0), 50e6);
    let seconds_at = |machine: &mut Machine, after: Time| {
        advance_until(machine, begin + after);
        (
            machine.cpu_seconds(begin + after),
            machine.waited_seconds(begin + after),
        )
    };
    for (after, used, waited) in [
        (10 * MS, 0.01, 0.0),
        (50 * MS, 0.02, 0.03),
        (PERIOD, 0.02, 0.08),
        (PERIOD + 15 * MS, 0.035, 0.08),
    ] {
        let (found_used, found_waited) = seconds_at(&mut machine, after);
        assert!((found_used - used).abs() < 3e-8, "{after}: {found_used}");
        assert!(
            (found_waited - waited).abs() < 3e-8,
            "{after}: {found_waited}"
        );
    }
    assert_near(drain(&mut machine)[0].1, begin + 2 * PERIOD + 10 * MS);
}

#[test]
fn unused_quota_is_not_carried_over() {
    let begin = begins(0, 1) + 50 * PERIOD;
    let mut machine = limited(QUOTA);
    let end = end_of(&mut machine, begin + 90 * MS, 35e6);
    assert_near(end, begin + 2 * PERIOD + 5 * MS);
    // Work that arrived late in a period does not delay the next one either.
    assert_near(
        end_of(&mut machine, begin + 3 * PERIOD, 15e6),
        begin + 3 * PERIOD + 15 * MS,
    );
}

#[test]
fn queries_that_need_exactly_the_remaining_quota_end() {
    let begin = begins(0, 1);
    let mut machine = limited(QUOTA);
    advance_until(&mut machine, begin);
    for period in 0..3 {
        let begin = begin + period * PERIOD;
        (0..10).for_each(|job| machine.arrive(begin, JobId(job), 2e6));
        assert_eq!(machine.next_event(), begin + 20 * MS);
        // A query that arrives at this moment does not keep them here.
        machine.arrive(begin + 20 * MS, JobId(10), 0.0);
        let mut ended = Vec::new();
        machine.advance(begin + 20 * MS, &mut ended);
        assert_eq!(ended.len(), 11);
        machine.arrive(begin + 20 * MS, JobId(11), 1e6);
        advance_until(&mut machine, begin + 99 * MS);
        assert_eq!(machine.jobs(), 1, "the quota is used up");
        machine.cancel(begin + 99 * MS, JobId(11));
    }
}

#[test]
fn query_uses_at_most_one_core_and_all_use_at_most_all() {
    let wide = Quota {
        cpu: Duration::from_millis(60),
        at_once: 2.0,
        ..QUOTA
    };
    let begin = begins(0, 1);
    let mut machine = limited(wide);
    // Sixty milliseconds with one core.
    assert_near(end_of(&mut machine, begin, 80e6), begin + PERIOD + 20 * MS);
    // Thirty milliseconds with two cores.
    let begin = begin + 2 * PERIOD;
    (0..3).for_each(|job| machine.arrive(begin, JobId(job), 30e6));
    assert_near(drain(&mut machine)[0].1, begin + PERIOD + 15 * MS);
    assert!((machine.allocation_cores() - 0.6).abs() < 1e-12);
}

#[test]
fn quota_equal_to_all_cores_never_throttles() {
    let whole = Quota {
        cpu: Duration::from_millis(100),
        ..QUOTA
    };
    assert_eq!(end_of(&mut limited(whole), 5, 10e9), 5 + 10 * SECOND);
}

#[test]
fn neighbour_uses_its_share_of_the_quota_even_when_idle() {
    let seed = seed_where(true);
    let begin = begins(0, seed);
    let mut machine = of_seed(beside(QUOTA), 0, seed);
    assert!((machine.capacity_cores(0) - 0.1).abs() < 1e-12);
    assert!((machine.allocation_cores() - 0.15).abs() < 1e-12);
    // The speed is halved until the quota is used up.
    assert_near(end_of(&mut machine, begin, 5e6), begin + 10 * MS);
    let next = begin + PERIOD;
    assert_near(end_of(&mut machine, next, 15e6), next + PERIOD + 10 * MS);
    // The neighbour used up the quota without the replica.
    let idle = begin + 5 * PERIOD;
    assert_near(
        end_of(&mut machine, idle + 30 * MS, 5e6),
        idle + PERIOD + 10 * MS,
    );
    // The neighbour's use does not count as the replica's.
    let used = machine.cpu_seconds(begin + 9 * PERIOD);
    assert!((used - 0.025).abs() < 1e-7, "{used}");

    let seed = seed_where(false);
    let begin = begins(0, seed);
    let mut machine = of_seed(beside(QUOTA), 0, seed);
    assert!((machine.capacity_cores(0) - 0.2).abs() < 1e-12);
    assert_near(end_of(&mut machine, begin, 15e6), begin + 15 * MS);
}

#[test]
fn neighbours_alternate_with_the_given_durations() {
    let stream = |replica| Stream::new(1, Purpose::Quota, replica);
    let mut neighbour = quota::Neighbour::new(NEIGHBOUR, stream(0));
    let (mut before, mut sum) = (neighbour.next_change, 0.0);
    for turn in 0..10_000 {
        let was_there = neighbour.is_there;
        neighbour.step();
        assert_ne!(neighbour.is_there, was_there, "{turn}");
        let lasted = (neighbour.next_change - before) as f64 / 1e9;
        assert!((1.0..=3.0).contains(&lasted), "{lasted}");
        sum += lasted;
        before = neighbour.next_change;
    }
    // The bound is five deviations, of 0.577 s each.
    assert!((sum / 1e4 - 2.0).abs() < 0.03, "{sum}");

    let all = (0..10_000).map(|replica| quota::Neighbour::new(NEIGHBOUR, stream(replica)));
    let (mut there, mut rest) = (0, 0.0);
    for neighbour in all {
        there += i32::from(neighbour.is_there);
        rest += neighbour.next_change as f64 / 1e9;
    }
    assert!((there - 5_000_i32).abs() < 250, "{there}");
    // The mean rest of an interval from a random moment in it: E[L²] / 2 E[L] = 13/12 s, with a
    // deviation of 0.70 s.
    assert!((rest / 1e4 - 13.0 / 12.0).abs() < 0.035, "{rest}");
}

#[test]
fn periods_and_neighbours_depend_only_on_seed_replica_and_time() {
    let neighbour = Some(NEIGHBOUR);
    let after = |replica, seed, work: f64, every: u64| {
        let mut machine = of_seed(group(Quota { neighbour, ..QUOTA }), replica, seed);
        for (job, now) in (0..).zip((0..20).map(|count| count * every)) {
            advance_until(&mut machine, now);
            machine.arrive(now, JobId(job), work);
        }
        advance_until(&mut machine, 20 * SECOND);
        machine.clear(20 * SECOND);
        events(machine, 20 * SECOND + 150 * MS)
    };
    let found = after(0, 1, 1e6, 900 * MS);
    assert_eq!(found, after(0, 1, 300e6, 10 * MS), "whatever is sent");
    assert_ne!(found, after(1, 1, 1e6, 900 * MS));
    assert_ne!(found, after(0, 2, 1e6, 900 * MS));

    // Each replica begins at a random point of its period.
    let phases: Vec<_> = (0..100)
        .map(|replica| begins(replica, 1) % PERIOD)
        .collect();
    let different: BTreeSet<_> = phases.iter().collect();
    assert_eq!(different.len(), 100);
    // Binomial: 25 with a deviation of 4.3.
    for quarter in 0..4 {
        let within = |phase: &&Time| **phase / (PERIOD / 4) == quarter;
        let count = phases.iter().filter(within).count();
        assert!((7..=43).contains(&count), "{count}");
    }
}

#[test]
fn estimate_is_exact_without_later_arrivals() {
    let wide = Quota {
        cpu: Duration::from_millis(150),
        at_once: 2.5,
        ..QUOTA
    };
    let narrow = Quota {
        cpu: Duration::from_millis(2),
        period: Duration::from_millis(10),
        ..QUOTA
    };
    let hobble = Some(Hobble {
        from: Duration::ZERO,
        until: Duration::MAX,
        capacity: 0.5,
        latency: None,
    });
    for quota in [QUOTA, wide, narrow] {
        for (there, hobble) in [(true, None), (false, None), (false, hobble)] {
            let seed = seed_where(there);
            let mut machine = of_seed(
                Group {
                    slowness: 1.5,
                    hobble,
                    ..beside(quota)
                },
                0,
                seed,
            );
            let mut stream = Stream::new(13, Purpose::Cost, 0);
            let mut now = 0;
            for job in (0..300).map(JobId) {
                now += u64::from(stream.below(90_000_000));
                advance_until(&mut machine, now);
                if stream.below(5) == 0 {
                    let until = now + u64::from(stream.below(250_000_000));
                    machine.suspend(now, until);
                }
                let work = stream.exponential(5e6);
                let estimate = machine.finish_estimate(now, work);
                machine.arrive(now, job, work);
                let ends = drain(&mut machine.clone());
                let end = ends.iter().find(|(ended, _)| *ended == job).unwrap().1;
                let late = (end - now) as f64 - estimate;
                // Each period may be off by the delay until the machine is throttled.
                let periods = estimate / nanoseconds(quota.period);
                assert!(
                    late.abs() < 1_000.0 + 4.0 * periods,
                    "{late} ns after {estimate}, {job:?} of {quota:?} {there}"
                );
            }
        }
    }
}

#[test]
fn cpu_use_adds_up_and_stays_within_the_quota() {
    let begin = begins(0, 1);
    let mut machine = limited(QUOTA);
    let mut stream = Stream::new(11, Purpose::Cost, 0);
    let (mut now, mut sent) = (0.0, 0.0);
    for job in (0..5_000).map(JobId) {
        now += stream.exponential(50e6);
        let at = crate::machine::running::whole(now);
        advance_until(&mut machine, at);
        let work = stream.exponential(5e6);
        sent += work;
        machine.arrive(at, job, work);
    }
    let end = drain(&mut machine).last().expect("some are left").1;
    let used = machine.cpu_seconds(end) * 1e9;
    // Every end is rounded up to whole nanoseconds.
    assert!((0.0..10_000.0).contains(&(used - sent)), "{sent} {used}");

    let mut busy = limited(QUOTA);
    advance_until(&mut busy, begin);
    busy.arrive(begin, JobId(0), 1_000e9);
    for period in 1..100 {
        let now = begin + period * PERIOD;
        advance_until(&mut busy, now);
        let (used, waited) = (busy.cpu_seconds(now), busy.waited_seconds(now));
        let over = used - 0.02 * period as f64;
        assert!((-1e-12..4e-9 * period as f64).contains(&over), "{over}");
        assert!((used + waited - 0.1 * period as f64).abs() < 1e-9);
    }
}

#[test]
fn hobble_slows_work_but_not_quota_use() {
    let hobbled = Group {
        hobble: Some(Hobble {
            from: Duration::ZERO,
            until: Duration::MAX,
            capacity: 0.5,
            latency: None,
        }),
        ..group(QUOTA)
    };
    let begin = begins(0, 1);
    let mut machine = of_seed(hobbled, 0, 1);
    assert!((machine.capacity_cores(0) - 0.1).abs() < 1e-12);
    assert_near(end_of(&mut machine, begin, 15e6), begin + PERIOD + 10 * MS);
    let used = machine.cpu_seconds(begin + 2 * PERIOD);
    assert!((used - 0.03).abs() < 1e-7, "{used}");
}

#[test]
fn no_query_starts_while_the_quota_is_used_up() {
    let begin = begins(0, 1);
    let mut machine = limited(QUOTA);
    machine.note_starts();
    advance_until(&mut machine, begin);
    machine.arrive(begin, JobId(0), 50e6);
    advance_until(&mut machine, begin + 30 * MS);
    let mut started = Vec::new();
    machine.arrive(begin + 30 * MS, JobId(1), 1e6);
    machine.take_started(&mut started);
    assert_eq!(started, []);
    advance_until(&mut machine, begin + PERIOD);
    machine.take_started(&mut started);
    assert_eq!(started, [JobId(0), JobId(1)]);
}
