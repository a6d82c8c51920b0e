//! The admin server over real sockets on loopback, and its status of a policy that has actually
//! worked. Tests of metrics and documentation are in `exposition`.

mod connections;
mod events;
mod exposition;
mod keys;
mod text_formats;
mod xds;

use super::status::{PolicyCounts, ReplicaStatus, Status};
use super::*;
use core::net::SocketAddr;
use core::num::{NonZeroU32, NonZeroU128};
use core::time::Duration;
use slackwater_core::health::{HealthSettings, build};
use slackwater_core::policy::{
    Decision, Event, Outcome, PolicySettings, Query, Settings, policy_named,
};
use slackwater_core::tracker::CapacitySource;
use slackwater_core::{Instant, LoadReport, NoDraw, Rate, ReplicaId, ReplicaIds, Rif, SplitMix64};
use slackwater_telemetry::attempt_failure::{AttemptEvidence, FailureKind, LastFailure};
use slackwater_telemetry::exemplars::{Exemplar, Reference};
use slackwater_telemetry::facts::{
    AdmissionCounts, BudgetFacts, CertificateFacts, ConnectionFacts, Facts, HandshakeFacts,
    HealthFacts, LatencyFacts, Lifecycle, LineFacts, ListenerFacts, OverrideFacts, Phase,
    RecentFacts, ReloadFacts, ReplicaFacts, RequestCounts, ResponseClass, RouteFacts, RouteService,
    ServiceExemplars, ServiceFacts, SourceState, StatusCount, StatusSource, UnroutedFacts,
    WorkerFacts,
};
use slackwater_telemetry::latency_histogram::{Latencies, LatencyHistogram};
use slackwater_telemetry::replica_state::ServiceStanding;
use slackwater_telemetry::state_tracker::StateTracker;
use slackwater_telemetry::trace::{SpanCounts, TraceId};
use slackwater_tower::client::Reported;
use slackwater_tower::server::admission::{Admission, ConcurrencyLimit, QueueConfig, TieCounts};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use xds::xds_state;

/// Facts that a test sets.
#[derive(Clone, Default)]
pub(crate) struct Board(pub(crate) Arc<Mutex<Facts>>);

impl StatusSource for Board {
    fn facts(&self) -> Facts {
        noted(&self.0.lock().expect("no test panics with it"))
    }
}

/// The facts with the state of each replica, as a source fills it in. The last replica had no
/// weight a second before.
pub(crate) fn noted(facts: &Facts) -> Facts {
    let tracker = StateTracker::default();
    tracker.observe(SystemTime::UNIX_EPOCH, || {
        let mut services = facts.services.clone();
        let replicas = services.iter_mut().filter_map(|it| it.replicas.last_mut());
        replicas.for_each(|replica| replica.weight = 0);
        services
    });
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    Facts {
        services: tracker.observe(now, || facts.services.clone()),
        ..facts.clone()
    }
}

