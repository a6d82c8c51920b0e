//! Requests that more than one replica receives in part or as a whole.

use crate::clients::Client;
use crate::endings::peers::{Reader, Watch, get};
use crate::endings::table::{Ends, HALF, WHOLE};
use crate::endings::wire::{self, Progress};
use crate::hedge::{EAGER, teach};
use crate::proxy::{PATIENCE, Proxy, until};
use crate::replicas::{Connection, Replica};
use crate::routes::services;
use bytes::Bytes;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use http::Request;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// Half an upload that will be cut off.
enum Upload {
    Http1(Client),
    Http2(h2::SendStream<Bytes>),
}

impl Upload {
    async fn begin(address: SocketAddr, is_http2: bool) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        if is_http2 {
            let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let request = Request::put("http://x/").body(()).unwrap();
            let (response, mut body) = client.send_request(request, false).unwrap();
            // Dropping it would reset the stream.
            tokio::spawn(response);
            body.send_data(Bytes::from_static(HALF.as_bytes()), false)
                .unwrap();
            return Self::Http2(body);
        }
        let mut client = Client::of(stream);
        let head = "PUT / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        client.send(&format!("{head}4\r\n{HALF}\r\n")).await;
        Self::Http1(client)
    }

    /// Ends the connection or stream without the last chunk, or without `END_STREAM`.
    async fn break_off(self) {
        match self {
            Self::Http1(mut client) => client.stream.shutdown().await.unwrap(),
            Self::Http2(mut body) => body.send_reset(h2::Reason::NO_ERROR),
        }
    }
}

