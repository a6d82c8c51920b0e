//! Weighted round robin from outside: where its weights settle, and the effect of noise.
//!
//! A hundred replicas, whose cost of a query differs by a factor of two, are polled once a second
//! with noise of ten percent. All clients of a large fleet see the same, so one represents them.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a simulation for one test"
)]

use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::{
    Decision, Event, Outcome, Policy, Query, Settings, WeightedRoundRobin,
    WeightedRoundRobinSettings,
};
use slackwater_core::{Instant, LoadReport, NoDraw, ReplicaId, ReplicaIds, Rif, SplitMix64};

const REPLICAS: usize = 100;
const QUERIES_PER_SECOND: u32 = 20_000;
const WARM_UP: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

struct Fleet {
    policy: WeightedRoundRobin,
    replicas: Vec<ReplicaId>,
    /// CPU per query, in thousandths of a percent.
    costs: Vec<f64>,
    /// Queries of the last second at each replica.
    queries: Vec<u32>,
    now: Instant,
    draw: SplitMix64,
}

impl Fleet {
    fn new(smoothing: Duration) -> Self {
        let settings = WeightedRoundRobinSettings {
            smoothing,
            ..WeightedRoundRobinSettings::default()
        };
        let mut policy = WeightedRoundRobin::with(settings.validate().expect("in range"));
        let mut ids = ReplicaIds::new();
        let replicas: Vec<_> = (0..REPLICAS).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        }
        let cost = |place: usize| 1.0 + place as f64 / (REPLICAS - 1) as f64;
        Self {
            policy,
            replicas,
            costs: (0..REPLICAS).map(cost).collect(),
            queries: vec![0; REPLICAS],
            now: Instant::EPOCH,
            draw: SplitMix64::new(1),
        }
    }

    fn place(&self, replica: ReplicaId) -> usize {
        let place = self.replicas.iter().position(|&other| other == replica);
        place.expect("known")
    }

    fn poll(&mut self) {
        while let Some(poll) = self.policy.poll_probe(self.now, &mut self.draw) {
            let place = self.place(poll.replica);
            let queries = self.queries[place];
            let noise = 0.9 + f64::from(below(&mut self.draw, 200_001)) / 1e6;
            let mut report = LoadReport::new(Rif::ZERO, None);
            report.query_rate_millis = Some(queries * 1_000);
            report.cpu_millionths =
                Some((f64::from(queries) * self.costs[place] * noise * 1e3) as u32);
            self.policy
                .handle(self.now, Event::Report(poll.id, &report), &mut self.draw);
        }
    }

    /// A second of queries, evenly spread, with polls as they become due.
    fn second(&mut self) {
        let mut queries = vec![0; REPLICAS];
        for _ in 0..QUERIES_PER_SECOND {
            self.now += SECOND / QUERIES_PER_SECOND;
            let decision = self
                .policy
                .choose(self.now, Query::first(), &mut self.draw, None);
            let Decision::Pick(pick) = decision else {
                panic!("{decision:?}")
            };
            queries[self.place(pick.ticket.replica())] += 1;
            self.policy
                .handle_query_done(self.now, pick.ticket, Outcome::Success);
            self.poll();
        }
        self.queries = queries;
    }

    /// How far the busiest replica's CPU is above that of the least busy one.
    fn cpu_spread(&self) -> f64 {
        let queries = self.queries.iter().copied().map(f64::from);
        let cpu = queries
            .zip(&self.costs)
            .map(|(queries, cost)| queries * cost);
        let ends = |(low, high): (f64, f64), cpu| (low.min(cpu), high.max(cpu));
        let (low, high) = cpu.fold((f64::MAX, 0.0), ends);
        high / low - 1.0
    }
}

/// After the warm-up, over 20 s: the widest spread of CPU, and the largest change of a replica's
/// share in a second.
fn settled(smoothing: Duration) -> (f64, f64) {
    let mut fleet = Fleet::new(smoothing);
    while fleet.now < Instant::EPOCH + WARM_UP {
        fleet.second();
    }
    let (mut spread, mut moved) = (0.0_f64, 0.0_f64);
    for _ in 0..20 {
        let before = fleet.queries.clone();
        fleet.second();
        spread = spread.max(fleet.cpu_spread());
        for (&before, &now) in before.iter().zip(&fleet.queries) {
            moved = moved.max((f64::from(now) / f64::from(before) - 1.0).abs());
        }
    }
    (spread, moved)
}

#[test]
fn weights_converge_to_even_cpu_and_filter_noise() {
    // Noise of ±10 % has a standard deviation of 5.8 %, of which sqrt(1/20) is left: 1.3 %. The
    // lowest and highest of a hundred replicas are about five of these apart. A poll moves an
    // average by a tenth of its news, and a share is known to one query in 130.
    let (spread, moved) = settled(10 * SECOND);
    assert!(spread < 0.12, "{spread}");
    assert!(moved < 0.04, "{moved}");
    let (spread, moved) = settled(Duration::ZERO);
    assert!(spread > 0.15, "each report as it comes: {spread}");
    assert!(moved > 0.10, "each report as it comes: {moved}");
}
