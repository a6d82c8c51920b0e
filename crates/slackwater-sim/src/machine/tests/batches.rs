//! Batches: what waits is taken together, and its time grows with its size.

use super::{MS, SECOND, advance_until, drain, machine, scenario, sojourns};
use crate::machine::{JobId, Machine};
use crate::scenario::{Batching, Group, Hobble, Service};
use core::time::Duration;

fn batches(max: usize, added: f64) -> Service {
    Service::Batch(Batching { max, added })
}

fn server(max: usize, added: f64) -> Machine {
    machine(Group::healthy(1, batches(max, added)))
}

/// Work of 10 ms.
const WORK: f64 = 1e7;

#[test]
fn queries_that_wait_are_served_together() {
    let mut server = server(3, 0.5);
    for job in 0..5 {
        server.arrive(0, JobId(job), WORK);
    }
    assert_eq!(server.jobs(), 5);
    // The first is alone, as it found the server idle: 10 ms. Then three, which take 10 ms times 1
    // + 2 · 0.5, and the last one.
    let ends: Vec<_> = drain(&mut server)
        .into_iter()
        .map(|(job, end)| (job.0, end / MS))
        .collect();
    assert_eq!(ends, [(0, 10), (1, 30), (2, 30), (3, 30), (4, 40)]);
}

#[test]
fn batch_takes_the_mean_of_its_costs() {
    let mut server = server(2, 0.0);
    server.arrive(0, JobId(0), WORK);
    server.arrive(0, JobId(1), WORK);
    server.arrive(0, JobId(2), 3.0 * WORK);
    let ends: Vec<_> = drain(&mut server).into_iter().map(|(_, end)| end).collect();
    assert_eq!(ends, [10 * MS, 30 * MS, 30 * MS]);
}

/// A hundred queries a second more than the capacity of whole batches wait longer and longer; ten
/// less do not.
#[test]
fn whole_batches_serve_the_stated_capacity() {
    let batching = Batching { max: 4, added: 0.2 };
    // 4 / 1.6 queries in 10 ms.
    assert!((batching.capacity() - 2.5).abs() < 1e-12);
    let last_ms = |per_second: f64| {
        let mut server = server(batching.max, batching.added);
        let took = sojourns(&mut server, 20_000, || (1e9 / per_second, WORK));
        took[took.len() - 1] / 1e6
    };
    assert!(last_ms(240.0) < 40.0);
    assert!(last_ms(260.0) > 1_000.0);
}

#[test]
fn canceled_queries_leave_the_queue_and_the_batch() {
    let mut server = server(2, 0.5);
    for job in 0..4 {
        server.arrive(0, JobId(job), WORK);
    }
    server.cancel(MS, JobId(1));
    server.cancel(MS, JobId(0));
    // The batch is empty, so the next one begins.
    assert_eq!(
        drain(&mut server),
        [(JobId(2), 16 * MS), (JobId(3), 16 * MS)]
    );
    server.arrive(SECOND, JobId(5), WORK);
    server.arrive(SECOND, JobId(6), WORK);
    server.clear(SECOND);
    assert_eq!((server.jobs(), drain(&mut server).len()), (0, 0));
}

#[test]
fn estimate_is_the_end_of_the_batch_that_a_query_joins() {
    for waiting in 0..7 {
        let mut server = server(3, 0.5);
        for job in 0..=waiting {
            server.arrive(0, JobId(job), WORK * f64::from(job + 1));
        }
        advance_until(&mut server, 4 * MS);
        let estimate = server.finish_estimate(4 * MS, 5.0 * WORK);
        server.arrive(4 * MS, JobId(99), 5.0 * WORK);
        let ends = drain(&mut server);
        let (_, end) = *ends.last().expect("it ends last");
        assert!((estimate - (end - 4 * MS) as f64).abs() < 10.0, "{waiting}");
    }
}

#[test]
fn hobbled_server_of_batches_is_slower() {
    let mut group = Group::healthy(1, batches(2, 0.0));
    group.hobble = Some(Hobble {
        from: Duration::ZERO,
        until: Duration::MAX,
        capacity: 0.5,
        latency: None,
    });
    let mut server = Machine::new(&scenario(group), 0, 1);
    assert!((server.capacity_cores(0) - 1.0).abs() < 1e-12);
    server.arrive(0, JobId(0), WORK);
    assert_eq!(drain(&mut server), [(JobId(0), 20 * MS)]);
    // One device was in use, whatever the size of its batches.
    assert!((server.cpu_seconds(20 * MS) - 0.02).abs() < 1e-9);
}
