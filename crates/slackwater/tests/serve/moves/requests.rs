//! Requests, their connections, and their traces in logs and recordings.

use super::Moved;
use crate::capacity;
use crate::clients::{Client, ask, get};
use crate::grpc;
use crate::proxy::Proxy;
use crate::proxy_protocol;
use crate::queue::held;
use crate::recording::Recording;
use crate::replicas::Replica;
use crate::routes::services;
use crate::shed::sheds;
use crate::tls::rig::{Authority, Folder, quoted};
use slackwater_collector::{Collector, Manner};
use std::sync::Arc;
use tokio::sync::Notify;

pub(super) async fn all(moved: &Moved) {
    plain(moved).await;
    waiting(moved).await;
    full(moved).await;
    copied(moved).await;
    mistaken(moved).await;
    refused(moved).await;
    recorded(moved).await;
}

async fn plain(moved: &Moved) {
    let go_on = Arc::new(Notify::new());
    let replica = Replica::slow(&go_on, "here").await;
    let collector = Collector::default();
    let any = core::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let endpoint = collector.serve_http(any).await.unwrap();
    collector.set_manner(Manner::Busy);
    let toml = format!(
        "[tracing]\nendpoint = \"http://{endpoint}\"\nprotocol = \"http\"\nsample = 1\n\
         [access_log]\nto = \"/dev/full\"\n"
    );
    let proxy = Proxy::start(&[replica.address], &toml);
    let watched = moved.watch(&proxy).await;
    let mut client = Client::connect(proxy.address).await;
    client.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    watched
        .moves(&[
            "slackwater_uptime_seconds",
            "slackwater_client_connections",
            "slackwater_client_connections_begun_total",
            "slackwater_replica_in_flight_requests",
            "slackwater_requests_total",
            "slackwater_picks_total",
            "process_open_fds",
        ])
        .await;
    go_on.notify_one();
    assert_eq!(client.answer().await.status, 200);
    watched
        .moves(&[
            "slackwater_request_duration_seconds",
            "slackwater_request_first_byte_seconds",
            "slackwater_replica_head_seconds",
            "slackwater_replica_connections_total",
            "slackwater_responses_total",
            "slackwater_access_log_lost_lines_total",
            "slackwater_span_exports_failed_total",
        ])
        .await;
    collector.set_manner(Manner::Takes);
    watched
        .moves_with_requests(&["slackwater_spans_total"])
        .await;
    client.send("GET / HTTP/9.9\r\n\r\n").await;
    client.rest().await;
    watched
        .moves(&[
            "slackwater_unreadable_requests_total",
            "slackwater_client_connections_ended_total",
        ])
        .await;
    watched
        .moves_with_requests(&[
            "process_cpu_seconds_total",
            "slackwater_thread_cpu_seconds_total",
        ])
        .await;
}

/// The queue before a service.
async fn waiting(moved: &Moved) {
    let (replica, go, came) = held().await;
    let toml = "[queue]\nrequests_max = 1\nwaiting_max = 1\nwait_max = \"20s\"";
    let proxy = Proxy::start(&[replica.address], toml);
    let watched = moved.watch(&proxy).await;
    let first = ask(proxy.address, "/first");
    came.notified().await;
    let second = ask(proxy.address, "/second");
    watched
        .moves(&[
            "slackwater_queue_inside_requests",
            "slackwater_queue_waiting_requests",
            "slackwater_queue_waiting_age_seconds",
            "slackwater_queued_total",
        ])
        .await;
    assert_eq!(get(proxy.address, "/third").await.status, 503);
    watched.moves(&["slackwater_shed_total"]).await;
    go.add_permits(2);
    for asked in [first, second] {
        assert_eq!(asked.await.unwrap().status, 200);
    }
    watched.moves(&["slackwater_queue_wait_seconds"]).await;
}

/// A replica at its connection limit.
async fn full(moved: &Moved) {
    let (replica, go, came) = held().await;
    let toml = "[replica]\nconnections_max = 1\n[timeouts]\nconnect = \"20s\"";
    let proxy = Proxy::start(&[replica.address], toml);
    let watched = moved.watch(&proxy).await;
    let first = ask(proxy.address, "/first");
    came.notified().await;
    let second = ask(proxy.address, "/second");
    watched.moves(&["slackwater_replica_full_total"]).await;
    go.add_permits(2);
    for asked in [first, second] {
        assert_eq!(asked.await.unwrap().status, 200);
    }
}

