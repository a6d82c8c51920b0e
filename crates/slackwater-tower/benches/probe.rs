//! What balancing costs beyond the policy: a pick with its completion, and a probe end to end on loopback.
//!
//! `cargo bench -p slackwater-tower --bench probe`. Beside criterion's wall-clock times, this prints CPU time in
//! nanoseconds for each probe, user and system, of the client's thread and of both: client and replicas run on a thread
//! each, and the kernel's clock for each thread tells what it used. On loopback the sender's thread also pays for the
//! delivery into the receiver's socket, which across machines is the receiver's.

use core::hint::black_box;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use criterion::{BatchSize, Criterion, criterion_group};
use http_body_util::Empty;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use slackwater_core::policy::{
    Decision, Outcome, Policy, Prequal, PrequalConfig, Query, Random, prequal::PrequalSettings,
};
use slackwater_core::{Instant, LoadReport, Rate, ReplicaIds, Rif, SplitMix64};
use slackwater_tower::client::{
    Balancer, HttpProber, HttpProberConfig, NoProber, ProbeToSend, Prober, Refused, ReplicaAddrs,
    Reports, UdpProber, UdpProberConfig,
};
use slackwater_tower::server::{Load, LoadLayer, respond_udp};
use slackwater_tower::wire::ProbeKey;
use std::io::Write;
use std::sync::mpsc;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;
use tower_layer::Layer;

/// Replicas in the probed fleet.
const REPLICAS: usize = 128;
/// Batches of picks measured for each figure.
const BATCHES: u32 = 3_000;

fn settings(probe_rate: u32) -> PrequalConfig {
    let settings = PrequalSettings {
        probe_rate: Rate::per_query(probe_rate).unwrap_or(Rate::ZERO),
        probe_interval_min: Duration::ZERO,
        ..PrequalSettings::default()
    };
    settings.validate().unwrap_or_default()
}

/// Takes every probe and does nothing: what is left is the hand-over.
#[derive(Debug)]
struct Sink;

impl Prober for Sink {
    fn start(&self, _reports: Reports) {}

    fn send(&self, probe: ProbeToSend) -> Result<(), Refused> {
        black_box(probe);
        Ok(())
    }
}

fn fleet(policy: Box<dyn Policy>, prober: impl Prober, replicas: u16) -> Balancer {
    let balancer = Balancer::with_seed(policy, prober, 1);
    for port in 1..=replicas {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if balancer.insert(addr).is_err() {
            break;
        }
    }
    balancer
}

/// The policy alone, as a driver would call it, and the balancer around the same policy: the difference is the price.
fn picks(c: &mut Criterion) {
    let mut group = c.benchmark_group("pick_and_finish");
    group.bench_function("policy_alone/random", |b| {
        let mut policy = Random::new();
        let mut ids = ReplicaIds::new();
        let mut draw = SplitMix64::new(1);
        for _ in 0..100 {
            if let Some(replica) = ids.allocate() {
                policy.add_replica(Instant::EPOCH, replica);
            }
        }
        let policy: &mut dyn Policy = black_box(&mut policy);
        b.iter(|| {
            if let Decision::Pick(pick) =
                policy.handle_query(Instant::EPOCH, Query::first(), &mut draw)
            {
                let probe = policy.poll_probe(Instant::EPOCH, &mut draw);
                black_box(probe);
                policy.handle_query_done(Instant::EPOCH, pick.ticket, Outcome::Success);
            }
        });
    });
    let mut run = |name: &str, balancer: &Balancer| {
        group.bench_function(name, |b| {
            b.iter(|| {
                if let slackwater_tower::client::Picked::Ready(mut lease) =
                    balancer.pick(Query::first())
                {
                    lease.head_ready();
                    lease.finish(Outcome::Success);
                }
            });
        });
    };
    run(
        "balancer/random",
        &fleet(Box::new(Random::new()), NoProber, 100),
    );
    let prequal = |rate| Box::new(Prequal::new(settings(rate)));
    run("balancer/prequal, no probes", &fleet(prequal(0), Sink, 100));
    run("balancer/prequal, 3 probes", &fleet(prequal(3), Sink, 100));
    group.finish();
}

