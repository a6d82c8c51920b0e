//! Allocation, bucket and contention, with values computed by hand, and the state that idle
//! machines keep.

use super::{MS, SECOND, advance_until, drain, machine};
use crate::machine::{JobId, Machine};
use crate::scenario::{Group, Service, Sharing};

/// Two cores, a bucket of one core-second, bursts up to six cores, a tenth lost while held.
const SHARING: Sharing = Sharing {
    cores: 2.0,
    bucket: 1.0,
    burst: 3.0,
    contention_loss: 0.1,
};

fn shared(sharing: Sharing) -> Machine {
    machine(Group::healthy(1, Service::Shared(sharing)))
}

/// Sends `count` queries of 10 s of work, numbered from `first`.
fn send(machine: &mut Machine, now: u64, first: u32, count: u32) {
    for job in first..first + count {
        machine.arrive(now, JobId(job), 10e9);
    }
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-7, "{found}, not {expected}");
}

#[test]
fn bucket_drains_by_the_excess_then_the_replica_is_throttled() {
    let mut machine = shared(SHARING);
    send(&mut machine, 0, 0, 5);
    // Five cores are three too many: 1 core-second lasts a third of a second.
    assert_eq!(machine.next_event(), 333_333_334);
    assert_close(machine.capacity_cores(0), 2.0);
    advance_until(&mut machine, SECOND);
    assert_close(machine.capacity_cores(SECOND), 1.8);
    // Five cores for a third of a second, two for the rest.
    assert_close(machine.cpu_seconds(SECOND), 5.0 / 3.0 + 4.0 / 3.0);
    // 1/3 s of the 10 s of work is done. While the replica is held, each query has 1.8 / 5 of a
    // core.
    let ends = drain(&mut machine);
    assert_eq!(ends.len(), 5);
    assert_close(
        ends[0].1 as f64 / 1e9,
        1.0 / 3.0 + (10.0 - 1.0 / 3.0) / 0.36,
    );
}

#[test]
fn burst_is_limited() {
    let mut machine = shared(SHARING);
    send(&mut machine, 0, 0, 20);
    // At most six cores are used, four too many.
    assert_eq!(machine.next_event(), 250 * MS);
    assert_close(machine.cpu_seconds(200 * MS), 1.2);
}

#[test]
fn throttled_replica_recovers_only_below_its_capacity() {
    let mut machine = shared(SHARING);
    send(&mut machine, 0, 0, 5);
    advance_until(&mut machine, SECOND);
    for job in 0..3 {
        machine.cancel(SECOND, JobId(job));
    }
    // There are as many queries as cores, so the replica is still held.
    assert_close(machine.capacity_cores(SECOND), 1.8);
    machine.cancel(SECOND, JobId(3));
    assert_close(machine.capacity_cores(SECOND), 2.0);
    // One core is unused: half a core-second within half a second, which then lasts a sixth.
    let later = SECOND + 500 * MS;
    advance_until(&mut machine, later);
    send(&mut machine, later, 5, 4);
    assert_eq!(machine.next_event(), later + 166_666_667);
    assert_close(machine.cpu_seconds(later), 3.0 + 0.5);
}

#[test]
fn bucket_refills_up_to_its_size() {
    let mut machine = shared(SHARING);
    send(&mut machine, 100 * SECOND, 0, 5);
    assert_eq!(machine.next_event(), 100 * SECOND + 333_333_334);
}

#[test]
fn replica_within_its_capacity_is_never_throttled() {
    let mut machine = shared(SHARING);
    send(&mut machine, 0, 0, 2);
    assert_eq!(machine.next_event(), 10 * SECOND);
    assert_close(machine.cpu_seconds(5 * SECOND), 10.0);
}

#[test]
fn without_a_bucket_replica_is_throttled_at_once() {
    let mut machine = shared(Sharing {
        bucket: 0.0,
        ..SHARING
    });
    send(&mut machine, 0, 0, 3);
    assert_close(machine.capacity_cores(0), 1.8);
    assert_close(machine.cpu_seconds(SECOND), 2.0);
    assert_close(drain(&mut machine)[0].1 as f64 / 1e9, 10.0 / 0.6);
}

#[test]
fn contention_costs_work_and_is_counted_as_used() {
    let mut machine = shared(SHARING);
    send(&mut machine, 0, 0, 5);
    let ends = drain(&mut machine);
    let end = ends[4].1;
    let held = end as f64 / 1e9 - 1.0 / 3.0;
    // 50 core-seconds of work, and the loss of two cores while the replica was held.
    assert_close(machine.cpu_seconds(end), 50.0 + 0.2 * held);
}

#[test]
fn zero_work_ends_at_once() {
    let mut machine = shared(SHARING);
    send(&mut machine, 0, 0, 7);
    advance_until(&mut machine, SECOND);
    machine.arrive(SECOND, JobId(9), 0.0);
    assert_eq!(machine.next_event(), SECOND);
    assert_eq!(advance_until(&mut machine, SECOND), [(JobId(9), SECOND)]);
}

#[test]
fn cancelled_job_leaves_its_share_to_the_others() {
    let mut machine = shared(Sharing {
        cores: 1.0,
        burst: 1.0,
        contention_loss: 0.0,
        ..SHARING
    });
    send(&mut machine, 0, 0, 2);
    machine.cancel(4 * SECOND, JobId(0));
    machine.cancel(4 * SECOND, JobId(77));
    assert_eq!(machine.jobs(), 1);
    // Two of ten seconds were done.
    assert_eq!(drain(&mut machine), [(JobId(1), 12 * SECOND)]);
}

#[test]
fn crash_clears_all_jobs_but_not_used_cpu() {
    let mut machine = shared(SHARING);
    send(&mut machine, 0, 0, 5);
    advance_until(&mut machine, SECOND);
    machine.clear(SECOND);
    assert_eq!((machine.jobs(), machine.next_event()), (0, u64::MAX));
    assert_close(machine.cpu_seconds(3 * SECOND), 3.0);
    send(&mut machine, 3 * SECOND, 5, 1);
    assert_eq!(drain(&mut machine), [(JobId(5), 13 * SECOND)]);
}

#[test]
fn cpu_wait_of_running_queries_is_counted() {
    let mut machine = shared(SHARING);
    send(&mut machine, 0, 0, 5);
    assert_close(machine.waited_seconds(333 * MS), 0.0);
    advance_until(&mut machine, SECOND);
    // Held at two cores of five for two thirds of a second.
    assert_close(machine.waited_seconds(SECOND), 2.0);
    (0..3).for_each(|job| machine.cancel(SECOND, JobId(job)));
    assert_close(machine.waited_seconds(3 * SECOND), 2.0);
    // A burst ends at six cores.
    let mut machine = shared(SHARING);
    send(&mut machine, 0, 0, 20);
    assert_close(machine.waited_seconds(200 * MS), 14.0 * 0.2);
}

#[test]
fn queued_or_suspended_query_does_not_wait_for_cpu() {
    let mut queued = machine(Group::healthy(1, Service::Fifo { workers: 1 }));
    send(&mut queued, 0, 0, 5);
    assert_close(queued.waited_seconds(SECOND), 0.0);
    let mut suspended = shared(SHARING);
    send(&mut suspended, 0, 0, 20);
    suspended.suspend(0, SECOND);
    assert_close(suspended.waited_seconds(SECOND), 0.0);
    advance_until(&mut suspended, SECOND);
    assert!(suspended.waited_seconds(2 * SECOND) > 10.0);
}
