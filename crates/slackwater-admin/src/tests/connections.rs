//! Requests and connections: which are answered, the errors of the others, and the limits of number
//! and time.

use super::{Board, exchange, facts, get, server, start};
use crate::asset::Asset;
use crate::reply::reply;
use crate::router::Connection;
use crate::{AdminServer, Asked, Control, Controlled, Overrides, Reply, bind, in_pieces};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use http_body_util::Full;
use slackwater_config::AdminToken;
use slackwater_telemetry::facts::{Facts, Lifecycle};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

fn echo(asked: Asked) -> BoxFuture<'static, Reply> {
    Box::pin(async move { reply(StatusCode::OK, "text/x-echo", asked.body) })
}

#[test]
fn wrong_paths_methods_and_bodies_get_helpful_errors() {
    let lifecycle = Lifecycle::default();
    let server = server(Facts::default(), &lifecycle).post("/knob", |_| None, echo);
    let admin = start(server);
    let address = admin.address();
    let absent = get(address, "/stats");
    assert_eq!(absent.status, 404);
    assert_eq!(
        absent.body,
        "there is no /stats here; there are /status, /metrics, /healthz, /readyz, /events, /history, /openapi.json, /knob\n"
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

#[test]
fn rebound_dns_name_cannot_read_the_admin_server() {
    let admin = start(server(Facts::default(), &Lifecycle::default()).asset(PAGE));
    let ask = |path: &str, host: &str| {
        let text = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        exchange(admin.address(), &text)
    };
    for path in ["/status", "/", "/nowhere"] {
        let refused = ask(path, "evil.example:9900");
        assert_eq!(refused.status, 403, "{path}");
        assert!(
            refused.body.starts_with("header host: "),
            "{}",
            refused.body
        );
    }
    for host in ["localhost:9900", "127.0.0.1", "admin"] {
        assert_eq!(ask("/status", host).status, 200, "{host}");
    }
}

const PAGE: Asset = Asset {
    path: "/",
    content_type: "text/html",
    body: "<p>hello",
};

#[test]
fn unchanged_file_is_not_sent_again() {
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
fn keep_alive_connection_serves_several_requests() {
    let admin = start(server(Facts::default(), &Lifecycle::default()));
    let kept = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: Keep-Alive\r\n\r\n";
    let last = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut stream = TcpStream::connect(admin.address()).expect("the server listens");
    let all = format!("{kept}{kept}{last}{last}");
    stream.write_all(all.as_bytes()).expect("the server reads");
    let mut answers = String::new();
    // Bytes that were sent after the last answer may reset the connection.
    let _ = stream.read_to_string(&mut answers);
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{answers}");
    assert_eq!(answers.matches("connection: close").count(), 1, "{answers}");
}

#[test]
fn kept_connection_does_not_delay_shutdown() {
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
fn an_accepted_connection_may_send_one_request_at_shutdown() {
    let admin = start(server(Facts::default(), &Lifecycle::default()));
    let address = admin.address();
    let mut silent = TcpStream::connect(address).expect("the server listens");
    // The new request shows that the connection before it was accepted.
    assert_eq!(get(address, "/healthz").status, 200);
    let ending = std::thread::spawn(move || drop(admin));
    // The listener is closed first.
    while TcpStream::connect(address).is_ok() {
        std::thread::yield_now();
    }
    let kept = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: keep-alive\r\n\r\n";
    silent.write_all(kept.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    silent.read_to_string(&mut answer).expect("an end");
    assert!(answer.contains("connection: close\r"), "{answer}");
    assert!(answer.ends_with("ok\n"), "{answer}");
    ending.join().expect("no panic");
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
    // The server may close the connection while we still write, and its answer may be lost.
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
fn connection_beyond_the_cap_replaces_the_longest_idle_one() {
    let admin = start(server(Facts::default(), &Lifecycle::default()));
    let kept = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: keep-alive\r\n\r\n";
    let connect = || TcpStream::connect(admin.address()).expect("the server listens");
    let is_told = |stream: &mut TcpStream| {
        let mut answer = Vec::new();
        let mut part = [0; 1024];
        while !answer.ends_with(b"ok\n") {
            let read = stream.read(&mut part).unwrap_or(0);
            if read == 0 {
                return false;
            }
            answer.extend_from_slice(&part[..read]);
        }
        true
    };
    let ask = || {
        let mut stream = connect();
        stream.write_all(kept.as_bytes()).expect("it is read");
        assert!(is_told(&mut stream));
        stream
    };
    // Four heads that do not end occupy all connections; the oldest one is closed.
    let mut unfinished: Vec<_> = (0..4).map(|_| connect()).collect();
    for stream in &mut unfinished {
        stream
            .write_all(&kept.as_bytes()[..30])
            .expect("it is read");
    }
    let mut fifth = ask();
    assert!(!is_told(&mut unfinished[0]));
    for stream in &mut unfinished[1..] {
        stream
            .write_all(&kept.as_bytes()[30..])
            .expect("it is read");
        assert!(is_told(stream));
    }
    // A kept connection without a request is closed in the same way.
    ask();
    assert!(!is_told(&mut fifth));
}

#[test]
fn connection_that_awaits_a_body_is_replaced() {
    let server = server(Facts::default(), &Lifecycle::default());
    let admin = start(server.post("/knob", |_| None, echo));
    let request =
        "POST /knob HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n";
    let expected = "HTTP/1.1 100 Continue\r\n\r\n";
    let mut bodiless: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = TcpStream::connect(admin.address()).expect("the server listens");
            stream.write_all(request.as_bytes()).expect("it is read");
            let mut awaited = vec![0; expected.len()];
            stream.read_exact(&mut awaited).expect("a body is awaited");
            assert_eq!(awaited, expected.as_bytes());
            stream
        })
        .collect();
    assert_eq!(get(admin.address(), "/healthz").status, 200);
    let mut answer = String::new();
    bodiless[0].read_to_string(&mut answer).expect("an end");
    assert_eq!(answer, "", "no answer");
}

struct Fixed;

impl Controlled for Fixed {
    fn configuration(&self) -> String {
        String::new()
    }

    fn overrides(&self) -> Overrides {
        Overrides::default()
    }
}

#[test]
fn unauthorized_change_is_refused_before_its_body_is_read() {
    for (token, status) in [(None, 403), (AdminToken::new(b"0123456789abcdef"), 401)] {
        let (_token, in_force) = watch::channel(token);
        let (control, _asking) = Control::new(in_force);
        let server = server(Facts::default(), &Lifecycle::default());
        let admin = start(server.controlled(Arc::new(Fixed), &control));
        for path in ["/replica", "/settings", "/reload", "/overrides/clear"] {
            let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n");
            assert_eq!(exchange(admin.address(), &head).status, status, "{path}");
        }
    }
}

#[tokio::test]
async fn only_event_streams_are_exempt_from_the_response_timeout() {
    let board = Board(Arc::new(Mutex::new(facts())));
    let server = AdminServer::new(Arc::new(board), Lifecycle::default(), 2);
    for (method, streams) in [(Method::HEAD, false), (Method::GET, true)] {
        let request = http::Request::builder().method(&method).uri("/events");
        let request = request.body(Full::<Bytes>::default()).expect("a request");
        let connection = Connection::default();
        let answer = server.router().answer(request, connection.clone()).await;
        assert_eq!(answer.status(), StatusCode::OK, "{method}");
        assert_eq!(answer.headers()[CONTENT_TYPE], "text/event-stream");
        assert_eq!(connection.streams.is_cancelled(), streams, "{method}");
    }
}

#[test]
fn port_in_use_is_named_in_the_error() {
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

#[test]
fn health_is_answered_though_no_client_reads_its_pieces() {
    let pieces = || {
        let endless = core::iter::repeat_with(|| Bytes::from(vec![b'x'; 1 << 16]));
        Box::pin(core::future::ready(in_pieces("text/plain", endless)))
    };
    let server = server(Facts::default(), &Lifecycle::default());
    let admin = start(server.get("/endless", move |_| pieces()));
    let open = || {
        let mut client = TcpStream::connect(admin.address()).expect("the server listens");
        let ask = b"GET /endless HTTP/1.1\r\nhost: a\r\n\r\n";
        client.write_all(ask).expect("the server reads");
        let mut first = [0];
        client.read_exact(&mut first).expect("an answer");
        client
    };
    let _unread: Vec<_> = (0..4).map(|_| open()).collect();
    assert_eq!(get(admin.address(), "/healthz").status, 200);
}
