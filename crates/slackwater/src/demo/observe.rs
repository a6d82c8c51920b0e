//! Assembles a [`Picture`] of both sides: load generator, replicas and proxy, read at one moment.
//!
//! All handles may be read from any thread.

use super::fleet::Watcher;
use super::history::History;
use super::picture::{
    Balancer, Phase, Picks, Picture, Quantiles, Recent, ReplicaState, Side, Weather,
};
use crate::load::Live;
use core::time::Duration;
use slackwater_core::policy::{PickReason, PolicyEntry};
use slackwater_telemetry::facts::{Facts, StatusSource};
use std::sync::Arc;

/// The span of "recent" figures; also the length of the load generator's window.
pub(super) const RECENT_SECONDS: usize = 10;

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) seed: u64,
    pub(super) length: Option<Duration>,
}

/// Handles to all figures of one side.
pub(super) struct Handles {
    /// The name of the proxy's service.
    pub(super) service: String,
    pub(super) policy: &'static PolicyEntry,
    pub(super) live: Live,
    pub(super) fleet: Watcher,
    pub(super) proxy: Arc<dyn StatusSource>,
}

/// Makes pictures, and keeps what must be remembered between them.
pub(super) struct Observer {
    order: Order,
    sides: [Observed; 2],
    history: History,
    /// The second of the run in which [`Observed::overall`] was last read.
    overall_at: Option<u64>,
    weather: bool,
    turns: u64,
}

struct Observed {
    handles: Handles,
    /// The highest RIF seen at each replica.
    rif_highs: Vec<u32>,
    balancer: Balancer,
    overall: Recent,
    sent_late_p99_ms: f64,
}

impl Observer {
    pub(super) fn new(order: Order, sides: [Handles; 2]) -> Self {
        let observed = |handles: Handles| Observed {
            rif_highs: vec![0; handles.fleet.figures().count()],
            handles,
            balancer: Balancer::default(),
            overall: Recent::default(),
            sent_late_p99_ms: 0.0,
        };
        Self {
            order,
            sides: sides.map(observed),
            history: History::default(),
            overall_at: None,
            weather: true,
            turns: 0,
        }
    }

    /// Counts a turn of a knob.
    pub(super) fn count_turn(&mut self) {
        self.turns += 1;
    }

    /// Notes whether random slow episodes occur from now on.
    pub(super) fn set_weather(&mut self, on: bool) {
        self.weather = on;
    }

    /// Notes a side's policy from now on, and the name of its service.
    pub(super) fn set_policy(&mut self, side: usize, policy: &'static PolicyEntry, service: &str) {
        if let Some(side) = self.sides.get_mut(side) {
            side.handles.policy = policy;
            service.clone_into(&mut side.handles.service);
            side.balancer = Balancer::default();
        }
    }

    /// Restarts the overall figures of both sides.
    pub(super) fn begin_anew(&mut self) {
        for side in &self.sides {
            side.handles.live.begin_anew();
        }
        self.overall_at = None;
    }

    /// Returns a picture of both sides at this moment.
    pub(super) fn look(&mut self, phase: Phase) -> Picture {
        let [first, second] = &mut self.sides;
        first.ask_proxy();
        second.ask_proxy();
        let elapsed = first.handles.live.figures().elapsed;
        let now = elapsed.as_secs();
        // Reading the whole run's histogram takes some hundred microseconds: once a second is
        // enough, except at the end.
        if self.overall_at != Some(now) || phase == Phase::Stopping {
            self.overall_at = Some(now);
            first.read_overall();
            second.read_overall();
        }
        let replicas = first.weather();
        let hobbled = replicas.iter().position(|replica| replica.hobbled);
        let lives = [&first.handles.live, &second.handles.live];
        self.history.note(now, hobbled, |side, second| {
            let figures = lives[side].second(second)?;
            Quantiles::of(figures.requests, &figures.latency)
        });
        let is_over = self.order.length.is_some_and(|length| elapsed >= length);
        Picture {
            phase: if is_over { Phase::Stopping } else { phase },
            elapsed,
            length: self.order.length,
            rate: first.handles.live.rate(),
            weather: self.weather,
            turns: self.turns,
            seed: self.order.seed,
            sent_late_p99_ms: first.sent_late_p99_ms.max(second.sent_late_p99_ms),
            replicas,
            sides: [first.side(), second.side()],
            history: self.history.seconds(),
        }
    }
}

