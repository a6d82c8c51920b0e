//! Shutdown despite obstacles: a successor that does not come up, a log that accepts no lines, an
//! HTTP/2 client that does not answer.

use crate::clients::{Client, get, is_open};
use crate::frames::{self, DATA, GOAWAY, HEADERS, Reader, SETTINGS, WINDOW_UPDATE};
use crate::proxy::{PATIENCE, Proxy, before, unconfigured, until};
use crate::replicas::Replica;
use core::net::SocketAddr;
use core::time::Duration;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, interval, timeout};

/// A program file that is removed when this is dropped.
struct Program(PathBuf);

impl Program {
    /// Creates a link to the program under test.
    fn link(name: &str) -> Self {
        let name = format!("slackwater-stopping-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        symlink(env!("CARGO_BIN_EXE_slackwater"), &path).unwrap();
        Self(path)
    }

    /// Replaces the program by another one that does nothing for a long time.
    fn hangs(&self) {
        std::fs::remove_file(&self.0).unwrap();
        std::fs::write(&self.0, "#!/bin/sh\nexec sleep 1000\n").unwrap();
        std::fs::set_permissions(&self.0, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn start(&self, replica: SocketAddr) -> Proxy {
        let words = format!(
            "serve --probe none --policy round_robin --workers 1 --admin 127.0.0.1:0 --listen 127.0.0.1:0 \
             --replicas {replica}"
        );
        let mut command = Command::new(&self.0);
        command.args(words.split(' '));
        unconfigured(&mut command);
        Proxy::spawn_command(&mut command)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn sigterm_cancels_a_running_upgrade() {
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        // Until the proxy closes the connection.
        connection.more().await;
    })
    .await;
    let program = Program::link("upgrade");
    let mut proxy = program.start(replica.address);
    let mut busy = Client::connect(proxy.address).await;
    busy.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until("the request is out", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;
    program.hangs();
    proxy.signal("USR2");
    proxy.log_line("starting a new process");
    proxy.signal("TERM");
    proxy.log_line("upgrade cancelled");
    until("nothing listens", async || {
        let connected = TcpStream::connect(proxy.address).await;
        connected.is_err().then_some(())
    })
    .await;
    assert!(proxy.is_running(), "it finishes what runs");
    proxy.signal("TERM");
    assert!(busy.rest().await.is_empty());
    assert_eq!(proxy.ended().await.code(), Some(0));
}

#[tokio::test]
async fn blocked_access_log_does_not_prevent_exit() {
    let replica = Replica::echo("r").await;
    let words = format!(
        "serve --probe none --policy round_robin --workers 1 --admin 127.0.0.1:0 --listen 127.0.0.1:0 \
         --replicas {} --access-log stdout",
        replica.address
    );
    let mut command = crate::proxy::slackwater(&words.split(' ').collect::<Vec<_>>());
    // Its output is not read; the pipe takes 64 KiB.
    let mut proxy = Proxy::spawn_command(command.stdout(Stdio::piped()));
    let path = format!("/{}", "x".repeat(8_000));
    for _ in 0..20 {
        assert_eq!(get(proxy.address, &path).await.status, 200);
    }
    proxy.signal("TERM");
    proxy.log_line("access log lines dropped: output blocked");
    assert_eq!(proxy.ended().await.code(), Some(0));
}

/// An HTTP/2 client that answers nothing, neither SETTINGS nor PING.
struct Mute {
    reader: Reader,
    writer: OwnedWriteHalf,
}

impl Mute {
    async fn connect(proxy: &Proxy) -> Self {
        let stream = TcpStream::connect(proxy.address).await.unwrap();
        let (read, writer) = stream.into_split();
        let reader = Reader::new(read);
        let mut client = Self { reader, writer };
        client.say(&frames::preface()).await;
        client
    }

    async fn say(&mut self, bytes: &[u8]) {
        // If the proxy has closed the connection, the client does not fail.
        let _ = self.writer.write_all(bytes).await;
    }

    /// Reads the next head, with its stream, or GOAWAY, with the last stream that it names; `None`
    /// at the end of the connection.
    async fn next(&mut self) -> Option<(u8, u32)> {
        loop {
            let frame = timeout(PATIENCE, self.reader.frame()).await;
            match frame.expect("something comes, be it the end")? {
                (HEADERS, stream, _) => return Some((HEADERS, stream)),
                (GOAWAY, _, payload) => {
                    let last = payload.first_chunk().unwrap();
                    return Some((GOAWAY, u32::from_be_bytes(*last)));
                }
                _ => (),
            }
        }
    }
}

const LONG_DRAIN: &str = "[timeouts]\ndrain = \"10m\"\ndrain_idle = \"100ms\"";
/// It names the highest possible stream: requests on their way are still accepted.
const FIRST_GOAWAY: (u8, u32) = (GOAWAY, 0x7fff_ffff);

#[tokio::test]
async fn idle_http2_client_that_answers_no_ping_is_closed_at_shutdown() {
    let replica = Replica::echo("r").await;
    let mut proxy = Proxy::start(&[replica.address], LONG_DRAIN);
    let mut client = Mute::connect(&proxy).await;
    client.say(&frames::get(1, "/a")).await;
    assert_eq!(client.next().await, Some((HEADERS, 1)));
    proxy.signal("TERM");
    assert_eq!(client.next().await, Some(FIRST_GOAWAY));
    assert_eq!(client.next().await, Some((GOAWAY, 1)));
    assert_eq!(client.next().await, None);
    assert_eq!(proxy.ended().await.code(), Some(0));
}

#[tokio::test]
async fn http2_client_finishes_its_requests_and_starts_none_at_shutdown() {
    let go_on = Arc::new(Notify::new());
    let replica = Replica::slow(&go_on, "done").await;
    let mut proxy = Proxy::start(&[replica.address], LONG_DRAIN);
    let mut client = Mute::connect(&proxy).await;
    client.say(&frames::get(1, "/slow")).await;
    until("the request is out", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;
    proxy.signal("TERM");
    assert_eq!(client.next().await, Some(FIRST_GOAWAY));
    assert_eq!(client.next().await, Some((GOAWAY, 1)));
    client.say(&frames::get(3, "/late")).await;
    go_on.notify_one();
    assert_eq!(client.next().await, Some((HEADERS, 1)));
    assert_eq!(client.next().await, None);
    assert_eq!(proxy.ended().await.code(), Some(0));
}

/// Data that arrives at a socket that is closed already resets it, and the unread rest is lost.
#[tokio::test]
async fn http2_client_reads_its_response_though_the_connection_has_ended() {
    const BODY: usize = 256 << 10;
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        connection.answer(&"x".repeat(BODY)).await;
    })
    .await;
    let mut proxy = Proxy::start(&[replica.address], LONG_DRAIN);
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let stream = socket.connect(proxy.address).await.unwrap();
    let own = stream.local_addr().unwrap();
    let (read, mut writer) = stream.into_split();
    let mut reader = Reader::new(read);
    let window = 1_u32 << 20;
    let wide = frames::frame(WINDOW_UPDATE, 0, 0, &window.to_be_bytes());
    let initial = [&[0, 4][..], &window.to_be_bytes()].concat();
    let settings = frames::frame(SETTINGS, 0, 0, &initial);
    let asks = [frames::preface(), settings, wide, frames::get(1, "/")].concat();
    writer.write_all(&asks).await.unwrap();
    until("the response is sent", async || {
        (proxy.sum("/requests/responses_2xx").await == 1).then_some(())
    })
    .await;
    proxy.settled().await;
    proxy.signal("TERM");
    until("the connection has ended", async || {
        (!is_open(proxy.address, own)).then_some(())
    })
    .await;
    let update = frames::frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes());
    let mut length = 0;
    // In all more than the two seconds that a silent client has.
    let mut reads = interval(Duration::from_millis(700));
    loop {
        reads.tick().await;
        writer.write_all(&update).await.unwrap();
        let enough = length + BODY / 5;
        while length < enough.min(BODY) {
            let (kind, _, payload) = reader.frame().await.expect("not cut off");
            length += if kind == DATA { payload.len() } else { 0 };
        }
        if length == BODY {
            break;
        }
    }
    drop((reader, writer));
    assert_eq!(proxy.ended().await.code(), Some(0));
}

#[tokio::test]
async fn idle_clients_are_closed_in_order_however_short_the_drain_is() {
    let replica = Replica::echo("r").await;
    let short = "[timeouts]\ndrain = \"100ms\"\ndrain_idle = \"100ms\"";
    let mut proxy = Proxy::start(&[replica.address], short);
    let mut client = Mute::connect(&proxy).await;
    client.say(&frames::get(1, "/a")).await;
    assert_eq!(client.next().await, Some((HEADERS, 1)));
    proxy.signal("TERM");
    assert_eq!(client.next().await, Some(FIRST_GOAWAY));
    assert_eq!(client.next().await, Some((GOAWAY, 1)));
    assert_eq!(client.next().await, None);
    assert_eq!(proxy.ended().await.code(), Some(0));
}

#[tokio::test]
async fn http2_client_that_reads_nothing_has_two_seconds_for_goaway() {
    let replica = Replica::echo("r").await;
    let timeouts = "[timeouts]\ndrain = \"10m\"\nidle = \"1h\"";
    let mut proxy = Proxy::start(&[replica.address], timeouts);
    let mut client = Mute::connect(&proxy).await;
    client.say(&frames::get(1, "/a")).await;
    assert_eq!(client.next().await, Some((HEADERS, 1)));
    let (reader, mut writer) = (client.reader, client.writer);
    let pings = frames::frame(frames::PING, 0, 0, &[0; 8]).repeat(4096);
    let flood = tokio::spawn(async move { while writer.write_all(&pings).await.is_ok() {} });
    let began = Instant::now();
    proxy.signal("TERM");
    let ended = before(Duration::from_secs(10), proxy.ended()).await;
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!(ended.code(), Some(0));
    flood.await.unwrap();
    drop(reader);
}
