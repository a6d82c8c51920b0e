//! What a replica's reset of an HTTP/2 stream means to the client, and how many requests a client may take back.

use crate::clients::Client;
use crate::frames::{self, HEADERS, PING, Reader};
use crate::proxy::{PATIENCE, Proxy};
use crate::replicas::Replica;
use bytes::Bytes;
use http::Response;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test]
async fn a_reset_is_the_end_of_a_response_only_from_who_has_said_all() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Half of a response and a reset, or a whole one, with which the request is reset by `NO_ERROR`: nobody reads it.
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let is_whole = request.uri().path() == "/whole";
            let mut head = Response::new(());
            if is_whole {
                let length = http::HeaderValue::from_static("4");
                head.headers_mut().insert("content-length", length);
            }
            let mut body = respond.send_response(head, false).unwrap();
            body.send_data(Bytes::from_static(b"said"), is_whole)
                .unwrap();
            if !is_whole {
                // In its own time: a reset takes back what is not written yet.
                tokio::spawn(async move {
                    drop(request.into_body().data().await);
                    body.send_reset(h2::Reason::CANCEL);
                });
            }
        }
    });
    let proxy = Proxy::start(&[address], "[replica]\nprotocol = \"h2c\"");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST /whole HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nabc")
        .await;
    assert_eq!(client.answer().await.text(), "said");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST /half HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n")
        .await;
    client.head().await;
    client.send("abc").await;
    let rest = String::from_utf8(client.rest().await).unwrap();
    assert!(!rest.contains("0\r\n\r\n"), "{rest:?}");
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/broken").await, 1);
}

#[tokio::test]
async fn a_connection_that_ends_with_an_error_may_have_processed_what_it_carried() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The first connection ends by GOAWAY at its first POST, which it names as one that it has seen.
    tokio::spawn(async move {
        for fails in [true, false] {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let mut unanswered = Vec::new();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                if fails && request.method() == "POST" {
                    connection.abrupt_shutdown(h2::Reason::INTERNAL_ERROR);
                    // Dropped, it would be reset.
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

/// Asks for something again and again, by the `paid` request, and takes back another request each time once it has begun.
/// How many it had taken back when it was cut off; `None` if it could go on.
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
                // What came before the PING has been read.
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
async fn answers_that_replicas_give_pay_for_requests_that_are_taken_back() {
    let answered = frames::request("GET", "/");
    assert_eq!(taken_back_until_cut_off(&answered).await, None);
}

#[tokio::test]
async fn our_own_answers_do_not() {
    let mut refused = frames::request("GET", "/");
    refused.push(("host", "y"));
    let taken_back = taken_back_until_cut_off(&refused).await;
    // The one after the last may have been read with it.
    assert!(matches!(taken_back, Some(501..=502)), "{taken_back:?}");
}
