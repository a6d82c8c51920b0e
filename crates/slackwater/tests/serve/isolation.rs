//! Uploads of independent clients share connections to an HTTP/2 replica: one whose body is not
//! read blocks no other.

use crate::clients::Client;
use crate::proxy::{PATIENCE, Proxy, until};
use crate::room::in_flight;
use bytes::Bytes;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use http::{Request, Response};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const WINDOW: u32 = 1 << 20;

/// Larger than any window.
const LONG: usize = 1200 << 10;

/// What the replica has received.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    hanging: AtomicUsize,
    given_up: AtomicUsize,
}

/// A replica over HTTP/2 that reads bodies and returns their length, except for those to `/hang`,
/// of which it reads nothing. It accepts a mebibyte on each stream, and on all together, as Go's
/// server does.
async fn replica(seen: &Arc<Seen>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::clone(seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            seen.connections.fetch_add(1, SeqCst);
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let mut builder = h2::server::Builder::new();
                builder.initial_window_size(WINDOW);
                builder.initial_connection_window_size(WINDOW);
                let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(answer(Arc::clone(&seen), request, respond));
                }
            });
        }
    });
    address
}

async fn answer(
    seen: Arc<Seen>,
    request: Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) {
    if request.uri().path() == "/hang" {
        seen.hanging.fetch_add(1, SeqCst);
        core::future::poll_fn(|cx| respond.poll_reset(cx))
            .await
            .ok();
        seen.given_up.fetch_add(1, SeqCst);
        return;
    }
    let mut body = request.into_body();
    let mut length = 0;
    while let Some(data) = body.data().await {
        let Ok(data) = data else { return };
        length += data.len();
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    let text = Bytes::from(length.to_string());
    let head = Response::builder().header("content-length", text.len());
    let head = head.body(()).unwrap();
    if let Ok(mut answer) = respond.send_response(head, false) {
        answer.send_data(text, true).ok();
    }
}

/// A client whose body is not read. It leaves when this is dropped.
struct Hanging {
    _read: OwnedReadHalf,
    writing: JoinHandle<()>,
}

impl Hanging {
    /// It leaves by a reset, because a regular end would wait behind the data that is not sent yet.
    async fn begin(proxy: &Proxy, length: usize) -> Self {
        let stream = TcpStream::connect(proxy.address).await.unwrap();
        stream.set_zero_linger().unwrap();
        Self::on(stream, length)
    }

    fn on(stream: TcpStream, length: usize) -> Self {
        let (read, mut write) = stream.into_split();
        let mut request =
            format!("POST /hang HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        request.extend(core::iter::repeat_n('x', length));
        let writing = tokio::spawn(async move {
            // Sends as much as is accepted, and then stays.
            write.write_all(request.as_bytes()).await.ok();
            core::future::pending::<()>().await;
        });
        Self {
            _read: read,
            writing,
        }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.writing.abort();
    }
}

/// Checks that a body of this length is read.
async fn is_read(proxy: &Proxy, length: usize) {
    let mut client = Client::connect(proxy.address).await;
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    client.send(&head).await;
    client.send(&"x".repeat(length)).await;
    let answer = timeout(PATIENCE / 3, client.answer()).await;
    let answer = answer.unwrap_or_else(|_| panic!("a body of {length} octets waits"));
    assert_eq!((answer.status, answer.text()), (200, &*length.to_string()));
}

#[tokio::test]
async fn unread_body_blocks_no_other_request() {
    let seen = Arc::default();
    let replica = replica(&seen).await;
    let proxy = Proxy::start(&[replica], "[replica]\nprotocol = \"h2c\"");
    // The second upload finds a smaller window, and the third one none.
    let mut hanging = Vec::new();
    for count in 1..=3 {
        hanging.push(Hanging::begin(&proxy, LONG).await);
        until("it hangs", async || {
            (seen.hanging.load(SeqCst) == count).then_some(())
        })
        .await;
        for length in [0, 100, 16 << 10, 100 << 10, 3 << 20] {
            is_read(&proxy, length).await;
        }
    }
    let connections = seen.connections.load(SeqCst);
    assert!((2..=4).contains(&connections), "{connections}");
    drop(hanging);
    proxy.settled().await;
}

#[tokio::test]
async fn client_disconnect_is_detected_with_an_unread_body() {
    let seen = Arc::default();
    let replica = replica(&seen).await;
    let proxy = Proxy::start(&[replica], "[replica]\nprotocol = \"h2c\"");
    let stays = Hanging::begin(&proxy, LONG).await;
    let resets = Hanging::begin(&proxy, LONG).await;
    // Its whole body and its end have reached the proxy, and not all of it is read.
    let stream = TcpStream::connect(proxy.address).await.unwrap();
    let ends = Hanging::on(stream, 700 << 10);
    until("all hang", async || {
        (seen.hanging.load(SeqCst) == 3).then_some(())
    })
    .await;
    drop((ends, resets));
    until("two are cancelled", async || {
        (seen.given_up.load(SeqCst) == 2).then_some(())
    })
    .await;
    in_flight(&proxy, 1).await;
    drop(stays);
    proxy.settled().await;
}
