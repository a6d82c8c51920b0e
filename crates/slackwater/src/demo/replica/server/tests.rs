//! Replicas over real sockets. Real time has no upper bounds here: the tests check that nothing
//! ends early, and that counts reach a value while a test waits for them.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io::ErrorKind;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::{http1, http2};
use tokio::time::{Instant, timeout};

use super::*;
use crate::demo::replica::cost::Costs;
use crate::demo::replica::neighbours::{Neighbourhood, Neighbours};
use crate::demo::replica::processor::Cores;
use crate::demo::replica::service::REQUEST_NUMBER;

/// Timeout of a hanging test; everything here takes a fraction of it.
const DEADLINE: Duration = Duration::from_secs(20);

/// A request number and its cost, which is long compared with a timer and short compared with a
/// test's patience.
fn known_work() -> (u64, Duration) {
    let costs = Costs::new(1, Costs::MEAN_BEFORE_CLIP);
    let range = Duration::from_millis(30)..Duration::from_millis(40);
    let number = (0..10_000)
        .find(|&number| range.contains(&costs.numbered(number)))
        .unwrap();
    (number, costs.numbered(number))
}

/// A replica that permanently has this number of thousandths of a core.
async fn replica(milli: u32, mean: Duration) -> Replica {
    let quiet = Neighbourhood {
        capacity_mean: Cores::from_milli(milli),
        allocation_share: 1.0,
        hobbles: None,
        ..Neighbourhood::default()
    };
    let neighbours = Neighbours::new(&quiet, 1, 0, 1);
    let machine = Machine::new(0, 8, neighbours, Costs::new(1, mean), Instant::now());
    Replica::spawn(machine, |service| service)
        .await
        .expect("a port on loopback")
}

fn request(number: u64) -> Request<Empty<Bytes>> {
    Request::builder()
        .header(REQUEST_NUMBER, number)
        .header("host", "replica")
        .body(Empty::new())
        .unwrap()
}

async fn http1(addr: SocketAddr) -> http1::SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(addr).await.expect("the replica listens");
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Sends one request on its own connection. Returns its status, its body and its duration.
async fn fetch(addr: SocketAddr, number: u64) -> (StatusCode, Bytes, Duration) {
    let mut client = http1(addr).await;
    let sent = Instant::now();
    let response = timeout(DEADLINE, client.send_request(request(number)))
        .await
        .unwrap()
        .unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, body, sent.elapsed())
}

