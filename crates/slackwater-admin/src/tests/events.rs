//! The stream of events and the history, over real sockets.

use super::{Board, facts, get, server, start};
use crate::{AdminServer, AdminThread, Extra};
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::{Value, json};
use slackwater_telemetry::facts::{Facts, Lifecycle};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

/// Time between two ticks in these tests.
const TICK: Duration = Duration::from_millis(20);

/// A server for the source that ticks quickly.
fn quick(board: &Board, extra: Option<Arc<dyn Extra>>) -> AdminThread {
    let lifecycle = Lifecycle::default();
    lifecycle.set_serving();
    let source = Arc::new(board.clone());
    start(AdminServer::with_extra(source, lifecycle, 4, TICK, extra))
}

/// A reader of the stream.
struct Reader(BufReader<TcpStream>);

impl Reader {
    fn open(address: SocketAddr) -> Self {
        Self::try_open(address).expect("there is room")
    }

    /// Opens the stream; `None` if there are too many readers.
    fn try_open(address: SocketAddr) -> Option<Self> {
        let mut stream = TcpStream::connect(address).expect("the server listens");
        let patience = Some(Duration::from_mins(1));
        stream.set_read_timeout(patience).expect("a socket");
        let ask = b"GET /events HTTP/1.1\r\nhost: a\r\nconnection: keep-alive\r\n\r\n";
        stream.write_all(ask).expect("the server reads");
        let mut reader = Self(BufReader::new(stream));
        let head = reader.lines_until_empty();
        if head[0] == "HTTP/1.1 503 Service Unavailable" {
            return None;
        }
        assert_eq!(head[0], "HTTP/1.1 200 OK");
        assert!(head.contains(&"content-type: text/event-stream".to_owned()));
        assert!(head.contains(&"cache-control: no-store".to_owned()));
        Some(reader)
    }

    /// Opens the stream once there is room.
    fn open_at_last(address: SocketAddr) -> Self {
        loop {
            if let Some(reader) = Self::try_open(address) {
                return reader;
            }
        }
    }

    fn lines_until_empty(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a line");
            let line = line.trim_end();
            if line.is_empty() {
                return lines;
            }
            lines.push(line.to_owned());
        }
    }

    /// The next event: its name and its data. The body comes in chunks of one message each.
    fn next(&mut self) -> (String, Value) {
        loop {
            let lines = self.lines_until_empty();
            let find = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key));
            if let (Some(name), Some(data)) = (find("event: "), find("data: ")) {
                return (name.to_owned(), serde_json::from_str(data).expect("JSON"));
            }
        }
    }

    fn next_named(&mut self, wanted: &str) -> Value {
        loop {
            let (name, data) = self.next();
            if name == wanted {
                return data;
            }
        }
    }
}

#[test]
fn stream_starts_with_the_fleet_and_ticks_refer_to_it() {
    let board = Board(Arc::new(Mutex::new(facts())));
    let admin = quick(&board, None);
    let mut reader = Reader::open(admin.address());
    let (name, fleet) = reader.next();
    assert_eq!(name, "fleet");
    assert_eq!(
        (&fleet["revision"], &fleet["role"]),
        (&json!(1), &json!("serve"))
    );
    assert_eq!(fleet["interval_ms"], 20);
    assert_eq!(fleet["demo"], Value::Null);
    assert_eq!(fleet["services"][0]["policy"], "prequal");
    let first = &fleet["services"][0]["replicas"][0];
    assert_eq!(first["address"], "127.0.0.1:9001");
    let tick = reader.next_named("tick");
    assert_eq!(
        (&tick["revision"], &tick["phase"]),
        (&json!(1), &json!("serving"))
    );
    assert_eq!(
        tick["services"][0]["replicas"]["in_flight"]
            .as_array()
            .map(Vec::len),
        Some(5)
    );
    // Two more responses and a replica that left: the new fleet comes before its first tick.
    {
        let mut facts = board.0.lock().expect("no test panics with it");
        let service = &mut facts.services[0];
        service.replicas.pop();
        service.workers[0].requests[1].sent += 2;
    }
    let fleet = reader.next_named("fleet");
    assert_eq!(fleet["revision"], 2);
    assert_eq!(
        fleet["services"][0]["replicas"].as_array().map(Vec::len),
        Some(4)
    );
    let tick = reader.next_named("tick");
    assert_eq!(tick["revision"], 2);
    assert_eq!(tick["services"][0]["replicas"]["sent"][1], 2);
    assert_eq!(
        tick["services"][0]["replicas"]["state"]
            .as_array()
            .map(Vec::len),
        Some(4)
    );
}

