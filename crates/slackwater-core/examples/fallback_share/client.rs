//! One client of `replicas` healthy replicas, in virtual time: queries come at random, probes are
//! answered soon.

use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Decision, Event, Outcome, PickReason, Policy, Prequal, Probe, Query,
};
use slackwater_core::{Draw, Instant, LoadReport, NoDraw, Rate, ReplicaIds, Rif, SplitMix64};
use std::collections::VecDeque;

/// The sizes of fleet that the issue asks about.
pub(crate) const FLEETS: [usize; 8] = [2, 3, 5, 8, 16, 24, 25, 100];
/// Probes for each query, in millionths.
pub(crate) const PROBE_MILLIONTHS: [u32; 3] = [3_000_000, 1_000_000, 500_000];
/// At the second one, `probe_interval_min` bites in small fleets.
pub(crate) const QUERIES_PER_SECOND: [u32; 2] = [1_000, 10_000];

const ROUND_TRIP: Duration = Duration::from_micros(300);

/// The client.
pub(crate) struct Client {
    policy: Prequal,
    now: Instant,
    mean_gap_ns: f64,
    /// Probes that are out, in the order in which they come back.
    out: VecDeque<(Instant, Probe)>,
}

impl Client {
    pub(crate) fn new(replicas: usize, probe_millionths: u32, queries_per_second: u32) -> Self {
        let mut settings = PrequalSettings::default();
        settings.probe_rate =
            Rate::from_millionths(probe_millionths).unwrap_or(settings.probe_rate);
        let mut policy = Prequal::new(settings.validate().unwrap_or_default());
        let mut ids = ReplicaIds::new();
        for replica in (0..replicas).map_while(|_| ids.allocate()) {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        }
        let mean_gap_ns = 1e9 / f64::from(queries_per_second);
        Self {
            policy,
            now: Instant::EPOCH,
            mean_gap_ns,
            out: VecDeque::new(),
        }
    }

    /// The share of picks by chance among `queries`, after `warm_up` others.
    pub(crate) fn fallback_share(
        mut self,
        warm_up: u32,
        queries: u32,
        draw: &mut SplitMix64,
    ) -> f64 {
        for _ in 0..warm_up {
            self.query(draw);
        }
        let before = self.policy.counters().picks.of(PickReason::Fallback);
        for _ in 0..queries {
            self.query(draw);
        }
        let after = self.policy.counters().picks.of(PickReason::Fallback);
        (after - before) as f64 / f64::from(queries)
    }

    fn query(&mut self, draw: &mut SplitMix64) {
        let uniform = f64::from(below(draw, 1 << 24) + 1) / f64::from(1 << 24);
        let next = self.now + Duration::from_secs_f64(-uniform.ln() * self.mean_gap_ns / 1e9);
        self.wait_until(next, draw);
        if let Decision::Pick(pick) = self.policy.choose(self.now, Query::first(), draw, None) {
            self.policy
                .handle_query_done(self.now, pick.ticket, Outcome::Success);
        }
        self.send_probes(draw);
    }

    /// Answers and idle probes, as they fall due.
    fn wait_until(&mut self, next: Instant, draw: &mut SplitMix64) {
        loop {
            let answer = self.out.front().map(|&(at, _)| at);
            let timeout = self.policy.poll_timeout();
            let due = [answer, timeout].into_iter().flatten().min();
            let Some(at) = due.filter(|&at| at <= next) else {
                break;
            };
            self.now = self.now.max(at);
            if let Some((_, probe)) = self.out.pop_front_if(|&mut (at, _)| at <= self.now) {
                let latency = Duration::from_micros(u64::from(below(draw, 20_000)));
                let report = LoadReport::new(Rif::new(below(draw, 10)), Some(latency));
                self.policy
                    .handle(self.now, Event::Report(probe.id, &report), draw);
            } else {
                self.policy.handle(self.now, Event::Timeout, draw);
                self.send_probes(draw);
            }
        }
        self.now = next;
    }

    fn send_probes(&mut self, draw: &mut dyn Draw) {
        while let Some(probe) = self.policy.poll_probe(self.now, draw) {
            self.out.push_back((self.now + ROUND_TRIP, probe));
        }
    }
}