/// A report from the wire into the pool.
fn reports(c: &mut Criterion) {
    #[derive(Debug, Default)]
    struct Keep(std::sync::Mutex<(Vec<ProbeToSend>, Option<Reports>)>);
    impl Prober for Keep {
        fn start(&self, reports: Reports) {
            if let Ok(mut kept) = self.0.lock() {
                kept.1 = Some(reports);
            }
        }

        fn send(&self, probe: ProbeToSend) -> Result<(), Refused> {
            if let Ok(mut kept) = self.0.lock() {
                kept.0.push(probe);
            }
            Ok(())
        }
    }
    let prober = std::sync::Arc::new(Keep::default());
    let policy = Box::new(Prequal::new(settings(3)));
    let balancer = fleet(policy, std::sync::Arc::clone(&prober), 100);
    let report = LoadReport::new(Rif::new(3), Some(Duration::from_millis(4)));
    c.bench_function("report", |b| {
        b.iter_batched(
            || loop {
                drop(balancer.pick(Query::first()));
                let Ok(mut kept) = prober.0.lock() else {
                    continue;
                };
                let probe = kept.0.pop();
                kept.0.clear();
                if let (Some(probe), Some(reports)) = (probe, kept.1.clone()) {
                    break (probe.token, reports);
                }
            },
            |(token, reports)| reports.report(token, &report),
            BatchSize::SmallInput,
        );
    });
}

/// CPU time of the calling thread so far: user, system.
fn thread_cpu() -> (Duration, Duration) {
    // The twelfth and thirteenth fields after the name, in ticks of 10 ms: fine for runs of seconds, and needs no `unsafe`.
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let mut fields = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .skip(11)
        .map(|ticks| Duration::from_millis(10 * ticks.parse::<u64>().unwrap_or(0)));
    let user = fields.next().unwrap_or_default();
    (user, fields.next().unwrap_or_default())
}

/// The kernel's exact account of the calling thread's time on a processor.
fn thread_total() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = stat.split_whitespace().next().map(str::parse::<u64>);
    Duration::from_nanos(ns.and_then(Result::ok).unwrap_or(0))
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    total: Duration,
    user: Duration,
    system: Duration,
}

impl Cpu {
    fn now() -> Self {
        let (user, system) = thread_cpu();
        Self {
            total: thread_total(),
            user,
            system,
        }
    }

