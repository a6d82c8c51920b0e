//! Slow replicas, cold starts, stalls, hobbles, waits, queues and replayed latencies.

use super::{MS, SECOND, advance_until, cores, drain, machine, scenario};
use crate::machine::{JobId, Machine, NEVER};
use crate::scenario::{Group, Hobble, Mix, Service, Stall};
use core::time::Duration;
use std::collections::BTreeSet;

const JOB: JobId = JobId(0);

/// Returns how long work of 100 ms takes on an otherwise idle machine of this group, at `now`.
fn takes(group: Group, now: u64) -> u64 {
    let mut machine = machine(group);
    advance_until(&mut machine, now);
    machine.arrive(now, JOB, 100e6);
    drain(&mut machine)[0].1 - now
}

fn fifo() -> Service {
    Service::Fifo { workers: 1 }
}

#[test]
fn queries_cost_more_on_a_slow_replica() {
    for service in [cores(4.0), fifo(), Service::Latency] {
        let group = Group {
            slowness: 2.5,
            ..Group::healthy(1, service)
        };
        assert_eq!(takes(group, 0), 250 * MS);
    }
}

#[test]
fn cold_replica_warms_up_linearly() {
    let mut machine = machine(Group::healthy(1, cores(4.0)));
    machine.begin_cold(SECOND, 3.0, 2 * SECOND);
    assert!((machine.speed(SECOND) - 1.0 / 3.0).abs() < 1e-12);
    for (after, expected) in [
        (0, 300),
        (500, 250),
        (1_000, 200),
        (2_000, 100),
        (9_000, 100),
    ] {
        let now = SECOND + after * MS;
        machine.arrive(now, JOB, 100e6);
        assert_eq!(drain(&mut machine), [(JOB, now + expected * MS)]);
    }
}

#[test]
fn cold_start_of_zero_length_has_no_effect() {
    let mut machine = machine(Group::healthy(1, cores(4.0)));
    machine.begin_cold(0, 3.0, 0);
    machine.arrive(0, JOB, 100e6);
    assert_eq!(drain(&mut machine), [(JOB, 100 * MS)]);
}

fn stalling(service: Service) -> Group {
    Group {
        stall: Some(Stall {
            every: Duration::from_secs(1),
            regular: false,
            lasts: Duration::from_millis(50),
        }),
        ..Group::healthy(1, service)
    }
}

#[test]
fn stall_stops_all_work_and_uses_no_cpu() {
    for service in [cores(1.0), fifo(), Service::Latency] {
        let latency = matches!(service, Service::Latency);
        let mut machine = machine(stalling(service));
        machine.arrive(0, JOB, 1_000e9);
        // The first edge is the beginning of the first stall.
        let begins = machine.next_event();
        let mut finished = Vec::new();
        machine.advance(begins, &mut finished);
        assert_eq!(machine.next_event(), begins + 50 * MS);
        assert!(machine.capacity_cores(begins).abs() < 1e-12);
        // Even work of zero waits for the end of the stall.
        machine.arrive(begins, JobId(1), 0.0);
        assert_eq!(machine.next_event(), begins + 50 * MS);
        let used = machine.cpu_seconds(begins);
        let after = machine.cpu_seconds(begins + 49 * MS);
        assert_eq!(used.to_bits(), after.to_bits());
        assert_eq!(used > 0.0, !latency);
    }
}

#[test]
fn stalls_have_the_given_rate_and_length() {
    let mut machine = machine(stalling(cores(1.0)));
    machine.arrive(0, JOB, 10_000e9);
    let end = drain(&mut machine)[0].1;
    // During 10,000 s of work there is a Poisson number of stalls, 10,000 +- 100, of 50 ms each.
    let stalls = (end as f64 / 1e9 - 10_000.0) / 0.05;
    assert!((stalls - 10_000.0).abs() < 400.0, "{stalls}");
}

#[test]
fn regular_stalls_are_periodic() {
    let mut group = stalling(cores(1.0));
    group.stall.as_mut().expect("it stalls").regular = true;
    let mut machine = machine(group);
    machine.arrive(0, JOB, 1_000e9);
    let mut edges = Vec::new();
    for _ in 0..6 {
        let edge = machine.next_event();
        edges.push(edge);
        machine.advance(edge, &mut Vec::new());
    }
    assert!(edges[0] <= SECOND, "{edges:?}");
    let lasted: Vec<_> = edges.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(lasted, [50 * MS, SECOND, 50 * MS, SECOND, 50 * MS]);
}

