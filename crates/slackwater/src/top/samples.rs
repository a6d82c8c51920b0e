//! The samples of `admin/live` for tests: messages of a `serve` and of a `demo` with twenty
//! replicas.

use super::message::{Compared, Decisions, Fleet, History, PooledReport, Tick};
use super::model::Model;

macro_rules! sample {
    ($name:literal) => {
        serde_json::from_str(include_str!(concat!(
            "../../../slackwater-admin/src/live/samples/",
            $name,
            ".json"
        )))
        .unwrap()
    };
}

pub(super) fn serve_fleet() -> Fleet {
    sample!("serve_fleet")
}

pub(super) fn serve_tick() -> Tick {
    sample!("serve_tick")
}

pub(super) fn demo_fleet() -> Fleet {
    sample!("demo_fleet")
}

pub(super) fn demo_tick() -> Tick {
    sample!("demo_tick")
}

pub(super) fn service_history() -> History {
    sample!("service_history")
}

pub(super) fn replica_history() -> History {
    sample!("replica_history")
}

/// Requests that went to the first replica of a `serve`, in the form of
/// `docs/reference/decisions.md`.
pub(super) fn decisions() -> Decisions {
    let decisions = serde_json::json!({"kept": 3, "matching": 3, "decisions": [
        {"id": "c", "time": "2026-01-02T03:04:05.678Z", "kept": "sampled", "status": 200, "failed": false,
            "total_us": 34_000, "attempts": [{"kind": "first", "replica": "10.0.0.1:8080", "answered": true,
                "reason": "cold", "rif_limit": 5, "reports": 12, "outcome": "success",
                "chosen": {"rif": 2, "latency_us": 16_000, "age_us": 50_000, "uses_left": 3, "hot": false, "local": false},
                "runner_up": {"replica": "10.0.0.2:8080", "rif": 1, "latency_us": 17_000, "in_flight": 0}}]},
        {"id": "b", "time": "2026-01-02T03:04:04.001Z", "kept": "slow", "status": 200, "failed": false,
            "total_us": 1_204_000, "attempts": [
                {"kind": "first", "replica": "10.0.0.3:8080", "reason": "hot", "outcome": "dropped"},
                {"kind": "hedge", "replica": "10.0.0.1:8080", "answered": true, "reason": "least_loaded", "outcome": "success"}]},
        {"id": "a", "time": "?", "kept": "failed", "status": 503, "failed": true, "total_us": 900,
            "attempts": [{"kind": "first", "replica": "10.0.0.1:8080", "reason": "fallback", "outcome": "pushed_back"}]},
    ]});
    serde_json::from_value(decisions).unwrap()
}

/// A `serve` after its first tick.
pub(super) fn serve() -> Model {
    after_a_tick(serve_fleet(), serve_tick())
}

/// A `serve` with the default policy: each report has its expected delay.
pub(super) fn serve_by_delay() -> (Fleet, Tick) {
    let (mut fleet, mut tick) = (serve_fleet(), serve_tick());
    "shortest_expected_delay".clone_into(&mut fleet.services[0].policy);
    let service = &mut tick.services[0];
    service.rif_limit = None;
    service.picks = [("lowest_score".to_owned(), 692)].into();
    service.compared = vec![Compared {
        worker: 0,
        comparison: "expected_delay".to_owned(),
        shared: [].into(),
    }];
    for report in &mut service.pool {
        // Two reports have the same, lowest delay.
        let queue = f64::from(report.rif.max(1) + 1);
        (report.uses_left, report.hot) = (None, false);
        report.factors = [
            ("in_flight".to_owned(), f64::from(report.rif)),
            ("mean_latency_us".to_owned(), 20_000.0),
            ("turn_surcharge".to_owned(), 0.0),
            ("expected_delay_us".to_owned(), queue * 20_000.0),
        ]
        .into();
        report.next = report.replica == 16;
    }
    let delay = |report: &PooledReport| report.factors["expected_delay_us"];
    (service.pool).sort_by(|left, right| {
        let order = left.worker.cmp(&right.worker);
        let order = order.then(delay(left).total_cmp(&delay(right)));
        order.then(right.next.cmp(&left.next))
    });
    for (rank, report) in (0..).zip(&mut service.pool) {
        report.rank = Some(rank);
    }
    for hot in &mut service.replicas.hot {
        *hot = hot.map(|_| 0);
    }
    (fleet, tick)
}

/// A `serve` whose policy has no reports.
pub(super) fn serve_without_reports() -> Model {
    let (mut fleet, mut tick) = (serve_fleet(), serve_tick());
    let mut policy = fleet.policies[0].clone();
    "random".clone_into(&mut policy.name);
    "none".clone_into(&mut policy.reports);
    fleet.services[0].policy.clone_from(&policy.name);
    fleet.policies.push(policy);
    let service = &mut tick.services[0];
    (service.rif_limit, service.pool) = (None, Vec::new());
    let columns = &mut service.replicas;
    columns.rif.fill(None);
    columns.hot.fill(None);
    columns.latency_us.fill(None);
    columns.report_age_ms.fill(None);
    after_a_tick(fleet, tick)
}

/// A `demo` after its first tick.
pub(super) fn demo() -> Model {
    after_a_tick(demo_fleet(), demo_tick())
}

pub(super) fn after_a_tick(fleet: Fleet, tick: Tick) -> Model {
    let mut model = Model::default();
    model.take_fleet(fleet);
    model.take_tick(tick);
    model
}
