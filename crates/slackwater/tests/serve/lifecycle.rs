//! Starting, refusing to start, idling, and orderly shutdown.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, before, slackwater, until};
use crate::replicas::{Replica, unused_address};
use slackwater_config::Timeouts;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

async fn in_flight(proxy: &Proxy) {
    until("the request is out", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn sigterm_lets_requests_finish_and_closes_idle_connections() {
    let go_on = Arc::new(Notify::new());
    let replica = Replica::slow(&go_on, "done").await;
    // With one worker, the closed idle connection shows that the busy one has been notified, too.
    // Other workers may be later.
    let mut proxy = Proxy::start(&[replica.address], "workers = 1");
    let mut idle = Client::connect(proxy.address).await;
    assert_eq!(idle.get("/").await.status, 200);
    let mut busy = Client::connect(proxy.address).await;
    busy.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    in_flight(&proxy).await;

    proxy.signal("TERM");
    assert!(
        idle.rest().await.is_empty(),
        "an idle connection is just closed"
    );
    until("no connection is accepted any more", async || {
        TcpStream::connect(proxy.address)
            .await
            .is_err()
            .then_some(())
    })
    .await;
    assert!(proxy.is_running());
    go_on.notify_one();
    let answer = busy.answer().await;
    assert_eq!((answer.status, answer.text()), (200, "done"));
    assert_eq!(answer.field("connection"), Some("close"));
    assert_eq!(proxy.ended().await.code(), Some(0));
}

#[tokio::test]
async fn during_the_drain_delay_only_readiness_changes() {
    let replica = Replica::echo("r").await;
    let mut proxy = Proxy::start(&[replica.address], "drain_delay = \"1m\"");
    let mut kept = Client::connect(proxy.address).await;
    assert_eq!(kept.get("/").await.status, 200);
    proxy.signal("TERM");
    until("readiness changes", async || {
        let mut client = Client::connect(proxy.admin).await;
        (client.get("/readyz").await.status == 503).then_some(())
    })
    .await;
    for answer in [kept.get("/").await, get(proxy.address, "/").await] {
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("connection"), None);
    }
    proxy.signal("TERM");
    assert_eq!(proxy.ended().await.code(), Some(0));
}

#[tokio::test]
async fn after_the_delay_the_drain_begins() {
    let replica = Replica::echo("r").await;
    let mut proxy = Proxy::start(
        &[replica.address],
        "drain_delay = \"200ms\"\n[timeouts]\ndrain_idle = 0",
    );
    let client = Client::connect(proxy.address).await;
    proxy.signal("TERM");
    assert!(client.rest().await.is_empty());
    assert_eq!(proxy.ended().await.code(), Some(0));
}

#[tokio::test]
async fn drain_ends_at_its_timeout() {
    let go_on = Arc::new(Notify::new());
    let replica = Replica::slow(&go_on, "done").await;
    let mut proxy = Proxy::start(&[replica.address], "[timeouts]\ndrain = \"100ms\"");
    let mut busy = Client::connect(proxy.address).await;
    busy.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    in_flight(&proxy).await;
    proxy.signal("TERM");
    let drained = before(Timeouts::default().drain, async {
        assert!(busy.rest().await.is_empty());
        proxy.ended().await
    });
    assert_eq!(drained.await.code(), Some(0));
}

#[tokio::test]
async fn second_signal_exits_immediately() {
    let go_on = Arc::new(Notify::new());
    let replica = Replica::slow(&go_on, "done").await;
    let mut proxy = Proxy::start(&[replica.address], "timeouts.drain = \"1h\"\n");
    let mut busy = Client::connect(proxy.address).await;
    busy.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    in_flight(&proxy).await;
    proxy.signal("TERM");
    proxy.log_line("shutting down");
    proxy.signal("INT");
    assert!(busy.rest().await.is_empty());
    assert_eq!(proxy.ended().await.code(), Some(0));
}

#[tokio::test]
async fn port_in_use_is_reported_with_exit_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for workers in ["1", "2"] {
        let args = [
            "serve",
            "--listen",
            &address,
            "--replicas",
            "127.0.0.1:1",
            "--admin",
            "none",
            "--workers",
            workers,
        ];
        let output = slackwater(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        let expected = format!("slackwater: cannot listen on {address}: ");
        assert!(
            error.contains(&expected) && error.contains("in use"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn second_proxy_cannot_bind_the_same_port() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "workers = 2");
    let address = proxy.address.to_string();
    let args = [
        "serve",
        "--listen",
        &address,
        "--replicas",
        "127.0.0.1:1",
        "--admin",
        "none",
        "--workers",
        "2",
    ];
    assert_eq!(slackwater(&args).output().unwrap().status.code(), Some(1));
    assert_eq!(get(proxy.address, "/").await.status, 200);
}

#[tokio::test]
async fn invalid_arguments_exit_with_2() {
    let output = slackwater(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--replicas",
        "",
        "--policy",
        "nonsense",
    ])
    .output()
    .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test]
async fn idle_and_head_timeouts_close_connections() {
    let replica = unused_address().await;
    let defaults = Timeouts::default();
    // One timeout is short, and the other one is too long to wait for.
    let little_for_a_head = "[timeouts]\nhead = \"100ms\"\nidle = \"1h\"";
    let proxy = Proxy::start(&[replica], little_for_a_head);
    let mut trickling = Client::connect(proxy.address).await;
    trickling.send("GET / HT").await;
    let ended = before(defaults.head, trickling.rest());
    assert!(ended.await.is_empty());
    // Enough for one request on a busy machine.
    let little_for_nothing = "[timeouts]\nhead = \"1m\"\nidle = \"1s\"";
    let proxy = Proxy::start(&[replica], little_for_nothing);
    let idle = Client::connect(proxy.address).await;
    let mut after_a_request = Client::connect(proxy.address).await;
    assert_eq!(after_a_request.get("/").await.status, 502);
    for client in [idle, after_a_request] {
        assert!(before(defaults.idle, client.rest()).await.is_empty());
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "[limits]\nconnections_max = 1");
    let mut first = Client::connect(proxy.address).await;
    assert_eq!(first.get("/").await.status, 200);
    let mut second = Client::connect(proxy.address).await;
    second.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(first.get("/").await.status, 200);
    assert_eq!(proxy.sum("/requests/sent").await, 2);
    drop(first);
    assert_eq!(second.answer().await.status, 200);
}
