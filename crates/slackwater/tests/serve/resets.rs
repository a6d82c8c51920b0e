//! Resets of HTTP/2 streams: the effect on the other side, and how many requests a client may
//! cancel.

use crate::clients::Client;
use crate::frames::{self, HEADERS, PING, Reader};
use crate::proxy::{PATIENCE, Proxy};
use crate::replicas::{self, Replica};
use bytes::Bytes;
use http::{Request, Response};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A replica that sends four octets of a response, and then, depending on the path, its end
/// (`/whole`) or a reset with the code in the path. Its head has a length if there is a query.
async fn resets() -> core::net::SocketAddr {
    replicas::http2_streams(move |request, mut respond| {
        let code: Option<u32> = request.uri().path()[1..].parse().ok();
        let mut head = Response::new(());
        if request.uri().query().is_some() {
            let length = http::HeaderValue::from_static("4");
            head.headers_mut().insert("content-length", length);
        }
        let mut body = respond.send_response(head, false).unwrap();
        body.send_data(Bytes::from_static(b"said"), code.is_none())
            .unwrap();
        // After a complete response the request is dropped, and the library resets it with
        // `NO_ERROR`.
        let Some(code) = code else { return };
        // The reset is sent later, because it would discard what is not written yet.
        tokio::spawn(async move {
            drop(request.into_body().data().await);
            body.send_reset(code.into());
        });
    })
    .await
}

#[tokio::test]
async fn reset_never_ends_a_response_normally() {
    let proxy = Proxy::start(&[resets().await], "[replica]\nprotocol = \"h2c\"");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST /whole?length HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nabc")
        .await;
    assert_eq!(client.answer().await.text(), "said");
    for code in [0, 2, 5, 8] {
        let mut client = Client::connect(proxy.address).await;
        let head = format!("POST /{code} HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n");
        client.send(&head).await;
        client.head().await;
        client.send("abc").await;
        let rest = String::from_utf8(client.rest().await).unwrap();
        assert!(!rest.contains("0\r\n\r\n"), "{code}: {rest:?}");
    }
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/broken").await, 4);
}

#[tokio::test]
async fn response_reset_after_its_full_length_counts_as_broken() {
    let proxy = Proxy::start(&[resets().await], "[replica]\nprotocol = \"h2c\"");
    // Over HTTP/1.1 the client has the whole response by then. Its connection is closed all the
    // same.
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST /0?length HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n")
        .await;
    client.head().await;
    client.send("abc").await;
    assert_eq!(client.rest().await, b"said");
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/broken").await, 1);
}