/// Waits until `wanted` accepts the figures.
async fn until(replica: &Replica, wanted: impl Fn(Figures) -> bool) {
    let wait = async {
        while !wanted(replica.figures()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let reached = timeout(DEADLINE, wait).await.is_ok();
    assert!(reached, "still {:?}", replica.figures());
}

#[tokio::test]
async fn a_request_takes_at_least_its_work_and_names_the_replica() {
    let (number, work) = known_work();
    let replica = replica(1_000, Costs::MEAN_BEFORE_CLIP).await;
    let (status, body, took) = fetch(replica.addr(), number).await;
    assert_eq!((status, &body[..]), (StatusCode::OK, &b"replica 0\n"[..]));
    assert!(took >= work, "{took:?} for {work:?}");
    assert_eq!(replica.figures().served, 1);
}

#[tokio::test]
async fn a_tenth_of_a_core_takes_ten_times_as_long() {
    let (number, work) = known_work();
    let replica = replica(100, Costs::MEAN_BEFORE_CLIP).await;
    let (_, _, took) = fetch(replica.addr(), number).await;
    assert!(took >= work * 10, "{took:?} for {work:?}");
}

#[tokio::test]
async fn concurrent_requests_share_the_core() {
    let (number, work) = known_work();
    let replica = replica(1_000, Costs::MEAN_BEFORE_CLIP).await;
    let sent = Instant::now();
    let both =
        futures_util::future::join(fetch(replica.addr(), number), fetch(replica.addr(), number));
    let (one, other) = both.await;
    assert!(
        sent.elapsed() >= work * 2,
        "two pieces of work took {:?}",
        sent.elapsed()
    );
    assert_eq!((one.0, other.0), (StatusCode::OK, StatusCode::OK));
}

#[tokio::test]
async fn http2_requests_share_one_connection_and_the_core() {
    let (number, work) = known_work();
    let replica = replica(1_000, Costs::MEAN_BEFORE_CLIP).await;
    let stream = TcpStream::connect(replica.addr()).await.unwrap();
    let (mut client, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let sent = Instant::now();
    let (one, other) = (
        client.send_request(request(number)),
        client.send_request(request(number)),
    );
    let (one, other) = timeout(DEADLINE, futures_util::future::join(one, other))
        .await
        .unwrap();
    assert!(sent.elapsed() >= work * 2);
    assert_eq!(
        (one.unwrap().status(), other.unwrap().status()),
        (StatusCode::OK, StatusCode::OK)
    );
}

#[tokio::test]
async fn client_that_disconnects_cancels_its_job() {
    // Up to hours of work: only a cancellation can bring the count down.
    let replica = replica(1_000, Duration::from_hours(1)).await;
    let number = known_work().0;
    let mut over_http1 = http1(replica.addr()).await;
    let pending = tokio::spawn(async move { over_http1.send_request(request(number)).await });
    until(&replica, |figures| figures.jobs == 1).await;
    pending.abort();
    until(&replica, |figures| {
        figures.jobs == 0 && figures.cancelled == 1
    })
    .await;

    let stream = TcpStream::connect(replica.addr()).await.unwrap();
    let (mut over_http2, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let pending = tokio::spawn(over_http2.send_request(request(number)));
    until(&replica, |figures| figures.jobs == 1).await;
    pending.abort();
    until(&replica, |figures| {
        figures.jobs == 0 && figures.cancelled == 2
    })
    .await;
}

#[tokio::test]
async fn request_beyond_the_limit_gets_503() {
    let replica = replica(1_000, Duration::from_hours(1)).await;
    let number = known_work().0;
    let waiting: Vec<_> = (0..8)
        .map(|_| tokio::spawn(fetch(replica.addr(), number)))
        .collect();
    until(&replica, |figures| figures.jobs == 8).await;
    let (status, body, _) = fetch(replica.addr(), number).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(&body[..], b"replica 0: too many queries in service\n");
    for task in &waiting {
        task.abort();
    }
    until(&replica, |figures| figures.jobs == 0).await;
}

#[tokio::test]
async fn killed_replica_loses_its_requests_and_restarts_on_its_port() {
    let mut replica = replica(1_000, Duration::from_hours(1)).await;
    let addr = replica.addr();
    let mut client = http1(addr).await;
    let lost = tokio::spawn(async move { client.send_request(request(known_work().0)).await });
    until(&replica, |figures| figures.jobs == 1).await;

    replica.kill().await.unwrap();
    replica.kill().await.unwrap();
    assert!(timeout(DEADLINE, lost).await.unwrap().unwrap().is_err());
    until(&replica, |figures| figures.jobs == 0).await;
    let refused = TcpStream::connect(addr).await.expect_err("nothing listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);

    replica.revive().unwrap();
    replica.revive().unwrap();
    let free = (0..10_000)
        .find(|&n| Costs::new(1, Costs::MEAN_BEFORE_CLIP).numbered(n).is_zero())
        .unwrap();
    assert_eq!(fetch(addr, free).await.0, StatusCode::OK);
}

#[tokio::test]
async fn shutdown_finishes_requests_in_flight() {
    let (number, _) = known_work();
    let replica = replica(1_000, Costs::MEAN_BEFORE_CLIP).await;
    let addr = replica.addr();
    let in_flight = tokio::spawn(fetch(addr, number));
    until(&replica, |figures| figures.jobs == 1 || figures.served == 1).await;
    replica.shutdown(DEADLINE).await;
    assert_eq!(in_flight.await.unwrap().0, StatusCode::OK);
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn shutdown_waits_no_longer_than_its_timeout() {
    let replica = replica(1_000, Duration::from_hours(1)).await;
    let mut client = http1(replica.addr()).await;
    let lost = tokio::spawn(async move { client.send_request(request(known_work().0)).await });
    until(&replica, |figures| figures.jobs == 1).await;
    timeout(DEADLINE, replica.shutdown(Duration::from_millis(5)))
        .await
        .unwrap();
    assert!(lost.await.unwrap().is_err());
}

#[tokio::test]
async fn dropped_replica_closes_its_port() {
    let replica = replica(1_000, Costs::MEAN_BEFORE_CLIP).await;
    let addr = replica.addr();
    drop(replica);
    let closed = async { while TcpStream::connect(addr).await.is_ok() {} };
    timeout(DEADLINE, closed).await.unwrap();
}

/// A service that answers all requests as a teapot would, around one that does the work.
#[derive(Clone)]
struct Teapot(Emulated);

impl Service<Request<Incoming>> for Teapot {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Incoming>>::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            Ok(response)
        })
    }
}

#[tokio::test]
async fn requests_are_answered_by_the_wrapped_service() {
    let neighbours = Neighbours::new(&Neighbourhood::default(), 1, 0, 1);
    let machine = Machine::new(
        4,
        8,
        neighbours,
        Costs::new(1, Duration::ZERO),
        Instant::now(),
    );
    let replica = Replica::spawn(machine, Teapot).await.unwrap();
    let (status, body, _) = fetch(replica.addr(), 1).await;
    assert_eq!(
        (status, &body[..]),
        (StatusCode::IM_A_TEAPOT, &b"replica 4\n"[..])
    );
}