/// Five replicas, two workers, some traffic and probes: the facts of a proxy in its first second.
pub(crate) fn facts() -> Facts {
    let mut ids = ReplicaIds::new();
    let ids: Vec<_> = (0..5).filter_map(|_| ids.allocate()).collect();
    Facts {
        role: "serve",
        services: vec![ServiceFacts {
            name: "web".to_owned(),
            number: 1,
            policy: "prequal",
            discovery: Some(SourceState {
                source: "file fleet.json".to_owned(),
                answered_at: SystemTime::UNIX_EPOCH
                    .checked_add(Duration::from_millis(1_700_000_000_123)),
                failure: Some("fleet.json:1:2: syntax: expected value".to_owned()),
                changes: 2,
                failures: 1,
                listed: 5,
                xds: Some(xds_state()),
            }),
            replicas: (1..=5)
                .map(|number| ReplicaFacts {
                    name: format!("127.0.0.1:900{number}"),
                    address: format!("127.0.0.1:900{number}"),
                    probe_address: Some(format!("127.0.0.1:910{number}")),
                    weight: 1,
                    fleet_weight: 1,
                    zone: (number < 3).then(|| format!("zone-{number}")),
                    far: number == 2,
                    health: Some(HealthFacts {
                        verdict: "up".to_owned(),
                        checks_passed: number,
                        checks_failed: 1,
                        went_down: 2,
                        came_back: 1,
                        last_failure: Some("status 503".to_owned()),
                        checked_at_ms: Some(1_700_000_000_456),
                    }),
                    ..ReplicaFacts::default()
                })
                .collect(),
            workers: vec![worker(&ids, 1), worker(&ids, 2)],
            standing: ServiceStanding::default(),
            recent: RecentFacts::default(),
        }],
        listeners: [ListenerFacts {
            name: "web".to_owned(),
            address: "0.0.0.0:443".to_owned(),
            tls: vec!["h2".to_owned()],
            client_certificates: "none".to_owned(),
            proxy_protocol: false,
        }]
        .into(),
        routes: [RouteFacts {
            listeners: vec!["web".to_owned()],
            hosts: vec!["a.test".to_owned()],
            only: vec!["GET".to_owned()],
            services: vec![RouteService {
                name: "web".to_owned(),
                weight: 1,
            }],
            path: Some("/api/*".to_owned()),
            also: None,
        }]
        .into(),
        certificates: vec![CertificateFacts {
            purpose: "listener web".to_owned(),
            file: "/etc/tls/a.pem".to_owned(),
            names: vec!["a.test".to_owned()],
            expires_s: Some(2_000_000_000),
        }],
        handshakes: vec![HandshakeFacts {
            listener: "web".to_owned(),
            full: 7,
            ..HandshakeFacts::default()
        }],
        log_lost: 4,
        access_log_lost: Some(3),
        spans: Some(SpanCounts {
            exported: 40,
            dropped: 2,
            exports_failed: 1,
        }),
        recording: Some(false),
        client_connections: ConnectionFacts { begun: 9, open: 2 },
        client_ends: vec![("client", 6), ("idle", 1)],
        proxy_headers_refused: 3,
        unreadable_requests: vec![StatusCount {
            status: 400,
            requests: 5,
        }],
        unrouted_requests: UnroutedFacts {
            no_route: 6,
            doubtful_path: 5,
            refused: 4,
            redirected: 3,
            responded: 2,
        },
        own_load: Some(own_load()),
        own_capacity_source: Some(CapacitySource::Waits),
        own_queue: Some(
            Admission::new(
                QueueConfig::default(),
                ConcurrencyLimit::fixed(NonZeroU32::MIN),
            )
            .view(),
        ),
        own_waits: latencies(&[5]),
        own_ties: Some(TieCounts::default()),
        own_hints: Some(keys::HINTS),
        reloads: Some(ReloadFacts {
            taken: 3,
            refused: 1,
            last_at: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
            failure: Some("web.toml:1:1: polcy: unknown key".to_owned()),
        }),
        overrides: Some(OverrideFacts {
            allowed: true,
            settings: 2,
            replicas: 1,
            refused: 3,
        }),
    }
}

fn own_load() -> LoadReport {
    let mut report = LoadReport::new(Rif::new(3), Some(Duration::from_micros(1500)));
    report.capacity_millirif = Some(4_500);
    report.cost = Some(Duration::from_micros(700));
    report.cpu_millionths = Some(250_000);
    report
}

/// The last replica has given no response to the last attempts.
fn evidence() -> Vec<AttemptEvidence> {
    let mut evidence = vec![AttemptEvidence::default(); 5];
    evidence[4] = AttemptEvidence {
        failures: 4,
        in_a_row: 1,
        first_age: Duration::from_secs(2),
        last: Some(LastFailure {
            kind: FailureKind::Refused,
            error: "no connection: refused".to_owned(),
            age: Duration::from_secs(1),
        }),
        ..AttemptEvidence::default()
    };
    evidence
}

