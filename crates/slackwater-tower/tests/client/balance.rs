//! The tower service: the end of each query, the fleet's replicas, readiness.

use crate::common::{HandProber, Outcomes, Recording, addr, prequal_sync};
use bytes::Bytes;
use core::convert::Infallible;
use core::future::{Ready, ready};
use core::net::SocketAddr;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use futures_util::{FutureExt, Stream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty};
use slackwater_core::policy::Outcome;
use slackwater_core::{LoadReport, Rif};
use slackwater_tower::client::balance::{BalanceBuilder, LeasedBody, Membership, NoReplica};
use slackwater_tower::client::{Balance, Balancer, NoProber, ReplicaAddrs};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use tower::discover::Change;
use tower::{BoxError, Service, ServiceExt};

/// A body of prepared frames, followed by its end, an error, or nothing at all.
#[derive(Debug)]
struct Frames {
    frames: VecDeque<&'static str>,
    last: Last,
}

#[derive(Clone, Copy, Debug)]
enum Last {
    End,
    Error,
    /// Trailers by which a gRPC call has failed.
    Failure,
    Never,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match (self.frames.pop_front(), self.last) {
            (Some(data), _) => {
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(data.as_bytes())))))
            }
            (None, Last::End) => Poll::Ready(None),
            (None, Last::Error) => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
            (None, Last::Failure) => {
                self.last = Last::End;
                let failed = HeaderMap::from_iter([(
                    HeaderName::from_static("grpc-status"),
                    HeaderValue::from_static("14"),
                )]);
                Poll::Ready(Some(Ok(Frame::trailers(failed))))
            }
            (None, Last::Never) => Poll::Pending,
        }
    }
}

fn frames(last: Last) -> Frames {
    Frames {
        frames: ["one", "two"].into(),
        last,
    }
}

/// What a replica does with a query.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Respond(StatusCode, Last),
    /// Sends six bytes, and announces this many in the head.
    Announce(usize),
    /// Sends six bytes, announced in the head with this field, and trailers.
    Trailers(&'static str, &'static str),
    Fail(io::ErrorKind),
    Panic,
    Hang,
    NeverReady,
    NotReady,
}

type Answer = futures_util::future::Either<
    Ready<Result<Response<Frames>, BoxError>>,
    futures_util::future::Pending<Result<Response<Frames>, BoxError>>,
>;

#[derive(Clone, Debug)]
struct App(Manner);

