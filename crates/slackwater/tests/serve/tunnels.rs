//! Protocols that take an HTTP/1.1 connection over.

use crate::clients::Client;
use crate::proxy::Proxy;
use crate::replicas::Replica;
use core::net::SocketAddr;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;

/// A replica that speaks WebSocket and echoes each message.
async fn websocket() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_text() || message.is_binary() {
                        socket.send(message).await.unwrap();
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn websocket_is_forwarded_and_in_flight_while_open() {
    let proxy = Proxy::start(&[websocket().await], "");
    let url = format!("ws://{}/chat", proxy.address);
    let stream = TcpStream::connect(proxy.address).await.unwrap();
    let (mut socket, response) = tokio_tungstenite::client_async(&url, stream).await.unwrap();
    assert_eq!(response.status(), 101);
    assert_eq!(proxy.sum("/in_flight").await, 1);
    for length in [1, 100, 100_000] {
        let message = Message::binary(vec![7; length]);
        socket.send(message.clone()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), message);
    }
    assert_eq!(proxy.sum("/in_flight").await, 1);
    socket.close(None).await.unwrap();
    while let Some(Ok(_)) = socket.next().await {}
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/client_gone").await, 0);
}

#[tokio::test]
async fn tunnel_forwards_data_sent_with_its_heads_and_ends_with_a_side() {
    let replica = Replica::scripted(|mut connection| async move {
        let head = connection.head().await.unwrap();
        assert!(head.contains("connection: upgrade\r\nupgrade: websocket\r\n"), "{head}");
        connection
            .send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: WebSocket\r\n\r\nhello")
            .await;
        assert_eq!(connection.body(5).await.unwrap(), b"early");
        if connection.index == 0 {
            connection.send("bye").await;
        } else {
            while connection.more().await > 0 {}
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    for round in 0..2 {
        let mut client = Client::connect(proxy.address).await;
        client
            .send("GET / HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: WebSocket\r\n\r\nearly")
            .await;
        let head = client.head().await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(
            head.contains("connection: upgrade\r\nupgrade: websocket\r\n"),
            "{head}"
        );
        assert_eq!(client.exactly(5).await, b"hello");
        if round == 0 {
            assert_eq!(client.rest().await, b"bye");
        } else {
            drop(client);
        }
        proxy.settled().await;
    }
}

#[tokio::test]
async fn declined_protocol_upgrade_is_an_ordinary_request() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    for (protocol, is_asked) in [
        ("websocket", true),
        ("h2c", false),
        ("h2c, websocket", true),
    ] {
        client
            .send(&format!(
                "GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n\r\n"
            ))
            .await;
        let answer = client.answer().await;
        assert_eq!(answer.status, 200);
        assert_eq!(
            answer.text().contains("upgrade: websocket"),
            is_asked,
            "{protocol}"
        );
        assert!(!answer.text().contains("h2c"));
    }
    proxy.settled().await;
}

#[tokio::test]
async fn only_configured_protocols_are_requested() {
    let replica = Replica::echo("r").await;
    for (configured, asked, told) in [
        ("[]", "websocket", None),
        ("[\"tak\"]", "websocket", None),
        (
            "[\"tak\", \"other/2\"]",
            "websocket, Other/2",
            Some("other/2"),
        ),
    ] {
        let proxy = Proxy::start(
            &[replica.address],
            &format!("upgrade_protocols = {configured}"),
        );
        let mut client = Client::connect(proxy.address).await;
        client
            .send(&format!(
                "GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: {asked}\r\n\r\n"
            ))
            .await;
        let answer = client.answer().await;
        let line = (answer.text().lines()).find_map(|line| line.strip_prefix("upgrade: "));
        assert_eq!(line, told, "{configured}");
    }
}

#[tokio::test]
async fn replicas_over_http2_cannot_change_the_protocol() {
    let replica = crate::replicas::http2(|_| async {
        http::Response::new(crate::clients::full("no change"))
    })
    .await;
    let proxy = Proxy::start(&[replica], "replica.protocol = \"h2c\"\n");
    let ask = async |upgrade: &str| {
        let mut client = Client::connect(proxy.address).await;
        let fields = format!("host: a\r\nconnection: upgrade\r\nupgrade: {upgrade}\r\n");
        client
            .send(&format!("GET / HTTP/1.1\r\n{fields}\r\n"))
            .await;
        client.answer().await
    };
    let answer = ask("websocket").await;
    assert_eq!(answer.status, 501);
    assert_eq!(answer.field("x-slackwater-error"), Some("refused"));
    assert!(answer.text().contains("HTTP/2"), "{}", answer.text());
    // An upgrade that is not passed on is ignored, and the request is handled like any other.
    assert_eq!(ask("other").await.status, 200);
}

const TAIL_BYTES: usize = 24 << 10;
const ASKS: &[u8] =
    b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
const SWITCHES: &[u8] = b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";

/// A socket whose kernel takes little of what is sent to it before it is read.
fn small() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    socket
}

/// A tunnel through a proxy: the sides of the client and of the replica.
async fn tunnel() -> (Proxy, TcpStream, TcpStream) {
    let listens = small();
    listens.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let listener = listens.listen(8).unwrap();
    let proxy = Proxy::start(&[listener.local_addr().unwrap()], "");
    let mut client = small().connect(proxy.address).await.unwrap();
    client.write_all(ASKS).await.unwrap();
    let (mut replica, _) = listener.accept().await.unwrap();
    while replica.read_u8().await.unwrap() != b'\r' || replica.read_u16().await.unwrap() != 0x0a0d {
    }
    replica.read_u8().await.unwrap();
    replica.write_all(SWITCHES).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    (proxy, client, replica)
}

#[tokio::test]
async fn last_data_of_a_side_reaches_the_other_though_that_goes_on_sending() {
    for replica_ends in [true, false] {
        let (proxy, client, replica) = tunnel().await;
        let (mut ends, reads) = if replica_ends {
            (replica, client)
        } else {
            (client, replica)
        };
        ends.write_all(&vec![7; TAIL_BYTES]).await.unwrap();
        ends.shutdown().await.unwrap();
        if replica_ends {
            // The rest waits in the kernel.
            proxy.settled().await;
        }
        let (mut reads, mut writes) = reads.into_split();
        let writing = tokio::spawn(async move { while writes.write_all(b"more").await.is_ok() {} });
        let mut tail = Vec::new();
        reads.read_to_end(&mut tail).await.unwrap();
        writing.abort();
        assert_eq!(tail.len(), TAIL_BYTES, "{replica_ends}");
    }
}
