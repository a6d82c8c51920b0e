//! The sums of loads, the cap, and the age of reports.

use super::*;
use crate::draw::{SplitMix64, below};
use crate::replica::ReplicaIds;
use crate::report::Rif;

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
        match below(&mut draw, 10) {
            0 | 1 => {
                let latency = Duration::from_micros(below(&mut draw, 3_000).into());
                let report = LoadReport::new(Rif::new(below(&mut draw, 50)), Some(latency));
                loads.reported(now, replica, &report);
            }
            2 | 3 => loads.sent(replica),
            4 => loads.done(replica),
            5 => loads.siblings_sent(replica, below(&mut draw, 9)),
            6 => now = now.plus_ns(50_000_000),
            7 => loads.sweep(now, &replicas),
            8 => loads.answered(
                now,
                replica,
                Duration::from_millis(below(&mut draw, 9).into()),
            ),
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
            assert_eq!(kept.timed, sums.timed);
        }
        assert_eq!(loads.all.load(&loads.all), all.load(&all), "{step}");
        assert!(loads.rows.values().all(|row| row.level >= row.own.into()));
    }
}

/// Servers of one part, which report this RIF and latency.
fn servers<const N: usize>(reports: [(u32, Option<Duration>); N]) -> (Loads, [ReplicaId; N]) {
    let mut loads = Loads::default();
    let mut ids = ReplicaIds::new();
    let replicas = core::array::from_fn(|_| ids.allocate().expect("room"));
    for ((server, &replica), (rif, latency)) in (0..).zip(&replicas).zip(reports) {
        loads.add(replica);
        loads.place(replica, server);
        let report = LoadReport::new(Rif::new(rif), latency);
        loads.reported(Instant::EPOCH, replica, &report);
    }
    (loads, replicas)
}

const MS: Duration = Duration::from_millis(1);

fn caps<const N: usize>(loads: &Loads, factor: u32) -> [Option<u64>; N] {
    let servers: Vec<_> = (0..).take(N).collect();
    core::array::from_fn(|place| loads.cap_of(servers[place], 1, factor, loads.delays()))
}

#[test]
fn cap_is_the_factor_times_the_mean_rounded_down_and_no_factor_is_no_cap() {
    // (2 + 1) queries in the mean, with the next one.
    for latency in [None, Some(MS)] {
        let (loads, _) = servers([(2, latency); 8]);
        assert_eq!(caps(&loads, ONE), [Some(3); 8]);
        assert_eq!(caps(&loads, 1_250_000), [Some(3); 8]);
        assert_eq!(caps(&loads, 1_350_000), [Some(4); 8]);
        assert_eq!(caps(&loads, 0), [None; 8]);
        assert_eq!(loads.usual_cap(1_350_000), Some(4));
        assert_eq!(loads.usual_cap(0), None);
    }
    let (alone, _) = servers([(2, None)]);
    assert_eq!(caps(&alone, ONE), [None], "without another server");
    assert_eq!(alone.usual_cap(ONE), None);
}

#[test]
fn an_idle_server_is_below_its_cap_however_slow_it_is() {
    let (loads, _) = servers([(0, Some(MS)), (0, Some(MS)), (0, Some(100 * MS))]);
    assert_eq!(caps(&loads, ONE), [50, 50, 1].map(Some));
}

#[test]
fn slower_servers_are_at_their_cap_with_fewer_queries() {
    let [usual, slow] = [4, 12].map(|ms| Some(ms * MS));
    let (loads, _) = servers([(3, usual), (3, usual), (3, usual), (1, slow)]);
    // 2 × (2 × 4 × 4 ms + 2 × 12 ms) / 3 by 4 ms, and 2 × (3 × 4 × 4 ms) / 3 by 12 ms
    assert_eq!(caps(&loads, 2 * ONE), [9, 9, 9, 2].map(Some));
}

#[test]
fn one_of_two_servers_is_bounded_too() {
    let (loads, _) = servers([(90, Some(MS)), (2, Some(MS))]);
    assert_eq!(caps(&loads, 2 * ONE), [6, 182].map(Some));
}

#[test]
fn a_server_without_a_latency_has_the_mean_one() {
    let (mut loads, replicas) = servers([(1, Some(2 * MS)), (1, Some(4 * MS)), (1, None)]);
    // Delays of 4, 8 and 2 × 3 ms; 2 × (8 + 6 ms) / 2 by 2 ms, and so on
    assert_eq!(caps(&loads, 2 * ONE), [7, 2, 4].map(Some));
    // One that reports none has that of the client's own queries.
    loads.answered(Instant::EPOCH, replicas[2], MS);
    assert_eq!(caps(&loads, 2 * ONE), [5, 1, 12].map(Some));
    // One that reports some does not.
    loads.answered(Instant::EPOCH, replicas[0], 100 * MS);
    assert_eq!(caps(&loads, 2 * ONE), [5, 1, 12].map(Some));
    // The first report replaces the client's own.
    let report = LoadReport::new(Rif::new(1), Some(2 * MS));
    loads.reported(Instant::EPOCH, replicas[2], &report);
    assert_eq!(caps(&loads, 2 * ONE), [6, 2, 6].map(Some));
    // Once it has reported none for a second, the client's own count again, whatever else its
    // responses report.
    let report = LoadReport::new(Rif::new(1), None);
    for (ms, latency_us) in [(999, 2_000), (1_000, 3_000)] {
        let now = Instant::EPOCH + ms * MS;
        loads.reported(now, replicas[2], &report);
        loads.answered(now, replicas[2], 66 * MS);
        let row = loads.rows.find(replicas[2]).unwrap();
        assert_eq!(row.latency_us, latency_us, "{ms} ms");
    }
}

#[test]
fn mean_latency_forgets_by_a_64th_and_reaches_a_lasting_value() {
    let mut row = Row::default();
    row.measured(64 * MS);
    assert_eq!(row.latency_us, 64_000);
    row.measured(128 * MS);
    assert_eq!(row.latency_us, 65_000);
    for latency in [128, 1, 0] {
        (0..2_000).for_each(|_| row.measured(latency * MS));
        assert_eq!(row.latency_us, (latency * 1_000).max(1));
    }
    row.measured(Duration::MAX);
    // A step of (2³² − 1 − 1 + 63) / 64 from 1.
    assert_eq!(row.latency_us, 67_108_865);
}

#[test]
fn sweep_reaches_every_replica() {
    let mut loads = Loads::default();
    let mut ids = ReplicaIds::new();
    let replicas: Vec<_> = (0..10).filter_map(|_| ids.allocate()).collect();
    for (server, &replica) in (0..).zip(&replicas) {
        loads.add(replica);
        loads.place(replica, server);
        let report = LoadReport::new(Rif::new(5), None);
        loads.reported(Instant::EPOCH, replica, &report);
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
