//! Ticks, from facts before and after; and the samples of the documentation.

use super::*;
use crate::live::messages::{Latency, ReplicaHistory, ServiceHistory};
use crate::tests::{facts, noted};
use core::fmt::Debug;
use serde::Serialize;
use serde::de::DeserializeOwned;
use slackwater_core::Rif;
use slackwater_core::policy::{DEFAULT_POLICY, Ranked, Values};
use slackwater_telemetry::facts::{BehindFacts, LatencyFacts, ServiceFacts};
use slackwater_telemetry::latency_histogram::LatencyHistogram;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Reads the facts one after the other, and returns the last two readings.
fn looks<const N: usize>(facts: [&Facts; N]) -> [Look; 2] {
    let mut last = BTreeMap::new();
    let look = |facts| Look::new(&noted(facts), Phase::Serving, SECOND, &mut last);
    let mut looks: Vec<_> = facts.into_iter().map(look).collect();
    let looks = looks.split_off(N - 2);
    looks.try_into().expect("two of them")
}

/// Facts as from an agent, which records no latencies.
fn unseen() -> Facts {
    let mut facts = facts();
    for worker in &mut facts.services[0].workers {
        *worker.latency = LatencyFacts::default();
    }
    facts.services[0].replicas[0].behind = Some(BehindFacts {
        is_there: true,
        in_flight: 0,
    });
    facts
}

/// The facts while a replica has left.
fn without_the_second() -> Facts {
    let mut facts = unseen();
    facts.services[0].replicas.remove(1);
    for worker in &mut facts.services[0].workers {
        worker.requests.remove(1);
        worker.ids.remove(1);
    }
    facts
}

fn tick(before: &Facts, now: &Facts) -> Tick {
    last_tick([before, now])
}

fn last_tick<const N: usize>(facts: [&Facts; N]) -> Tick {
    let [before, now] = looks(facts);
    let fleet = now.fleet(SECOND, None);
    let mut window = Window::default();
    window.push(Instant::now(), before.histograms());
    window.begin_anew(now.histograms());
    now.tick(&before, 2 * SECOND, 1_000, &fleet, &window)
}

#[test]
fn tick_has_the_counts_of_its_interval() {
    let before = unseen();
    let mut now = unseen();
    {
        let worker = &mut now.services[0].workers[1];
        worker.requests[0].sent += 7;
        worker.requests[0].responses_2xx += 4;
        worker.requests[0].responses_4xx += 1;
        worker.requests[2].timeouts += 3;
        worker.requests[2].retries += 2;
        worker.admission.hedges += 5;
        worker.counters.no_replica += 6;
        worker.counters.probes_lost += 8;
    }
    let tick = tick(&before, &now);
    assert_eq!(
        (tick.interval_ms, tick.at_ms, tick.uptime_ms),
        (2_000, 1_000, 1_000)
    );
    let service = &tick.services[0];
    assert_eq!((service.requests, service.failed), (8, 3));
    assert!((service.rate - 4.0).abs() < 1e-9);
    let classes = service.classes;
    assert_eq!((classes.success, classes.client, classes.broken), (4, 1, 3));
    assert_eq!(service.replicas.sent, [7, 0, 0, 0, 0]);
    assert_eq!(service.replicas.failed, [0, 0, 3, 0, 0]);
    assert_eq!(service.no_replica, 6);
    let of = |counts: &Counts| -> Vec<(String, u64)> {
        counts
            .iter()
            .map(|(name, count)| (name.clone(), *count))
            .collect()
    };
    assert_eq!(of(&service.probes), [("lost".to_owned(), 8)]);
    let admission = [("hedges".to_owned(), 5), ("retries".to_owned(), 2)];
    assert_eq!(of(&service.admission), admission);
    assert!(service.picks.is_empty() && service.removals.is_empty());
}

#[test]
fn added_replicas_and_services_start_from_zero() {
    let mut before = without_the_second();
    let now = unseen();
    let sent = tick(&before, &now).services[0].replicas.sent.clone();
    assert_eq!(
        [sent[0], sent[2], sent[3], sent[4]],
        [0; 4],
        "they are known"
    );
    let all = now.services[0].workers.iter().map(|it| it.requests[1].sent);
    assert_eq!(sent[1], all.sum::<u64>(), "it is new");
    before.services[0].name = "other".to_owned();
    assert_eq!(tick(&before, &now).services[0].requests, 40);
}

