//! The knobs, turned over real HTTP, and the effects: at the replicas, in the live data, in the
//! status.

use super::{LIMIT, Running, exchange};
use core::net::SocketAddr;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// The live data of a running demo.
pub(crate) struct Live(BufReader<TcpStream>);

impl Live {
    pub(crate) fn open(running: &Running) -> Self {
        let mut stream = TcpStream::connect(running.page).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(stream, "GET /events HTTP/1.1\r\nhost: demo\r\n\r\n").unwrap();
        Self(BufReader::new(stream))
    }

    /// The next event of that name that satisfies the condition.
    pub(crate) fn wait(&mut self, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        let (event, mut is_it) = (format!("event: {name}"), false);
        loop {
            assert!(start.elapsed() < LIMIT, "no {name} as it should be");
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended");
            if line.starts_with("event: ") {
                is_it = line.trim_end() == event;
            }
            if let Some(data) = line.strip_prefix("data: ").filter(|_| is_it) {
                let message = serde_json::from_str(data).unwrap();
                if condition(&message) {
                    return message;
                }
            }
        }
    }
}

impl Running {
    /// Turns a knob. Returns status and body of the answer.
    fn post(&self, path: &str, headers: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n");
        exchange(self.page, &format!("{head}{body}"))
    }

    /// Turns a knob as the page does. Returns what is in force then.
    fn turn(&self, knob: &str, body: &str) -> Value {
        let page = self.page;
        let json = "content-type: application/json\r\n";
        let headers = format!("host: {page}\r\norigin: http://{page}\r\n{json}");
        let (status, body) = self.post(&format!("/demo/{knob}"), &headers, body);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }
}

/// The address of a replica, by side and index.
fn address(fleet: &Value, side: usize, replica: usize) -> SocketAddr {
    let replica = &fleet["services"][side]["replicas"][replica];
    replica["address"].as_str().unwrap().parse().unwrap()
}

const ASK: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