/// Reports of replicas on a request: its number, and its state.
type Said = mpsc::UnboundedReceiver<(usize, &'static str)>;

/// Two replicas that report when they have received half of a request, and how it ended. If
/// `closes` is set, the replica with the first request closes its connection when it has half.
async fn pair(closes: bool) -> ([Replica; 2], Said) {
    let (say, said) = mpsc::unbounded_channel();
    let number = Arc::<AtomicUsize>::default();
    let replica = async || {
        let (say, number) = (say.clone(), Arc::clone(&number));
        Replica::scripted(move |mut connection: Connection| {
            let (say, number) = (say.clone(), Arc::clone(&number));
            async move {
                if connection.more().await == 0 {
                    return;
                }
                let number = number.fetch_add(1, SeqCst);
                let has_half = |unread: &[u8]| {
                    wire::http1(unread).is_some_and(|(body, _)| body == HALF.as_bytes())
                };
                while !has_half(&connection.unread) {
                    assert_ne!(connection.more().await, 0);
                }
                say.send((number, "half")).unwrap();
                if closes && number == 0 {
                    return;
                }
                while connection.more().await > 0 {}
                let (_, progress) = wire::http1(&connection.unread).unwrap();
                let is_whole = progress == Progress::Whole;
                let _ = say.send((number, if is_whole { "whole" } else { "cut off" }));
            }
        })
        .await
    };
    ([replica().await, replica().await], said)
}

async fn next(said: &mut Said) -> (usize, &'static str) {
    let next = timeout(PATIENCE, said.recv()).await;
    next.expect("nothing is said").unwrap()
}

pub(super) async fn an_upload_breaks_off_during_a_retry() {
    for is_http2 in [false, true] {
        let (replicas, mut said) = pair(true).await;
        let addresses = replicas.each_ref().map(|replica| replica.address);
        let proxy = Proxy::start(&addresses, "");
        let upload = Upload::begin(proxy.address, is_http2).await;
        assert_eq!(next(&mut said).await, (0, "half"));
        assert_eq!(next(&mut said).await, (1, "half"), "the second has it");
        upload.break_off().await;
        assert_eq!(next(&mut said).await, (1, "cut off"));
        proxy.settled().await;
    }
}

pub(super) async fn an_upload_that_broke_off_is_not_retried() {
    for is_http2 in [false, true] {
        let (replicas, mut said) = pair(false).await;
        let addresses = replicas.each_ref().map(|replica| replica.address);
        let proxy = Proxy::start(&addresses, "");
        let upload = Upload::begin(proxy.address, is_http2).await;
        assert_eq!(next(&mut said).await, (0, "half"));
        upload.break_off().await;
        assert_eq!(next(&mut said).await, (0, "cut off"));
        proxy.settled().await;
        assert!(said.try_recv().is_err(), "no other replica has it");
        assert_eq!(proxy.sum("/requests/retries").await, 0);
    }
}

/// Two replicas that answer GET at once, report when they have half an upload, and do not answer
/// whole ones until there is a second copy.
async fn late_pair() -> ([Replica; 2], mpsc::UnboundedReceiver<&'static str>) {
    let (say, said) = mpsc::unbounded_channel();
    let copies = Arc::<AtomicUsize>::default();
    let replica = async || {
        let (say, copies) = (say.clone(), Arc::clone(&copies));
        Replica::scripted(move |mut connection: Connection| {
            let (say, copies) = (say.clone(), Arc::clone(&copies));
            async move {
                while let Some(head) = connection.head().await {
                    if head.starts_with("GET ") {
                        connection.answer("at once").await;
                        continue;
                    }
                    if head.starts_with("PUT /whole") {
                        connection.body(WHOLE.len()).await;
                        if copies.fetch_add(1, SeqCst) > 0 {
                            connection.answer("second").await;
                            continue;
                        }
                    } else {
                        connection.body(HALF.len()).await;
                        say.send("half").unwrap();
                    }
                    while connection.more().await > 0 {}
                    return;
                }
            }
        })
        .await
    };
    ([replica().await, replica().await], said)
}

pub(super) async fn half_an_upload_is_not_hedged() {
    let (replicas, mut said) = late_pair().await;
    let proxy = Proxy::start(&replicas.each_ref().map(|it| it.address), EAGER);
    teach(&proxy).await;
    let half = Upload::begin(proxy.address, false).await;
    assert_eq!(timeout(PATIENCE, said.recv()).await.unwrap(), Some("half"));
    // It arrived later, so when it is late, the other one is, too.
    let mut client = Client::connect(proxy.address).await;
    client
        .send("PUT /whole HTTP/1.1\r\nhost: x\r\ncontent-length: 8\r\n\r\nhalfrest")
        .await;
    assert_eq!(client.answer().await.text(), "second");
    half.break_off().await;
    proxy.settled().await;
    assert!(said.try_recv().is_err(), "no second copy of half a request");
}

/// Two replicas. The first one with a late request waits until the request is cancelled, and
/// reports that. The other one sends half of its answer, and `rest` once the first was cancelled,
/// and closes.
async fn race(rest: &'static str) -> [Replica; 2] {
    let given_up = Arc::new(Notify::new());
    let number = Arc::<AtomicUsize>::default();
    let replica = async || {
        let (given_up, number) = (Arc::clone(&given_up), Arc::clone(&number));
        Replica::scripted(move |mut connection: Connection| {
            let (given_up, number) = (Arc::clone(&given_up), Arc::clone(&number));
            async move {
                while let Some(head) = connection.head().await {
                    if !head.starts_with("GET /down") {
                        connection.answer("at once").await;
                    } else if number.fetch_add(1, SeqCst) == 0 {
                        connection.more().await;
                        given_up.notify_one();
                        return;
                    } else {
                        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                        connection.send(&format!("{head}4\r\n{HALF}\r\n")).await;
                        given_up.notified().await;
                        connection.send(rest).await;
                        return;
                    }
                }
            }
        })
        .await
    };
    [replica().await, replica().await]
}

async fn seen_of_a_race(rest: &'static str, ends: Ends) -> [String; 2] {
    let mut all = Vec::new();
    for reader in [Reader::Http11, Reader::Http2] {
        let replicas = race(rest).await;
        let proxy = Proxy::start(&replicas.each_ref().map(|it| it.address), EAGER);
        teach(&proxy).await;
        let (watch, seen) = Watch::new(HALF, ends);
        get(proxy.address, reader, watch).await;
        all.push(seen.end().await);
        proxy.settled().await;
    }
    all.try_into().unwrap()
}

pub(super) async fn the_loser_is_cut_off_and_the_winner_is_whole() {
    let seen = seen_of_a_race("4\r\nrest\r\n0\r\n\r\n", Ends::Whole).await;
    assert_eq!(seen, ["whole", "whole"]);
}

pub(super) async fn the_winner_is_cut_off() {
    let seen = seen_of_a_race("4\r\nrest\r\n", Ends::CutOff).await;
    assert_eq!(seen, ["cut off", "RST_STREAM INTERNAL_ERROR"]);
}

pub(super) async fn a_broken_upload_is_not_mirrored() {
    let (say, mut said) = mpsc::unbounded_channel();
    let web = Replica::scripted(move |mut connection: Connection| {
        let say = say.clone();
        async move {
            let is_half = |unread: &[u8]| wire::http1(unread).is_some_and(|(it, _)| !it.is_empty());
            while !is_half(&connection.unread) {
                if connection.more().await == 0 {
                    return;
                }
            }
            say.send(()).unwrap();
            let is_whole = |unread: &[u8]| {
                wire::http1(unread).is_some_and(|(_, progress)| progress == Progress::Whole)
            };
            while !is_whole(&connection.unread) {
                if connection.more().await == 0 {
                    return;
                }
            }
            connection.answer("thanks").await;
        }
    })
    .await;
    let shadow = Replica::echo("shadow").await;
    let named = [("web", web.address), ("shadow", shadow.address)];
    let toml = services(&named) + "[[routes]]\nservice = \"web\"\nmirror.service = \"shadow\"\n";
    let proxy = Proxy::of_file(&toml);
    let counted = async |name: &str, count: u64| {
        let line = format!("slackwater_{name}_total{{service=\"shadow\"}} {count}\n");
        until(&line, async || {
            let page = proxy.admin_page("/metrics").await;
            page.contains(&line).then_some(())
        })
        .await;
    };
    for (index, is_http2) in [false, true].into_iter().enumerate() {
        let upload = Upload::begin(proxy.address, is_http2).await;
        timeout(PATIENCE, said.recv()).await.unwrap().unwrap();
        upload.break_off().await;
        counted("mirror_skipped", index as u64 + 1).await;
    }
    assert_eq!(shadow.connections(), 0);
    let mut client = Client::connect(proxy.address).await;
    let head = "PUT / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunks = format!("4\r\n{HALF}\r\n4\r\nrest\r\n0\r\n\r\n");
    client.send(&format!("{head}{chunks}")).await;
    assert_eq!(client.answer().await.status, 200);
    counted("mirrored", 1).await;
    until("the mirror has it", async || {
        (shadow.connections() == 1).then_some(())
    })
    .await;
}
