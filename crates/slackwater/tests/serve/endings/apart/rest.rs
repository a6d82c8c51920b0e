//! Answers before the end of a request, gRPC, TLS.

use crate::clients::{self, Client};
use crate::endings::frames;
use crate::endings::peers::{Reader, Watch, get};
use crate::endings::table::{Ends, HALF};
use crate::endings::wire::Frame;
use crate::proxy::{PATIENCE, Proxy};
use crate::replicas;
use bytes::Bytes;
use core::net::SocketAddr;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use rustls::pki_types::PrivateKeyDer;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

const H2C: &str = "[replica]\nprotocol = \"h2c\"";

pub(super) async fn an_upload_is_stopped_after_a_whole_answer() {
    let replica = replicas::http2_streams(|_request, mut respond| {
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        // The request is dropped, which sends a reset with NO_ERROR.
        body.send_data(Bytes::from_static(b"halfrest"), true)
            .unwrap();
    })
    .await;
    let proxy = Proxy::start(&[replica], H2C);
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nhalf")
        .await;
    assert!(client.head().await.starts_with("HTTP/1.1 200 "));
    assert!(client.rest().await.ends_with(b"8\r\nhalfrest\r\n0\r\n\r\n"));

    let stream = TcpStream::connect(proxy.address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post("http://x/").body(()).unwrap();
    let (response, mut upload) = client.send_request(request, false).unwrap();
    upload
        .send_data(Bytes::from_static(b"half"), false)
        .unwrap();
    let mut body = response.await.unwrap().into_body();
    let mut text = Vec::new();
    while let Some(piece) = body.data().await {
        text.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(text, b"halfrest");
    let reset = core::future::poll_fn(|cx| upload.poll_reset(cx));
    let reset = timeout(PATIENCE, reset).await.unwrap().unwrap();
    assert_eq!(reset, h2::Reason::NO_ERROR);
}

pub(super) async fn an_upload_after_an_early_answer_is_cut_off() {
    let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
    let replica = replicas::Replica::scripted(move |mut connection| {
        let say = say.clone();
        async move {
            connection.head().await;
            connection.answer("early").await;
            while connection.more().await > 0 {}
            let _ = say.send(String::from_utf8(connection.unread).unwrap());
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n")
        .await;
    assert_eq!(client.answer().await.text(), "early");
    drop(client);
    let seen = timeout(PATIENCE, said.recv()).await.unwrap().unwrap();
    assert!(!seen.contains("0\r\n\r\n"), "{seen:?}");
    proxy.settled().await;
}

pub(super) async fn an_upload_without_room_is_given_up() {
    // A replica's initial window of one body: less than the client sends, which is no more than the
    // proxy's.
    const WINDOW: usize = 65_535 - 65_535 / 4;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(&[listener.local_addr().unwrap()], H2C);
    let mut client = TcpStream::connect(proxy.address).await.unwrap();
    let head = frames::open(1, &frames::request("POST", "/"));
    let piece = frames::frame(frames::DATA, 0, 1, &[0; 16_000]);
    let upload = [frames::preface(), head, piece.repeat(4)].concat();
    client.write_all(&upload).await.unwrap();
    let replica = async {
        let (mut replica, _) = listener.accept().await.unwrap();
        replica.read_exact(&mut [0; 24]).await.unwrap();
        let settings = frames::frame(frames::SETTINGS, 0, 0, &[]);
        replica.write_all(&settings).await.unwrap();
        let mut taken = 0;
        while taken < WINDOW {
            let frame = Frame::read(&mut replica).await.unwrap();
            if frame.kind == frames::DATA {
                taken += frame.payload.len();
            }
        }
        let reset = frames::frame(frames::RST_STREAM, 0, 1, &0_u32.to_be_bytes());
        client.write_all(&reset).await.unwrap();
        loop {
            let frame = Frame::read(&mut replica).await.unwrap();
            assert!(!frame.is_end());
            if let Some(reset) = frame.resets() {
                return reset;
            }
        }
    };
    let seen = timeout(PATIENCE, replica).await.unwrap();
    assert_eq!(seen, "RST_STREAM CANCEL");
    proxy.settled().await;
}

/// A replica over HTTP/2 that resets each call with the code in its path: at once, or after a part
/// of its response if there is a query.
async fn breaks_calls() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let code: Option<u32> = request.uri().path()[1..].parse().ok();
                if request.uri().query().is_none() {
                    respond.send_reset(code.unwrap().into());
                    continue;
                }
                let mut head = Response::new(());
                let grpc = HeaderValue::from_static("application/grpc");
                head.headers_mut().insert("content-type", grpc);
                let mut body = respond.send_response(head, false).unwrap();
                body.send_data(Bytes::from_static(b"\0\0\0\0\0"), false)
                    .unwrap();
                // Once the client has received that.
                tokio::spawn(async move {
                    let mut said = request.into_body();
                    while let Some(Ok(_)) = said.data().await {}
                    body.send_reset(code.unwrap().into());
                });
            }
        }
    });
    address
}