impl Service<Request<()>> for App {
    type Response = Response<Frames>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self.0 {
            Manner::NeverReady => Poll::Pending,
            Manner::NotReady => Poll::Ready(Err("out of order".into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, _request: Request<()>) -> Answer {
        let answer = match self.0 {
            Manner::Respond(status, last) => {
                let mut response = Response::new(frames(last));
                *response.status_mut() = status;
                Ok(response)
            }
            Manner::Announce(length) => {
                let mut response = Response::new(frames(Last::Never));
                response
                    .headers_mut()
                    .insert("content-length", length.into());
                Ok(response)
            }
            Manner::Trailers(name, value) => {
                let mut response = Response::new(frames(Last::Failure));
                let headers = response.headers_mut();
                headers.insert("content-length", 6.into());
                headers.insert(name, HeaderValue::from_static(value));
                Ok(response)
            }
            Manner::Fail(kind) => Err(io::Error::from(kind).into()),
            Manner::Panic => panic!("a bug in the service"),
            _ => return futures_util::future::pending().right_future(),
        };
        ready(answer).left_future()
    }
}

struct Changes<S>(mpsc::UnboundedReceiver<Result<Change<SocketAddr, S>, &'static str>>);

impl<S> Stream for Changes<S> {
    type Item = Result<Change<SocketAddr, S>, &'static str>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// Makes a balance over one replica with this manner.
async fn balance_of(manner: Manner) -> (Balance<App, ()>, Outcomes) {
    let policy = Recording::default();
    let outcomes = policy.outcomes.clone();
    let balancer = Balancer::with_seed(Box::new(policy), NoProber, 1);
    let change = Ok::<_, Infallible>(Change::Insert(addr(1), App(manner)));
    let discover = futures_util::stream::iter([change]);
    let (balance, membership) = Balance::new(balancer, discover, |&addr| ReplicaAddrs::from(addr));
    membership.await.expect("it cannot fail");
    (balance, outcomes)
}

type Answered = Result<Response<LeasedBody<Frames>>, BoxError>;

fn query(balance: &Balance<App, ()>) -> impl Future<Output = Answered> + use<> {
    balance.clone().oneshot(Request::new(()))
}

#[tokio::test]
async fn a_query_ends_with_its_body() {
    for (status, last, outcome) in [
        (StatusCode::OK, Last::End, Outcome::Success),
        (StatusCode::NOT_FOUND, Last::End, Outcome::Success),
        (StatusCode::BAD_GATEWAY, Last::End, Outcome::Failed),
        (StatusCode::OK, Last::Error, Outcome::Broken),
    ] {
        let (balance, outcomes) = balance_of(Manner::Respond(status, last)).await;
        let response = query(&balance).await.expect("a response");
        assert_eq!(response.status(), status);
        assert_eq!(
            balance.balancer().in_flight(),
            1,
            "the body is still to come"
        );
        let mut body = response.into_body();
        for expected in ["one", "two"] {
            let frame = body.frame().await.expect("a frame").expect("no error");
            assert_eq!(frame.into_data().expect("data"), expected);
            assert_eq!(outcomes.take(), []);
        }
        let end = body.frame().await;
        assert_eq!(end.is_some(), matches!(last, Last::Error));
        assert_eq!(outcomes.take(), [outcome], "{status} {last:?}");
        drop(body);
        assert_eq!(outcomes.take(), [], "and only once");
        assert_eq!(balance.balancer().in_flight(), 0);
    }
}

#[tokio::test]
async fn a_dropped_body_ends_its_query() {
    for (status, outcome) in [
        (StatusCode::OK, Outcome::Dropped),
        (StatusCode::BAD_GATEWAY, Outcome::Failed),
    ] {
        let (balance, outcomes) = balance_of(Manner::Respond(status, Last::Never)).await;
        let mut body = query(&balance).await.expect("a response").into_body();
        body.frame().await.expect("a frame").expect("no error");
        assert_eq!(outcomes.take(), []);
        drop(body);
        assert_eq!(outcomes.take(), [outcome]);
    }
}

#[tokio::test]
async fn response_without_body_ends_its_query_immediately() {
    let policy = Recording::default();
    let outcomes = policy.outcomes.clone();
    let balancer = Balancer::with_seed(Box::new(policy), NoProber, 1);
    let app = tower::service_fn(|_: Request<()>| {
        ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
    });
    let change = Ok::<_, Infallible>(Change::Insert(addr(1), app));
    let discover = futures_util::stream::iter([change]);
    let (balance, membership) = Balance::new(balancer, discover, |&addr| ReplicaAddrs::from(addr));
    membership.await.expect("it cannot fail");
    let response = balance.oneshot(Request::new(())).await.expect("a response");
    assert_eq!(outcomes.take(), [Outcome::Success]);
    drop(response);
    assert_eq!(outcomes.take(), []);
}

#[tokio::test]
async fn query_ends_at_its_announced_length_without_a_final_poll() {
    for (length, read, outcome) in [
        (6, 2, Outcome::Success),
        (6, 1, Outcome::Dropped),
        (7, 2, Outcome::Dropped),
        (0, 0, Outcome::Success),
    ] {
        let (balance, outcomes) = balance_of(Manner::Announce(length)).await;
        let mut body = query(&balance).await.expect("a response").into_body();
        for _ in 0..read {
            body.frame().await.expect("a frame").expect("no error");
        }
        drop(body);
        assert_eq!(outcomes.take(), [outcome], "{read} of {length}");
    }
    let (balance, outcomes) = balance_of(Manner::Announce(6)).await;
    let head_only = Request::head("/").body(()).expect("a request");
    let response = balance.clone().oneshot(head_only).await;
    assert_eq!(outcomes.take(), [Outcome::Success], "nothing follows");
    drop(response);
}

#[tokio::test]
async fn trailers_decide_though_the_length_is_known() {
    for (name, value) in [
        ("trailer", "grpc-status"),
        ("content-type", "application/grpc+proto"),
    ] {
        for (read, outcome) in [
            (1, Outcome::Dropped),
            // The reader stops at the announced length.
            (2, Outcome::Success),
            (3, Outcome::Failed),
        ] {
            let (balance, outcomes) = balance_of(Manner::Trailers(name, value)).await;
            let mut body = query(&balance).await.expect("a response").into_body();
            for _ in 0..read {
                assert_eq!(outcomes.take(), []);
                body.frame().await.expect("a frame").expect("no error");
            }
            drop(body);
            assert_eq!(outcomes.take(), [outcome], "{name}, {read} frames");
        }
    }
}

#[tokio::test]
async fn a_query_without_response_ends_by_its_error() {
    for (manner, outcome) in [
        (
            Manner::Fail(io::ErrorKind::ConnectionReset),
            Outcome::Broken,
        ),
        (
            Manner::Fail(io::ErrorKind::ConnectionRefused),
            Outcome::NoConnection,
        ),
        (Manner::NotReady, Outcome::Failed),
    ] {
        let (balance, outcomes) = balance_of(manner).await;
        assert!(query(&balance).await.is_err());
        assert_eq!(outcomes.take(), [outcome], "{manner:?}");
    }
}

#[tokio::test]
async fn a_dropped_future_or_a_panic_ends_its_query() {
    for manner in [Manner::Hang, Manner::NeverReady] {
        let (balance, outcomes) = balance_of(manner).await;
        let mut future = Box::pin(query(&balance));
        assert!(future.as_mut().now_or_never().is_none());
        assert_eq!(balance.balancer().in_flight(), 1, "{manner:?}");
        drop(future);
        assert_eq!(outcomes.take(), [Outcome::Dropped], "{manner:?}");
    }
    let (balance, outcomes) = balance_of(Manner::Panic).await;
    let panicked = AssertUnwindSafe(query(&balance)).catch_unwind().await;
    assert!(panicked.is_err());
    assert_eq!(outcomes.take(), [Outcome::Dropped]);
    assert_eq!(balance.balancer().in_flight(), 0);
}

/// The status shows which replica answered.
fn app(status: u16) -> App {
    let status = StatusCode::from_u16(status).expect("a status");
    App(Manner::Respond(status, Last::End))
}

type Statuses = Vec<u16>;

/// The results of four queries.
async fn ask(balance: &Balance<App, ()>) -> Statuses {
    let mut statuses = Statuses::new();
    for _ in 0..4 {
        match query(balance).await {
            Ok(response) => statuses.push(response.status().as_u16()),
            Err(error) => assert!(error.is::<NoReplica>(), "{error}"),
        }
    }
    statuses.sort_unstable();
    statuses
}

#[tokio::test]
async fn the_fleet_follows_discovery() {
    let (changes, receiver) = mpsc::unbounded_channel();
    let balancer = Balancer::with_seed(Box::new(Recording::default()), NoProber, 1);
    let addrs = |&addr: &SocketAddr| ReplicaAddrs::from(addr);
    let (balance, membership) = Balance::new(balancer, Changes(receiver), addrs);
    let membership: Membership<_, _, ()> = membership;
    let membership = tokio::spawn(membership);
    let apply = async |change| {
        changes.send(Ok(change)).expect("it listens");
        tokio::task::yield_now().await;
    };
    assert_eq!(ask(&balance).await, Statuses::new(), "no replica is known");
    apply(Change::Insert(addr(1), app(201))).await;
    assert_eq!(ask(&balance).await, [201, 201, 201, 201]);
    apply(Change::Insert(addr(2), app(202))).await;
    assert_eq!(ask(&balance).await, [201, 201, 202, 202]);

    // Known key again: a new service, but the same replica.
    let known = |balance: &Balance<App, ()>| {
        let snapshot = balance.balancer().snapshot();
        snapshot
            .replicas
            .iter()
            .map(|view| view.replica)
            .collect::<Vec<_>>()
    };
    let before = known(&balance);
    apply(Change::Insert(addr(1), app(203))).await;
    assert_eq!(ask(&balance).await, [202, 202, 203, 203]);
    assert_eq!(known(&balance), before);

    apply(Change::Remove(addr(1))).await;
    apply(Change::Remove(addr(7))).await;
    assert_eq!(ask(&balance).await, [202, 202, 202, 202]);
    apply(Change::Remove(addr(2))).await;
    assert_eq!(ask(&balance).await, Statuses::new());

    changes.send(Err("discovery broke")).expect("it listens");
    let ended = membership.await.expect("no panic");
    assert_eq!(ended, Err("discovery broke"));
}

#[tokio::test]
async fn following_discovery_ends_with_the_last_handle() {
    let (changes, receiver) = mpsc::unbounded_channel();
    let balancer = Balancer::with_seed(Box::new(Recording::default()), NoProber, 1);
    let addrs = |&addr: &SocketAddr| ReplicaAddrs::from(addr);
    let (balance, membership) = Balance::<App, ()>::new(balancer, Changes(receiver), addrs);
    let membership = tokio::spawn(membership);
    tokio::task::yield_now().await;
    drop(balance);
    assert_eq!(membership.await.expect("no panic"), Ok(()));
    drop(changes);
}

#[tokio::test]
async fn second_key_for_the_same_address_is_ignored() {
    let balancer = Balancer::with_seed(Box::new(Recording::default()), NoProber, 1);
    let keys = ["a", "b"].map(|key| Ok::<_, Infallible>(Change::Insert(key, app(201))));
    let discover = futures_util::stream::iter(keys);
    let (balance, membership) = Balance::new(balancer, discover, |_: &&str| addr(1).into());
    membership.await.expect("it goes on");
    assert_eq!(balance.balancer().snapshot().replicas.len(), 1);
    assert_eq!(ask(&balance).await, [201; 4]);
}

/// The results after these changes. A key's address is its second half.
async fn after<const N: usize>(changes: [Change<(&'static str, u16), App>; N]) -> Statuses {
    let balancer = Balancer::with_seed(Box::new(Recording::default()), NoProber, 1);
    let discover = futures_util::stream::iter(changes.map(Ok::<_, Infallible>));
    let (balance, membership) = Balance::new(balancer, discover, |&(_, port): &(&str, u16)| {
        ReplicaAddrs::from(addr(port))
    });
    membership.await.expect("it cannot fail");
    ask(&balance).await
}

#[tokio::test]
async fn successor_may_be_inserted_before_its_predecessor_is_removed() {
    use Change::{Insert, Remove};
    let (first, second, third) = (("a", 1), ("b", 1), ("c", 1));
    let taken_over = [
        Insert(first, app(201)),
        Insert(second, app(202)),
        Remove(first),
    ];
    assert_eq!(after(taken_over).await, [202; 4]);
    let in_turn = [
        Insert(first, app(201)),
        Insert(second, app(202)),
        Insert(third, app(203)),
        Insert(second, app(204)),
        Remove(first),
        Remove(third),
    ];
    assert_eq!(
        after(in_turn).await,
        [204; 4],
        "the key that remains, with its last service"
    );
    let gone = [
        Insert(first, app(201)),
        Insert(second, app(202)),
        Remove(second),
        Remove(first),
    ];
    assert_eq!(after(gone).await, Statuses::new());
}

#[tokio::test]
async fn keys_that_swap_addresses_keep_both_replicas() {
    let (changes, receiver) = mpsc::unbounded_channel();
    let balancer = Balancer::with_seed(Box::new(Recording::default()), NoProber, 1);
    let moved = Arc::new(Mutex::new(0));
    let by = Arc::clone(&moved);
    // Each key has one of two addresses, and then the other one.
    let place = move |key: &SocketAddr| {
        let by = *by.lock().expect("not poisoned");
        ReplicaAddrs::from(addr((key.port() + by) % 2 + 1))
    };
    let (balance, membership) = Balance::<App, ()>::new(balancer, Changes(receiver), place);
    let _membership = tokio::spawn(membership);
    let apply = async |change| {
        changes.send(Ok(change)).expect("it listens");
        tokio::task::yield_now().await;
    };
    apply(Change::Insert(addr(1), app(201))).await;
    apply(Change::Insert(addr(2), app(202))).await;
    *moved.lock().expect("not poisoned") = 1;
    apply(Change::Insert(addr(1), app(203))).await;
    assert_eq!(
        ask(&balance).await,
        [202; 4],
        "its new place is not free yet"
    );
    apply(Change::Insert(addr(2), app(204))).await;
    assert_eq!(ask(&balance).await, [203, 203, 204, 204]);
}

#[tokio::test(start_paused = true)]
async fn synchronous_mode_probes_with_the_hint_of_the_request() {
    let prober = Arc::new(HandProber::default());
    let balancer = Balancer::with_seed(prequal_sync(), Arc::clone(&prober), 1);
    let changes = [1, 2, 3].map(|port| {
        let status = 200 + port;
        Ok::<_, Infallible>(Change::Insert(addr(port), app(status)))
    });
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let (balance, membership) = BalanceBuilder::new(balancer)
        .hint(move |request: &Request<()>| {
            *count.lock().expect("not poisoned") += 1;
            let value = request.headers().get("user")?;
            Some(Bytes::copy_from_slice(value.as_bytes()))
        })
        .build(futures_util::stream::iter(changes), |&addr| {
            ReplicaAddrs::from(addr)
        });
    membership.await.expect("it cannot fail");

    let request = Request::builder().header("user", "17").body(());
    let future = balance.clone().oneshot(request.expect("a request"));
    let future = tokio::spawn(future);
    tokio::task::yield_now().await;
    let sent = prober.take();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|probe| probe.hint == "17"));
    for (probe, rif) in sent.iter().zip([9, 1, 5]) {
        let report = LoadReport::new(Rif::new(rif), Some(Duration::from_millis(u64::from(rif))));
        prober.reports().report(probe.token, &report);
    }
    let response = future.await.expect("no panic").expect("a response");
    let expected = 200 + sent[1].addr.port();
    assert_eq!(response.status().as_u16(), expected);
    assert_eq!(*asked.lock().expect("not poisoned"), 1);
    drop(response);

    let long = "7".repeat(slackwater_tower::wire::HINT_BYTES_MAX + 1);
    let request = Request::builder().header("user", long).body(());
    let mut future = Box::pin(balance.clone().oneshot(request.expect("a request")));
    assert!(future.as_mut().now_or_never().is_none());
    let sent = prober.take();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|probe| probe.hint.is_empty()), "left out");
    drop(future);

    let mut dropped = Box::pin(balance.clone().oneshot(Request::new(())));
    assert!(dropped.as_mut().now_or_never().is_none());
    drop(dropped);
    assert_eq!(balance.balancer().in_flight(), 0);
}
