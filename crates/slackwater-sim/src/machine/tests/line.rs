//! A replica's own queue: its limit, its order, and what it rejects.

use super::{MS, advance_until, cores, drain, machine, sojourns};
use crate::machine::{JobId, Machine, NEVER, Time};
use crate::random::{Purpose, Stream};
use crate::scenario::{Group, Order, Queueing, Service};

const ORDERS: [Order; 3] = [Order::Arrival, Order::Shortest, Order::ShortestRemaining];

fn queued(of: f64, at_once: usize, order: Order, drops_late: bool) -> Machine {
    machine(Group {
        queue: Some(Queueing {
            at_once,
            order,
            drops_late,
        }),
        ..Group::healthy(1, cores(of))
    })
}

/// Adds queries at once, with this many milliseconds of work each.
fn arrive(machine: &mut Machine, now: Time, first: u32, works_ms: &[u32]) {
    for (job, work_ms) in (first..).zip(works_ms) {
        machine.arrive(now, JobId(job), f64::from(*work_ms) * 1e6);
    }
}

/// Returns the ends in milliseconds, in their order.
fn ends_ms(ends: Vec<(JobId, Time)>) -> Vec<(u32, Time)> {
    let ends = ends.into_iter();
    ends.map(|(job, end)| (job.0, end / MS)).collect()
}

#[test]
fn queries_beyond_the_limit_wait_in_order_of_arrival() {
    let mut server = queued(2.0, 2, Order::Arrival, false);
    arrive(&mut server, 0, 0, &[30, 20, 20, 10]);
    assert_eq!(server.jobs(), 4);
    assert_eq!(
        ends_ms(drain(&mut server)),
        [(1, 20), (0, 30), (2, 40), (3, 40)]
    );
    // A limit above the number of cores shares them.
    let mut server = queued(1.0, 2, Order::Arrival, false);
    arrive(&mut server, 0, 0, &[10, 10, 10]);
    assert_eq!(ends_ms(drain(&mut server)), [(0, 20), (1, 20), (2, 30)]);
}

#[test]
fn shortest_query_is_next_and_interrupts_none() {
    let mut server = queued(1.0, 1, Order::Shortest, false);
    arrive(&mut server, 0, 0, &[30, 20, 5, 5]);
    assert_eq!(
        ends_ms(drain(&mut server)),
        [(0, 30), (2, 35), (3, 40), (1, 60)]
    );
}

#[test]
fn longer_query_gives_way_and_keeps_its_progress() {
    let mut server = queued(1.0, 1, Order::ShortestRemaining, false);
    arrive(&mut server, 0, 0, &[30]);
    assert_eq!(advance_until(&mut server, 10 * MS), []);
    // The first still needs 20 ms: less than the second, more than the third.
    arrive(&mut server, 10 * MS, 1, &[25, 15]);
    assert_eq!(ends_ms(drain(&mut server)), [(2, 25), (0, 45), (1, 70)]);
}

#[test]
fn query_that_would_be_late_is_rejected_at_its_turn() {
    for (drops_late, rejected, ends) in [
        (true, vec![JobId(1)], vec![(0, 20), (2, 30)]),
        (false, vec![], vec![(0, 20), (1, 30), (2, 40)]),
    ] {
        let mut server = queued(1.0, 1, Order::Arrival, drops_late);
        for (job, work, due) in [(0, 20, NEVER), (1, 10, 30 * MS - 1), (2, 10, 30 * MS)] {
            server.arrive_waiting(0, JobId(job), f64::from(work) * 1e6, 0, due);
        }
        assert_eq!(server.take_rejected(), [], "none has had its turn");
        assert_eq!(ends_ms(drain(&mut server)), ends);
        assert_eq!(server.take_rejected(), rejected);
        assert_eq!(server.take_rejected(), [], "each once");
    }
    // An idle server looks at once.
    let mut server = queued(1.0, 1, Order::Arrival, true);
    server.arrive_waiting(0, JobId(0), 1e7, 0, MS);
    assert_eq!((server.take_rejected().len(), server.jobs()), (1, 0));
}

#[test]
fn query_that_gave_way_is_not_rejected() {
    let mut server = queued(1.0, 1, Order::ShortestRemaining, true);
    server.arrive_waiting(0, JobId(0), 3e7, 0, 31 * MS);
    server.arrive_waiting(0, JobId(1), 1e7, 0, NEVER);
    assert_eq!(ends_ms(drain(&mut server)), [(1, 10), (0, 40)]);
    assert_eq!(server.take_rejected(), []);
}

#[test]
fn limit_of_one_is_a_single_worker() {
    let took = |mut server: Machine| {
        let mut draws = Stream::new(5, Purpose::Arrivals, 0);
        sojourns(&mut server, 20_000, || {
            (draws.exponential(1.4e7), draws.exponential(1e7))
        })
    };
    let worker = took(machine(Group::healthy(1, Service::Fifo { workers: 1 })));
    let limited = took(queued(1.0, 1, Order::Arrival, false));
    for (a, b) in worker.iter().zip(&limited) {
        assert!((a - b).abs() <= 2.0, "{a} {b}");
    }
    // Less of the work in progress is work of queries that others wait for.
    let mean = |took: &[f64]| took.iter().sum::<f64>() / took.len() as f64;
    let [fifo, shortest, remaining] = ORDERS.map(|order| mean(&took(queued(1.0, 1, order, false))));
    assert!(shortest < 0.85 * fifo, "{shortest} of {fifo}");
    assert!(remaining < 0.85 * shortest, "{remaining} of {shortest}");
}

#[test]
fn finish_estimate_is_the_end_if_nothing_arrives_later() {
    // The new query has 15 ms of work: it waits behind shorter ones, or finds only longer ones.
    let works: [&[u32]; 2] = [&[30, 25, 7, 40, 12], &[40, 30, 20]];
    for (order, works) in ORDERS
        .into_iter()
        .flat_map(|order| works.map(|it| (order, it)))
    {
        let mut server = queued(2.0, 2, order, false);
        arrive(&mut server, 0, 0, works);
        assert_eq!(advance_until(&mut server, 2 * MS), []);
        let now = 2 * MS;
        let estimate = server.finish_estimate(now, 1.5e7);
        server.arrive(now, JobId(9), 1.5e7);
        let ends = drain(&mut server);
        let end = ends.iter().find(|(job, _)| *job == JobId(9));
        let took = end.map_or(0, |(_, end)| end - now);
        assert!((took as f64 - estimate).abs() < 2.0, "{order:?}: {took}");
    }
}

#[test]
fn cancelled_and_dropped_queries_leave_the_queue() {
    for order in ORDERS {
        let mut server = queued(1.0, 1, order, false);
        arrive(&mut server, 0, 0, &[10, 20, 30]);
        server.cancel(0, JobId(1));
        server.cancel(0, JobId(0));
        assert_eq!(ends_ms(drain(&mut server)), [(2, 30)], "{order:?}");
        arrive(&mut server, 30 * MS, 3, &[10, 20]);
        server.clear(30 * MS);
        assert_eq!((server.jobs(), server.next_event()), (0, NEVER));
    }
}

#[test]
fn machine_has_room_while_a_core_is_free() {
    for mut server in [
        machine(Group::healthy(1, cores(2.0))),
        machine(Group::healthy(1, Service::Fifo { workers: 2 })),
        queued(2.0, 2, Order::Arrival, false),
    ] {
        let mut room = Vec::new();
        for job in 0..3 {
            room.push(server.has_room(0));
            server.arrive(0, JobId(job), 1e7);
        }
        assert_eq!(room, [true, true, false]);
    }
}