    fn since(self, start: Self) -> Self {
        Self {
            total: self.total.saturating_sub(start.total),
            user: self.user.saturating_sub(start.user),
            system: self.system.saturating_sub(start.system),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Carrier {
    Udp,
    Http,
}

/// A thread with replicas on it, which says what CPU time it used between two calls.
struct Replicas {
    addrs: Vec<SocketAddr>,
    ask: tokio::sync::mpsc::UnboundedSender<oneshot::Sender<Cpu>>,
}

fn start_replicas(carrier: Carrier, key: Option<ProbeKey>) -> std::io::Result<Replicas> {
    let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel::<oneshot::Sender<Cpu>>();
    let (ready, is_ready) = mpsc::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::spawn(move || {
        runtime.block_on(async move {
            let mut addrs = Vec::new();
            for _ in 0..REPLICAS {
                addrs.push(match carrier {
                    Carrier::Udp => udp_replica(key.clone()).await?,
                    Carrier::Http => http_replica().await?,
                });
            }
            let _ = ready.send(addrs);
            while let Some(answer) = asked.recv().await {
                let _ = answer.send(Cpu::now());
            }
            Ok::<_, std::io::Error>(())
        })
    });
    let addrs = is_ready.recv().map_err(std::io::Error::other)?;
    Ok(Replicas { addrs, ask })
}

async fn udp_replica(key: Option<ProbeKey>) -> std::io::Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = socket.local_addr()?;
    tokio::spawn(respond_udp(socket, Load::new(), key));
    Ok(addr)
}

async fn http_replica() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    let app = tower::service_fn(|_: http::Request<_>| async {
        Ok::<_, core::convert::Infallible>(http::Response::new(Empty::<bytes::Bytes>::new()))
    });
    let app = LoadLayer::new(Load::new()).layer(app);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(app.clone());
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(addr)
}

impl Replicas {
    async fn cpu(&self) -> Cpu {
        let (answer, answered) = oneshot::channel();
        let _ = self.ask.send(answer);
        answered.await.unwrap_or_default()
    }
}

fn balancer_for(
    carrier: Carrier,
    key: Option<ProbeKey>,
    probe_rate: u32,
    replicas: &[SocketAddr],
) -> std::io::Result<Balancer> {
    let policy = Box::new(Prequal::new(settings(probe_rate)));
    let balancer = match carrier {
        Carrier::Udp => {
            let prober = UdpProber::bind(&UdpProberConfig {
                local_v4: Some(Ipv4Addr::LOCALHOST),
                local_v6: None,
                key,
                ..UdpProberConfig::default()
            })?;
            Balancer::with_seed(policy, prober, 1)
        }
        Carrier::Http => {
            Balancer::with_seed(policy, HttpProber::new(HttpProberConfig::default()), 1)
        }
    };
    for &addr in replicas {
        let _ = balancer.insert(ReplicaAddrs::from(addr));
    }
    Ok(balancer)
}

/// What `batches` of picks cost, one batch each millisecond or so.
async fn run(balancer: &Balancer, batches: u32, picks_at_once: u32) {
    for _ in 0..batches {
        for _ in 0..picks_at_once {
            drop(balancer.pick(Query::first()));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Measures batches of picks with 3 probes each, and takes off what the same picks cost without probes. The larger the
/// batch, the more probes share a wake-up of the prober's task; a busy proxy sees batches.
async fn measure(
    name: &str,
    carrier: Carrier,
    key: Option<ProbeKey>,
    picks_at_once: u32,
) -> std::io::Result<()> {
    let replicas = start_replicas(carrier, key.clone())?;
    let without = balancer_for(carrier, key.clone(), 0, &[])?;
    let with = balancer_for(carrier, key, 3, &replicas.addrs)?;
    // Connections are made, buffers have grown.
    run(&with, BATCHES / 10, picks_at_once).await;

    let start = Cpu::now();
    run(&without, BATCHES, picks_at_once).await;
    let idle = Cpu::now().since(start);
    let before = with.counters();
    let (here, there) = (Cpu::now(), replicas.cpu().await);
    run(&with, BATCHES, picks_at_once).await;
    let here = Cpu::now().since(here).since(idle);
    let there = replicas.cpu().await.since(there);
    let after = with.counters();

    let probes = after.probes_answered - before.probes_answered;
    let each = |span: Duration| span.as_nanos() / u128::from(probes.max(1));
    writeln!(
        std::io::stdout().lock(),
        "{name:<26} client {:>6} ns (user {:>5}, system {:>5})   both ends {:>6} ns   answered {probes}, lost {}",
        each(here.total),
        each(here.user),
        each(here.system),
        each(here.total + there.total),
        after.probes_lost - before.probes_lost,
    )
}

fn probes(_: &mut Criterion) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return;
    };
    let key = ProbeKey::from_bytes(&[7; 32]).ok();
    let cases = [
        ("udp, 3 probes at once", Carrier::Udp, None, 1),
        ("udp, 30 at once", Carrier::Udp, None, 10),
        ("udp keyed, 30 at once", Carrier::Udp, key, 10),
        ("http, 3 at once", Carrier::Http, None, 1),
        ("http, 30 at once", Carrier::Http, None, 10),
    ];
    for (name, carrier, key, picks_at_once) in cases {
        if let Err(error) = runtime.block_on(measure(name, carrier, key, picks_at_once)) {
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
        }
    }
}

criterion_group!(benches, picks, reports, probes);
criterion::criterion_main!(benches);
