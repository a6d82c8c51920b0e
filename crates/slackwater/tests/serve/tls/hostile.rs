//! Connections that do not speak TLS, or break it off: each is answered or dropped, and other
//! connections continue.

use super::rig::{Authority, Folder, ask, tls_section};
use crate::clients::Client;
use crate::proxy::{PATIENCE, Proxy, before, until};
use crate::replicas::Replica;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use serde_json::json;
use slackwater_config::Timeouts;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The first bytes of a client.
fn hello(authority: &Authority) -> Vec<u8> {
    let name = ServerName::try_from("a.test").unwrap();
    let mut connection = ClientConnection::new(authority.client().config(), name).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

async fn proxy(authority: &Authority, more: &str, top: &str) -> (Proxy, Replica) {
    let (folder, replica) = (Folder::new(), Replica::echo("replica").await);
    authority.issue(&["a.test"]).write(&folder, "a");
    let section = tls_section(&folder, &["a"], more);
    let proxy = Proxy::start(&[replica.address], &format!("{section}{top}"));
    (proxy, replica)
}

/// Reads to the end, which may be a reset.
async fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .expect("the connection stays open");
    bytes
}

async fn others_go_on(proxy: &Proxy, authority: &Authority) {
    let stream = authority
        .client()
        .connect(proxy.address, "a.test")
        .await
        .unwrap();
    let answer = ask(stream, "GET /fine HTTP/1.1").await.unwrap();
    assert!(answer.contains("GET /fine"), "{answer}");
}

#[tokio::test]
async fn plain_http_receives_an_error_in_plain_text() {
    let authority = Authority::new();
    let (proxy, replica) = proxy(&authority, "", "").await;
    for request in [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        format!(
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 40000\r\n\r\n{}",
            "x".repeat(40_000)
        ),
    ] {
        let mut client = Client::connect(proxy.address).await;
        client.send(&request).await;
        let answer = String::from_utf8(client.rest().await).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
            "{answer}"
        );
        assert!(answer.ends_with("this port speaks HTTPS, the request came by HTTP\n"));
    }
    assert_eq!(replica.connections(), 0);
    others_go_on(&proxy, &authority).await;
}

#[tokio::test]
async fn plain_client_that_stays_is_counted_once() {
    let authority = Authority::new();
    let (proxy, _replica) = proxy(&authority, "", "[timeouts]\nhandshake = \"1s\"\n").await;
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    stream.write_all(request).await.unwrap();
    stream.read_u8().await.expect("an answer");
    until("the time for its handshake is over", async || {
        let open = &proxy.status().await["client_connections"]["open"];
        (*open == 0).then_some(())
    })
    .await;
    let counts = &proxy.status().await["handshakes"][0];
    assert_eq!(
        (&counts["plain"], &counts["timed_out"]),
        (&json!(1), &json!(0))
    );
}

#[tokio::test]
async fn tls_handshake_on_a_plain_port_is_rejected_immediately() {
    let authority = Authority::new();
    let replica = Replica::echo("replica").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    stream.write_all(&hello(&authority)).await.unwrap();
    let answer = rest(stream).await;
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"),
        "{answer:?}"
    );
    assert_eq!(replica.connections(), 0);
}

#[tokio::test]
async fn invalid_handshake_gets_at_most_an_alert() {
    let authority = Authority::new();
    let (proxy, replica) = proxy(&authority, "", "").await;
    let hello = hello(&authority);
    let with = |at: usize, byte: u8| {
        let mut changed = hello.clone();
        changed[at] = byte;
        changed
    };
    for (name, bytes) in [
        (
            "old SSL",
            b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10".to_vec(),
        ),
        ("zeros", vec![0; 4096]),
        ("data first", b"\x17\x03\x03\x00\x05hello".to_vec()),
        ("a record too long", b"\x16\x03\x01\xff\xff".to_vec()),
        ("an empty record", b"\x16\x03\x01\x00\x00".to_vec()),
        ("no hello", with(5, 2)),
        ("a hello of 16 MiB", with(6, 0xff)),
        ("a hello cut within its fields", with(8, 1)),
    ] {
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = rest(stream).await;
        let is_alert = matches!(*answer, [21, 3, _, 0, 2, 2, _]);
        assert!(answer.is_empty() || is_alert, "{name}: {answer:?}");
    }
    assert_eq!(replica.connections(), 0);
    others_go_on(&proxy, &authority).await;
}

#[tokio::test]
async fn incomplete_handshake_is_closed() {
    let authority = Authority::new();
    let (proxy, replica) = proxy(&authority, "", "[timeouts]\nhandshake = \"1s\"\n").await;
    let hello = hello(&authority);
    for length in [0, 1, 5, hello.len() / 2, hello.len()] {
        let mut cut = TcpStream::connect(proxy.address).await.unwrap();
        cut.write_all(&hello[..length]).await.unwrap();
        cut.shutdown().await.unwrap();
        rest(cut).await;
        let mut slow = TcpStream::connect(proxy.address).await.unwrap();
        slow.write_all(&hello[..length]).await.unwrap();
        before(Timeouts::default().handshake, rest(slow)).await;
    }
    assert_eq!(replica.connections(), 0);
    others_go_on(&proxy, &authority).await;
}

#[tokio::test]
async fn too_many_handshakes_end_the_oldest_one() {
    let authority = Authority::new();
    let (proxy, _replica) = proxy(&authority, "handshakes_max = 2", "").await;
    let hello = hello(&authority);
    let mut begun = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        // An answer to the hello shows that this handshake has a place.
        let mut answer = [0; 5];
        let reading = timeout(PATIENCE, stream.read_exact(&mut answer));
        reading.await.expect("no answer to a hello").unwrap();
        begun.push(stream);
    }
    let oldest = begun.remove(0);
    rest(oldest).await;
    others_go_on(&proxy, &authority).await;
    // That handshake took the place of the second one; the third one still has its own.
    let mut third = begun.pop().unwrap();
    rest(begun.remove(0)).await;
    let mut bytes = vec![0; 16 << 10];
    let mut read = core::pin::pin!(async { while third.read(&mut bytes).await.unwrap() > 0 {} });
    let ended = futures_util::poll!(read.as_mut());
    assert!(ended.is_pending(), "the newest goes on");
}
