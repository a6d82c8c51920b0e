//! Silence for too long: on which side it ends a request, and the log entry about it.

use crate::access_log::Log;
use crate::clients::{self, Client, empty, get};
use crate::proxy::{Proxy, until};
use crate::replicas::Replica;
use crate::routes::services;
use core::net::SocketAddr;
use core::time::Duration;
use http::Request;
use http_body_util::BodyExt;
use std::time::Instant;

/// A replica that is silent at the point that the path names: before its head, in its body, or in a
/// tunnel. For `/flood` it is not silent.
async fn silent() -> Replica {
    Replica::scripted(|mut connection| async move {
        let Some(head) = connection.head().await else {
            return;
        };
        if head.starts_with("GET /body") {
            connection
                .send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\none")
                .await;
        } else if head.starts_with("GET /tunnel") {
            let fields = "connection: upgrade\r\nupgrade: websocket";
            connection
                .send(&format!("HTTP/1.1 101 Switching\r\n{fields}\r\n\r\n"))
                .await;
        } else if head.starts_with("GET /flood") {
            connection
                .send("HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n")
                .await;
            // More than fits between the replica and the client.
            let piece = "x".repeat(1_000_000);
            for _ in 0..100 {
                connection.send(&piece).await;
            }
        }
        while connection.more().await > 0 {}
    })
    .await
}

/// The timeout of clients is shorter than those of replicas and tunnels.
fn times(replica: SocketAddr) -> String {
    services(&[("web", replica)])
        + "[timeouts]\nfirst_byte = \"1s\"\nstall = \"50ms\"\ntunnel = \"1s\"\n\
           [[routes]]\npath = \"/flood\"\nservice = \"web\"\ntimeouts.stall = \"1m\"\n\
           [[routes]]\nservice = \"web\"\ntimeouts.stall = \"1s\"\n"
}

/// Long enough for a replica to answer on a busy machine.
const SPAN: Duration = Duration::from_secs(1);

#[tokio::test]
async fn replica_timeouts_are_independent_of_client_timeouts() {
    let log = Log::new("silent-replica");
    let replica = silent().await;
    let proxy = Proxy::of_file(&(times(replica.address) + &log.toml("")));

    let began = Instant::now();
    let answer = get(proxy.address, "/head").await;
    assert_eq!(
        answer.field("x-slackwater-error"),
        Some("first_byte_timeout")
    );
    assert!(began.elapsed() >= SPAN, "{:?}", began.elapsed());

    let began = Instant::now();
    let mut client = Client::connect(proxy.address).await;
    client.send("GET /body HTTP/1.1\r\nhost: a\r\n\r\n").await;
    client.head().await;
    assert_eq!(client.rest().await, b"one");
    assert!(began.elapsed() >= SPAN, "{:?}", began.elapsed());

    let mut client = clients::http2(proxy.address).await;
    for (path, status) in [("/head", 504), ("/body", 200)] {
        let began = Instant::now();
        let request = Request::get(format!("http://a{path}")).body(empty());
        let response = client.send_request(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        let read = response.into_body().collect().await;
        assert_eq!(read.is_ok(), status == 504, "{path}");
        assert!(began.elapsed() >= SPAN, "{path}: {:?}", began.elapsed());
    }

    let lines = log.lines(4).await;
    let ends: Vec<_> = (lines.iter())
        .map(|line| (line["status"].as_u64(), line["end"].as_str()))
        .collect();
    let (late, stalled) = ((Some(504), Some("complete")), (Some(200), Some("stalled")));
    assert_eq!(ends, [late, stalled, late, stalled]);
}

#[tokio::test]
async fn idle_tunnel_is_closed_at_its_own_timeout() {
    let log = Log::new("silent-tunnel");
    let replica = silent().await;
    let proxy = Proxy::of_file(&(times(replica.address) + &log.toml("")));
    let open = async |proxy: &Proxy, path: &str| {
        let mut client = Client::connect(proxy.address).await;
        let fields = "host: a\r\nconnection: upgrade\r\nupgrade: websocket";
        client
            .send(&format!("GET {path} HTTP/1.1\r\n{fields}\r\n\r\n"))
            .await;
        assert!(client.head().await.starts_with("HTTP/1.1 101"));
        client
    };
    let began = Instant::now();
    assert!(open(&proxy, "/tunnel").await.rest().await.is_empty());
    assert!(began.elapsed() >= SPAN, "{:?}", began.elapsed());

    // The route's timeout applies, since no test waits for that of the service.
    let brief = "[[routes]]\nservice = \"web\"\ntimeouts.tunnel = \"60ms\"\n";
    let times = "[timeouts]\ntunnel = \"1h\"\n".to_owned() + brief;
    let toml = services(&[("web", replica.address)]) + &times + &log.toml("");
    let other = Proxy::of_file(&toml);
    assert!(open(&other, "/tunnel").await.rest().await.is_empty());
    for (proxy, line) in [&proxy, &other].into_iter().zip(log.lines(2).await) {
        let said = (&line["status"], &line["end"]);
        assert_eq!(said, (&101.into(), &"stalled".into()), "{line}");
        assert_eq!(proxy.sum("/requests/client_gone").await, 0);
        assert_eq!(proxy.sum("/requests/timeouts").await, 0);
    }
}

#[tokio::test]
async fn client_that_reads_nothing_is_cut_off_and_logged() {
    let log = Log::new("silent-client");
    let replica = silent().await;
    let proxy = Proxy::of_file(&(times(replica.address) + &log.toml("")));
    let mut client = Client::connect(proxy.address).await;
    client.send("GET /flood HTTP/1.1\r\nhost: a\r\n\r\n").await;
    client.head().await;
    let line = &log.lines(1).await[0];
    assert_eq!(line["end"], "client_stalled", "{line}");
    assert!(client.rest().await.len() < 100_000_000);

    let mut client = clients::http2(proxy.address).await;
    let request = Request::get("http://a/flood").body(empty());
    let response = client.send_request(request.unwrap()).await.unwrap();
    let line = &log.lines(2).await[1];
    assert_eq!(line["end"], "client_stalled", "{line}");
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test]
async fn requests_cut_off_at_shutdown_are_logged_even_with_sample_0() {
    for (drain, terms) in [("50ms", 1), ("1h", 2)] {
        let toml = format!("timeouts.drain = \"{drain}\"\n");
        let log = Log::new(&format!("cut-off-{terms}"));
        let replica = silent().await;
        let quiet = log.toml("sample = 0\nalways_slower_than = \"1h\"");
        let mut proxy = Proxy::start(&[replica.address], &format!("{toml}{quiet}"));
        let mut headless = Client::connect(proxy.address).await;
        headless.send("GET /head HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let mut begun = Client::connect(proxy.address).await;
        begun.send("GET /body HTTP/1.1\r\nhost: a\r\n\r\n").await;
        begun.head().await;
        until("both are out", async || {
            (proxy.sum("/in_flight").await == 2).then_some(())
        })
        .await;
        proxy.signal("TERM");
        proxy.log_line("shutting down");
        if terms > 1 {
            proxy.signal("TERM");
        }
        assert_eq!(proxy.ended().await.code(), Some(0));
        let mut lines = log.lines(2).await;
        lines.sort_by_key(|line| line["status"].as_u64());
        for (line, status) in lines.iter().zip([0, 200]) {
            let said = (&line["status"], &line["end"]);
            assert_eq!(said, (&status.into(), &"cut_off".into()), "{line}");
        }
    }
}
