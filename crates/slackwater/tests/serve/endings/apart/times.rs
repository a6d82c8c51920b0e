//! Messages that the proxy itself cuts off.

use crate::clients::Client;
use crate::endings::peers::{Reader, Replica, Watch, get};
use crate::endings::table::{Ends, HALF};
use crate::proxy::{PATIENCE, Proxy};
use crate::replicas;
use crate::routes::services;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// A replica that sends half of a response.
async fn half() -> replicas::Replica {
    replicas::Replica::scripted(async |mut connection| {
        while connection.head().await.is_some() {
            connection
                .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n")
                .await;
        }
    })
    .await
}

/// What each client sees of half a response, after `then` has run.
async fn seen(proxy: &Proxy, readers: &[Reader], then: impl FnOnce()) -> Vec<String> {
    let mut clients = Vec::new();
    for &reader in readers {
        let (watch, mut seen) = Watch::new(HALF, Ends::CutOff);
        let task = tokio::spawn(get(proxy.address, reader, watch));
        assert!(seen.came().await);
        clients.push((task, seen));
    }
    then();
    let mut all = Vec::new();
    for (task, seen) in clients {
        all.push(seen.end().await);
        task.await.unwrap();
    }
    all
}

const ALL: [Reader; 3] = [Reader::Http11, Reader::Http10, Reader::Http2];

pub(super) async fn a_replica_stalls() {
    let replica = half().await;
    let proxy = Proxy::start(&[replica.address], "[timeouts]\nstall = \"50ms\"");
    let seen = seen(&proxy, &ALL, || ()).await;
    let reset = "RST_STREAM INTERNAL_ERROR";
    assert_eq!(seen, ["cut off", "cut off by a reset", reset]);
    proxy.settled().await;
}

pub(super) async fn a_response_takes_too_long() {
    let replica = half().await;
    let service = services(&[("web", replica.address)]);
    let route = "[[routes]]\nservice = \"web\"\ntimeouts.total = \"1s\"\n";
    let proxy = Proxy::of_file(&(service + route));
    let seen = seen(&proxy, &ALL, || ()).await;
    let reset = "RST_STREAM INTERNAL_ERROR";
    assert_eq!(seen, ["cut off", "cut off by a reset", reset]);
    proxy.settled().await;
}

pub(super) async fn a_client_stalls() {
    let replica = replicas::Replica::scripted(async |mut connection| {
        connection.head().await;
        connection
            .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            .await;
        // More than fits between the proxy and the client.
        let piece = format!("100000\r\n{}\r\n", "x".repeat(1 << 20));
        for _ in 0..64 {
            connection.send(&piece).await;
        }
        while connection.more().await > 0 {}
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "[timeouts]\nstall = \"50ms\"");
    let mut client = Client::connect(proxy.address).await;
    client.send("GET / HTTP/1.0\r\n\r\n").await;
    client.head().await;
    proxy.settled().await;
    let mut rest = Vec::new();
    let read = timeout(PATIENCE, client.stream.read_to_end(&mut rest)).await;
    assert!(read.unwrap().is_err(), "{} bytes and an end", rest.len());
}

pub(super) async fn the_drain_is_over() {
    let replica = half().await;
    let mut proxy = Proxy::start(&[replica.address], "[timeouts]\ndrain = \"50ms\"");
    let seen = seen(&proxy, &ALL, || proxy.signal("TERM")).await;
    assert_eq!(seen[..2], ["cut off", "cut off by a reset"]);
    // There is no time left to reset streams.
    assert_eq!(seen[2], "the connection ended");
    assert!(proxy.ended().await.success());
}

pub(super) async fn the_process_is_killed() {
    let replica = half().await;
    let proxy = Proxy::start(&[replica.address], "");
    let seen = seen(&proxy, &[Reader::Http10], || proxy.signal("KILL")).await;
    assert_eq!(seen, ["cut off by a reset"]);
}

pub(super) async fn an_upload_is_too_large() {
    for (protocol, reader, expected) in [
        ("http1", Reader::Http11, "cut off"),
        ("h2c", Reader::Http2, "RST_STREAM CANCEL"),
    ] {
        let replica = Replica::reads(reader).await;
        let toml = format!(
            "[services.web]\npolicy = \"random\"\nreplicas = [\"{}\"]\n\
             replica.protocol = \"{protocol}\"\nprobe.transport = \"none\"\n\
             [[routes]]\nservice = \"web\"\nlimits.body_bytes_max = 6\n",
            replica.address
        );
        let proxy = Proxy::of_file(&toml);
        let mut seen = replica.expects(HALF, Ends::CutOff);
        let mut client = Client::connect(proxy.address).await;
        client
            .send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n")
            .await;
        assert!(seen.came().await);
        client.send("4\r\nrest\r\n0\r\n\r\n").await;
        assert_eq!(client.answer().await.status, 413, "{protocol}");
        assert_eq!(seen.end().await, expected, "{protocol}");
    }
}
