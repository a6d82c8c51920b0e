//! Costs of a query in the core: picking, reports, the tracker; with 10 to 100,000 replicas and a
//! full pool of 16.
//!
//! `cargo bench -p slackwater-tower --bench core`. Its figures are targets, not tests: a shared
//! machine cannot time exactly. A test proves that none of these allocates
//! (`tests/allocations.rs`).

#![expect(
    clippy::expect_used,
    reason = "a benchmark that is set up wrongly may well panic"
)]

use core::hint::black_box;
use core::time::Duration;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Decision, Event, Outcome, PickReason, Policy, Prequal, Probe, Query,
};
use slackwater_core::tracker::{End, LoadTracker};
use slackwater_core::{
    Draw, Instant, LoadReport, NoDraw, Rate, ReplicaId, ReplicaIds, Rif, SplitMix64,
};

const FLEETS: [usize; 4] = [10, 100, 1_000, 100_000];

/// A policy in a steady state: its pool full (or as full as the fleet allows), and nothing
/// outstanding.
struct Bench {
    policy: Prequal,
    replicas: Vec<ReplicaId>,
    now: Instant,
    draw: SplitMix64,
}

impl Bench {
    /// Makes a policy with `probes` and `removals` per query. Uses are not spent, so the pool stays
    /// as it is.
    fn new(fleet: usize, settings: PrequalSettings) -> Self {
        let config = settings.validate().expect("valid settings");
        let mut ids = ReplicaIds::new();
        let mut policy = Prequal::new(config);
        let replicas: Vec<_> = (0..fleet).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        }
        let mut bench = Self {
            policy,
            replicas,
            now: Instant::EPOCH,
            draw: SplitMix64::new(1),
        };
        bench.fill();
        bench
    }

    /// Sends idle probes until the pool is full.
    fn fill(&mut self) {
        for _ in 0..64 {
            self.now += Duration::from_millis(5);
            self.policy.handle(self.now, Event::Timeout, &mut self.draw);
            self.answer();
        }
    }

    fn answer(&mut self) {
        while let Some(probe) = self.policy.poll_probe(self.now, &mut self.draw) {
            self.receive(&probe);
        }
    }

    fn receive(&mut self, probe: &Probe) {
        let report = self.report();
        self.policy
            .handle(self.now, Event::Report(probe.id, &report), &mut self.draw);
    }

    fn report(&mut self) -> LoadReport {
        let draw = self.draw.draw();
        let latency = Duration::from_micros(10_000 + draw % 20_000);
        LoadReport::new(
            Rif::new(u32::try_from(draw >> 60).expect("four bits")),
            Some(latency),
        )
    }

    fn query(&mut self) {
        let decision = self
            .policy
            .choose(self.now, Query::first(), &mut self.draw, None);
        if let Decision::Pick(pick) = black_box(decision) {
            self.policy
                .handle_query_done(self.now, pick.ticket, Outcome::Success);
        }
    }
}

fn still() -> PrequalSettings {
    PrequalSettings {
        probe_rate: Rate::ZERO,
        remove_rate: Rate::ZERO,
        report_age_max: Duration::from_hours(1),
        probe_idle_max: Duration::from_millis(1),
        idle_probes: 16,
        ..PrequalSettings::default()
    }
}

/// Times `chunk` repeatedly, without the time to prepare each.
fn time_chunks(
    iterations: u64,
    per_chunk: u64,
    bench: &mut Bench,
    prepare: impl Fn(&mut Bench) -> Vec<Probe>,
    chunk: impl Fn(&mut Bench, &[Probe]),
) -> Duration {
    let mut spent = Duration::ZERO;
    let chunks = iterations.div_ceil(per_chunk);
    for _ in 0..chunks {
        let probes = prepare(bench);
        let begun = std::time::Instant::now();
        chunk(bench, &probes);
        spent += begun.elapsed();
    }
    spent.mul_f64(iterations as f64 / (chunks * per_chunk) as f64)
}