#[test]
fn suspended_machine_does_no_work_until_it_resumes() {
    for service in [cores(1.0), fifo(), Service::Latency] {
        let mut machine = machine(Group::healthy(1, service));
        machine.arrive(0, JOB, 100e6);
        machine.suspend(40 * MS, SECOND);
        machine.suspend(50 * MS, 2 * SECOND);
        machine.suspend(60 * MS, SECOND);
        assert!(machine.capacity_cores(60 * MS).abs() < 1e-12);
        let rest = machine.finish_estimate(60 * MS, 0.0);
        assert!(rest >= 1.94e9, "{rest}");
        assert_eq!(drain(&mut machine), [(JOB, 2_060 * MS)]);
        machine.suspend(3 * SECOND, 9 * SECOND);
        machine.clear(4 * SECOND);
        machine.arrive(4 * SECOND, JOB, 100e6);
        assert_eq!(drain(&mut machine), [(JOB, 4_100 * MS)], "a new process");
    }
}

#[test]
fn stall_times_differ_by_replica_and_seed() {
    let scenario = scenario(Group {
        count: 2,
        ..stalling(cores(1.0))
    });
    let first_stall = |replica, seed| {
        let mut machine = Machine::new(&scenario, replica, seed);
        machine.arrive(0, JOB, 1_000e9);
        machine.next_event()
    };
    assert_eq!(first_stall(0, 1), first_stall(0, 1));
    assert_ne!(first_stall(0, 1), first_stall(1, 1));
    assert_ne!(first_stall(0, 1), first_stall(0, 2));
}

#[test]
fn estimate_within_a_stall_starts_after_it() {
    let mut machine = machine(stalling(fifo()));
    machine.arrive(0, JOB, 1_000e9);
    let begins = machine.next_event();
    let before = machine.finish_estimate(begins - 1, 1e6);
    let within = machine.finish_estimate(begins + 10 * MS, 1e6);
    assert!((within - before - 40e6).abs() < 2.0, "{before} {within}");
}

fn hobbled(service: Service, latency: Option<Duration>) -> Group {
    Group {
        hobble: Some(Hobble {
            from: Duration::from_secs(10),
            until: Duration::from_secs(20),
            capacity: 0.25,
            latency,
        }),
        ..Group::healthy(1, service)
    }
}

#[test]
fn hobble_reduces_capacity_for_its_duration() {
    for (service, before, within) in [
        (cores(4.0), 4.0, 1.0),
        (Service::Fifo { workers: 2 }, 2.0, 0.5),
        (Service::Latency, 1.0, 0.25),
    ] {
        let mut machine = machine(hobbled(service, None));
        for (now, expected) in [
            (0, before),
            (10 * SECOND - 1, before),
            (10 * SECOND, within),
            (20 * SECOND - 1, within),
            (20 * SECOND, before),
        ] {
            assert!((machine.capacity_cores(now) - expected).abs() < 1e-12);
        }
    }
}

#[test]
fn hobble_slows_the_rest_of_a_running_query() {
    for service in [cores(1.0), fifo(), Service::Latency] {
        let group = || hobbled(service.clone(), None);
        assert_eq!(takes(group(), 9 * SECOND), 100 * MS);
        assert_eq!(takes(group(), 10 * SECOND - 50 * MS), 250 * MS);
        assert_eq!(takes(group(), 15 * SECOND), 400 * MS);
        assert_eq!(takes(group(), 20 * SECOND - 200 * MS), 250 * MS);
        assert_eq!(takes(group(), 20 * SECOND), 100 * MS);
    }
}

#[test]
fn hobble_latency_applies_to_queries_that_arrive_within_it() {
    let trace = Service::LatencyTrace([Duration::from_millis(100)].into());
    for service in [Service::Latency, trace] {
        let group = || hobbled(service.clone(), Some(Duration::from_secs(3)));
        assert_eq!(takes(group(), 10 * SECOND - 1), 100 * MS);
        assert_eq!(takes(group(), 10 * SECOND), 3 * SECOND);
        assert_eq!(takes(group(), 20 * SECOND - 1), 3 * SECOND);
        assert_eq!(takes(group(), 20 * SECOND), 100 * MS);
    }
}

#[test]
fn io_wait_precedes_work_and_counts_as_in_flight() {
    let mut machine = machine(Group {
        io_wait: Duration::from_millis(80),
        ..Group::healthy(1, fifo())
    });
    let mut waits = 0.0;
    for round in 0..2_000 {
        let now = round * SECOND;
        machine.arrive(now, JOB, 5e6);
        assert_eq!(machine.jobs(), 1);
        let [(_, end)] = drain(&mut machine)[..] else {
            panic!("one job, one end")
        };
        let wait = end - now - 5 * MS;
        assert!(wait <= 80 * MS);
        waits += wait as f64 / 1e6;
    }
    // Uniform up to 80 ms: mean 40, deviation 23.1. The deviation of the mean of 2,000 is 0.52.
    assert!((waits / 2_000.0 - 40.0).abs() < 2.1, "{waits}");
    // Waiting uses no CPU.
    let used = machine.cpu_seconds(3_000 * SECOND);
    assert!((used - 10.0).abs() < 1e-6, "{used}");
}

