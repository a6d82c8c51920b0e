//! A small world around the policy: a fleet of named replicas, a clock, and a driver that probes on
//! request.

use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Decision, Event, Pick, Policy, PooledView, Prequal, Probe, Query};
use slackwater_core::{
    Instant, LoadReport, Quantile, Rate, ReplicaId, ReplicaIds, Rif, SplitMix64,
};
use std::collections::BTreeMap;

pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) fn rate(millionths: u32) -> Rate {
    Rate::from_millionths(millionths).expect("in range")
}

pub(crate) fn quantile(millionths: u32) -> Quantile {
    Quantile::from_millionths(millionths).expect("in range")
}

/// A report of `rif` requests in flight and, unless 0, `latency_ms`.
pub(crate) fn load(rif: u32, latency_ms: u64) -> LoadReport {
    let latency = (latency_ms > 0).then(|| Duration::from_millis(latency_ms));
    LoadReport::new(Rif::new(rif), latency)
}

/// The paper's settings (Q = 2^−0.25, reports are used as often as equation (1) allows), without
/// background events: no probe and no removal by rate, so that a report serves 16 queries. Idle
/// probes, which the tests use to bring reports in, reach 16 replicas at once.
///
/// They are the paper's and not the shipped ones, because the rules' edges are easier to show if a
/// report lasts. Tests of the shipped settings use [`quiet_default`].
pub(crate) fn quiet() -> PrequalSettings {
    quietened(PrequalSettings::paper())
}

/// As [`quiet`], but with the shipped settings: Q = 0.7, and `reuse_max` 1.
pub(crate) fn quiet_default() -> PrequalSettings {
    quietened(PrequalSettings::default())
}

fn quietened(mut settings: PrequalSettings) -> PrequalSettings {
    settings.probe_rate = Rate::ZERO;
    settings.remove_rate = Rate::ZERO;
    settings.probe_idle_max = MS;
    settings.idle_probes = 16;
    settings.probe_deadline = Duration::from_mins(1);
    settings.probes_outstanding_max = 4096;
    settings
}

pub(crate) struct World<P = Prequal> {
    pub(crate) policy: P,
    pub(crate) replicas: Vec<ReplicaId>,
    pub(crate) now: Instant,
    pub(crate) draw: SplitMix64,
    ids: ReplicaIds,
    out: BTreeMap<ReplicaId, Probe>,
}

impl World {
    pub(crate) fn new(replicas: usize, settings: PrequalSettings) -> Self {
        let config = settings.validate().expect("in range");
        Self::of(replicas, Prequal::new(config))
    }
}

impl<P: Policy> World<P> {
    pub(crate) fn of(replicas: usize, policy: P) -> Self {
        let mut world = Self {
            policy,
            replicas: Vec::new(),
            now: Instant::from_nanos(1),
            draw: SplitMix64::new(42),
            ids: ReplicaIds::new(),
            out: BTreeMap::new(),
        };
        for _ in 0..replicas {
            world.join();
        }
        world
    }

    pub(crate) fn handle(&mut self, event: Event<'_>) {
        self.policy.handle(self.now, event, &mut self.draw);
    }

    pub(crate) fn join(&mut self) -> ReplicaId {
        let replica = self.ids.allocate().expect("room");
        self.replicas.push(replica);
        self.handle(Event::Added(replica));
        replica
    }

    /// The probe in flight to `replica`. Triggers idle probes until there is one.
    pub(crate) fn probe(&mut self, replica: ReplicaId) -> Probe {
        for _ in 0..10_000 {
            if let Some(&probe) = self.out.get(&replica) {
                return probe;
            }
            self.now += MS;
            self.handle(Event::Timeout);
            for probe in self.probes() {
                self.out.insert(probe.replica, probe);
            }
        }
        panic!("{replica} is never probed");
    }

    /// Every probe that is due.
    pub(crate) fn probes(&mut self) -> Vec<Probe> {
        core::iter::from_fn(|| self.policy.poll_probe(self.now, &mut self.draw)).collect()
    }

    pub(crate) fn answer(&mut self, probe: Probe, report: &LoadReport) {
        self.out.remove(&probe.replica);
        self.handle(Event::Report(probe.id, report));
    }

    pub(crate) fn lose(&mut self, probe: Probe) {
        self.out.remove(&probe.replica);
        self.handle(Event::ProbeLost(probe.id));
    }

    pub(crate) fn unsend(&mut self, probe: Probe) {
        self.out.remove(&probe.replica);
        self.handle(Event::ProbeUnsent(probe.id));
    }

    /// Triggers idle probes, and answers those of silent replicas.
    pub(crate) fn refresh(&mut self) {
        self.now += MS;
        self.handle(Event::Timeout);
        for probe in self.probes() {
            self.out.insert(probe.replica, probe);
        }
    }

    /// Delivers a report of the replica.
    pub(crate) fn report(&mut self, replica: ReplicaId, report: &LoadReport) {
        let probe = self.probe(replica);
        self.answer(probe, report);
    }

    /// Delivers a report of each replica: its RIF and, unless 0, its latency in milliseconds.
    pub(crate) fn reports(&mut self, loads: &[(u32, u64)]) {
        for (index, &(rif, latency_ms)) in loads.iter().enumerate() {
            self.report(self.replicas[index], &load(rif, latency_ms));
        }
    }

    pub(crate) fn pick_for(&mut self, query: Query<'_>) -> Pick {
        match self.policy.choose(self.now, query, &mut self.draw, None) {
            Decision::Pick(pick) => pick,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn pick(&mut self) -> Pick {
        self.pick_for(Query::first())
    }

    pub(crate) fn pool(&self) -> Vec<PooledView> {
        self.policy.snapshot(self.now).pool
    }

    /// The pooled replicas' places in `replicas`, oldest report first.
    pub(crate) fn pooled(&self) -> Vec<usize> {
        let place = |view: &PooledView| self.replicas.iter().position(|&id| id == view.replica);
        self.pool().iter().filter_map(place).collect()
    }

    pub(crate) fn rif_of(&self, replica: ReplicaId) -> Option<u32> {
        let pool = self.pool();
        pool.iter()
            .find(|view| view.replica == replica)
            .map(|view| view.rif.count())
    }
}
