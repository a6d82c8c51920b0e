//! Costs of balancing beyond the policy: a pick with its completion, and a probe end to end on
//! loopback.
//!
//! `cargo bench -p slackwater-tower --bench probe`. All figures are CPU time as the kernel accounts
//! it to each thread, so a busy machine disturbs less. Criterion measures the thread's clock. For
//! probes this prints nanoseconds per probe, of the client's thread and of client and replicas
//! together. On loopback the sender also pays for delivery into the receiver's socket and for
//! waking it; across machines the receiver does.

use core::hint::black_box;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use criterion::{Bencher, Criterion, criterion_group};
use http_body_util::Empty;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustix::time::{ClockId, clock_gettime};
use slackwater_core::policy::{
    Decision, Event, Outcome, Policy, Prequal, PrequalConfig, Query, Random,
    prequal::PrequalSettings,
};
use slackwater_core::{Instant, LoadReport, NoDraw, Rate, ReplicaIds, Rif, SplitMix64};
use slackwater_tower::client::{
    Balancer, HttpProber, HttpProberConfig, NoProber, ProbeToSend, Prober, Refused, ReplicaAddrs,
    Reports, UdpProber, UdpProberConfig,
};
use slackwater_tower::server::{Load, LoadLayer, respond_udp};
use slackwater_tower::wire::ProbeKey;
use std::io::Write;
use std::sync::{OnceLock, mpsc};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;
use tower_layer::Layer;

/// Replicas in the probed fleet.
const REPLICAS: usize = 128;
/// Batches of picks per figure.
const BATCHES: u32 = 3_000;

fn settings(probe_rate: u32) -> PrequalConfig {
    let settings = PrequalSettings {
        probe_rate: Rate::per_query(probe_rate).unwrap_or(Rate::ZERO),
        probe_interval_min: Duration::ZERO,
        ..PrequalSettings::default()
    };
    settings.validate().unwrap_or_default()
}

/// Answers every probe at once: what remains is the cost of handing probes and answers over.
#[derive(Debug, Default)]
struct AtOnce(OnceLock<Reports>);

impl Prober for AtOnce {
    fn start(&self, reports: Reports) -> bool {
        self.0.set(reports).is_ok()
    }

    fn send(&self, probe: ProbeToSend) -> Result<(), Refused> {
        let reports = self.0.get().ok_or(Refused::Stopped)?;
        let report = LoadReport::new(Rif::new(3), Some(Duration::from_millis(4)));
        reports.report(probe.token, &report);
        Ok(())
    }
}