fn worker(ids: &[ReplicaId], seed: u64) -> WorkerFacts {
    let mut draw = SplitMix64::new(seed);
    let mut now = Instant::EPOCH;
    let entry = policy_named("prequal").expect("the policy");
    let health = HealthSettings::default().validate().expect("defaults");
    let mut policy = build(entry, &PolicySettings::default(), &health);
    for &id in ids {
        policy.handle(now, Event::Added(id), &mut NoDraw);
    }
    let mut requests = vec![RequestCounts::default(); ids.len()];
    for round in 0..20 {
        now += Duration::from_millis(5);
        let Decision::Pick(pick) = policy.choose(now, Query::first(), &mut draw, None) else {
            panic!("five replicas are available");
        };
        while let Some(probe) = policy.poll_probe(now, &mut draw) {
            let report = LoadReport::new(Rif::new(round % 7), Some(Duration::from_millis(12)));
            policy.handle(now, Event::Report(probe.id, &report), &mut draw);
        }
        let place = ids.iter().position(|&id| id == pick.ticket.replica());
        let counts = &mut requests[place.expect("a replica of the fleet")];
        counts.sent += 1;
        counts.responses_2xx += 1;
        // The last three stay in flight.
        if round < 17 {
            policy.handle_query_done(now, pick.ticket, Outcome::Success);
        }
    }
    policy.handle(now, Event::Available(ids[4], false), &mut NoDraw);
    let mut snapshot = policy.snapshot(now);
    for view in &mut snapshot.health {
        view.latency = Some(Duration::from_millis(12));
    }
    assert_eq!(snapshot.probe_rate, Rate::per_query(3), "by default");
    // The mean of one and two.
    snapshot.probe_rate = Rate::from_millionths(1_500_000 * u32::try_from(seed).expect("small"));
    snapshot.keys = keys::view(ids);
    WorkerFacts {
        ids: ids.iter().map(|&id| vec![id]).collect(),
        tier: Some(0),
        requests,
        in_flight: vec![1, 2, 0, 0, 0],
        evidence: evidence(),
        admission: AdmissionCounts {
            queued: seed,
            ..AdmissionCounts::default()
        },
        line: Some(LineFacts {
            inside: 3,
            waiting: seed,
            age_us: 1_000 * seed,
        }),
        waits: latencies(&[7]),
        replica_ends: vec![("idle", seed), ("failed", 1)],
        budgets: vec![BudgetFacts {
            name: "hedge",
            left_millionths: 1_500_000 * seed,
            size_millionths: 10_000_000,
        }],
        exemplars: exemplars(seed),
        latency: Box::new(latency()),
        heads: vec![latencies(&[3, 4]); ids.len()],
        // The second worker received the newest report.
        reported: vec![Reported {
            replica: ids[1],
            rif: Rif::new(u32::try_from(seed).expect("a small one")),
            latency: Some(Duration::from_millis(12)),
            capacity_millirif: Some(2_500),
            cost: Some(Duration::from_micros(900)),
            age: Duration::from_millis(10 / seed),
        }],
        counters: policy.counters(),
        snapshot,
    }
}

fn latencies(latencies_ms: &[u64]) -> Latencies {
    let histogram = LatencyHistogram::default();
    let each = latencies_ms.iter().copied().map(Duration::from_millis);
    each.for_each(|latency| histogram.add(latency));
    histogram.read()
}

/// Exemplars of both histograms, in the bucket up to 50 ms; the second worker's is newer.
fn exemplars(seed: u64) -> ServiceExemplars {
    let mut exemplars = ServiceExemplars::default();
    let of = |latency_ms, trace: Option<u128>| Exemplar {
        reference: Reference::new(trace.and_then(NonZeroU128::new).map(TraceId), Some("a\"1"))
            .expect("an id"),
        latency: Duration::from_millis(latency_ms),
        at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_000 + seed),
    };
    let class = ResponseClass::Success.index();
    exemplars.first_byte[class].keep(of(3, None));
    exemplars.total[class].keep(of(20 + 10 * seed, Some(seed.into())));
    exemplars
}

fn latency() -> LatencyFacts {
    let mut facts = LatencyFacts::default();
    facts.first_byte[ResponseClass::Success.index()] = latencies(&[3, 4]);
    facts.total[ResponseClass::Success.index()] = latencies(&[30, 40]);
    facts.total[ResponseClass::Broken.index()] = latencies(&[2]);
    facts
}

fn start(server: AdminServer) -> AdminThread {
    let listener = bind("127.0.0.1:0".parse().expect("literal")).expect("a free port");
    server.spawn(listener).expect("a thread")
}

fn server(facts: Facts, lifecycle: &Lifecycle) -> AdminServer {
    let board = Board(Arc::new(Mutex::new(facts)));
    AdminServer::new(Arc::new(board), lifecycle.clone(), 4)
}

