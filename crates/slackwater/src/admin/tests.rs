//! The admin server over real sockets on loopback, and what its status says of a policy that has really worked. Metrics and
//! the documentation are next door, in `exposition`.

mod events;
mod exposition;

use super::asset::Asset;
use super::reply::reply;
use super::router::Connection;
use super::status::{PolicyCounts, Status, silent_note};
use super::*;
use crate::discovery::SourceState;
use crate::latency_histogram::{Latencies, LatencyHistogram};
use bytes::Bytes;
use core::net::SocketAddr;
use core::num::NonZeroU32;
use core::time::Duration;
use futures_util::future::BoxFuture;
use http::StatusCode;
use http_body_util::Full;
use slackwater_core::health::{HealthSettings, build};
use slackwater_core::policy::{
    Decision, Outcome, POLICIES, PolicyEntry, PolicySettings, Query, Settings, policy_named,
};
use slackwater_core::{Instant, LoadReport, ReplicaId, ReplicaIds, Rif, SplitMix64};
use slackwater_tower::client::Reported;
use slackwater_tower::server::admission::{Admission, ConcurrencyLimit, QueueConfig, TieCounts};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// Facts that the test sets.
#[derive(Clone, Default)]
pub(in crate::admin) struct Board(pub(in crate::admin) Arc<Mutex<Facts>>);

impl StatusSource for Board {
    fn facts(&self) -> BoxFuture<'_, Facts> {
        let facts = self.0.lock().expect("no test panics with it").clone();
        Box::pin(async move { facts })
    }
}

/// Five replicas, two workers, some traffic and probes: the facts of a proxy in its first second.
pub(in crate::admin) fn facts() -> Facts {
    let mut ids = ReplicaIds::new();
    let ids: Vec<_> = (0..5).filter_map(|_| ids.allocate()).collect();
    Facts {
        role: "serve",
        services: vec![ServiceFacts {
            name: "web".to_owned(),
            policy: "prequal",
            discovery: Some(SourceState {
                source: "file fleet.json".to_owned(),
                answered_at: Some(
                    SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
                ),
                failure: Some("fleet.json:1:2: syntax: expected value".to_owned()),
                changes: 2,
                failures: 1,
            }),
            replicas: (1..=5)
                .map(|number| ReplicaFacts {
                    name: format!("127.0.0.1:900{number}"),
                    address: format!("127.0.0.1:900{number}"),
                    probe_address: Some(format!("127.0.0.1:910{number}")),
                    weight: 1,
                    tier: 0,
                    health: Some(HealthFacts {
                        verdict: "up".to_owned(),
                        checks_passed: number,
                        checks_failed: 1,
                        last_failure: Some("status 503".to_owned()),
                    }),
                })
                .collect(),
            workers: vec![worker(&ids, 1), worker(&ids, 2)],
        }],
        certificates: vec![CertificateFacts {
            purpose: "listener web".to_owned(),
            file: "/etc/tls/a.pem".to_owned(),
            expires_s: Some(2_000_000_000),
        }],
        handshakes: vec![HandshakeFacts {
            listener: "web".to_owned(),
            full: 7,
            ..HandshakeFacts::default()
        }],
        log_lost: 4,
        access_log_lost: Some(3),
        client_connections: ConnectionFacts { begun: 9, open: 2 },
        proxy_headers_refused: 3,
        unreadable_requests: vec![StatusCount {
            status: 400,
            requests: 5,
        }],
        own_load: Some(LoadReport::new(
            Rif::new(3),
            Some(Duration::from_micros(1500)),
        )),
        own_queue: Some(
            Admission::new(
                QueueConfig::default(),
                ConcurrencyLimit::fixed(NonZeroU32::MIN),
            )
            .view(),
        ),
        own_ties: Some(TieCounts::default()),
        reloads: Some(ReloadFacts {
            taken: 3,
            refused: 1,
            last_at: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
            failure: Some("web.toml:1:1: polcy: unknown key".to_owned()),
        }),
    }
}

