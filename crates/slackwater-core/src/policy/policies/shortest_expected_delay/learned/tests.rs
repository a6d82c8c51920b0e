//! Means of latencies, capacities and costs, replica by replica and over all.

use super::*;
use crate::draw::{Draw, SplitMix64, below};
use crate::replica::ReplicaIds;
use crate::report::Rif;

const MS: u64 = 1_000_000;
const FINE_MS: u64 = MS * FINE;

/// A report of this latency in milliseconds, without a query rate; 0 is none.
fn report(replica: ReplicaId, latency_ms: u64) -> Reported {
    Reported {
        replica,
        from: From::Probe { local: false },
        rif: Rif::new(0),
        others: 0,
        latency_ns: Some(latency_ms * MS).filter(|&ns| ns > 0),
        query_rate_millis: 0,
        capacity_millirif: 0,
        cost_ns: 0,
    }
}

const NO_OTHERS: Sum = Sum { count: 0, sum: 0 };

/// Three others with this mean latency.
fn others(mean_ns: u64) -> Sum {
    Sum {
        count: 3,
        sum: 3 * mean_ns + 2,
    }
}

fn replica() -> ReplicaId {
    ReplicaIds::new().allocate().unwrap()
}

/// Long after the beginning, so that a time that was never set would show.
fn at(ms: u64) -> Instant {
    Instant::from_nanos(100_000 * MS + ms * MS)
}

/// After eight reports of 10 ms with these spans between them.
fn after_eight(span_ms: u64) -> Learned {
    let mut learned = Learned::default();
    for number in 0..8 {
        learned.learn(at(number * span_ms), report(replica(), 10), NO_OTHERS);
    }
    learned
}

#[test]
fn one_report_moves_the_mean_by_an_eighth_at_the_most() {
    let mut learned = after_eight(0);
    learned.learn(at(20_000), report(replica(), 50), NO_OTHERS);
    assert_eq!(learned.latency(), Some(15 * FINE_MS));
}

#[test]
fn report_counts_with_its_share_of_the_time_since_the_first() {
    // The last of eight comes after 1,400 ms, and the next 100 ms later: a part in 15.
    let mut learned = after_eight(200);
    learned.learn(at(1_500), report(replica(), 25), NO_OTHERS);
    assert_eq!(learned.latency(), Some(11 * FINE_MS));
    // The memory is 2 s: 100 ms are a part in 21.
    let mut learned = after_eight(2_000);
    learned.learn(at(14_100), report(replica(), 31), NO_OTHERS);
    assert_eq!(learned.latency(), Some(11 * FINE_MS));
}

#[test]
fn longest_latency_is_the_same_however_it_is_reported() {
    let most = (1 << 42) * FINE;
    for others in [NO_OTHERS, others(1 << 42)] {
        let mut told = Learned::default();
        let mut by_rate = told;
        for _ in 0..8 {
            let endless = Reported {
                latency_ns: Some(u64::MAX),
                ..report(replica(), 0)
            };
            told.learn(at(0), endless, others);
            let slow = Reported {
                rif: Rif::new(u32::MAX),
                query_rate_millis: 1,
                ..endless
            };
            by_rate.learn(at(0), slow, others);
        }
        assert_eq!(told.latency(), Some(most));
        assert_eq!(by_rate.latency(), Some(most));
    }
}

#[test]
fn at_most_four_times_the_mean_of_others_is_remembered() {
    let others = others(10 * MS);
    let mut by_rate = Learned::default();
    for _ in 0..8 {
        let slow = Reported {
            rif: Rif::new(100),
            query_rate_millis: 1_000_000,
            ..report(replica(), 10)
        };
        by_rate.learn(at(0), slow, others);
    }
    assert_eq!(by_rate.latency(), Some(40 * FINE_MS), "and not 100");
    let mut own = Learned::default();
    for ms in [10, 1_000] {
        own.learn_own(at(0), ms * MS, others);
    }
    assert_eq!(
        own.latency,
        15 * FINE_MS,
        "the mean of five times 10, and 40"
    );
}

