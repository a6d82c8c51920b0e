//! The stream of events from processes that are shut down or replaced: it ends, and is complete.

use crate::proxy::Proxy;
use crate::reload::{Written, config};
use crate::replicas::Replica;
use crate::upgrade::{process, successor_of};
use core::net::SocketAddr;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A reader of the stream.
struct Reader(BufReader<TcpStream>);

impl Reader {
    async fn open(admin: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(admin).await.unwrap();
        let request = format!("GET /events HTTP/1.1\r\nhost: {admin}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Self(BufReader::new(stream))
    }

    /// Reads the next event of that name.
    async fn next(&mut self, name: &str) -> Value {
        let mut is_it = false;
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).await.unwrap(), 0, "it ended");
            if let Some(found) = line.trim_end().strip_prefix("event: ") {
                is_it = found == name;
            }
            if let Some(data) = line.strip_prefix("data: ").filter(|_| is_it) {
                return serde_json::from_str(data).unwrap();
            }
        }
    }

    /// Reads up to the end of the connection, where the body must end properly.
    async fn ends(mut self) {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).await.unwrap();
        let rest = String::from_utf8(rest).unwrap();
        assert!(rest.ends_with("\r\n0\r\n\r\n"), "{rest:?}");
    }
}

#[tokio::test]
async fn the_stream_ends_when_serve_or_an_agent_stops() {
    let server = Replica::echo("server").await;
    let to = server.address.to_string();
    let agent = [
        "agent",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &to,
        "--admin",
        "127.0.0.1:0",
    ];
    for mut process in [Proxy::start(&[server.address], ""), Proxy::spawn(&agent)] {
        let mut reader = Reader::open(process.admin).await;
        reader.next("tick").await;
        process.signal("TERM");
        reader.ends().await;
        assert_eq!(process.ended().await.code(), Some(0));
    }
}

#[tokio::test]
async fn live_stream_ends_with_its_process_and_reopens_at_the_next() {
    let server = Replica::echo("server").await;
    let written = Written::new("live", &config(&[&server], ""));
    let mut proxy = written.serve(&[]);
    let mut reader = Reader::open(proxy.admin).await;
    let first = reader.next("fleet").await;
    let old = process(&proxy).await;
    assert_eq!(first["process"], old);
    proxy.signal("USR2");
    reader.ends().await;
    let next = successor_of(&proxy, old).await;
    assert_eq!(proxy.ended().await.code(), Some(0));
    let fleet = Reader::open(proxy.admin).await.next("fleet").await;
    assert_eq!(fleet["process"], next.id());
}