#[test]
fn load_neighbour_and_kill_controls_act_on_both_sides() {
    let running = Running::start(&["--rate", "60", "--replicas", "4", "--seed", "3"]);
    let mut live = Live::open(&running);
    let fleet = live.wait("fleet", |_| true);
    assert_eq!(fleet["interval_ms"], 500);
    assert_eq!(fleet["services"][0]["name"], "prequal");
    assert_eq!(fleet["services"][1]["name"], "round_robin");
    assert_eq!(fleet["demo"]["faults"][2], "stalled");
    live.wait("tick", |tick| {
        tick["demo"]["sides"][1]["requests"].as_u64() > Some(20)
    });

    // Load: the same on both sides.
    let in_force = running.turn("load", r#"{"rate": 120}"#);
    assert_eq!(
        (&in_force["rate"], &in_force["weather"]),
        (&120.0.into(), &true.into())
    );
    assert_eq!(in_force["sides"], Value::Null);
    let is_fast = |side: &Value| side["rate"].as_f64() > Some(90.0);
    let tick = live.wait("tick", |tick| {
        tick["services"].as_array().unwrap().iter().all(is_fast)
    });
    assert_eq!(tick["demo"]["rate"], 120.0);
    running.turn("load", r#"{"rate": 60}"#);

    // A noisy neighbour.
    let in_force = running.turn("replica", r#"{"replica": 1, "taken_percent": 90}"#);
    assert_eq!(
        in_force["replicas"]["taken_percent"],
        serde_json::json!([0, 90, 0, 0])
    );
    let left = |tick: &Value| tick["demo"]["replicas"]["capacity_milli"][1].as_u64();
    assert!(left(&serde_json::json!({"demo": in_force})) < Some(600));
    running.turn("replica", r#"{"replica": 1, "taken_percent": 0}"#);

    // Kill: the replica is gone on both sides, and Prequal notices by its probes.
    running.turn("replica", r#"{"replica": 2, "fault": "killed"}"#);
    for side in 0..2 {
        let refused = TcpStream::connect(address(&fleet, side, 2)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{side}");
    }
    let is_failing = |tick: &Value| tick["services"][1]["replicas"]["failed"][2].as_u64() > Some(0);
    live.wait("tick", is_failing);
    let killed = serde_json::json!([0, 0, 1, 0]);
    live.wait("tick", |tick| tick["demo"]["replicas"]["fault"] == killed);
    running.turn("replica", r#"{"replica": 2, "fault": "none"}"#);
    for side in 0..2 {
        assert_eq!(exchange(address(&fleet, side, 2), ASK).0, 200, "{side}");
    }

    running.signal("INT");
    let (ended, said) = running.end();
    assert!(ended.success(), "{said}");
    assert!(said.contains("knobs were turned (6)"), "{said}");
}

#[test]
fn a_replica_stalls_or_fails_on_both_sides_until_all_is_reset() {
    let running = Running::start(&["--rate", "60", "--replicas", "4", "--seed", "3"]);
    let mut live = Live::open(&running);
    let fleet = live.wait("fleet", |_| true);
    live.wait("tick", |tick| {
        tick["services"][0]["probes"]["answered"].as_u64() > Some(0)
    });

    // Stall: connections are accepted, but nothing is answered, not even probes. Afterwards the
    // replica continues.
    running.turn("replica", r#"{"replica": 3, "fault": "stalled"}"#);
    let mut asked: Vec<_> = (0..2)
        .map(|side| {
            let mut stream = TcpStream::connect(address(&fleet, side, 3)).unwrap();
            stream.write_all(ASK.as_bytes()).unwrap();
            stream
        })
        .collect();
    let states = fleet["states"].as_array().unwrap();
    let state = |tick: &Value| {
        let code = tick["services"][0]["replicas"]["state"][3]
            .as_u64()
            .unwrap();
        states[usize::try_from(code).unwrap()].clone()
    };
    live.wait("tick", |tick| {
        ["unreachable", "ejected"]
            .iter()
            .any(|it| state(tick) == *it)
    });
    for stream in &mut asked {
        stream.set_nonblocking(true).unwrap();
        let unanswered = stream.read(&mut [0]).unwrap_err();
        assert_eq!(unanswered.kind(), ErrorKind::WouldBlock);
        stream.set_nonblocking(false).unwrap();
    }
    running.turn("replica", r#"{"replica": 3, "fault": "none"}"#);
    for stream in &mut asked {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    // Fail fast.
    running.turn("replica", r#"{"replica": 0, "fault": "failing"}"#);
    for side in 0..2 {
        let (code, body) = exchange(address(&fleet, side, 0), ASK);
        assert_eq!((code, body.as_str()), (503, "replica 0: made to fail\n"));
    }

    // Requests that fail there have their decisions kept, on both sides.
    let start = Instant::now();
    for side in ["prequal", "round_robin"] {
        let found = loop {
            let (code, found) =
                running.get(&format!("/decisions?service={side}&failed=true&limit=1"));
            assert_eq!(code, 200, "{found}");
            let found: Value = serde_json::from_str(&found).unwrap();
            if found["matching"].as_u64() > Some(0) {
                break found;
            }
            assert!(start.elapsed() < LIMIT, "{found}");
        };
        assert_eq!(found["decisions"][0]["service"], side);
    }

    // Random slow episodes, and the reset.
    let in_force = running.turn("weather", r#"{"on": false}"#);
    assert_eq!(
        (&in_force["weather"], &in_force["slowed"]),
        (&false.into(), &Value::Null)
    );
    let in_force = running.turn("reset", "{}");
    assert_eq!(
        (&in_force["rate"], &in_force["weather"]),
        (&60.0.into(), &true.into())
    );
    assert_eq!(
        in_force["replicas"]["fault"],
        serde_json::json!([0, 0, 0, 0])
    );
    for side in 0..2 {
        assert_eq!(exchange(address(&fleet, side, 0), ASK).0, 200, "{side}");
    }
}

#[test]
fn policy_change_rebuilds_only_the_service_of_its_side() {
    let running = Running::start(&["--rate", "80", "--replicas", "3"]);
    let mut live = Live::open(&running);
    let fleet = live.wait("fleet", |_| true);
    let before = live.wait("tick", |tick| {
        tick["services"][1]["picks"]["turn"].as_u64() > Some(0)
    });
    running.turn("policy", r#"{"side": 1, "policy": "random"}"#);
    let next = live.wait("fleet", |_| true);
    assert_eq!(
        (&next["revision"], &next["services"][1]["name"]),
        (&2.into(), &"random".into())
    );
    assert_eq!(
        next["services"][1]["replicas"],
        fleet["services"][1]["replicas"]
    );
    assert_eq!(next["services"][0], fleet["services"][0]);
    live.wait("tick", |tick| {
        tick["services"][1]["picks"]["random"].as_u64() > Some(0)
    });
    let (_, status) = running.get("/status");
    let status: Value = serde_json::from_str(&status).unwrap();
    let policies = [0, 1].map(|side| status["services"][side]["policy"].as_str().unwrap());
    assert_eq!(policies, ["prequal", "random"]);
    assert_eq!(status["reloads"]["taken"], 1);
    let replicas = status["replicas"].as_array().unwrap().iter();
    let sent = replicas.filter(|it| it["service"] == "prequal");
    let sent: u64 = sent
        .map(|it| it["requests"]["sent"].as_u64().unwrap())
        .sum();
    assert!(
        Some(sent) >= before["demo"]["sides"][0]["requests"].as_u64(),
        "its counts go on"
    );
    let (_, past) = running.get("/history?service=random&replica=replica%200");
    let past: Value = serde_json::from_str(&past).unwrap();
    assert!(!past["at_ms"].as_array().unwrap().is_empty(), "{past}");
    assert_eq!(running.get("/history?service=round_robin").0, 404);
    // A side with the same policy as the other one has a service with a suffix.
    running.turn("policy", r#"{"side": 1, "policy": "prequal"}"#);
    let next = live.wait("fleet", |_| true);
    assert_eq!(next["services"][1]["name"], "prequal_2");
    assert_eq!(next["services"][0]["name"], "prequal");
}

#[test]
fn controls_accept_only_their_own_page_and_valid_values() {
    let running = Running::start(&["--rate", "20", "--replicas", "2"]);
    let json = "content-type: application/json\r\n";
    let body = r#"{"on": false}"#;
    let weather = |headers: &str| running.post("/demo/weather", headers, body);
    let own = format!("host: {}\r\n", running.page);
    for (headers, status) in [
        (format!("{own}{json}"), 200),
        (format!("host: localhost\r\n{json}"), 200),
        (format!("host: rebound.example\r\n{json}"), 403),
        (format!("{own}origin: http://evil.example\r\n{json}"), 403),
        (own.clone(), 415),
    ] {
        assert_eq!(weather(&headers).0, status, "{headers}");
    }
    let headers = format!("{own}{json}");
    let (status, why) = running.post("/demo/replica", &headers, r#"{"replica": 2}"#);
    assert_eq!(
        (status, why.as_str()),
        (400, "replica: found 2, expected from 0 to 1\n")
    );
    assert_eq!(running.get("/demo/load").0, 405);
}
