//! Tunnels: bytes in both directions, which end with the connection.

use super::rest::{TLS, tls};
use crate::proxy::{PATIENCE, Proxy};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// A proxy with an open tunnel from a client to a replica.
async fn tunnel(toml: &str) -> (Proxy, TcpStream, TcpStream) {
    tunnel_to(toml, async |stream| stream).await
}

/// Like [`tunnel`]; `accept` sets up the replica's side.
async fn tunnel_to<S: AsyncRead + AsyncWrite + Unpin>(
    toml: &str,
    accept: impl AsyncFnOnce(TcpStream) -> S,
) -> (Proxy, TcpStream, S) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(&[listener.local_addr().unwrap()], toml);
    let fields = "connection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let mut client = TcpStream::connect(proxy.address).await.unwrap();
    let request = format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}");
    client.write_all(request.as_bytes()).await.unwrap();
    let (replica, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let mut replica = accept(replica).await;
    head(&mut replica).await;
    let answer = format!("HTTP/1.1 101 Switching Protocols\r\n{fields}");
    replica.write_all(answer.as_bytes()).await.unwrap();
    replica.flush().await.unwrap();
    assert!(head(&mut client).await.starts_with("HTTP/1.1 101 "));
    (proxy, client, replica)
}

async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(PATIENCE, stream.read_u8()).await.unwrap();
        head.push(byte.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// Reads up to an end or a failure.
async fn sees(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut text)).await;
    let end = match read.expect("no end in time") {
        Ok(_) => "an end",
        Err(_) => "a reset",
    };
    format!("{}, {end}", String::from_utf8(text).unwrap())
}

/// What `other` sees when `one` ends after the word "last", or is reset after it.
async fn ends(mut one: TcpStream, mut other: impl AsyncRead + Unpin, is_reset: bool) -> String {
    one.write_all(b"last").await.unwrap();
    let mut text = [0; 4];
    let read = timeout(PATIENCE, other.read_exact(&mut text)).await;
    assert_eq!(read.unwrap().unwrap(), 4);
    if is_reset {
        one.set_zero_linger().unwrap();
        drop(one);
        return sees(&mut other).await;
    }
    one.write_all(b" word").await.unwrap();
    one.shutdown().await.unwrap();
    sees(&mut other).await
}

pub(super) async fn a_client_ends_its_tunnel() {
    let (proxy, client, replica) = tunnel("").await;
    assert_eq!(ends(client, replica, false).await, " word, an end");
    proxy.settled().await;
}

pub(super) async fn a_replica_ends_its_tunnel() {
    let (proxy, client, replica) = tunnel("").await;
    assert_eq!(ends(replica, client, false).await, " word, an end");
    proxy.settled().await;
}

pub(super) async fn a_client_resets_its_tunnel() {
    let (proxy, client, replica) = tunnel("").await;
    assert_eq!(ends(client, replica, true).await, ", a reset");
    proxy.settled().await;
}

pub(super) async fn a_replica_resets_its_tunnel() {
    let (proxy, client, replica) = tunnel("").await;
    assert_eq!(ends(replica, client, true).await, ", a reset");
    proxy.settled().await;
}

pub(super) async fn a_tunnel_ends_before_a_tls_replica() {
    // An end without close_notify is an error in TLS.
    for (is_reset, seen) in [(false, " word, an end"), (true, ", a reset")] {
        let accept = async |stream| tls().accept(stream).await.unwrap();
        let (proxy, client, replica) = tunnel_to(TLS, accept).await;
        assert_eq!(ends(client, replica, is_reset).await, seen);
        proxy.settled().await;
    }
}

pub(super) async fn a_tunnel_is_silent() {
    let (proxy, mut client, mut replica) = tunnel("[timeouts]\ntunnel = \"50ms\"").await;
    assert_eq!(sees(&mut client).await, ", a reset");
    assert_eq!(sees(&mut replica).await, ", a reset");
    proxy.settled().await;
}

pub(super) async fn a_tunnel_at_the_end_of_the_drain() {
    let (mut proxy, mut client, mut replica) = tunnel("[timeouts]\ndrain = \"50ms\"").await;
    proxy.signal("TERM");
    assert_eq!(sees(&mut client).await, ", a reset");
    assert_eq!(sees(&mut replica).await, ", a reset");
    assert!(proxy.ended().await.success());
}
