//! Where replicas stand by how requests to them went, over all workers. Each worker judges by its own requests alone.

use core::ops::AddAssign;
use serde::{Deserialize, Serialize};
use slackwater_core::health::{HealthCounters, HealthView};
use slackwater_telemetry::facts::WorkerFacts;
use std::collections::BTreeMap;

/// Where a replica stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct StandingStatus {
    pub(crate) state: String,
    pub(crate) share_millionths: u32,
    pub(crate) success_millionths: u32,
    pub(crate) latency_us: Option<u64>,
}

/// What became of replicas, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct StandingCounts {
    pub(crate) ejections: u64,
    pub(crate) probations: u64,
    pub(crate) spared: u64,
    pub(crate) readmissions: u64,
    pub(crate) trials: u64,
    pub(crate) trials_passed: u64,
    pub(crate) warm_ups: u64,
}

impl From<&HealthCounters> for StandingCounts {
    fn from(counters: &HealthCounters) -> Self {
        Self {
            ejections: counters.ejections,
            probations: counters.probations,
            spared: counters.spared,
            readmissions: counters.readmissions,
            trials: counters.trials,
            trials_passed: counters.trials_passed,
            warm_ups: counters.warm_ups,
        }
    }
}

impl AddAssign for StandingCounts {
    fn add_assign(&mut self, other: Self) {
        self.ejections += other.ejections;
        self.probations += other.probations;
        self.spared += other.spared;
        self.readmissions += other.readmissions;
        self.trials += other.trials;
        self.trials_passed += other.trials_passed;
        self.warm_ups += other.warm_ups;
    }
}

/// Each of so many replicas' standing: the gravest state that any worker has it in, and the means of what they go by. None of
/// one that no worker watches.
pub(super) fn standings(workers: &[WorkerFacts], replicas: usize) -> Vec<Option<StandingStatus>> {
    let mut views: Vec<Vec<HealthView>> = vec![Vec::new(); replicas];
    for worker in workers {
        let by_id = worker.snapshot.health.iter().map(|it| (it.replica, it));
        let by_id: BTreeMap<_, _> = by_id.collect();
        for (of_replica, parts) in views.iter_mut().zip(&worker.ids) {
            of_replica.extend(parts.iter().filter_map(|part| by_id.get(part).copied()));
        }
    }
    views.iter().map(|views| merged(views)).collect()
}

fn merged(views: &[HealthView]) -> Option<StandingStatus> {
    // They are in the order of their gravity.
    let state = views.iter().map(|view| view.state).max()?;
    let latencies = views.iter().filter_map(|view| view.latency);
    let latencies: Vec<_> = latencies
        .map(|latency| u64::try_from(latency.as_micros()).unwrap_or(u64::MAX))
        .collect();
    let millionths = |of: fn(&HealthView) -> u32| {
        let values: Vec<_> = views.iter().map(|view| u64::from(of(view))).collect();
        mean(&values).map_or(0, |mean| u32::try_from(mean).unwrap_or(u32::MAX))
    };
    Some(StandingStatus {
        state: state.as_str().to_owned(),
        share_millionths: millionths(|view| view.share_millionths),
        success_millionths: millionths(|view| view.success_millionths),
        latency_us: mean(&latencies),
    })
}

fn mean(values: &[u64]) -> Option<u64> {
    let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
    let mean = sum.checked_div(values.len() as u128)?;
    u64::try_from(mean).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use slackwater_core::health::{HealthSettings, build};
    use slackwater_core::policy::{
        Decision, Event, Outcome, PolicySettings, Query, Settings, policy_named,
    };
    use slackwater_core::{Instant, NoDraw, ReplicaId, ReplicaIds, SplitMix64};

    /// What a worker knows after some requests, of which those to `bad` fail.
    fn worker(ids: &[ReplicaId], bad: Option<ReplicaId>) -> WorkerFacts {
        let config = HealthSettings::default().validate();
        let entry = policy_named("round_robin").expect("the policy");
        let settings = PolicySettings::default();
        let mut policy = build(entry, &settings, &config.expect("defaults"));
        let (mut now, mut draw) = (Instant::EPOCH, SplitMix64::new(1));
        for &id in ids {
            policy.handle(now, Event::Added(id), &mut NoDraw);
        }
        for _ in 0..200 {
            let Decision::Pick(pick) = policy.choose(now, Query::first(), &mut draw, None) else {
                panic!("somebody is there");
            };
            now += Duration::from_millis(2);
            let outcome = if bad == Some(pick.ticket.replica()) {
                Outcome::Failed
            } else {
                Outcome::Success
            };
            policy.handle_query_done(now, pick.ticket, outcome);
        }
        WorkerFacts {
            // The last replica has two parts.
            ids: vec![vec![ids[0]], vec![ids[1]], ids[2..].to_vec()],
            counters: policy.counters(),
            snapshot: policy.snapshot(now),
            ..WorkerFacts::default()
        }
    }

    #[test]
    fn the_gravest_state_and_the_mean_share_of_workers_and_parts() {
        let mut ids = ReplicaIds::new();
        let ids: Vec<_> = (0..4).filter_map(|_| ids.allocate()).collect();
        let workers = [worker(&ids, Some(ids[3])), worker(&ids, None)];
        let standings = standings(&workers, 4);
        let found: Vec<_> = (standings.iter().flatten())
            .map(|it| (it.state.as_str(), it.share_millionths))
            .collect();
        let sound = ("sound", 1_000_000);
        assert_eq!(found, [sound, sound, ("ejected", 750_000)]);
        assert_eq!(standings[3], None, "nobody knows it");
        let success = standings.iter().flatten().map(|it| it.success_millionths);
        let success: Vec<_> = success.collect();
        assert_eq!(success[..2], [1_000_000; 2]);
        assert!(success[2] < 1_000_000);
        let latency = standings[0].as_ref().and_then(|it| it.latency_us);
        assert_eq!(latency, Some(2_000));
        let mut counts = StandingCounts::default();
        for worker in &workers {
            counts += StandingCounts::from(&worker.counters.health);
        }
        assert_eq!((counts.ejections, counts.readmissions), (1, 0));
    }

    #[test]
    fn where_nobody_watches_there_is_no_standing() {
        assert_eq!(standings(&[WorkerFacts::default()], 2), [None, None]);
    }
}