/// Measures `body` by the CPU time that it uses.
fn in_cpu_time(b: &mut Bencher<'_>, mut body: impl FnMut()) {
    b.iter_custom(|iterations| {
        let start = thread_cpu();
        for _ in 0..iterations {
            body();
        }
        thread_cpu().saturating_sub(start)
    });
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

/// The policy alone, as a driver would call it, and the balancer around the same policy. The
/// difference is the balancer's cost.
fn picks(c: &mut Criterion) {
    let mut group = c.benchmark_group("pick_and_finish");
    group.bench_function("policy_alone/random", |b| {
        let mut policy = Random::new();
        let mut ids = ReplicaIds::new();
        let mut draw = SplitMix64::new(1);
        for _ in 0..100 {
            if let Some(replica) = ids.allocate() {
                policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
            }
        }
        let policy: &mut dyn Policy = black_box(&mut policy);
        in_cpu_time(b, || {
            if let Decision::Pick(pick) =
                policy.choose(Instant::EPOCH, Query::first(), &mut draw, None)
            {
                let probe = policy.poll_probe(Instant::EPOCH, &mut draw);
                black_box(probe);
                policy.handle_query_done(Instant::EPOCH, pick.ticket, Outcome::Success);
            }
        });
    });
    let mut run = |name: &str, balancer: &Balancer| {
        group.bench_function(name, |b| {
            in_cpu_time(b, || {
                if let slackwater_tower::client::Picked::Ready(mut lease) =
                    balancer.pick(Query::first())
                {
                    lease.head_ready(Outcome::Success);
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
    run(
        "balancer/prequal, no probes",
        &fleet(prequal(0), NoProber, 100),
    );
    run(
        "balancer/prequal, 3 probes",
        &fleet(prequal(3), AtOnce::default(), 100),
    );
    group.finish();
}

/// CPU time used by the calling thread.
fn thread_cpu() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or(0))
}

#[derive(Clone, Copy, Debug)]
enum Carrier {
    Udp,
    Http,
}

/// A thread with replicas, which reports the CPU time that it used between two calls.
struct Replicas {
    addrs: Vec<SocketAddr>,
    ask: tokio::sync::mpsc::UnboundedSender<oneshot::Sender<Duration>>,
}

fn start_replicas(carrier: Carrier, key: Option<ProbeKey>) -> std::io::Result<Replicas> {
    let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel::<oneshot::Sender<Duration>>();
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
                let _ = answer.send(thread_cpu());
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
    async fn cpu(&self) -> Duration {
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

/// What the client's thread does while its probes are outstanding.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    /// It sleeps, so one or a few replies wake it: a client with little to do.
    Sleeps,
    /// It works, and reads its sockets about every 20 µs: a proxy under load, which is awake when
    /// replies arrive.
    Works,
}

/// Runs `batches` of picks, one batch per millisecond or half millisecond.
async fn run(balancer: &Balancer, batches: u32, picks_at_once: u32, meanwhile: Meanwhile) {
    for _ in 0..batches {
        for _ in 0..picks_at_once {
            drop(balancer.pick(Query::first()));
        }
        match meanwhile {
            Meanwhile::Sleeps => tokio::time::sleep(Duration::from_millis(1)).await,
            Meanwhile::Works => {
                for _ in 0..25 {
                    for step in 0..20_000_u32 {
                        black_box(step);
                    }
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

/// Measures batches of picks with 3 probes each, and subtracts the cost of the same picks without
/// probes. The larger the batch, the more probes share a wake-up of the prober's task; a busy proxy
/// sees batches.
async fn measure(
    name: &str,
    carrier: Carrier,
    key: Option<ProbeKey>,
    picks_at_once: u32,
    meanwhile: Meanwhile,
) -> std::io::Result<()> {
    let replicas = start_replicas(carrier, key.clone())?;
    let without = balancer_for(carrier, key.clone(), 0, &[])?;
    let with = balancer_for(carrier, key, 3, &replicas.addrs)?;
    // Warm-up: connections are opened, and buffers grow.
    run(&with, BATCHES / 10, picks_at_once, meanwhile).await;

    let start = thread_cpu();
    run(&without, BATCHES, picks_at_once, meanwhile).await;
    let idle = thread_cpu().saturating_sub(start);
    let before = with.counters();
    let (here, there) = (thread_cpu(), replicas.cpu().await);
    run(&with, BATCHES, picks_at_once, meanwhile).await;
    let here = thread_cpu().saturating_sub(here).saturating_sub(idle);
    let there = replicas.cpu().await.saturating_sub(there);
    let after = with.counters();

    let probes = after.probes_answered - before.probes_answered;
    let each = |span: Duration| span.as_nanos() / u128::from(probes.max(1));
    writeln!(
        std::io::stdout().lock(),
        "{name:<30} client {:>6} ns   both ends {:>6} ns   answered {probes}, lost {}",
        each(here),
        each(here + there),
        after.probes_lost - before.probes_lost,
    )
}

fn probes(_: &mut Criterion) {
    use Meanwhile::{Sleeps, Works};

    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return;
    };
    let key = ProbeKey::from_bytes(&[7; 32]).ok();
    let cases = [
        ("udp, 3 at once, idle client", Carrier::Udp, None, 1, Sleeps),
        (
            "udp, 30 at once, idle client",
            Carrier::Udp,
            None,
            10,
            Sleeps,
        ),
        (
            "udp, 30 at once, busy client",
            Carrier::Udp,
            None,
            10,
            Works,
        ),
        ("udp keyed, 30, busy client", Carrier::Udp, key, 10, Works),
        (
            "http, 3 at once, idle client",
            Carrier::Http,
            None,
            1,
            Sleeps,
        ),
        (
            "http, 30 at once, busy client",
            Carrier::Http,
            None,
            10,
            Works,
        ),
    ];
    // As in criterion, the first argument that is not an option filters by name.
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let wanted = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter));
    for (name, carrier, key, picks_at_once, meanwhile) in cases {
        if !wanted(name) {
            continue;
        }
        if let Err(error) = runtime.block_on(measure(name, carrier, key, picks_at_once, meanwhile))
        {
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
        }
    }
}

criterion_group!(benches, picks, probes);
criterion::criterion_main!(benches);