pub(super) async fn a_call_breaks_off_before_its_trailers() {
    let proxy = Proxy::start(&[breaks_calls().await], H2C);
    for code in [0, 2, 8] {
        let stream = TcpStream::connect(proxy.address).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::post(format!("http://x/{code}?"));
        let request = request.header("content-type", "application/grpc");
        let request = request.body(()).unwrap();
        let (response, mut upload) = client.send_request(request, false).unwrap();
        let mut body = response.await.unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap().len(), 5);
        upload.send_data(Bytes::new(), true).unwrap();
        let end = timeout(PATIENCE, body.data()).await.unwrap();
        let reset = end.expect("no end").unwrap_err();
        assert_eq!(reset.reason(), Some(h2::Reason::INTERNAL_ERROR), "{code}");
        assert!(body.trailers().await.ok().flatten().is_none(), "{code}");
    }
    proxy.settled().await;
}

pub(super) async fn a_call_breaks_off_before_its_head() {
    let proxy = Proxy::start(&[breaks_calls().await], H2C);
    let mut client = clients::http2(proxy.address).await;
    for code in [0, 2, 8] {
        let request = Request::post(format!("http://x/{code}"));
        let request = request.header("content-type", "application/grpc");
        let request = request.body(clients::full("hello")).unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.headers()["grpc-status"], "14", "{code}");
        let body = response.into_body().collect().await.unwrap();
        assert!(body.trailers().is_none());
    }
    proxy.settled().await;
}

/// The TLS acceptor of a replica whose certificate is not verified.
pub(super) fn tls() -> TlsAcceptor {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

pub(super) const TLS: &str =
    "[replica.tls]\nverify = \"insecure\"\n[timeouts]\nconnect = \"30s\"\n";

/// What a client sees of a response over TLS that lasts until its connection ends, with or without
/// a `close_notify`.
async fn over_tls(is_told: bool, ends: Ends) -> Vec<String> {
    let acceptor = tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut head).await.unwrap(), 0);
            }
            stream
                .write_all(b"HTTP/1.1 200 OK\r\n\r\nhalfrest")
                .await
                .unwrap();
            stream.flush().await.unwrap();
            if is_told {
                stream.shutdown().await.unwrap();
            } else {
                stream.get_mut().0.shutdown().await.unwrap();
            }
            // Unread data would turn the end into a reset.
            while matches!(stream.read_buf(&mut head).await, Ok(1..)) {}
        }
    });
    let proxy = Proxy::start(&[address], TLS);
    let mut all = Vec::new();
    for reader in [Reader::Http11, Reader::Http10, Reader::Http2] {
        let (watch, seen) = Watch::new(HALF, ends);
        get(proxy.address, reader, watch).await;
        all.push(seen.end().await);
    }
    proxy.settled().await;
    all
}

pub(super) async fn a_tls_replica_ends_without_close_notify() {
    let reset = "RST_STREAM INTERNAL_ERROR";
    let seen = over_tls(false, Ends::CutOff).await;
    assert_eq!(seen, ["cut off", "cut off by a reset", reset]);
}

pub(super) async fn a_tls_replica_ends_with_close_notify() {
    let seen = over_tls(true, Ends::Whole).await;
    assert_eq!(seen, ["whole", "whole", "whole"]);
}