impl Observed {
    fn ask_proxy(&mut self) {
        self.balancer = balancer(&self.handles.proxy.facts());
    }

    fn read_overall(&mut self) {
        let summary = self.handles.live.summary();
        self.overall = Recent::from(&self.handles.live.since());
        self.sent_late_p99_ms = summary.sent_late.p99_ms;
    }

    fn weather(&self) -> Vec<Weather> {
        let figures = self.handles.fleet.figures();
        let weather = figures.map(|(figures, _)| Weather {
            capacity_cores: figures.capacity.as_f64(),
            hobbled: figures.hobbled,
            trouble: figures.trouble,
        });
        weather.collect()
    }

    fn side(&mut self) -> Side {
        let figures = self.handles.live.figures();
        let window = &figures.window;
        Side {
            service: self.handles.service.clone(),
            policy: self.handles.policy.name,
            requests: figures.requests,
            errors: figures.errors,
            recent: Recent::from(window),
            overall: self.overall,
            replicas: self.replicas(),
            balancer: self.balancer.clone(),
        }
    }

    fn replicas(&mut self) -> Vec<ReplicaState> {
        let figures = self.handles.fleet.figures();
        let replicas = figures.zip(&mut self.rif_highs);
        let states = replicas.map(|((figures, rif), high)| {
            *high = rif.count().max(*high);
            ReplicaState {
                rif: rif.count(),
                rif_high: *high,
                served: figures.served,
            }
        });
        states.collect()
    }
}

/// Adds up the counts of a proxy's workers.
fn balancer(facts: &Facts) -> Balancer {
    let mut balancer = Balancer::default();
    let workers = || facts.services.iter().flat_map(|service| &service.workers);
    for worker in workers() {
        balancer.probes_sent += worker.counters.probes_sent;
        balancer.probes_answered += worker.counters.probes_answered;
        balancer.probes_lost += worker.counters.probes_lost;
    }
    let picks = |reason: PickReason| {
        workers()
            .map(|worker| worker.counters.picks.of(reason))
            .sum()
    };
    balancer.picks = PickReason::ALL
        .into_iter()
        .map(|reason| Picks {
            reason: reason.as_str(),
            count: picks(reason),
        })
        .filter(|picks| picks.count > 0)
        .collect();
    balancer
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::policy::{Event, Policy, Prequal, PrequalConfig, Query, Snapshot};
    use slackwater_core::{Instant, LoadReport, NoDraw, ReplicaIds, Rif, SplitMix64};
    use slackwater_telemetry::facts::{ServiceFacts, WorkerFacts};

    #[test]
    fn counts_of_the_workers_are_added_up() {
        let mut names = ReplicaIds::new();
        let ids = [(); 2].map(|()| names.allocate().expect("a name"));
        let mut policy = Prequal::new(PrequalConfig::default());
        let (now, mut draw) = (Instant::default(), SplitMix64::new(1));
        for id in ids {
            policy.handle(now, Event::Added(id), &mut NoDraw);
        }
        let pick = policy.choose(now, Query::default(), &mut draw, None);
        drop(pick);
        while let Some(probe) = policy.poll_probe(now, &mut draw) {
            let report = LoadReport::new(Rif::new(4), Some(Duration::from_millis(20)));
            policy.handle(now, Event::Report(probe.id, &report), &mut draw);
        }
        let worker = |snapshot| WorkerFacts {
            ids: ids.map(|id| vec![id]).to_vec(),
            counters: policy.counters(),
            snapshot,
            ..WorkerFacts::default()
        };
        let facts = Facts {
            services: vec![ServiceFacts {
                workers: vec![worker(policy.snapshot(now)), worker(Snapshot::default())],
                ..ServiceFacts::default()
            }],
            ..Facts::default()
        };
        let balancer = balancer(&facts);
        assert_eq!(
            balancer.picks,
            [Picks {
                reason: "fallback",
                count: 2
            }]
        );
        assert_eq!(balancer.probes_sent, 2 * policy.counters().probes_sent);
        assert_eq!(balancer.probes_answered, balancer.probes_sent);
    }
}