/// An answer: status, head in lower case, body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// Sends `text` and reads to the end; the server closes after each answer.
fn exchange(address: SocketAddr, text: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let patience = Some(Duration::from_mins(1));
    stream.set_read_timeout(patience).expect("a socket");
    stream.write_all(text.as_bytes()).expect("the server reads");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("the server answers");
    let (head, body) = all.split_once("\r\n\r\n").expect("a head and a body");
    Answer {
        status: head[9..12].parse().expect("a status"),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

fn get(address: SocketAddr, path: &str) -> Answer {
    exchange(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: admin\r\n\r\n"),
    )
}

#[test]
fn status_round_trips() {
    let lifecycle = Lifecycle::default();
    lifecycle.set_serving();
    let admin = start(server(facts(), &lifecycle));
    let answer = get(admin.address(), "/status");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: application/json"));
    assert!(answer.head.contains("cache-control: no-store"));
    let status: Status = serde_json::from_str(&answer.body).expect("the documented shape");
    let expected = Status::new(&noted(&facts()), Phase::Serving, Duration::ZERO);
    assert_eq!(timeless(status), timeless(expected));
}

/// The status without values that depend on the time of the request.
fn timeless(mut status: Status) -> Status {
    status.uptime_ms = 0;
    for failure in status
        .replicas
        .iter_mut()
        .filter_map(|it| it.failure.as_mut())
    {
        (failure.first_at_ms, failure.last_at_ms) = (0, 0);
    }
    status
}

#[test]
fn status_adds_up_the_workers() {
    let status = Status::new(
        &noted(&facts()),
        Phase::Serving,
        Duration::from_millis(1500),
    );
    assert_eq!(status.uptime_ms, 1500);
    assert_eq!(status.workers.len(), 2);
    assert_eq!(status.counts.picks.values().sum::<u64>(), 40);
    let sent: u64 = status
        .replicas
        .iter()
        .map(|replica| replica.requests.sent)
        .sum();
    assert_eq!(sent, 40);
    let in_flight: u64 = status
        .replicas
        .iter()
        .map(|replica| replica.in_flight)
        .sum();
    assert_eq!(in_flight, 6);
    assert!(status.counts.probes["answered"] > 0);
    let available: Vec<_> = status
        .replicas
        .iter()
        .map(|replica| replica.available)
        .collect();
    assert_eq!(available, [true, true, true, true, false]);
    for worker in &status.workers {
        assert!(!worker.pool.is_empty());
        let known = |name: &String| status.replicas.iter().any(|replica| replica.name == *name);
        assert!(worker.pool.iter().all(|report| known(&report.replica)));
        assert!(
            worker
                .pool
                .iter()
                .all(|report| report.latency_us == Some(12_000))
        );
    }
}

#[test]
fn services_are_separate_and_their_counts_are_added_up() {
    let mut facts = facts();
    let second = ServiceFacts {
        name: "api".to_owned(),
        policy: "round_robin",
        ..facts.services[0].clone()
    };
    facts.services.push(second);
    facts.services[1].workers.pop();
    let status = Status::new(&noted(&facts), Phase::Serving, Duration::ZERO);
    let services: Vec<_> = (status.services.iter())
        .map(|service| (service.name.as_str(), service.policy.as_str()))
        .collect();
    assert_eq!(services, [("web", "prequal"), ("api", "round_robin")]);
    let picks = |counts: &PolicyCounts| counts.picks.values().sum::<u64>();
    assert_eq!(picks(&status.services[0].counts), 40);
    assert_eq!(picks(&status.services[1].counts), 20);
    assert_eq!(picks(&status.counts), 60);
    assert_eq!(status.replicas.len(), 10);
    let of_api = status.replicas.iter().filter(|it| it.service == "api");
    assert_eq!(of_api.map(|it| it.requests.sent).sum::<u64>(), 20);
    let workers: Vec<_> = (status.workers.iter())
        .map(|worker| (worker.service.as_str(), worker.worker))
        .collect();
    assert_eq!(workers, [("web", 0), ("web", 1), ("api", 0)]);
    let text = exposition::scraped(&facts, 1_000, metrics::Format::OpenMetrics);
    assert!(text.contains("slackwater_workers 2\n"), "{text}");
    let picked = "slackwater_picks_total{service=\"api\",reason=\"";
    assert!(text.contains(picked), "{text}");
    let sent = "slackwater_requests_total{service=\"api\",replica=\"127.0.0.1:9001\"}";
    assert!(text.contains(sent), "{text}");
}

#[test]
fn latencies_are_reported_by_outcome() {
    let status = Status::new(&noted(&facts()), Phase::Serving, Duration::ZERO);
    let told: Vec<_> = (status.services[0].latency.iter())
        .map(|it| (it.class.as_str(), it.requests, it.first_byte_us.is_some()))
        .collect();
    assert_eq!(told, [("2xx", 4, true), ("broken", 2, false)]);
    let total = status.services[0].latency[0].total_us.as_ref();
    let total = total.map(|it| (it.p50, it.p99));
    assert_eq!(
        total,
        Some((30_000, 42_500)),
        "the middles of 25–35 and 35–50 ms"
    );
    let head = status.replicas[0].head_us.as_ref().map(|it| it.p99);
    assert_eq!(head, Some(4_250), "the middle of 3.5–5 ms");
}

#[test]
fn the_newest_report_of_any_worker_is_shown() {
    let mut facts = facts();
    let reported = |facts: &Facts| {
        let status = Status::new(&noted(facts), Phase::Serving, Duration::ZERO);
        assert_eq!(status.replicas[0].reported, None);
        let last = status.replicas[1].reported.as_ref();
        last.map(|it| {
            (
                it.rif,
                it.latency_us,
                it.capacity_millirif,
                it.cost_us,
                it.age_ms,
            )
        })
    };
    let last = Some((2, Some(12_000), Some(2_500), Some(900), 5));
    assert_eq!(reported(&facts), last);
    facts.services[0].workers.reverse();
    assert_eq!(reported(&facts), last);
    // A part of the replica was probed later.
    let parts = &mut facts.services[0].workers[1];
    let (replica, other) = (parts.ids[1][0], parts.ids[0][0]);
    parts.ids[0].clear();
    parts.ids[1].push(other);
    parts.reported.push(Reported {
        replica: other,
        rif: Rif::new(7),
        latency: None,
        capacity_millirif: None,
        cost: None,
        age: Duration::ZERO,
    });
    assert_ne!(replica, other);
    assert_eq!(reported(&facts), Some((7, None, None, None, 0)));
}

#[test]
fn replica_state_has_start_and_reason() {
    let mut facts = facts();
    facts.services[0].workers[1].snapshot.replicas[2].unprobed = true;
    facts.services[0].workers[0].snapshot.replicas[3].draining = true;
    let of = |facts: &Facts| {
        let status = Status::new(&noted(facts), Phase::Serving, Duration::ZERO);
        let of = |it: &ReplicaStatus| (it.state.clone(), it.why.clone().unwrap_or_default());
        let told: Vec<_> = status.replicas.iter().map(of).collect();
        let told = told
            .into_iter()
            .map(|(state, why)| format!("{state} {why}"));
        (status, told.collect::<Vec<_>>())
    };
    let (status, told) = of(&facts);
    let expected = [
        "available ",
        "available ",
        "unprobed no probe answered, so local measurements are used",
        "draining the replica reports that it drains",
        "available backup: its tier is not in use",
    ];
    assert_eq!(told, expected);
    assert!(!status.replicas[4].available);

    facts.services[0].policy = "weighted_round_robin";
    let (_, told) = of(&facts);
    assert_eq!(
        told[2],
        "unprobed no probe answered, so it counts as an average replica"
    );
    facts.services[0].workers[1].snapshot.replicas[2].lost = true;
    let (_, told) = of(&facts);
    assert_eq!(
        told[2],
        "unreachable probes time out, while other replicas answer"
    );
}

#[test]
fn state_keeps_the_time_of_its_start() {
    let tracker = StateTracker::default();
    let mut facts = facts();
    let see = |facts: &Facts, seconds| {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let services = tracker.observe(at, || facts.services.clone());
        let facts = Facts {
            services,
            ..facts.clone()
        };
        let status = Status::new(&facts, Phase::Serving, Duration::ZERO);
        status.replicas[1].since_ms
    };
    assert_eq!(see(&facts, 1), None, "since the start");
    facts.services[0].replicas[1].drained = true;
    assert_eq!((see(&facts, 7), see(&facts, 9)), (Some(7_000), Some(7_000)));
}

#[test]
fn readiness_follows_the_life_of_the_process() {
    let lifecycle = Lifecycle::default();
    let admin = start(server(Facts::default(), &lifecycle));
    let ready = || {
        let answer = get(admin.address(), "/readyz");
        (answer.status, answer.body)
    };
    assert_eq!(ready(), (503, "starting\n".to_owned()));
    assert_eq!(get(admin.address(), "/healthz").status, 200);
    lifecycle.set_serving();
    assert_eq!(ready(), (200, "serving\n".to_owned()));
    lifecycle.set_draining();
    assert_eq!(ready(), (503, "draining\n".to_owned()));
    lifecycle.set_serving();
    assert_eq!(ready().0, 503, "there is no way back");
    assert_eq!(get(admin.address(), "/healthz").status, 200);
}