#[test]
fn latency_that_is_seen_to_be_low_without_a_division_is_low() {
    let mut draw = SplitMix64::new(6);
    for _ in 0..100_000 {
        let bits = below(&mut draw, 40);
        let others = Sum {
            count: u64::from(below(&mut draw, 5)),
            sum: draw.draw() >> (63 - bits),
        };
        // About four times their mean.
        let near = (others.mean().unwrap_or(0) * 4 * FINE).min(LATENCY_MAX);
        let latency = (near + draw.draw() % (16 * FINE)).saturating_sub(8 * FINE);
        let latency = latency.min(LATENCY_MAX);
        assert_eq!(at_most(latency, others), latency.min(most(others)));
    }
}

#[test]
fn mean_of_own_latencies_is_over_16_queries() {
    let mut own = Learned::default();
    for _ in 0..200 {
        own.learn_own(at(0), 10 * MS, NO_OTHERS);
    }
    own.learn_own(at(0), 26 * MS, NO_OTHERS);
    assert_eq!(own.latency(), Some(11 * FINE_MS));
}

/// A table of two replicas.
fn table() -> (Table, [ReplicaId; 2]) {
    let mut ids = ReplicaIds::new();
    let mut table = Table::default();
    let replicas = [(); 2].map(|()| {
        let replica = ids.allocate().unwrap();
        table.add(replica);
        replica
    });
    (table, replicas)
}

#[test]
fn own_latencies_count_as_at_most_four_times_the_mean_of_others() {
    let (mut table, [first, second]) = table();
    table.handle_own_latency(at(0), first, 10 * MS, false);
    for _ in 0..2_000 {
        table.handle_own_latency(at(0), second, 1_000 * MS, false);
    }
    let latency = table.of(second).latency;
    assert!(latency.abs_diff(40 * FINE_MS) < FINE_MS / 100, "{latency}");
}

/// The mean of the others counts as four queries.
#[test]
fn first_own_query_counts_as_a_fifth() {
    let (mut table, [first, second]) = table();
    table.handle_own_latency(at(0), first, 10 * MS, false);
    assert_eq!(
        table.of(first).latency(),
        Some(10 * FINE_MS),
        "nothing else is known"
    );
    table.handle_own_latency(at(0), second, 20 * MS, false);
    assert_eq!(table.of(second).latency(), Some(12 * FINE_MS));
}

#[test]
fn latency_that_was_forgotten_is_learned_anew_from_eight_reports() {
    let mut learned = Learned::default();
    for _ in 0..20 {
        learned.learn_own(at(0), 50 * MS, NO_OTHERS);
    }
    learned.forget_latency();
    for rate in [0, 100_000] {
        let mut learned = learned;
        let reported = Reported {
            rif: Rif::new(2),
            query_rate_millis: rate,
            ..report(replica(), 20)
        };
        for _ in 0..7 {
            learned.learn(at(0), reported, NO_OTHERS);
            assert_eq!(learned.latency(), None);
        }
        learned.learn(at(0), reported, NO_OTHERS);
        let latency = learned.latency().expect("the eighth");
        assert!(latency.abs_diff(20 * FINE_MS) < FINE_MS / 100, "{latency}");
    }
}

#[test]
fn failure_counts_if_it_took_longer_than_usual() {
    let (mut table, [first, second]) = table();
    for _ in 0..8 {
        table.handle_own_latency(at(0), first, 10 * MS, false);
    }
    let mut after = |ms| {
        table.handle_own_latency(at(0), second, ms * MS, true);
        table.of(second).latency()
    };
    assert_eq!(after(1), None, "it may have failed at once");
    assert_eq!(after(10), None);
    assert_eq!(after(25), Some(13 * FINE_MS));
    assert_eq!(after(13), Some(13 * FINE_MS), "no longer than its own mean");
    assert_eq!(after(19), Some(14 * FINE_MS));
}