#[test]
fn replica_that_returns_has_only_the_counts_of_its_interval() {
    let mut now = unseen();
    now.services[0].workers[1].requests[1].sent += 3;
    let service = &last_tick([&unseen(), &without_the_second(), &now]).services[0];
    assert_eq!(service.replicas.sent, [0, 3, 0, 0, 0]);
    assert_eq!(service.replicas.failed, [0; 5]);
    assert_eq!((service.requests, service.failed), (0, 0));
    assert!(service.admission.is_empty(), "{:?}", service.admission);
}

#[test]
fn requests_are_counted_by_client_where_available() {
    let histogram = |latencies_ms: &[u64]| {
        let histogram = LatencyHistogram::default();
        for ms in latencies_ms {
            histogram.add(Duration::from_millis(*ms));
        }
        histogram.read()
    };
    let before = facts();
    let mut now = facts();
    let worker = &mut now.services[0].workers[0];
    worker.latency.total[ResponseClass::Success.index()] += &histogram(&[30, 30, 30]);
    worker.latency.total[ResponseClass::Server.index()] += &histogram(&[2]);
    worker.latency.total[ResponseClass::Broken.index()] += &histogram(&[2]);
    worker.latency.total[ResponseClass::GrpcFailed.index()] += &histogram(&[2]);
    worker.latency.total[ResponseClass::ClientGone.index()] += &histogram(&[2]);
    worker.heads[1] += &histogram(&[12]);
    worker.requests[1].responses_2xx += 100;
    // Attempts are not requests: both attempts of one request may be given up.
    worker.requests[1].client_gone += 2;
    now.unrouted_requests.no_route += 9;
    let said = tick(&before, &now);
    assert_eq!(said.unrouted, [("no_route".to_owned(), 9)].into());
    let service = &said.services[0];
    assert_eq!((service.requests, service.failed), (7, 3));
    let classes = service.classes;
    assert_eq!((classes.success, classes.server), (3, 1));
    assert_eq!(
        (classes.grpc_failed, classes.broken, classes.client_gone),
        (1, 1, 1)
    );
    let latency = service.latency.expect("seven");
    assert_eq!(
        (latency.count, latency.p50_us, latency.p99_us),
        (7, 1_750, 30_000)
    );
    assert_eq!(
        service.latency_10s, service.latency,
        "all of it is of the last seconds"
    );
    assert_eq!(
        service.replicas.p99_us,
        [None, Some(12_500), None, None, None]
    );
    assert_eq!(tick(&now, &now).services[0].latency, None);
}

#[test]
fn rebuilt_service_starts_from_zero() {
    let in_all = |service: &ServiceTick| {
        let quantiles = |latency: Option<Latency>| latency.map(|it| (it.count, it.p50_us));
        let replicas = &service.replicas;
        (
            service.requests,
            quantiles(service.latency),
            quantiles(service.latency_10s),
            (replicas.sent.clone(), replicas.p50_us.clone()),
            service.picks.clone(),
        )
    };
    let empty = Facts {
        services: vec![ServiceFacts {
            workers: Vec::new(),
            ..facts().services.remove(0)
        }],
        ..facts()
    };
    let now = facts();
    let alone = in_all(&tick(&empty, &now).services[0]);
    assert_eq!(alone.1, Some((6, 30_000)));
    // The earlier reading has fewer fast requests and no more slow ones than now.
    let mut before = facts();
    before.services[0].number = 0;
    assert_eq!(in_all(&tick(&before, &now).services[0]), alone);
    before.services[0].number = now.services[0].number;
    assert_eq!(tick(&before, &now).services[0].requests, 0, "it went on");
}

