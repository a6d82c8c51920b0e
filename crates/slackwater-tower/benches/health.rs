//! Costs of the health layer around a policy: a query, compared with the same policy alone, and the
//! periodic evaluation of a fleet, ten times a second.
//!
//! `cargo bench -p slackwater-tower --bench health`. On a shared machine count instructions
//! instead: run the built binary under `valgrind --tool=callgrind` with `--profile-time` for one of
//! the names.

#![expect(
    clippy::expect_used,
    reason = "a benchmark that is set up wrongly may well panic"
)]

use core::hint::black_box;
use core::time::Duration;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use slackwater_core::health::{HealthSettings, build};
use slackwater_core::policy::{
    Decision, Event, Outcome, Policy, PolicySettings, Query, Settings, policy_named,
};
use slackwater_core::{Instant, NoDraw, ReplicaIds, SplitMix64};

const POLICIES: [&str; 3] = ["round_robin", "least_loaded", "prequal"];
const FLEETS: [usize; 2] = [20, 1_000];
/// More than the interval between two evaluations.
const TICK: Duration = Duration::from_millis(101);

struct Bench {
    policy: Box<dyn Policy>,
    now: Instant,
    draw: SplitMix64,
}

impl Bench {
    /// Every replica has answered some queries. Either all succeeded, or in a disaster only those
    /// of one replica in ten.
    fn new(policy: &str, fleet: usize, settings: HealthSettings, is_disaster: bool) -> Self {
        let entry = policy_named(policy).expect("a policy");
        let config = settings.validate().expect("in range");
        let mut bench = Self {
            policy: build(entry, &PolicySettings::default(), &config),
            now: Instant::EPOCH + Duration::from_secs(1),
            draw: SplitMix64::new(1),
        };
        let mut ids = ReplicaIds::new();
        for _ in 0..fleet {
            let replica = ids.allocate().expect("room");
            bench
                .policy
                .handle(bench.now, Event::Added(replica), &mut NoDraw);
        }
        for _ in 0..20 * fleet {
            bench.now += Duration::from_millis(200) / u32::try_from(fleet).expect("few");
            bench.query(is_disaster);
        }
        bench
    }

    fn query(&mut self, is_disaster: bool) {
        let decision = (self.policy).choose(self.now, Query::first(), &mut self.draw, None);
        if let Decision::Pick(pick) = black_box(decision) {
            let is_bad = is_disaster && !pick.ticket.replica().index().is_multiple_of(10);
            let outcome = if is_bad {
                Outcome::Failed
            } else {
                Outcome::Success
            };
            let done_at = self.now + Duration::from_micros(50);
            (self.policy).handle_query_done(done_at, pick.ticket, outcome);
        }
    }
}

/// A pick and the end of a query, with healthy replicas. No time passes, so there is no evaluation.
fn query(c: &mut Criterion) {
    let mut group = c.benchmark_group("query");
    for policy in POLICIES {
        for (name, settings) in [
            ("alone", HealthSettings::off()),
            ("health", HealthSettings::default()),
        ] {
            let mut bench = Bench::new(policy, 20, settings, false);
            group.bench_function(BenchmarkId::new(policy, name), |b| {
                b.iter(|| bench.query(false));
            });
        }
    }
}

/// One evaluation of all replicas, which are healthy.
fn tick(c: &mut Criterion) {
    let mut group = c.benchmark_group("tick");
    for fleet in FLEETS {
        let mut bench = Bench::new("round_robin", fleet, HealthSettings::default(), false);
        group.bench_function(BenchmarkId::from_parameter(fleet), |b| {
            b.iter(|| {
                bench.now += TICK;
                bench
                    .policy
                    .handle(bench.now, Event::Timeout, &mut bench.draw);
            });
        });
    }
}

/// A hundred queries and one evaluation, while nine in ten replicas fail all queries.
fn disaster(c: &mut Criterion) {
    let mut group = c.benchmark_group("disaster");
    for fleet in FLEETS {
        let mut bench = Bench::new("random", fleet, HealthSettings::default(), true);
        group.bench_function(BenchmarkId::from_parameter(fleet), |b| {
            b.iter(|| {
                (0..100).for_each(|_| bench.query(true));
                bench.now += TICK;
                bench
                    .policy
                    .handle(bench.now, Event::Timeout, &mut bench.draw);
            });
        });
    }
}

criterion_group!(benches, query, tick, disaster);
criterion_main!(benches);
