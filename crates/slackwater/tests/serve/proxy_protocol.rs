//! Listeners behind a proxy that sends the client's address in a header of the PROXY protocol.

use crate::clients::Client;
use crate::proxy::{PATIENCE, Proxy, until};
use crate::replicas::Replica;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

/// A proxy whose only listener accepts headers from `trust`.
pub(crate) fn start(replica: &Replica, trust: &str, rest: &str) -> Proxy {
    let address = replica.address;
    Proxy::of_file(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nproxy_protocol = \"required\"\n\
         proxy_protocol_trust = [\"{trust}\"]\n\
         [services.web]\npolicy = \"round_robin\"\nreplicas = [\"{address}\"]\n\
         [services.web.probe]\ntransport = \"none\"\n\
         [[routes]]\nservice = \"web\"\n{rest}"
    ))
}

/// Version 2, from 192.0.2.7.
const VERSION_2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\xc6\x33\x64\x01\xc3\x50\x01\xbb";
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

#[tokio::test]
async fn client_address_is_read_from_the_proxy_header() {
    let replica = Replica::echo("r").await;
    let proxy = start(&replica, "127.0.0.0/8", "");
    for (header, expected) in [
        (
            &b"PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n"[..],
            "192.0.2.7",
        ),
        (VERSION_2, "192.0.2.7"),
        (
            b"PROXY TCP6 2001:db8::7 2001:db8::1 50000 443\r\n",
            "2001:db8::7",
        ),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
        (LOCAL, "127.0.0.1"),
    ] {
        let mut client = Client::connect(proxy.address).await;
        client.stream.write_all(header).await.unwrap();
        for path in ["/one", "/two"] {
            let answer = client.get(path).await;
            assert_eq!(answer.status, 200);
            let line = format!("x-forwarded-for: {expected}\r\n");
            assert!(answer.text().contains(&line), "{}", answer.text());
        }
    }
    proxy.settled().await;
    assert_eq!(refused(&proxy).await, 0);
}

#[tokio::test]
async fn a_missing_host_is_the_address_that_the_client_connected_to() {
    let replica = Replica::echo("r").await;
    let proxy = start(&replica, "127.0.0.1", "");
    let mut client = Client::connect(proxy.address).await;
    client.stream.write_all(VERSION_2).await.unwrap();
    client.send("GET / HTTP/1.0\r\n\r\n").await;
    let seen = client.answer().await;
    assert!(
        seen.text().contains("host: 198.51.100.1:443\r\n"),
        "{}",
        seen.text()
    );
}

#[tokio::test]
async fn client_behind_a_trusted_proxy_is_not_trusted_itself() {
    let replica = Replica::echo("r").await;
    let trusting = "[forwarded]\ntrust = [\"127.0.0.0/8\", \"192.0.2.8\"]\n";
    let proxy = start(&replica, "127.0.0.1", trusting);
    for (client_address, expected) in [
        ("192.0.2.7", "x-forwarded-for: 192.0.2.7\r\n"),
        ("192.0.2.8", "x-forwarded-for: 203.0.113.1, 192.0.2.8\r\n"),
    ] {
        let mut client = Client::connect(proxy.address).await;
        client
            .send(&format!(
                "PROXY TCP4 {client_address} 198.51.100.1 50000 443\r\n\
                 GET / HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 203.0.113.1\r\n\r\n"
            ))
            .await;
        let seen = client.answer().await;
        assert!(seen.text().contains(expected), "{}", seen.text());
    }
}

#[tokio::test]
async fn connections_without_a_header_are_closed_and_counted() {
    let replica = Replica::echo("r").await;
    let proxy = start(
        &replica,
        "127.0.0.1",
        "[timeouts]\nhead = \"200ms\"\nidle = \"1m\"\n",
    );
    let mut count = 0;
    for bytes in [
        &b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 50000\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\x00\x00",
        // Unfinished, for longer than a head may take.
        b"PROXY TCP4 192.0.2.7",
        b"",
    ] {
        let mut client = Client::connect(proxy.address).await;
        client.stream.write_all(bytes).await.unwrap();
        assert!(client.rest().await.is_empty(), "{bytes:?}");
        count += 1;
        assert_eq!(refused(&proxy).await, count, "{bytes:?}");
    }
    assert_eq!(replica.connections(), 0);
}

#[tokio::test]
async fn proxy_header_from_an_untrusted_address_is_refused() {
    let replica = Replica::echo("r").await;
    let proxy = start(&replica, "10.0.0.0/8", "");
    let mut client = Client::connect(proxy.address).await;
    client.stream.write_all(VERSION_2).await.unwrap();
    assert!(client.rest().await.is_empty());
    until("it is counted", async || {
        (refused(&proxy).await == 1).then_some(())
    })
    .await;
    let metrics = proxy.admin_page("/metrics").await;
    assert!(
        metrics.contains("slackwater_proxy_headers_refused_total 1\n"),
        "{metrics}"
    );
}