/// The choice among 16, its charge, and the query's end.
fn pick(c: &mut Criterion) {
    const CHUNK: u64 = 512;
    let mut group = c.benchmark_group("pick_and_done");
    for fleet in FLEETS {
        let mut bench = Bench::new(
            fleet,
            PrequalSettings {
                reuse_max: 1024,
                ..still()
            },
        );
        let fill = |bench: &mut Bench| {
            bench.fill();
            let pooled = bench.policy.snapshot(bench.now).pool.len();
            assert_eq!(pooled, fleet.min(16), "the pool is full");
            Vec::new()
        };
        group.bench_function(BenchmarkId::from_parameter(fleet), |b| {
            b.iter_custom(|iterations| {
                time_chunks(iterations, CHUNK, &mut bench, fill, |bench, _| {
                    (0..CHUNK).for_each(|_| bench.query());
                })
            });
        });
        let reasons = bench.policy.counters().picks;
        assert_eq!(
            reasons.of(PickReason::Fallback),
            0,
            "every pick was a choice"
        );
    }
}

/// A whole query at the defaults: pick, removal, three probes sent and answered, done.
fn whole_query(c: &mut Criterion) {
    let mut group = c.benchmark_group("query_with_three_probes");
    for fleet in FLEETS {
        let settings = PrequalSettings {
            probe_interval_min: Duration::ZERO,
            ..PrequalSettings::default()
        };
        let mut bench = Bench::new(fleet, settings);
        group.bench_function(BenchmarkId::from_parameter(fleet), |b| {
            b.iter(|| {
                bench.now += Duration::from_micros(100);
                bench.query();
                bench.answer();
            });
        });
    }
}

/// Reports per chunk.
const REPORTS: u64 = 32;

/// Draws and sends the probes that are due: exactly as many as a chunk answers, so that none is
/// left over.
fn send(bench: &mut Bench) -> Vec<Probe> {
    let mut probes = Vec::with_capacity(64);
    while (probes.len() as u64) < REPORTS {
        bench.now += Duration::from_millis(2);
        bench
            .policy
            .handle(bench.now, Event::Timeout, &mut bench.draw);
        while let Some(probe) = bench.policy.poll_probe(bench.now, &mut bench.draw) {
            if (probes.len() as u64) < REPORTS {
                probes.push(probe);
            } else {
                bench.receive(&probe);
            }
        }
    }
    probes
}

/// A report that arrives at a full pool.
fn report(c: &mut Criterion) {
    let mut group = c.benchmark_group("report");
    for fleet in FLEETS.into_iter().filter(|&fleet| fleet >= 100) {
        let settings = PrequalSettings {
            probe_interval_min: Duration::ZERO,
            ..still()
        };
        let mut bench = Bench::new(fleet, settings);
        group.bench_function(BenchmarkId::from_parameter(fleet), |b| {
            b.iter_custom(|iterations| {
                time_chunks(iterations, REPORTS, &mut bench, send, |bench, probes| {
                    for probe in probes {
                        bench.receive(probe);
                    }
                })
            });
        });
    }
}

/// A replica is removed and another one added.
fn removal(c: &mut Criterion) {
    let mut group = c.benchmark_group("remove_and_add_replica");
    for fleet in FLEETS {
        let mut bench = Bench::new(fleet, still());
        let mut index = 0;
        group.bench_function(BenchmarkId::from_parameter(fleet), |b| {
            b.iter(|| {
                index = (index + 1) % bench.replicas.len();
                let replica = bench.replicas[index];
                bench
                    .policy
                    .handle(bench.now, Event::Removed(replica), &mut NoDraw);
                bench
                    .policy
                    .handle(bench.now, Event::Added(replica), &mut NoDraw);
            });
        });
    }
}

fn tracker(c: &mut Criterion) {
    let tracker = LoadTracker::default();
    let mut now = Instant::EPOCH;
    c.bench_function("tracker_arrive_and_finish", |b| {
        b.iter(|| {
            now += Duration::from_micros(100);
            let arrival = tracker.arrive(now);
            tracker.finish(now, black_box(arrival), End::Success);
        });
    });
    c.bench_function("tracker_report_200_in_window", |b| {
        b.iter(|| black_box(tracker.report(now)));
    });
    // One completion in the window, as at moderate rates.
    now += Duration::from_secs(1);
    let arrival = tracker.arrive(now);
    tracker.finish(now, arrival, End::Success);
    c.bench_function("tracker_report_2_samples", |b| {
        b.iter(|| black_box(tracker.report(now)));
    });
}

criterion_group!(benches, pick, whole_query, report, removal, tracker);
criterion_main!(benches);