#[test]
fn single_connection_is_no_readers() {
    let source = Arc::new(Board(Arc::new(Mutex::new(facts()))));
    let server = AdminServer::new(source, Lifecycle::default(), 1);
    let admin = start(server);
    assert!(Reader::try_open(admin.address()).is_none());
}

#[test]
fn readers_are_limited_to_half_of_the_connections() {
    let board = Board(Arc::new(Mutex::new(facts())));
    let admin = quick(&board, None);
    let first = Reader::open(admin.address());
    let _second = Reader::open(admin.address());
    let third = get(admin.address(), "/events");
    assert_eq!(third.status, 503);
    assert!(third.head.contains("retry-after: 5"), "{}", third.head);
    assert!(third.body.contains("too many readers"), "{}", third.body);
    assert_eq!(get(admin.address(), "/healthz").status, 200);
    drop(first);
    // The server notices it at its next write.
    let (name, _) = Reader::open_at_last(admin.address()).next();
    assert_eq!(name, "fleet");
}

#[test]
fn the_stream_ends_with_the_server() {
    let board = Board(Arc::new(Mutex::new(facts())));
    let admin = quick(&board, None);
    let mut reader = Reader::open(admin.address());
    reader.next_named("tick");
    drop(admin);
    let mut rest = String::new();
    reader.0.read_to_string(&mut rest).expect("an end");
    assert!(rest.ends_with("0\r\n\r\n"), "a whole body: {rest:?}");
}

/// Enough data that a few messages exceed the buffers of sockets.
struct Long;

impl Extra for Long {
    fn fleet(&self) -> Value {
        Value::Null
    }

    fn tick(&self) -> Value {
        Value::String("x".repeat(4 << 20))
    }
}

#[test]
fn a_reader_that_does_not_read_is_cut_off() {
    let board = Board(Arc::new(Mutex::new(facts())));
    let admin = quick(&board, Some(Arc::new(Long)));
    let [slow, other] = [(); 2].map(|()| Reader::open(admin.address()));
    assert_eq!(
        get(admin.address(), "/events").status,
        503,
        "both are there"
    );
    // Neither reader reads on: both are disconnected, which makes room for others.
    drop(Reader::open_at_last(admin.address()));
    for mut reader in [slow, other] {
        let mut rest = Vec::new();
        let ended = reader.0.read_to_end(&mut rest);
        assert!(ended.is_err() || !rest.ends_with(b"0\r\n\r\n"), "cut off");
    }
}

#[test]
fn the_history_is_by_service_and_by_replica() {
    let board = Board(Arc::new(Mutex::new(facts())));
    let admin = quick(&board, None);
    let address = admin.address();
    let mut reader = Reader::open(address);
    for _ in 0..3 {
        reader.next_named("tick");
    }
    let read = |path: &str| -> Value {
        let answer = get(address, path);
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).expect("JSON")
    };
    let service = read("/history?service=web");
    assert_eq!(
        (&service["service"], &service["replica"]),
        (&json!("web"), &Value::Null)
    );
    assert!(
        service["at_ms"].as_array().is_some_and(|it| it.len() >= 3),
        "{service}"
    );
    let replica = read("/history?replica=127.0.0.1%3A9002&service=web");
    assert_eq!(replica["replica"], "127.0.0.1:9002");
    assert!(
        replica["in_flight"]
            .as_array()
            .is_some_and(|it| it.len() >= 3),
        "{replica}"
    );
    for (path, status, complaint) in [
        ("/history", 400, "parameter service: is missing"),
        ("/history?service=api", 404, "there is no service \"api\""),
        (
            "/history?service=web&replica=a",
            404,
            "there is no replica \"a\" in service \"web\"",
        ),
        (
            "/history?service=web&since=1",
            400,
            "parameter since: unknown",
        ),
    ] {
        let answer = get(address, path);
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.body.contains(complaint), "{path}: {}", answer.body);
    }
}

#[test]
fn a_reader_before_the_first_reading_waits_for_it() {
    let admin = start(server(Facts::default(), &Lifecycle::default()));
    let mut reader = Reader::open(admin.address());
    assert_eq!(reader.next().0, "fleet");
}
