//! What is kept of ticks, and for how long.

use super::*;
use crate::live::messages::Latency;
use crate::live::messages::{FleetReplica, RifLimit};

/// The tick of the samples, at this time.
fn tick(at_ms: u64) -> Tick {
    let text = include_str!("../samples/serve_tick.json");
    let tick: Tick = serde_json::from_str(text).expect("a tick");
    Tick { at_ms, ..tick }
}

fn fleet() -> Fleet {
    let text = include_str!("../samples/serve_fleet.json");
    serde_json::from_str(text).expect("a fleet")
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn clock_step_back_restarts_the_history() {
    let (fleet, mut history) = (fleet(), History::new(SECOND));
    for at_ms in [5_000, 6_000, 2_000, 3_000] {
        history.push(&fleet, &tick(at_ms));
    }
    let past = history.of_service(&fleet, "web").expect("it is there");
    assert_eq!(past.at_ms, [2_000, 3_000]);
    let replica = &fleet.services[0].replicas[0].name;
    let past = history.of_replica(&fleet, "web", replica);
    assert_eq!(past.expect("it is there").at_ms, [2_000, 3_000]);
}

#[test]
fn a_tick_is_in_both_histories() {
    let (fleet, mut history) = (fleet(), History::new(SECOND));
    let mut said = tick(5_000);
    said.services[0].latency = Some(Latency {
        count: 1,
        p50_us: 1,
        p90_us: 2,
        p99_us: 3,
        p999_us: 4,
    });
    said.services[0].rif_limit = Some(RifLimit {
        min: 1,
        median: 7,
        max: 9,
    });
    let admission = [
        ("hedges", 2),
        ("retries", 3),
        ("queued", 4),
        ("shed_a", 5),
        ("shed_b", 6),
    ];
    said.services[0].admission = admission
        .map(|(name, count)| (name.to_owned(), count))
        .into();
    said.services[0].replicas.capacity_millirif =
        vec![Some(4_500); fleet.services[0].replicas.len()];
    said.services[0].replicas.cost_us = vec![Some(700); fleet.services[0].replicas.len()];
    history.push(&fleet, &said);
    // The count is no longer in the tick.
    let mut quiet = tick(6_000);
    quiet.services[0].picks.clear();
    quiet.services[0].latency = None;
    quiet.services[0].picks.insert("panic".to_owned(), 9);
    history.push(&fleet, &quiet);
    let past = history.of_service(&fleet, "web").expect("it is there");
    assert_eq!(past.at_ms, [5_000, 6_000]);
    assert_eq!(past.requests, [said.services[0].requests; 2]);
    assert_eq!(
        (past.p50_us[0], past.p99_us[0], past.p999_us[0]),
        (Some(1), Some(3), Some(4))
    );
    assert_eq!(past.p99_us[1], None);
    assert_eq!(past.rif_limit[0], Some(7));
    assert_eq!(
        (
            past.hedges[0],
            past.retries[0],
            past.queued[0],
            past.shed[0]
        ),
        (2, 3, 4, 11)
    );
    assert_eq!(past.picks["cold"], [said.services[0].picks["cold"], 0]);
    assert_eq!(past.picks["panic"], [0, 9], "a reason that came up later");
    assert_eq!(past.probes["sent"], [said.services[0].probes["sent"]; 2]);
    let columns = &said.services[0].replicas;
    for (place, replica) in fleet.services[0].replicas.iter().enumerate() {
        let past = history
            .of_replica(&fleet, "web", &replica.name)
            .expect("it is there");
        assert_eq!(past.at_ms, [5_000, 6_000]);
        assert_eq!(past.state, [columns.state[place]; 2]);
        assert_eq!(past.rif, [columns.rif[place]; 2]);
        assert_eq!(past.latency_us, [columns.latency_us[place]; 2]);
        assert_eq!(past.capacity_millirif, [Some(4_500), None]);
        assert_eq!(past.cost_us, [Some(700), None]);
        assert_eq!(past.in_flight, [columns.in_flight[place]; 2]);
        assert_eq!(past.sent, [columns.sent[place]; 2]);
        assert_eq!(past.failed, [columns.failed[place]; 2]);
        assert_eq!(past.p50_us, [columns.p50_us[place]; 2]);
        assert_eq!(past.p99_us, [columns.p99_us[place]; 2]);
    }
    assert!(history.of_service(&fleet, "api").is_none());
    assert!(history.of_replica(&fleet, "web", "unknown").is_none());
}

#[test]
fn history_keeps_a_quarter_of_an_hour() {
    let (fleet, mut history) = (fleet(), History::new(SECOND));
    for at in 0..910 {
        history.push(&fleet, &tick(at));
    }
    let past = history.of_service(&fleet, "web").expect("it is there");
    assert_eq!((past.at_ms.len(), past.at_ms[0]), (900, 10));
    let name = &fleet.services[0].replicas[3].name;
    let past = history
        .of_replica(&fleet, "web", name)
        .expect("it is there");
    assert_eq!(
        (past.at_ms.len(), past.at_ms[0], past.rif.len()),
        (900, 10, 900)
    );
}

#[test]
fn history_per_replica_is_shorter_in_a_large_fleet() {
    let (mut fleet, mut said) = (fleet(), tick(0));
    let replicas = |count: usize| {
        (0..count).map(|number| FleetReplica {
            name: number.to_string(),
            weight: 1,
            ..FleetReplica::default()
        })
    };
    fleet.services[0].replicas = replicas(30_000).collect();
    let columns = &mut said.services[0].replicas;
    columns.state.resize(30_000, 0);
    columns.rif.resize(30_000, None);
    columns.latency_us.resize(30_000, None);
    columns.p50_us.resize(30_000, None);
    columns.p99_us.resize(30_000, None);
    let mut history = History::new(SECOND);
    for at_ms in 0..12 {
        said.at_ms = at_ms;
        history.push(&fleet, &said);
    }
    let past = history
        .of_replica(&fleet, "web", "29999")
        .expect("it is there");
    assert_eq!((past.at_ms.len(), past.at_ms[0]), (10, 2));
    // In a smaller fleet, replicas that have left are forgotten.
    fleet.services[0].replicas = replicas(2).collect();
    history.set_fleet(&fleet);
    assert_eq!(history.services["web"].replicas.len(), 2);
    fleet.services.clear();
    history.set_fleet(&fleet);
    assert!(history.services.is_empty());
}

#[test]
fn counts_of_a_replica_are_kept_completely() {
    let (fleet, mut history) = (fleet(), History::new(SECOND));
    let mut said = tick(1);
    let columns = &mut said.services[0].replicas;
    columns.in_flight[0] = 70_000;
    columns.failed[0] = 80_000;
    history.push(&fleet, &said);
    let name = &fleet.services[0].replicas[0].name;
    let past = history.of_replica(&fleet, "web", name);
    let past = past.expect("it is there");
    assert_eq!((past.in_flight[0], past.failed[0]), (70_000, 80_000));
}

#[test]
fn history_of_a_late_replica_covers_only_its_own_time() {
    let (mut fleet, mut history) = (fleet(), History::new(SECOND));
    let late = fleet.services[0].replicas.pop().expect("twenty");
    history.push(&fleet, &tick(1));
    history.push(&fleet, &tick(2));
    fleet.services[0].replicas.push(late.clone());
    history.push(&fleet, &tick(3));
    let past = history
        .of_replica(&fleet, "web", &late.name)
        .expect("it is there");
    assert_eq!(past.at_ms, [3]);
    assert_eq!(size_of::<ReplicaSample>(), 40, "as documented");
}
