//! Shards that are balanced themselves, and servers with real sockets.

use super::{HANGS, fan_out, hedged, ms, share};
use crate::common::{EchoProber, addr, prequal, prequal_sync, until};
use bytes::Bytes;
use core::convert::Infallible;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use slackwater_core::policy::{Policy, RoundRobin};
use slackwater_tower::client::fan_out::Leaf;
use slackwater_tower::client::{Balance, Balancer, NoProber, ReplicaAddrs};
use slackwater_tower::server::{Load, LoadLayer};
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tower::discover::Change;
use tower::{BoxError, Layer, Service, service_fn};

/// Makes a shard of replicas that take this many milliseconds. `sent` records which ones got
/// requests.
fn shard(
    policy: Box<dyn Policy>,
    sent: &Arc<Mutex<Vec<u16>>>,
    courses: &[u64],
) -> Balance<
    impl Service<Request<()>, Response = Response<Empty<Bytes>>, Error = BoxError, Future: Send> + Clone,
    (),
> {
    let replica = |(place, &took): (u16, &u64)| {
        let sent = Arc::clone(sent);
        let service = service_fn(move |_: Request<()>| {
            sent.lock().expect("not poisoned").push(place);
            async move {
                tokio::time::sleep(ms(took)).await;
                Ok::<_, BoxError>(Response::new(Empty::<Bytes>::new()))
            }
        });
        (addr(place), service)
    };
    let balancer = Balancer::new(policy, EchoProber::default());
    Balance::over(balancer, (0..).zip(courses).map(replica)).expect("distinct")
}

#[tokio::test(start_paused = true)]
async fn hedge_goes_to_another_replica() {
    // Asynchronous and synchronous mode. By chance, the copies would go to the same replica half of
    // the time.
    for policy in [prequal, prequal_sync] {
        for _ in 0..8 {
            let all = hedged(|it| it.budget = share(1_000_000)).await;
            let sent = Arc::default();
            let shards = [shard(policy(), &sent, &[HANGS, HANGS])];
            let asking = all.call_http(&shards, |_| Request::new(()));
            assert!(tokio::time::timeout(ms(100), asking).await.is_err());
            let mut sent = sent.lock().expect("not poisoned").clone();
            sent.sort_unstable();
            assert_eq!(sent, [0, 1]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hedge_without_another_replica_costs_no_budget() {
    for policy in [prequal, prequal_sync] {
        // The budget is one hedge.
        let all = hedged(|it| {
            it.budget = share(10_000);
            it.burst = 1;
        })
        .await;
        for (courses, hedges) in [(&[HANGS][..], 0), (&[HANGS, HANGS], 1)] {
            let sent = Arc::default();
            let shards = [shard(policy(), &sent, courses)];
            let asking = all.call_http(&shards, |_| Request::new(()));
            assert!(tokio::time::timeout(ms(100), asking).await.is_err());
            assert_eq!(sent.lock().expect("not poisoned").len(), courses.len());
            let counters = all.hedge_counters().expect("it hedges");
            assert_eq!((counters.issued, counters.wasted), (hedges, hedges));
            assert_eq!(counters.withheld_budget, 0);
        }
    }
}

/// A server that answers at once, or when a test allows it. Its tasks end with the set.
async fn server(
    tasks: &mut JoinSet<()>,
    load: &Load,
    waits_for: Option<Arc<Notify>>,
) -> core::net::SocketAddr {
    let listener = TcpListener::bind(addr(0)).await.expect("a listener");
    let address = listener.local_addr().expect("bound");
    let app = service_fn(move |_: Request<_>| {
        let waits_for = waits_for.clone();
        async move {
            if let Some(told) = waits_for {
                told.notified().await;
            }
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let service = LoadLayer::new(load.clone()).layer(app);
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            connections.spawn(async move { drop(connection.await) });
        }
    });
    address
}

/// Sends each request on a new connection, which ends with it.
fn connecting(
    address: core::net::SocketAddr,
) -> impl Service<
    Request<Empty<Bytes>>,
    Response = Response<hyper::body::Incoming>,
    Error = BoxError,
    Future: Send,
> + Clone {
    service_fn(move |mut request: Request<Empty<Bytes>>| async move {
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let host = http::HeaderValue::try_from(address.to_string())?;
        request.headers_mut().insert(http::header::HOST, host);
        tokio::spawn(connection);
        Ok(sender.send_request(request).await?)
    })
}

#[tokio::test]
async fn leaf_not_awaited_is_no_longer_in_flight() {
    let mut tasks = JoinSet::new();
    let loads: [Load; 4] = core::array::from_fn(|_| Load::new());
    let (never, told) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waits_for = [None, None, Some(never), Some(Arc::clone(&told))];
    let mut shards = Vec::new();
    for (load, waits_for) in loads.iter().zip(waits_for) {
        let address = server(&mut tasks, load, waits_for).await;
        let balancer = Balancer::new(Box::new(RoundRobin::default()), NoProber);
        let change = Ok::<_, BoxError>(Change::Insert(address, connecting(address)));
        let (balance, membership) =
            Balance::new(balancer, futures_util::stream::iter([change]), |&it| {
                ReplicaAddrs::from(it)
            });
        membership.await.expect("this discovery does not fail");
        shards.push(balance);
    }
    let hangs = &loads[2];
    let three = fan_out(|it| it.enough = share(750_000));
    let asking = three.call(&shards, |_| Request::new(Empty::new()));
    // The third answer waits until the server that hangs has its request. Otherwise there would be
    // nothing to cancel.
    let telling = async {
        until("it has the request", || hangs.rif().count() == 1).await;
        told.notify_one();
    };
    let (gathered, ()) = tokio::join!(asking, telling);
    let gathered = gathered.expect("canaries live");
    assert_eq!(gathered.answered(), 3);
    assert!(matches!(gathered.leaves()[2], Leaf::NotAwaited));
    drop(gathered);
    for (balance, load) in shards.iter().zip(&loads) {
        until("nothing is in flight", || load.rif().count() == 0).await;
        let snapshot = balance.balancer().snapshot();
        assert_eq!(snapshot.replicas[0].in_flight, 0);
    }
}
