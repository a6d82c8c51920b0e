//! The sums of loads, the cap, and the age of reports.

use super::*;
use crate::draw::{SplitMix64, below};
use crate::replica::ReplicaIds;

/// Sums that are kept equal those of all rows, whatever happens.
#[test]
fn sums_are_those_of_the_rows() {
    let mut draw = SplitMix64::new(3);
    let mut loads = Loads::default();
    let mut ids = ReplicaIds::new();
    let mut replicas: Vec<_> = (0..12).filter_map(|_| ids.allocate()).collect();
    for &replica in &replicas {
        loads.add(replica);
    }
    let mut now = Instant::EPOCH;
    for step in 0..20_000_u32 {
        let replica = replicas[below(&mut draw, 12) as usize];
        match below(&mut draw, 9) {
            0 | 1 => loads.reported(now, replica, Rif::new(below(&mut draw, 50))),
            2 | 3 => loads.sent(replica),
            4 => loads.done(replica),
            5 => loads.siblings_sent(replica, below(&mut draw, 9)),
            6 => now = now.plus_ns(50_000_000),
            7 => loads.sweep(now, &replicas),
            _ if step % 50 == 0 => {
                let place = below(&mut draw, 12) as usize;
                loads.remove(replicas[place]);
                replicas[place] = ids.allocate().expect("room");
                loads.add(replicas[place]);
                loads.clear();
                // Two replicas are one server.
                for (place, &replica) in (0..).zip(&replicas[..9]) {
                    loads.place(replica, place / 2);
                }
            }
            _ => {}
        }
        let mut all = Sums::default();
        for (server, kept) in (0_u32..).zip(&loads.servers) {
            let mut sums = Sums::default();
            let rows = loads.rows.values().filter(|row| row.server == server);
            rows.for_each(|row| sums.add(row.sums()));
            all.add(sums);
            assert_eq!(kept.level, sums.level);
            assert_eq!(kept.own_reported, sums.own_reported);
            assert_eq!(kept.own_unreported, sums.own_unreported);
        }
        assert_eq!(loads.all.load(&loads.all), all.load(&all), "{step}");
        assert!(
            loads
                .rows
                .values()
                .all(|row| row.level >= row.own || !row.is_reported)
        );
    }
}

#[test]
fn cap_is_rounded_up_and_no_factor_is_no_cap() {
    let mut loads = Loads::default();
    let mut ids = ReplicaIds::new();
    for server in 0..8 {
        let replica = ids.allocate().expect("room");
        loads.add(replica);
        loads.place(replica, server);
        loads.reported(Instant::EPOCH, replica, Rif::new(2));
    }
    let cap = |factor, parts| loads.cap(factor).of(parts);
    // (16 + 1) / 8 = 2.125
    assert_eq!([1, 2, 8].map(|parts| cap(ONE, parts)), [3, 5, 17].map(Some));
    assert_eq!(cap(1_250_000, 1), Some(3));
    assert_eq!(cap(1_500_000, 1), Some(4));
    assert_eq!(cap(0, 1), None);
    assert_eq!(Loads::default().cap(ONE).of(1), Some(1));
}

#[test]
fn sweep_reaches_every_replica() {
    let mut loads = Loads::default();
    let mut ids = ReplicaIds::new();
    let replicas: Vec<_> = (0..10).filter_map(|_| ids.allocate()).collect();
    for (server, &replica) in (0..).zip(&replicas) {
        loads.add(replica);
        loads.place(replica, server);
        loads.reported(Instant::EPOCH, replica, Rif::new(5));
    }
    let late = Instant::from_nanos(REPORT_AGE_MAX_NS);
    assert_eq!(loads.all.level, 50);
    for _ in 0..10 {
        loads.sweep(Instant::from_nanos(REPORT_AGE_MAX_NS - 1), &replicas);
    }
    assert_eq!(loads.all.level, 50);
    for _ in 0..11 {
        loads.sweep(late, &replicas);
    }
    assert_eq!(loads.all.level, 0);
}