#[test]
fn replica_is_hot_if_its_reported_rif_reaches_the_limit() {
    let mut now = facts();
    for worker in &mut now.services[0].workers {
        worker.snapshot.rif_limit = Some(Rif::new(2));
    }
    let hot = |now: &Facts| tick(now, now).services[0].replicas.clone();
    let columns = hot(&now);
    // The second worker received the newest report.
    assert_eq!(columns.rif, [None, Some(2), None, None, None]);
    assert_eq!(columns.latency_us[1], Some(12_000));
    assert_eq!(columns.report_age_ms[1], Some(5));
    assert_eq!(columns.hot, [None, Some(1), None, None, None]);
    assert_eq!(
        columns.capacity_millirif,
        [None, Some(2_500), None, None, None]
    );
    assert_eq!(columns.cost_us[1], Some(900));
    let mut silent = now.clone();
    for worker in &mut silent.services[0].workers {
        (
            worker.reported[0].capacity_millirif,
            worker.reported[0].cost,
        ) = (None, None);
    }
    let columns = hot(&silent);
    assert!(columns.capacity_millirif.is_empty() && columns.cost_us.is_empty());
    let told = serde_json::to_value(&columns).expect("JSON");
    assert!(told.get("capacity_millirif").is_none() && told.get("cost_us").is_none());
    for limit in [Some(Rif::new(3)), None] {
        for worker in &mut now.services[0].workers {
            worker.snapshot.rif_limit = limit;
        }
        assert_eq!(hot(&now).hot[1], Some(0));
    }
}

#[test]
fn pool_refers_to_replicas_by_index_and_limit_covers_all_workers() {
    let mut now = facts();
    for (worker, limit) in [(0, 3), (1, 8)] {
        let limit = Rif::new(limit);
        now.services[0].workers[worker].snapshot.rif_limit = Some(limit);
    }
    let mut third = now.services[0].workers[0].clone();
    third.snapshot.rif_limit = Some(Rif::new(4));
    third.snapshot.pool.clear();
    now.services[0].workers.push(third);
    let service = &tick(&now, &now).services[0];
    let limit = RifLimit {
        min: 3,
        median: 4,
        max: 8,
    };
    assert_eq!(service.rif_limit, Some(limit));
    let facts = &now.services[0].workers[1];
    let report = &facts.snapshot.pool[0];
    let place = facts
        .ids
        .iter()
        .position(|ids| ids.contains(&report.replica));
    let shown = service
        .pool
        .iter()
        .find(|it| it.worker == 1)
        .expect("a report");
    assert_eq!(Some(shown.replica), place);
    assert_eq!(
        (shown.rif, shown.uses_left),
        (report.rif.count(), Some(report.uses_left))
    );
    assert!(service.pool.iter().all(|it| it.worker < 2));
    let mut unlimited = now.clone();
    unlimited.services[0].workers[1].snapshot.pool[0].uses_left = u32::MAX;
    unlimited.services[0].workers[0].snapshot.rif_limit = None;
    let service = &tick(&now, &unlimited).services[0];
    assert!(
        service
            .pool
            .iter()
            .any(|it| it.worker == 1 && it.uses_left.is_none())
    );
    assert_eq!(service.rif_limit.map(|it| it.min), Some(4));
}

#[test]
fn pool_of_a_scoring_policy_has_factors_and_comparison() {
    let mut now = facts();
    let worker = &mut now.services[0].workers[1].snapshot;
    assert!(worker.pool.len() > 1, "{worker:?}");
    let compared = worker.pool[1].replica;
    let other = worker.pool[0].replica;
    let ranked = |replica, latency_ns: u64| Ranked {
        replica,
        values: Values::of([1_024, latency_ns << 10]),
    };
    worker.order = vec![ranked(compared, 7_000_000), ranked(other, 8_000_000)];
    worker.comparison = DEFAULT_POLICY.comparisons.first().copied();
    worker.next = Some(compared);
    let service = &tick(&now, &now).services[0];
    let (pool, told) = (&service.pool, &service.compared);
    let told = told.iter().find(|it| it.worker == 1).expect("it compares");
    assert_eq!(told.comparison, "expected_delay");
    let of = |worker: usize| -> Vec<_> {
        let reports = pool.iter().filter(|it| it.worker == worker);
        let latency = |it: &PooledReport| it.factors.get("mean_latency_us").copied();
        reports.map(|it| (latency(it), it.next)).collect()
    };
    let expected = [(Some(7_000.0), true), (Some(8_000.0), false)];
    assert_eq!(of(1), expected, "the others are not looked at");
    assert_eq!(of(0).len(), now.services[0].workers[0].snapshot.pool.len());
    assert!(of(0).iter().all(|it| it.0.is_none() && !it.1));
    let told: Vec<_> = (pool.iter())
        .map(|it| serde_json::to_value(it).expect("JSON")["next"].is_null())
        .collect();
    let expected: Vec<_> = pool.iter().map(|it| !it.next).collect();
    assert_eq!(told, expected, "only of that one");
}