/// Copies of requests for another service.
async fn copied(moved: &Moved) {
    let (web, shadow) = (Replica::echo("web").await, Replica::echo("shadow").await);
    let toml = services(&[("web", web.address), ("shadow", shadow.address)])
        + "[[routes]]\npath = \"/\"\nservice = \"web\"\nmirror = { service = \"shadow\", body_bytes_max = 1 }\n";
    let proxy = Proxy::of_file(&toml);
    let watched = moved.watch(&proxy).await;
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(client.get("/").await.status, 200);
    watched.moves(&["slackwater_mirrored_total"]).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi")
        .await;
    assert_eq!(client.answer().await.status, 200);
    watched.moves(&["slackwater_mirror_skipped_total"]).await;
    assert_eq!(client.get("/absent").await.status, 404);
    watched.moves(&["slackwater_unrouted_requests_total"]).await;
}

/// A client that speaks plain HTTP to a TLS listener.
async fn mistaken(moved: &Moved) {
    let (folder, replica) = (Folder::new(), Replica::echo("a").await);
    Authority::new().issue(&["a.test"]).write(&folder, "a");
    let path = |name: &str| quoted(&folder.file(name));
    let proxy = Proxy::of_file(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n\
         tls.certificates = [{{ certificate = {}, key = {} }}]\n{}[[routes]]\nservice = \"web\"\n",
        path("a.pem"),
        path("a.key"),
        services(&[("web", replica.address)])
    ));
    let watched = moved.watch(&proxy).await;
    let mut client = Client::connect(proxy.address).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    client.rest().await;
    watched.moves(&["slackwater_tls_handshakes_total"]).await;
}

/// Requests that this proxy, an agent, and a gRPC server reject; and reports of a replica's load.
async fn refused(moved: &Moved) {
    let replica = Replica::echo("a").await;
    let proxy = proxy_protocol::start(&replica, "192.0.2.1", "");
    let watched = moved.watch(&proxy).await;
    let client = Client::connect(proxy.address).await;
    client.rest().await;
    watched
        .moves(&["slackwater_proxy_headers_refused_total"])
        .await;

    let agent = sheds("shed_full", "too many queries wait already").await;
    let proxy = Proxy::start(&[agent.address], "");
    let watched = moved.watch(&proxy).await;
    watched
        .moves_with_requests(&["slackwater_replica_shed_total"])
        .await;

    let server = grpc::says("13", false).await;
    let proxy = Proxy::start(&[server.address], "");
    let watched = moved.watch(&proxy).await;
    watched
        .moves_with_requests(&["slackwater_grpc_failures_total"])
        .await;

    let loaded = capacity::says("x-slackwater-load: 1;;\r\n").await;
    let proxy = Proxy::start(&[loaded.address], capacity::BY_CAPACITY);
    let watched = moved.watch(&proxy).await;
    watched
        .moves_with_requests(&["slackwater_reports_carried_total"])
        .await;
}

/// A recording up to its maximal size.
async fn recorded(moved: &Moved) {
    let (replica, file) = (Replica::echo("a").await, Recording::new("moves"));
    let replicas = replica.address.to_string();
    let mut words = vec!["serve", "--listen", "127.0.0.1:0", "--replicas", &replicas];
    words.extend([
        "--probe",
        "none",
        "--policy",
        "random",
        "--admin",
        "127.0.0.1:0",
    ]);
    words.extend(["--record", file.name(), "--record-max", "64KiB"]);
    words.extend(["--record-header", "x-long"]);
    let proxy = Proxy::spawn(&words);
    let watched = moved.watch(&proxy).await;
    let mut client = Client::connect(proxy.address).await;
    let mut number = 0;
    watched
        .moves_while(&["slackwater_recording"], async || {
            for _ in 0..100 {
                number += 1;
                let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {number:060}\r\n\r\n");
                client.send(&head).await;
                assert_eq!(client.answer().await.status, 200);
            }
        })
        .await;
    let told = proxy.admin_page("/status").await;
    assert!(told.contains("\"recording\": false"), "{told}");
}