async fn refused(proxy: &Proxy) -> u64 {
    let status = proxy.status().await;
    status["proxy_headers_refused"].as_u64().unwrap()
}

/// A connection from another loopback address.
async fn connect_from(host: u8, proxy: &Proxy) -> Client {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, host], 0).into()).unwrap();
    Client::of(socket.connect(proxy.address).await.unwrap())
}

fn telling(replica: core::net::SocketAddr, version: &str, more: &str) -> Proxy {
    Proxy::start(
        &[replica],
        &format!("replica.proxy_protocol = \"{version}\"\n{more}"),
    )
}

#[tokio::test]
async fn a_replica_receives_the_client_of_a_connection() {
    let echo = Replica::echo("r").await;
    for version in ["v1", "v2"] {
        // This process trusts no header field, only the PROXY header.
        let replica = start(&echo, "127.0.0.0/8", "");
        let proxy = telling(replica.address, version, "");
        let (mut one, mut other) = (connect_from(5, &proxy).await, connect_from(6, &proxy).await);
        for _ in 0..3 {
            for (client, address) in [(&mut one, "127.0.0.5"), (&mut other, "127.0.0.6")] {
                let answer = client.get("/").await;
                let line = format!("x-forwarded-for: {address}\r\n");
                assert!(answer.text().contains(&line), "{}", answer.text());
            }
        }
        let mut http2 = crate::clients::http2(proxy.address).await;
        let request = http::Request::get("http://x/")
            .body(crate::clients::empty())
            .unwrap();
        let answer = http2.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        drop(http2);
        drop((one, other));
        assert_eq!(refused(&replica).await, 0);
    }
}

/// A replica that answers with the header at the beginning of its connection.
async fn header_of_connection() -> Replica {
    Replica::scripted(|mut connection| async move {
        let mut header = String::new();
        while let Some(head) = connection.head().await {
            if let Some((first, _)) = head.split_once("\r\n")
                && first.starts_with("PROXY ")
            {
                header = first.to_owned();
            }
            connection.answer(&header).await;
        }
    })
    .await
}

#[tokio::test]
async fn connection_with_a_proxy_header_is_reused_only_for_its_client() {
    let replica = header_of_connection().await;
    let proxy = telling(replica.address, "v1", "replica.idle_connections_max = 2\n");
    let mut clients = Vec::new();
    for _ in 0..2 {
        clients.push(Client::connect(proxy.address).await);
    }
    for _ in 0..3 {
        for client in &mut clients {
            let (from, to) = (client.stream.local_addr().unwrap(), proxy.address);
            let expected = format!(
                "PROXY TCP4 {} {} {} {}",
                from.ip(),
                to.ip(),
                from.port(),
                to.port()
            );
            assert_eq!(client.get("/").await.text(), expected);
        }
    }
    assert_eq!(replica.connections(), 2, "each has one, and keeps it");
    // The limit is two connections: the oldest one is closed, not the newest.
    let mut third = Client::connect(proxy.address).await;
    for _ in 0..2 {
        assert_eq!(third.get("/").await.status, 200);
    }
    assert_eq!(replica.connections(), 3);
    assert_eq!(clients[1].get("/").await.status, 200);
    assert_eq!(replica.connections(), 3, "the second one was kept");
    assert_eq!(clients[0].get("/").await.status, 200);
    assert_eq!(replica.connections(), 4);
}

/// A replica that reports the beginning of each of its connections.
async fn checked() -> (Replica, UnboundedReceiver<String>) {
    let (tell, heard) = unbounded_channel();
    let replica = Replica::scripted(move |mut connection| {
        let tell = tell.clone();
        async move {
            if let Some(head) = connection.head().await {
                let _ = tell.send(head.lines().next().unwrap().to_owned());
                connection.answer("well").await;
            }
        }
    });
    (replica.await, heard)
}

#[tokio::test]
async fn health_checks_send_their_own_proxy_header() {
    let health = "[health]\ncheck = \"http\"\ninterval = \"10ms\"\n";
    let (checked, mut heard) = checked().await;
    let _proxy = telling(checked.address, "v1", health);
    let first = timeout(PATIENCE, heard.recv()).await;
    assert_eq!(first.unwrap().unwrap(), "PROXY UNKNOWN");

    // A server with its own port for checks expects no header.
    let replica = header_of_connection().await;
    let (checked, mut heard) = self::checked().await;
    let port = checked.address.port();
    let _proxy = telling(replica.address, "v1", &format!("{health}port = {port}\n"));
    let first = timeout(PATIENCE, heard.recv()).await;
    assert_eq!(first.unwrap().unwrap(), "GET / HTTP/1.1");
}