fn worker(ids: &[ReplicaId], seed: u64) -> WorkerFacts {
    let mut draw = SplitMix64::new(seed);
    let mut now = Instant::EPOCH;
    let entry = policy_named("prequal").expect("the policy");
    let health = HealthSettings::default().validate().expect("defaults");
    let mut policy = build(entry, &PolicySettings::default(), &health);
    for &id in ids {
        policy.add_replica(now, id);
    }
    let mut requests = vec![RequestCounts::default(); ids.len()];
    for round in 0..20 {
        now += Duration::from_millis(5);
        let Decision::Pick(pick) = policy.handle_query(now, Query::first(), &mut draw) else {
            panic!("five replicas are available");
        };
        while let Some(probe) = policy.poll_probe(now, &mut draw) {
            let report = LoadReport::new(Rif::new(round % 7), Some(Duration::from_millis(12)));
            policy.handle_report(now, probe.id, &report, &mut draw);
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
    policy.set_available(now, ids[4], false);
    let mut snapshot = policy.snapshot(now);
    for view in &mut snapshot.health {
        view.latency = Some(Duration::from_millis(12));
    }
    WorkerFacts {
        ids: ids.iter().map(|&id| vec![id]).collect(),
        tier: Some(0),
        requests,
        admission: AdmissionCounts {
            queued: seed,
            ..AdmissionCounts::default()
        },
        line: Some(LineFacts {
            inside: 3,
            waiting: seed,
        }),
        latency: Box::new(latency()),
        heads: vec![latencies(&[3, 4]); ids.len()],
        // The second worker heard it last.
        reported: vec![Reported {
            replica: ids[1],
            rif: Rif::new(u32::try_from(seed).expect("a small one")),
            latency: Some(Duration::from_millis(12)),
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

fn latency() -> LatencyFacts {
    let mut facts = LatencyFacts::default();
    facts.first_byte[ResponseClass::Success.index()] = latencies(&[3, 4]);
    facts.total[ResponseClass::Success.index()] = latencies(&[30, 40]);
    facts.total[ResponseClass::Incomplete.index()] = latencies(&[2]);
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
    let patience = Some(Duration::from_secs(20));
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
fn status_comes_back_as_it_was_told() {
    let lifecycle = Lifecycle::default();
    lifecycle.set_serving();
    let admin = start(server(facts(), &lifecycle));
    let answer = get(admin.address(), "/status");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: application/json"));
    assert!(answer.head.contains("cache-control: no-store"));
    let mut status: Status = serde_json::from_str(&answer.body).expect("the documented shape");
    status.uptime_ms = 0;
    assert_eq!(
        status,
        Status::new(&facts(), Phase::Serving, Duration::ZERO)
    );
}

#[test]
fn status_adds_the_workers_up() {
    let status = Status::new(&facts(), Phase::Serving, Duration::from_millis(1500));
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
fn services_are_told_apart_and_their_counts_added_up() {
    let mut facts = facts();
    let second = ServiceFacts {
        name: "api".to_owned(),
        policy: "round_robin",
        ..facts.services[0].clone()
    };
    facts.services.push(second);
    facts.services[1].workers.pop();
    let status = Status::new(&facts, Phase::Serving, Duration::ZERO);
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
fn latencies_are_told_by_what_became_of_requests() {
    let status = Status::new(&facts(), Phase::Serving, Duration::ZERO);
    let told: Vec<_> = (status.services[0].latency.iter())
        .map(|it| (it.class.as_str(), it.requests, it.first_byte_us.is_some()))
        .collect();
    assert_eq!(told, [("2xx", 4, true), ("incomplete", 2, false)]);
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
fn of_each_replica_the_newest_report_is_told_whoever_heard_it() {
    let mut facts = facts();
    let reported = |facts: &Facts| {
        let status = Status::new(facts, Phase::Serving, Duration::ZERO);
        assert_eq!(status.replicas[0].reported, None);
        let last = status.replicas[1].reported.as_ref();
        last.map(|it| (it.rif, it.latency_us, it.age_ms))
    };
    assert_eq!(reported(&facts), Some((2, Some(12_000), 5)));
    facts.services[0].workers.reverse();
    assert_eq!(reported(&facts), Some((2, Some(12_000), 5)));
    // A part of it was asked later.
    let parts = &mut facts.services[0].workers[1];
    let (replica, other) = (parts.ids[1][0], parts.ids[0][0]);
    parts.ids[0].clear();
    parts.ids[1].push(other);
    parts.reported.push(Reported {
        replica: other,
        rif: Rif::new(7),
        latency: None,
        age: Duration::ZERO,
    });
    assert_ne!(replica, other);
    assert_eq!(reported(&facts), Some((7, None, 0)));
}

#[test]
fn a_silent_replica_is_told_in_words() {
    let mut facts = facts();
    facts.services[0].workers[1].snapshot.replicas[2].silent = true;
    facts.services[0].workers[0].snapshot.replicas[3].draining = true;
    let status = Status::new(&facts, Phase::Serving, Duration::ZERO);
    let silent: Vec<_> = status
        .replicas
        .iter()
        .map(|replica| replica.silent)
        .collect();
    assert_eq!(silent, [false, false, true, false, false]);
    let note = status.replicas[2].note.as_deref();
    assert_eq!(
        note,
        Some("answers no probes: balanced by what this proxy sees itself")
    );
    assert_eq!(status.replicas[1].note, None);
    assert!(status.replicas[3].draining);

    facts.services[0].policy = "weighted_round_robin";
    let status = Status::new(&facts, Phase::Serving, Duration::ZERO);
    let note = status.replicas[2].note.as_deref();
    assert_eq!(
        note,
        Some("answers no probes: the policy does without its reports")
    );
    facts.services[0].workers[1].snapshot.replicas[2].lost = true;
    let status = Status::new(&facts, Phase::Serving, Duration::ZERO);
    let note = status.replicas[2].note.as_deref().unwrap_or_default();
    assert!(status.replicas[2].lost && note.contains("gets no requests"));
    assert!(!status.replicas[1].lost);
}

/// What a policy does about a fleet of which nobody answers: whether it calls them silent, and whether it answers probes
/// from its own counts.
fn when_nobody_answers(entry: &PolicyEntry) -> (bool, bool) {
    let mut policy = (entry.build)(&PolicySettings::default());
    let (mut ids, mut draw) = (ReplicaIds::new(), SplitMix64::new(1));
    let mut now = Instant::EPOCH;
    for _ in 0..3 {
        policy.add_replica(now, ids.allocate().expect("room"));
    }
    for _ in 0..1_000 {
        now += Duration::from_millis(10);
        if let Decision::Pick(pick) = policy.handle_query(now, Query::first(), &mut draw) {
            policy.handle_query_done(now, pick.ticket, Outcome::Success);
        }
        while policy.poll_probe(now, &mut draw).is_some() {}
        policy.handle_timeout(now, &mut draw);
    }
    let silent = policy.snapshot(now).replicas.iter().all(|r| r.silent);
    (silent, policy.counters().probes_local > 0)
}

#[test]
fn what_is_said_of_silent_replicas_is_what_the_policy_does() {
    let mut told = 0;
    for entry in POLICIES {
        let (silent, local) = when_nobody_answers(entry);
        if silent {
            let note = silent_note(entry.name);
            assert_eq!(note.contains("sees itself"), local, "{}", entry.name);
            told += 1;
        }
    }
    assert!(told >= 6, "four that probe, two that poll");
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

#[test]
fn wrong_paths_methods_and_bodies_are_told_what_there_is() {
    let lifecycle = Lifecycle::default();
    let server = server(Facts::default(), &lifecycle).post("/knob", |asked| {
        Box::pin(async move { reply(StatusCode::OK, "text/x-echo", asked.body) })
    });
    let admin = start(server);
    let address = admin.address();
    let absent = get(address, "/stats");
    assert_eq!(absent.status, 404);
    assert_eq!(
        absent.body,
        "there is no /stats here; there are /status, /metrics, /healthz, /readyz, /events, /history, /knob\n"
    );
    let post = exchange(
        address,
        "POST /status HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n",
    );
    assert_eq!(post.status, 405);
    assert!(post.head.contains("allow: get, head"));
    assert_eq!(post.body, "/status answers GET, HEAD only\n");
    let knob = get(address, "/knob");
    assert_eq!(knob.status, 405);
    assert!(knob.head.contains("allow: post\r"), "{}", knob.head);
    let body = exchange(
        address,
        "GET /status HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi",
    );
    assert_eq!(body.status, 400);
    let head = exchange(address, "HEAD /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(get(address, "/healthz?verbose").status, 200);
    let odd = get(address, "/healthz?a=%zz");
    assert_eq!(odd.status, 400);
    assert!(
        odd.body.starts_with("parameter \"a=%zz\": is not "),
        "{}",
        odd.body
    );
    let post = |length: usize| {
        let (head, body) = ("POST /knob HTTP/1.1\r\nhost: a\r\n", "x".repeat(length));
        let text = format!("{head}content-length: {length}\r\n\r\n{body}");
        exchange(address, &text)
    };
    assert_eq!(post(16 << 10).body.len(), 16 << 10);
    assert_eq!(post((16 << 10) + 1).status, 413);
}

const PAGE: Asset = Asset {
    path: "/",
    content_type: "text/html",
    body: "<p>hello",
};

#[test]
fn a_file_comes_once_and_then_only_if_it_has_changed() {
    let admin = start(server(Facts::default(), &Lifecycle::default()).asset(PAGE));
    let address = admin.address();
    let page = get(address, "/");
    assert_eq!((page.status, page.body.as_str()), (200, "<p>hello"));
    for header in [
        "content-type: text/html\r",
        "cache-control: no-cache\r",
        "x-content-type-options: nosniff\r",
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; ",
    ] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    assert!(!page.head.contains("unsafe"), "{}", page.head);
    let tag = page.head.split_once("etag: ").expect("a tag").1;
    let tag = tag.split_once('\r').expect("a line").0;
    let again = |tags: &str| {
        let text = format!("GET / HTTP/1.1\r\nhost: a\r\nif-none-match: {tags}\r\n\r\n");
        let answer = exchange(address, &text);
        (answer.status, answer.body)
    };
    assert_eq!(again(tag), (304, String::new()));
    assert_eq!(again(&format!("\"other\", W/{tag}")), (304, String::new()));
    assert_eq!(again("\"other\"").0, 200);
    let head = exchange(address, "HEAD / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(head.head.contains("content-length: 8\r"), "{}", head.head);
    let post = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(exchange(address, post).status, 405);
}

#[test]
fn a_connection_carries_more_than_one_request_if_its_client_asks_for_that() {
    let admin = start(server(Facts::default(), &Lifecycle::default()));
    let kept = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: Keep-Alive\r\n\r\n";
    let last = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut stream = TcpStream::connect(admin.address()).expect("the server listens");
    let all = format!("{kept}{kept}{last}{last}");
    stream.write_all(all.as_bytes()).expect("the server reads");
    let mut answers = String::new();
    // What was sent after the last answer may reset the connection.
    let _ = stream.read_to_string(&mut answers);
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{answers}");
    assert_eq!(answers.matches("connection: close").count(), 1, "{answers}");
}

#[test]
fn a_connection_that_is_kept_does_not_hold_up_the_end() {
    let admin = start(server(Facts::default(), &Lifecycle::default()));
    let mut stream = TcpStream::connect(admin.address()).expect("the server listens");
    let kept = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: keep-alive\r\n\r\n";
    stream.write_all(kept.as_bytes()).expect("the server reads");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    drop(admin);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("an end");
    assert!(rest.ends_with("ok\n"), "{rest}");
}

#[test]
fn a_head_beyond_the_limit_and_garbage_are_refused() {
    let lifecycle = Lifecycle::default();
    let admin = start(server(Facts::default(), &lifecycle));
    let long = format!(
        "GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n",
        "y".repeat(15 << 10)
    );
    assert_eq!(
        exchange(admin.address(), &long).status,
        200,
        "within the limit"
    );
    assert_eq!(exchange(admin.address(), "what?\r\n\r\n").status, 400);
    let mut stream = TcpStream::connect(admin.address()).expect("the server listens");
    let endless = format!("GET /healthz HTTP/1.1\r\nx: {}", "y".repeat(256 << 10));
    // The server may hang up while we still write, and its answer may be lost with that.
    let _ = stream.write_all(endless.as_bytes());
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    assert_eq!(get(admin.address(), "/healthz").status, 200);
}

#[test]
fn connections_beyond_the_cap_wait_for_their_turn() {
    let lifecycle = Lifecycle::default();
    let admin = start(server(Facts::default(), &lifecycle));
    // Four connections that say nothing take all the room...
    let idle: Vec<_> = (0..4)
        .map(|_| TcpStream::connect(admin.address()).expect("the backlog has room"))
        .collect();
    let mut waiting = TcpStream::connect(admin.address()).expect("the backlog has room");
    waiting
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
        .expect("the system's buffer has room");
    // ... until they leave.
    drop(idle);
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Never has its facts ready.
struct Stuck;

impl StatusSource for Stuck {
    fn facts(&self) -> BoxFuture<'_, Facts> {
        Box::pin(core::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_answer_is_not_waited_for() {
    let server = AdminServer::new(Arc::new(Stuck), Lifecycle::default(), 1);
    let ask = async |path: &str| {
        let request = http::Request::get(path).body(Full::<Bytes>::default());
        let request = request.expect("a request");
        server
            .router()
            .answer(request, Connection::default())
            .await
            .status()
    };
    for path in ["/status", "/metrics", "/history?service=web"] {
        assert_eq!(ask(path).await, StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
    assert_eq!(
        ask("/healthz").await,
        StatusCode::OK,
        "it lives all the same"
    );
}

#[test]
fn a_taken_port_is_named() {
    let first = bind("127.0.0.1:0".parse().expect("literal")).expect("a free port");
    let address = first.local_addr().expect("bound");
    let fault = bind(address).expect_err("it is taken").to_string();
    assert!(
        fault.starts_with(&format!("admin server: {address} is in use")),
        "{fault}"
    );
}

#[test]
fn a_dropped_server_frees_its_port() {
    let admin = start(server(Facts::default(), &Lifecycle::default()));
    let address = admin.address();
    drop(admin);
    assert!(TcpStream::connect(address).is_err());
}