#[test]
fn unprobed_replica_is_unknown_after_30_seconds_without_progress() {
    let (mut table, [first, second]) = table();
    let none = |replica, local| Reported {
        from: From::Probe { local },
        ..report(replica, 0)
    };
    for replica in [first, second] {
        table.handle_own_latency(at(1_000), replica, 10 * MS, false);
    }
    table.handle_report(at(30_999), none(first, true));
    assert_eq!(table.of(first).latency(), Some(10 * FINE_MS));
    table.handle_report(at(31_000), none(first, true));
    assert_eq!(table.of(first).latency(), None);
    // One that answers is unknown at once.
    table.handle_report(at(1_000), none(second, false));
    assert_eq!(table.of(second).latency(), None);
    assert_eq!(table.mean_latency(), FINE_MS, "of nothing");
}

#[test]
fn mean_of_own_latencies_goes_on_when_the_replica_begins_to_answer() {
    let (mut table, [first, _]) = table();
    for _ in 0..8 {
        table.handle_own_latency(at(0), first, 10 * MS, false);
    }
    // 2 in flight at 100 queries/s: 20 ms. Without a rate, the reported latency.
    let mut after = |ms, query_rate_millis| {
        let reported = Reported {
            rif: Rif::new(2),
            query_rate_millis,
            ..report(first, 18)
        };
        table.handle_report(at(ms), reported);
        table.of(first).latency().map(|latency| latency / FINE_MS)
    };
    assert_eq!(after(10, 0), Some(11), "an eighth of the way to 18");
    assert_eq!(after(20, 100_000), Some(12), "and to 20");
}

#[test]
fn idle_replica_is_as_fast_as_can_be_and_counts_in_the_mean() {
    let (mut table, [first, second]) = table();
    for _ in 0..8 {
        let idle = Reported {
            query_rate_millis: 1_000,
            ..report(first, 10)
        };
        table.handle_report(at(0), idle);
        table.handle_report(at(0), report(second, 10));
    }
    assert_eq!(table.of(first).latency(), Some(1));
    // 1 ns, and for the other at most four times that.
    assert_eq!(table.mean_latency(), 2 * FINE);
}

#[test]
fn mean_latency_is_over_replicas_that_report_a_capacity_if_any_does() {
    let (mut table, [first, second]) = table();
    let room = |capacity_millirif| Reported {
        capacity_millirif,
        ..report(first, 10)
    };
    table.handle_own_latency(at(0), second, 30 * MS, false);
    for capacity_millirif in [0, 4_000] {
        for _ in 0..8 {
            table.handle_report(at(0), room(capacity_millirif));
        }
        let expected = if capacity_millirif > 0 { 10 } else { 20 };
        assert_eq!(table.mean_latency(), expected * FINE_MS);
    }
    table.forget(first);
    assert_eq!(table.mean_latency(), 30 * FINE_MS);
}

#[test]
fn only_the_latest_report_has_capacity_and_cost() {
    let (mut table, [first, _]) = table();
    let room = Reported {
        capacity_millirif: 4_000,
        cost_ns: u64::MAX,
        ..report(first, 10)
    };
    table.handle_report(at(0), room);
    assert_eq!(table.mean_capacity(), Some(4_000));
    assert_eq!(table.mean_cost_ns(), 1 << 42, "the most");
    table.handle_report(at(0), report(first, 10));
    assert!(!table.knows_capacity());
    assert_eq!(table.mean_cost_ns(), MS, "of nothing");
}

/// The first eight reports have a mean latency of 400 ms. All report 40 ms.
#[test]
fn only_answers_to_probes_with_a_rate_show_long_running_requests() {
    let probe = From::Probe { local: false };
    let local = From::Probe { local: true };
    for (from, rate, shows) in [
        (probe, 1_000_000, true),
        (probe, 0, false),
        (local, 1_000_000, false),
        (From::Response, 1_000_000, false),
    ] {
        let mut table = Table::default();
        let replica = replica();
        table.add(replica);
        for number in 0..200 {
            let (from, rate) = if number < 8 {
                (probe, 1_000_000)
            } else {
                (from, rate)
            };
            let reported = Reported {
                from,
                rif: Rif::new(400),
                query_rate_millis: rate,
                ..report(replica, 40)
            };
            table.handle_report(at(number), reported);
        }
        let counted = table.long_running().counted(180, 100);
        assert_eq!(counted < 180, shows, "{from:?} {rate}");
    }
}
