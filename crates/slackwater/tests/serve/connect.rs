//! CONNECT: tunnels through replicas that open them.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, until};
use crate::replicas::{Replica, unused_address};
use core::net::SocketAddr;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

const PASS: &str = "connect = \"pass\"";

/// A replica that is a proxy: it connects to any target, but only for clients that authenticate.
async fn opener() -> Replica {
    Replica::scripted(|mut connection| async move {
        let head = connection.head().await.unwrap();
        let line = head.lines().next().unwrap();
        let target = line.strip_prefix("CONNECT ").unwrap();
        let target = target.strip_suffix(" HTTP/1.1").unwrap();
        assert!(head.contains(&format!("\r\nhost: {target}\r\n")), "{head}");
        assert!(head.contains("\r\nvia: "), "{head}");
        assert!(!head.contains("upgrade"), "{head}");
        if !head.contains("\r\nproxy-authorization: Basic YTpi\r\n") {
            connection
                .send("HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 4\r\n\r\nwho?")
                .await;
            return;
        }
        let mut server = TcpStream::connect(target).await.unwrap();
        // Fields that frame a body have no meaning in this response, and must not reach the client.
        connection
            .send("HTTP/1.1 200 Connection established\r\ncontent-length: 7\r\nx-proxy: p\r\n\r\n")
            .await;
        server.write_all(&connection.unread).await.unwrap();
        let _ = copy_bidirectional(&mut connection.stream, &mut server).await;
    })
    .await
}

fn connect(target: SocketAddr) -> String {
    format!(
        "CONNECT {target} HTTP/1.1\r\nhost: {target}\r\nproxy-authorization: Basic YTpi\r\n\
         connection: upgrade\r\nupgrade: websocket\r\n\r\n"
    )
}

#[tokio::test]
async fn tunnels_are_off_by_default() {
    let replica = Replica::echo("r").await;
    for settings in ["", "connect = \"refuse\""] {
        let proxy = Proxy::start(&[replica.address], settings);
        let mut client = Client::connect(proxy.address).await;
        client.send(&connect(replica.address)).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, 501);
        assert_eq!(answer.field("x-slackwater-error"), Some("refused"));
        assert_eq!(answer.field("connection"), Some("close"));
        assert_eq!(client.rest().await, b"");
    }
    assert_eq!(replica.connections(), 0);
}

#[tokio::test]
async fn tunnel_is_opened_by_the_replica_and_in_flight_while_open() {
    let (replica, server) = (opener().await, Replica::echo("beyond").await);
    let proxy = Proxy::start(&[replica.address], PASS);
    let mut client = Client::connect(proxy.address).await;
    // The first request in the tunnel is sent before the tunnel is known to exist.
    let inner = "GET /first HTTP/1.1\r\nhost: inner\r\n\r\n";
    client.send(&(connect(server.address) + inner)).await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("x-proxy: p\r\n"), "{head}");
    for field in [
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
    ] {
        assert!(!head.contains(field), "{head}");
    }
    assert_eq!(client.answer().await.text(), format!("beyond\n{inner}"));
    assert_eq!(proxy.sum("/in_flight").await, 1);
    let body = "x".repeat(100_000);
    let length = body.len();
    let inner = format!("POST /next HTTP/1.1\r\nhost: inner\r\ncontent-length: {length}\r\n\r\n");
    client.send(&(inner.clone() + &body)).await;
    let answer = client.answer().await;
    assert!(answer.text() == format!("beyond\n{inner}{body}"), "cut");
    assert_eq!(proxy.sum("/in_flight").await, 1);
    drop(client);
    proxy.settled().await;
    assert_eq!(replica.connections(), 1);
    assert_eq!(proxy.sum("/requests/responses_2xx").await, 1);
}

#[tokio::test]
async fn http10_client_can_open_a_tunnel() {
    let (replica, server) = (opener().await, Replica::echo("beyond").await);
    let proxy = Proxy::start(&[replica.address], PASS);
    let mut client = Client::connect(proxy.address).await;
    let target = server.address;
    client
        .send(&format!(
            "CONNECT {target} HTTP/1.0\r\nproxy-authorization: Basic YTpi\r\n\r\n"
        ))
        .await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
    assert!(client.get("/a").await.text().starts_with("beyond\nGET /a "));
}

