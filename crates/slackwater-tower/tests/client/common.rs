//! Shared by the tests: waiting for a condition, a policy that records outcomes, a prober whose
//! answers a test gives, and replicas on loopback.

use core::convert::Infallible;
use core::net::{Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use slackwater_core::policy::{
    Counters, Decision, Event, Explanation, Fleet, Outcome, Policy, Prequal, PrequalConfig,
    PrequalSync, Probe, ProbeId, Query, RoundRobin, Snapshot, Ticket,
};
use slackwater_core::{Draw, Instant, LoadReport, ReplicaId, Rif};
use slackwater_tower::client::{
    Balancer, ProbeToSend, Prober, Refused, Reports, UdpProber, UdpProberConfig,
};
use slackwater_tower::server::{Load, LoadLayer, respond_udp};
use slackwater_tower::wire::ProbeKey;
use std::sync::{Arc, Mutex, OnceLock};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;
use tower_layer::Layer;

/// Waits until `condition` holds. A test in which it never does fails after a minute.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let reached = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), reached)
        .await
        .unwrap_or_else(|_| panic!("never came about: {what}"));
}

pub(crate) fn prequal() -> Box<dyn Policy> {
    Box::new(Prequal::new(PrequalConfig::default()))
}

pub(crate) fn prequal_sync() -> Box<dyn Policy> {
    Box::new(PrequalSync::new(PrequalConfig::default()))
}

/// An address that no test connects to.
pub(crate) fn addr(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// UDP to loopback replicas, with room for `outstanding_max` probes.
pub(crate) fn udp_prober(key: Option<ProbeKey>, outstanding_max: u32) -> UdpProber {
    UdpProber::bind(&UdpProberConfig {
        key,
        local_v4: Some(Ipv4Addr::LOCALHOST),
        local_v6: None,
        outstanding_max,
    })
    .expect("a socket on loopback")
}

/// Picks one query's replica, without probes.
pub(crate) fn pick_ready(balancer: &Balancer) -> slackwater_tower::client::Lease {
    use futures_util::FutureExt;
    let chosen = balancer.choose(Query::first(), None).now_or_never();
    chosen
        .expect("ready at the first poll")
        .expect("a replica is known")
}

/// Outcomes of queries, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes(Arc<Mutex<Vec<Outcome>>>);

impl Outcomes {
    pub(crate) fn take(&self) -> Vec<Outcome> {
        core::mem::take(&mut self.0.lock().expect("not poisoned"))
    }
}

/// A replica that joins (`None`), or that is far.
type Distance = (ReplicaId, Option<Duration>);

/// Replicas that join and those that are far, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distances(Arc<Mutex<Vec<Distance>>>);

impl Distances {
    pub(crate) fn take(&self) -> Vec<Distance> {
        core::mem::take(&mut self.0.lock().expect("not poisoned"))
    }
}

/// Round robin that records outcomes, and which replicas are far.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    inner: RoundRobin,
    pub(crate) outcomes: Outcomes,
    pub(crate) distances: Distances,
}

impl Policy for Recording {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn handle(&mut self, now: Instant, event: Event<'_>, draw: &mut dyn Draw) {
        let distance = match event {
            Event::Added(replica) => Some((replica, None)),
            Event::Far(replica, round_trip) => Some((replica, Some(round_trip))),
            _ => None,
        };
        (self.distances.0.lock().expect("not poisoned")).extend(distance);
        self.inner.handle(now, event, draw);
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: Option<&mut Explanation>,
    ) -> Decision {
        (self.inner).choose(now, query, draw, explanation)
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        self.inner.handle_head(now, ticket, outcome);
    }

    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) {
        self.outcomes.0.lock().expect("not poisoned").push(outcome);
        self.inner.handle_query_done(now, ticket, outcome);
    }

    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        self.inner.poll_probe(now, draw)
    }

    fn probe_target(&self, probe: ProbeId) -> Option<ReplicaId> {
        self.inner.probe_target(probe)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn wants_trial(&self) -> bool {
        self.inner.wants_trial()
    }

    fn spares_some(&mut self, now: Instant) -> bool {
        self.inner.spares_some(now)
    }

    fn fleet(&self) -> &Fleet {
        self.inner.fleet()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        self.inner.snapshot(now)
    }
}

/// How many there are, and the most at once so far.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// One of those that a [`Gauge`] counts, until it is dropped.
pub(crate) struct Counted<'g>(&'g Gauge);

impl Gauge {
    pub(crate) fn begin(&self) -> Counted<'_> {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        Counted(self)
    }

    pub(crate) fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Keeps its probes, for the test to answer.
#[derive(Debug, Default)]
pub(crate) struct HandProber {
    pub(crate) sent: Mutex<Vec<ProbeToSend>>,
    reports: OnceLock<Reports>,
}

impl HandProber {
    pub(crate) fn take(&self) -> Vec<ProbeToSend> {
        core::mem::take(&mut self.sent.lock().expect("not poisoned"))
    }

    pub(crate) fn reports(&self) -> Reports {
        let reports = self.reports.get().cloned();
        reports.expect("the balancer has started it")
    }
}

impl Prober for HandProber {
    fn start(&self, reports: Reports) -> bool {
        self.reports.set(reports).is_ok()
    }

    fn send(&self, probe: ProbeToSend) -> Result<(), Refused> {
        self.sent.lock().expect("not poisoned").push(probe);
        Ok(())
    }
}

/// Answers each probe while it is being sent.
#[derive(Debug, Default)]
pub(crate) struct EchoProber(OnceLock<Reports>);

impl Prober for EchoProber {
    fn start(&self, reports: Reports) -> bool {
        self.0.set(reports).is_ok()
    }

    fn send(&self, probe: ProbeToSend) -> Result<(), Refused> {
        let reports = self.0.get().cloned();
        let report = LoadReport::new(Rif::ZERO, None);
        reports
            .expect("the balancer has started it")
            .report(probe.token, &report);
        Ok(())
    }
}

/// A replica that answers probes by UDP and by HTTP. Its tasks end when it is dropped.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) load: Load,
    pub(crate) udp: SocketAddr,
    pub(crate) http: SocketAddr,
    /// The number of TCP connections that it has accepted.
    pub(crate) accepted: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Replica {
    pub(crate) async fn start(load: Load, key: Option<ProbeKey>) -> Self {
        let mut tasks = JoinSet::new();
        let socket = UdpSocket::bind(addr(0)).await.expect("a socket");
        let udp = socket.local_addr().expect("bound");
        let responder = respond_udp(socket, load.clone(), key.clone());
        tasks.spawn(async move { drop(responder.await) });

        let listener = TcpListener::bind(addr(0)).await.expect("a listener");
        let http = listener.local_addr().expect("bound");
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let app = tower::service_fn(|_: Request<_>| async {
            Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new()))
        });
        let layer = LoadLayer::new(load.clone());
        let layer = match key {
            Some(key) => layer.probe_key(key),
            None => layer,
        };
        let service = layer.layer(app);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let service = TowerToHyperService::new(service.clone());
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move { drop(connection.await) });
            }
        });
        Self {
            load,
            udp,
            http,
            accepted,
            _tasks: tasks,
        }
    }
}