#[test]
fn query_wait_precedes_replica_wait_and_work() {
    let mut scenario = scenario(Group::healthy(1, fifo()));
    scenario.load.mix = Some(Mix {
        shares: [1.0, 1.0],
        turn: Duration::from_secs(1),
        io_wait: Duration::from_secs(1),
        cost: 1.0,
    });
    let mut machine = Machine::new(&scenario, 0, 1);
    machine.arrive_waiting(0, JobId(0), 5e6, 70 * MS, NEVER);
    machine.arrive_waiting(0, JobId(1), 5e6, 0, NEVER);
    assert_eq!(machine.jobs(), 2);
    assert_eq!(
        drain(&mut machine),
        [(JobId(1), 5 * MS), (JobId(0), 75 * MS)]
    );
    scenario.fleet[0].io_wait = Duration::from_millis(10);
    let mut machine = Machine::new(&scenario, 0, 1);
    machine.arrive_waiting(0, JobId(0), 5e6, 70 * MS, NEVER);
    let [(_, end)] = drain(&mut machine)[..] else {
        panic!("one job, one end")
    };
    assert!((75 * MS + 1..=85 * MS).contains(&end), "{end}");
}

#[test]
fn query_can_be_cancelled_in_any_state() {
    let mut machine = machine(Group {
        io_wait: Duration::from_millis(10),
        ..Group::healthy(1, fifo())
    });
    (0..3).for_each(|job| machine.arrive(0, JobId(job), 100e6));
    let first = advance_until(&mut machine, 50 * MS);
    assert_eq!((machine.jobs(), first.len()), (3, 0));
    // One query is in service, two are in the queue, and one waits before its work.
    machine.arrive(50 * MS, JobId(3), 100e6);
    machine.cancel(50 * MS, JobId(3));
    assert_eq!(machine.jobs(), 3);
    machine.cancel(60 * MS, JobId(0));
    machine.cancel(60 * MS, JobId(1));
    assert_eq!(machine.jobs(), 1);
    let ends = drain(&mut machine);
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].0, JobId(2));
}

#[test]
fn crash_clears_queries_in_any_state() {
    let mut machine = machine(Group {
        io_wait: Duration::from_millis(10),
        ..Group::healthy(1, fifo())
    });
    (0..3).for_each(|job| machine.arrive(0, JobId(job), 100e6));
    advance_until(&mut machine, 50 * MS);
    machine.arrive(50 * MS, JobId(3), 100e6);
    machine.clear(50 * MS);
    assert_eq!((machine.jobs(), machine.next_event()), (0, NEVER));
}

#[test]
fn estimate_includes_hobble_and_waiting_jobs() {
    for (service, expected) in [
        // Two jobs of 100 ms and one of 60 at a quarter of the speed: sharing, one after another,
        // and in parallel.
        (cores(1.0), 720e6),
        (fifo(), 1_040e6),
        (Service::Latency, 240e6),
    ] {
        let mut machine = machine(Group {
            io_wait: Duration::from_nanos(1),
            ..hobbled(service, None)
        });
        let now = 10 * SECOND;
        machine.arrive(now, JobId(0), 100e6);
        advance_until(&mut machine, now + 1);
        machine.arrive(now + 1, JobId(1), 100e6);
        let estimate = machine.finish_estimate(now + 1, 60e6);
        assert!((estimate - expected).abs() < 10.0, "{estimate}");
    }
}

#[test]
fn workers_serve_in_order_of_arrival() {
    let mut machine = machine(Group::healthy(1, Service::Fifo { workers: 2 }));
    for (job, work) in (0..).map(JobId).zip([30e6, 10e6, 10e6, 0.0, 5e6]) {
        machine.arrive(0, job, work);
    }
    let order = [(1, 10), (2, 20), (3, 20), (4, 25), (0, 30)];
    assert_eq!(
        drain(&mut machine),
        order.map(|(job, at)| (JobId(job), at * MS))
    );
    assert!((machine.allocation_cores() - 2.0).abs() < 1e-12);
}

#[test]
fn replayed_latencies_have_no_queue_and_use_no_cpu() {
    let mut machine = machine(Group::healthy(1, Service::Latency));
    (0..50).for_each(|job| machine.arrive(0, JobId(job), 40e6));
    assert_eq!(machine.next_event(), 40 * MS);
    assert_eq!(drain(&mut machine).len(), 50);
    assert!(machine.cpu_seconds(SECOND).abs() < 1e-12);
}

#[test]
fn latency_trace_replaces_the_cost() {
    let trace = [7, 11, 13].map(Duration::from_millis);
    let mut machine = machine(Group::healthy(1, Service::LatencyTrace(trace.into())));
    let mut seen = BTreeSet::new();
    for round in 0..50 {
        let now = round * SECOND;
        let estimate = machine.finish_estimate(now, 1e9);
        machine.arrive(now, JOB, 1e9);
        let took = drain(&mut machine)[0].1 - now;
        assert!((took as f64 - estimate).abs() < 1.0);
        seen.insert(took);
    }
    assert_eq!(seen, BTreeSet::from([7, 11, 13].map(|ms| ms * MS)));
}