#[tokio::test]
async fn reset_never_ends_a_request_normally() {
    let (to, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let replica = Replica::scripted(move |mut connection| {
        let to = to.clone();
        async move {
            connection.head().await;
            while !connection.unread.ends_with(b"half\r\n") {
                assert_ne!(connection.more().await, 0);
            }
            to.send(String::new()).unwrap();
            while connection.more().await > 0 {}
            to.send(String::from_utf8(connection.unread).unwrap())
                .unwrap();
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let stream = TcpStream::connect(proxy.address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    for code in [0, 2, 5, 8] {
        let request = Request::put("http://x/").body(()).unwrap();
        let (response, mut body) = client.send_request(request, false).unwrap();
        body.send_data(Bytes::from_static(b"half"), false).unwrap();
        let mut next = async || {
            let next = timeout(PATIENCE, seen.recv()).await;
            next.unwrap().unwrap()
        };
        next().await;
        body.send_reset(h2::Reason::from(code));
        drop(response);
        assert_eq!(next().await, "4\r\nhalf\r\n", "{code}");
    }
    proxy.settled().await;
}

#[tokio::test]
async fn unsafe_requests_are_not_resent_after_a_goaway_with_an_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The first connection ends with GOAWAY at its first POST, whose stream it names as processed.
    tokio::spawn(async move {
        for fails in [true, false] {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let mut unanswered = Vec::new();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                if fails && request.method() == "POST" {
                    connection.abrupt_shutdown(h2::Reason::INTERNAL_ERROR);
                    // Dropping it would reset the stream.
                    unanswered.push(respond);
                } else {
                    drop(respond.send_response(Response::new(()), true).unwrap());
                }
            }
        }
    });
    let proxy = Proxy::start(&[address], "[replica]\nprotocol = \"h2c\"");
    let mut client = Client::connect(proxy.address).await;
    for (method, status) in [("GET", 200), ("POST", 502), ("POST", 200)] {
        client
            .send(&format!(
                "{method} / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
            ))
            .await;
        assert_eq!(client.answer().await.status, status, "{method}");
    }
    proxy.settled().await;
}

#[tokio::test]
async fn request_that_is_reset_before_its_turn_is_not_begun() {
    let replica = Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            connection.answer("ok").await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let (read, mut writer) = TcpStream::connect(proxy.address)
        .await
        .unwrap()
        .into_split();
    let mut reader = Reader::new(read);
    // A turn reads the first 32 requests and begins at most 16; the next one reads the rest first.
    let ids = |range: core::ops::Range<u32>| range.map(|number| 2 * number + 1);
    let asked = [
        frames::preface(),
        ids(0..40).flat_map(|id| frames::get(id, "/")).collect(),
        ids(16..32).flat_map(frames::reset).collect(),
    ];
    writer.write_all(&asked.concat()).await.unwrap();
    let mut answers = 0;
    while answers < 24 {
        let frame = timeout(PATIENCE, reader.frame()).await;
        let (kind, ..) = frame.unwrap().expect("the connection stays");
        answers += u32::from(kind == HEADERS);
    }
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/sent").await, 24);
}

/// Repeats the request `paid`, and each time cancels another request once that one has started.
/// Returns the number of cancelled requests when the client was cut off; `None` if it never was.
async fn taken_back_until_cut_off(paid: &[(&str, &str)]) -> Option<u32> {
    let replica = Replica::scripted(|mut connection| async move {
        while let Some(head) = connection.head().await {
            if head.starts_with("GET /hang") {
                connection.more().await;
                return;
            }
            connection.answer("ok").await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let stream = TcpStream::connect(proxy.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (read, mut writer) = stream.into_split();
    let mut reader = Reader::new(read);
    writer.write_all(&frames::preface()).await.unwrap();
    for turn in 0..700 {
        let (paid_for, taken_back) = (4 * turn + 1, 4 * turn + 3);
        let asked = [
            frames::headers(paid_for, paid),
            frames::get(taken_back, "/hang"),
            frames::frame(PING, 0, 0, &[0; 8]),
        ];
        if writer.write_all(&asked.concat()).await.is_err() {
            return Some(turn);
        }
        let (mut is_paid, mut has_begun) = (false, false);
        while !(is_paid && has_begun) {
            let frame = timeout(PATIENCE, reader.frame()).await;
            match frame.expect("something comes, be it the end") {
                None => return Some(turn),
                Some((HEADERS, stream, _)) => is_paid |= stream == paid_for,
                // All frames before the PING have been read.
                Some((PING, ..)) => has_begun = true,
                Some(_) => (),
            }
        }
        if writer.write_all(&frames::reset(taken_back)).await.is_err() {
            return Some(turn + 1);
        }
    }
    None
}

#[tokio::test]
async fn answers_of_replicas_balance_reset_requests() {
    let answered = frames::request("GET", "/");
    assert_eq!(taken_back_until_cut_off(&answered).await, None);
}

#[tokio::test]
async fn answers_of_the_proxy_do_not_balance_reset_requests() {
    let mut refused = frames::request("GET", "/");
    refused.push(("host", "y"));
    let taken_back = taken_back_until_cut_off(&refused).await;
    // The request after the last one may have been read together with it.
    assert!(matches!(taken_back, Some(501..=502)), "{taken_back:?}");
}