#[test]
fn columns_are_as_long_as_the_fleet() {
    let mut now = facts();
    now.services[0].workers.clear();
    let columns = tick(&now, &now).services[0].replicas.clone();
    assert_eq!(columns.state.len(), 5);
    assert_eq!(columns.share, [None; 5]);
    assert_eq!(columns.in_flight, [0; 5]);
}

/// Reads a sample and writes it again: no field may be missing or unknown.
fn is_a_sample_of<T: Serialize + DeserializeOwned + Debug>(text: &str) -> T {
    let sample: Value = serde_json::from_str(text).expect("JSON");
    let message: T = serde_json::from_value(sample.clone()).expect("a message");
    assert_eq!(serde_json::to_value(&message).expect("JSON"), sample);
    message
}

#[test]
fn the_samples_are_messages_and_their_columns_fit_the_fleet() {
    for (fleet, tick) in [
        (
            include_str!("../samples/serve_fleet.json"),
            include_str!("../samples/serve_tick.json"),
        ),
        (
            include_str!("../samples/demo_fleet.json"),
            include_str!("../samples/demo_tick.json"),
        ),
    ] {
        let fleet: Fleet = is_a_sample_of(fleet);
        let tick: Tick = is_a_sample_of(tick);
        let states = ReplicaState::ALL.into_iter();
        let names: Vec<_> = states.clone().map(ReplicaState::as_str).collect();
        assert_eq!(fleet.states, names);
        let states: Vec<_> = states.map(StateFacts::from).collect();
        assert_eq!(fleet.replica_states, states);
        assert_eq!(fleet.revision, tick.revision);
        for (service, said) in fleet.services.iter().zip(&tick.services) {
            let columns = serde_json::to_value(&said.replicas).expect("JSON");
            for (name, column) in columns.as_object().expect("columns") {
                let length = column.as_array().map(Vec::len);
                assert_eq!(length, Some(service.replicas.len()), "{name}");
            }
            assert!(
                said.pool
                    .iter()
                    .all(|it| it.replica < service.replicas.len())
            );
        }
    }
    let _: ServiceHistory = is_a_sample_of(include_str!("../samples/service_history.json"));
    let _: ReplicaHistory = is_a_sample_of(include_str!("../samples/replica_history.json"));
}

/// A tick of 1,000 replicas, with as many digits as in a busy fleet.
#[test]
fn a_tick_of_a_thousand_replicas_is_small() {
    let mut now = facts();
    let service = &mut now.services[0];
    service.replicas = (0..1_000).map(|_| service.replicas[0].clone()).collect();
    let mut tick = tick(&now, &now);
    let columns = &mut tick.services[0].replicas;
    columns.rif.fill(Some(12));
    columns.latency_us.fill(Some(123_456));
    columns.report_age_ms.fill(Some(1_234));
    columns.hot.fill(Some(1));
    columns.in_flight.fill(12);
    columns.sent.fill(345);
    columns.p50_us.fill(Some(123_456));
    columns.p99_us.fill(Some(1_234_567));
    columns.share.fill(Some(1_000));
    columns.capacity_millirif.clear();
    columns.cost_us.clear();
    let bytes = serde_json::to_vec(&tick).expect("JSON").len();
    assert!(bytes < 52_000, "{bytes}");
    let columns = &mut tick.services[0].replicas;
    columns.capacity_millirif = vec![Some(12_345); 1_000];
    columns.cost_us = vec![Some(12_345); 1_000];
    let bytes = serde_json::to_vec(&tick).expect("JSON").len();
    assert!(bytes < 65_000, "{bytes}");
}