#[tokio::test]
async fn data_after_a_declined_connect_is_not_a_request() {
    let replica = opener().await;
    let proxy = Proxy::start(&[replica.address], PASS);
    let mut client = Client::connect(proxy.address).await;
    client
        .send("CONNECT x:443 HTTP/1.1\r\nhost: x:443\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.text()), (407, "who?"));
    assert_eq!(answer.field("proxy-authenticate"), Some("Basic"));
    assert_eq!(answer.field("connection"), Some("close"));
    assert_eq!(client.rest().await, b"");
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/sent").await, 1);
}

#[tokio::test]
async fn status_101_in_answer_to_connect_is_a_502() {
    let replica = Replica::scripted(|mut connection| async move {
        let _ = connection.head().await;
        connection
            .send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
            .await;
    })
    .await;
    let proxy = Proxy::start(&[replica.address], PASS);
    let mut client = Client::connect(proxy.address).await;
    client.send(&connect(replica.address)).await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 502);
    assert_eq!(answer.field("x-slackwater-error"), Some("switched"));
}

#[tokio::test]
async fn only_one_replica_receives_a_tunnel() {
    const ANY: &str = "connect = \"pass\"\n[retries]\nmethods = \"all\"";
    let (one, other) = (Replica::closing().await, Replica::closing().await);
    let proxy = Proxy::start(&[one.address, other.address], ANY);
    let mut client = Client::connect(proxy.address).await;
    let marked = "CONNECT x:443 HTTP/1.1\r\nhost: x:443\r\nidempotency-key: k\r\n\r\n";
    client.send(marked).await;
    assert_eq!(client.answer().await.status, 502);
    assert_eq!(one.connections() + other.connections(), 1);

    // A replica that cannot be connected to has received nothing.
    let (replica, server) = (opener().await, Replica::echo("beyond").await);
    let proxy = Proxy::start(&[unused_address().await, replica.address], PASS);
    for _ in 0..2 {
        let mut client = Client::connect(proxy.address).await;
        client.send(&connect(server.address)).await;
        assert!(client.head().await.starts_with("HTTP/1.1 200 "));
    }
}

#[tokio::test]
async fn routes_determine_which_requests_may_open_tunnels() {
    let (replica, server) = (opener().await, Replica::echo("beyond").await);
    let proxy = Proxy::of_file(&format!(
        "[services.tunnels]\nreplicas = [\"{}\"]\nprobe.transport = \"none\"\n\
         [services.web]\nreplicas = [\"{}\"]\nprobe.transport = \"none\"\n\
         [[routes]]\npath_prefix = \"/\"\nservice = \"web\"\n\
         [[routes]]\nhost = \"localhost\"\nrespond.status = 200\n\
         [[routes]]\nhost = \"127.0.0.1\"\nmethod = \"CONNECT\"\nservice = \"tunnels\"\nconnect = \"pass\"\n\
         rewrite.host = \"elsewhere.example\"\n\
         [[routes]]\nservice = \"web\"\n",
        replica.address, server.address
    ));
    for (target, status) in [
        (server.address.to_string(), 200),
        ("localhost:80".to_owned(), 501),
        ("x.example:80".to_owned(), 501),
    ] {
        let mut client = Client::connect(proxy.address).await;
        client
            .send(&format!(
                "CONNECT {target} HTTP/1.1\r\nhost: x\r\nproxy-authorization: Basic YTpi\r\n\r\n"
            ))
            .await;
        assert_eq!(client.answer().await.status, status, "{target}");
    }
    assert!(get(proxy.address, "/a").await.text().starts_with("beyond"));
    assert_eq!(replica.connections(), 1);
}

#[tokio::test]
async fn tunnels_are_refused_over_http2() {
    let address = crate::replicas::http2(async |_| panic!("a tunnel")).await;
    let proxy = Proxy::start(
        &[address],
        "connect = \"pass\"\n[replica]\nprotocol = \"h2c\"",
    );
    let mut client = Client::connect(proxy.address).await;
    client.send(&connect(address)).await;
    assert_eq!(client.answer().await.status, 501);

    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], PASS);
    let mut client = crate::clients::http2(proxy.address).await;
    let request = http::Request::connect("x:443").body(crate::clients::empty());
    let response = client.send_request(request.unwrap()).await.unwrap();
    assert_eq!(response.status(), 501);
    assert_eq!(replica.connections(), 0);
}

#[tokio::test]
async fn the_access_log_has_the_target_of_a_tunnel() {
    let (replica, server) = (opener().await, Replica::echo("beyond").await);
    let file = std::env::temp_dir().join(format!("slackwater-connect-{}.log", std::process::id()));
    let settings = format!("{PASS}\n[access_log]\nto = {file:?}\nformat = \"json\"");
    let proxy = Proxy::start(&[replica.address], &settings);
    let mut client = Client::connect(proxy.address).await;
    client.send(&connect(server.address)).await;
    client.head().await;
    drop(client);
    let line = until("there is a line", async || {
        let text = std::fs::read_to_string(&file).ok()?;
        text.lines().next().map(str::to_owned)
    })
    .await;
    std::fs::remove_file(&file).unwrap();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["method"], "CONNECT");
    assert_eq!(line["path"], server.address.to_string());
    assert_eq!(line["end"], "complete");
}
