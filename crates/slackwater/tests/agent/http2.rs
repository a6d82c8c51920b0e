//! HTTP/2 without TLS: many requests on one connection, to a server with either version.

use crate::process::{Agent, soon, until};
use crate::server::Server;
use bytes::Bytes;
use core::convert::Infallible;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub(crate) async fn connect(agent: &Agent) -> SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(agent.address).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) fn request(path: &str) -> Request<Empty<Bytes>> {
    let target = format!("http://service.example{path}");
    Request::builder().uri(target).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn http2_streams_are_forwarded_to_an_http1_server() {
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &[]).await;
    let mut client = connect(&agent).await;
    let first = client.send_request(request("/1"));
    let mut one = server.request().await;
    let second = client.send_request(request("/2"));
    let mut two = server.request().await;
    assert!(two.head.starts_with("GET /2 HTTP/1.1\r\n"));
    assert!(two.head.contains("host: service.example\r\n"));
    assert_eq!(agent.rif().await, 2);
    two.answer("two").await;
    one.answer("one").await;
    for (sent, text) in [(second, "two"), (first, "one")] {
        let response = soon("a response", sent).await.unwrap();
        assert_eq!(response.version(), Version::HTTP_2);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, text);
    }
    until("nothing is in flight", async || agent.rif().await == 0).await;
    // A client that resets one stream keeps the other ones.
    let given_up = client.send_request(request("/3"));
    let mut third = one.next().await;
    assert_eq!(agent.rif().await, 1);
    drop(given_up);
    until("nothing is in flight", async || agent.rif().await == 0).await;
    assert_eq!(third.read(&mut [0]).await, 0);
}

#[tokio::test]
async fn http2_server_receives_streams_and_the_agent_answers_probes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let gate = Arc::clone(&gate);
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let gate = Arc::clone(&gate);
                async move {
                    let _passed = gate.acquire().await;
                    let said = format!("{:?} {}", request.version(), request.uri().path());
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(said))))
                }
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    let agent = Agent::start(&to, &["--protocol", "h2c"]).await;
    let mut client = connect(&agent).await;
    let sent: Vec<_> = (0..10)
        .map(|_| client.send_request(request("/x")))
        .collect();
    until("all are in flight", async || agent.rif().await == 10).await;
    let probe = soon("a report", client.send_request(request("/prequal/probe")))
        .await
        .unwrap();
    assert_eq!(probe.headers()["x-prequal-rif"], "10");
    opened.add_permits(10);
    for sent in sent {
        let response = soon("a response", sent).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "HTTP/2.0 /x");
    }
    until("nothing is in flight", async || agent.rif().await == 0).await;
}
