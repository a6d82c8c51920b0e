//! What a query costs in the core: the pick, the report, a replica's leaving, the load tracker.
//!
//! `cargo bench -p slackwater-core`. Targets (`results/` has the figures): a pick and a report 60 ns, the tracker's
//! arrive and finish 80 ns, at any size of fleet. That none of them allocates is `tests/allocations.rs`'s to show.

use core::hint::black_box;
use core::time::Duration;
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use slackwater_core::draw::below;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Decision, Outcome, Policy, Prequal, ProbeId, Query};
use slackwater_core::tracker::{End, LoadTracker};
use slackwater_core::{Instant, LoadReport, Rate, ReplicaId, ReplicaIds, Rif, SplitMix64};

const FLEETS: [usize; 4] = [10, 100, 1_000, 100_000];

/// A policy, its fleet, and a pool of 16 reports (10 in the smallest fleet).
struct World {
    policy: Prequal,
    replicas: Vec<ReplicaId>,
    ids: ReplicaIds,
    now: Instant,
    draw: SplitMix64,
}

impl World {
    /// With these rates in millionths. A report serves 1,024 queries, so that picks leave the pool as it is.
    fn new(replicas: usize, probe_rate: u32, remove_rate: u32) -> Self {
        let rate = |millionths| Rate::from_millionths(millionths).unwrap_or(Rate::ZERO);
        let settings = PrequalSettings {
            probe_rate: rate(probe_rate),
            remove_rate: rate(remove_rate),
            reuse_max: 1_024,
            report_age_max: Duration::from_hours(1),
            probe_interval_min: Duration::ZERO,
            idle_probes: 16,
            probe_idle_max: Duration::from_millis(1),
            ..PrequalSettings::default()
        };
        let mut world = Self {
            policy: Prequal::new(settings.validate().unwrap_or_default()),
            replicas: Vec::new(),
            ids: ReplicaIds::new(),
            now: Instant::EPOCH,
            draw: SplitMix64::new(1),
        };
        for replica in (0..replicas).map_while(|_| world.ids.allocate()) {
            world.policy.add_replica(world.now, replica);
            world.replicas.push(replica);
        }
        world.fill();
        world
    }

    /// Idle probes, answered, until the pool is as full as it gets.
    fn fill(&mut self) {
        while self.policy.snapshot(self.now).pool.len() < self.replicas.len().min(16) {
            for probe in self.ask() {
                self.report(probe);
            }
        }
    }

    /// Up to 16 probes that are out.
    fn ask(&mut self) -> Vec<ProbeId> {
        self.now += Duration::from_millis(1);
        self.policy.handle_timeout(self.now, &mut self.draw);
        let probes = core::iter::from_fn(|| self.policy.poll_probe(self.now, &mut self.draw));
        probes.map(|probe| probe.id).collect()
    }

    fn report(&mut self, probe: ProbeId) {
        let latency = Duration::from_micros(u64::from(below(&mut self.draw, 20_000)));
        let report = LoadReport::new(Rif::new(below(&mut self.draw, 20)), Some(latency));
        self.policy
            .handle_report(self.now, probe, &report, &mut self.draw);
    }

    fn query(&mut self) {
        let decision = self
            .policy
            .handle_query(self.now, Query::first(), &mut self.draw);
        if let Decision::Pick(pick) = black_box(decision) {
            self.policy
                .handle_query_done(self.now, pick.ticket, Outcome::Success);
        }
    }
}

fn pick(c: &mut Criterion) {
    let mut group = c.benchmark_group("pick");
    for replicas in FLEETS {
        let mut world = World::new(replicas, 0, 0);
        group.bench_function(BenchmarkId::from_parameter(replicas), |b| {
            b.iter(|| {
                world.now += Duration::from_micros(1);
                world.query();
            });
        });
    }
    group.finish();
}

/// A whole query's worth at the defaults: pick, removal, three probes asked for and answered.
fn query(c: &mut Criterion) {
    let mut group = c.benchmark_group("pick_remove_probe_report");
    for replicas in FLEETS {
        let mut world = World::new(replicas, 3_000_000, 1_000_000);
        group.bench_function(BenchmarkId::from_parameter(replicas), |b| {
            b.iter(|| {
                world.now += Duration::from_micros(1);
                world.query();
                while let Some(probe) = world.policy.poll_probe(world.now, &mut world.draw) {
                    world.report(probe.id);
                }
            });
        });
    }
    group.finish();
}

/// 16 at a time; divide by 16.
fn report(c: &mut Criterion) {
    let mut group = c.benchmark_group("report_x16");
    for replicas in [100, 1_000, 100_000] {
        let mut world = World::new(replicas, 0, 0);
        group.bench_function(BenchmarkId::from_parameter(replicas), |b| {
            b.iter_custom(|rounds| {
                let mut spent = Duration::ZERO;
                for _ in 0..rounds {
                    let probes = world.ask();
                    let start = clock();
                    for probe in probes {
                        world.report(probe);
                    }
                    spent += start.elapsed();
                }
                spent
            });
        });
    }
    group.finish();
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures real time"
)]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// A replica leaves, and another joins in its place.
fn removal(c: &mut Criterion) {
    let mut group = c.benchmark_group("replica_leaves_and_joins");
    for replicas in FLEETS {
        let mut world = World::new(replicas, 0, 0);
        group.bench_function(BenchmarkId::from_parameter(replicas), |b| {
            b.iter(|| {
                let count = u32::try_from(world.replicas.len()).unwrap_or(u32::MAX);
                let place = below(&mut world.draw, count) as usize;
                world
                    .policy
                    .remove_replica(world.now, world.replicas[place]);
                world.ids.release(world.replicas[place]);
                if let Some(replica) = world.ids.allocate() {
                    world.policy.add_replica(world.now, replica);
                    world.replicas[place] = replica;
                }
            });
        });
    }
    group.finish();
}

fn tracker(c: &mut Criterion) {
    let tracker = LoadTracker::default();
    let mut now = Instant::EPOCH;
    c.bench_function("tracker_arrive_finish", |b| {
        b.iter(|| {
            now += Duration::from_micros(20);
            let arrival = black_box(&tracker).arrive(now);
            tracker.finish(now + Duration::from_millis(3), arrival, End::Success);
        });
    });

    let mut group = c.benchmark_group("tracker_report");
    // Completions within the 20 ms that make up an estimate, each of another RIF.
    for samples in [2, 9, 64, 256] {
        let tracker = LoadTracker::default();
        let arrivals: Vec<_> = (0..samples).map(|_| tracker.arrive(now)).collect();
        for arrival in arrivals {
            tracker.finish(now + Duration::from_millis(3), arrival, End::Success);
        }
        group.bench_function(BenchmarkId::new("samples", samples), |b| {
            b.iter(|| black_box(&tracker).report(now + Duration::from_millis(4)));
        });
    }
    group.finish();
}

/// What a client sees when it starts: a fallback pick from an empty pool.
fn chance(c: &mut Criterion) {
    c.bench_function("pick_by_chance/100", |b| {
        b.iter_batched_ref(
            || {
                let mut world = World::new(100, 0, 0);
                world.now += Duration::from_hours(2);
                world
            },
            World::query,
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, pick, query, report, removal, tracker, chance);
criterion_main!(benches);
