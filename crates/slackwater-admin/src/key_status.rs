//! Keys of a service in the status: its busiest partitions, over all workers.

use serde::{Deserialize, Serialize};
use slackwater_core::ReplicaId;
use slackwater_core::policy::{KeyView, PartitionView};
use slackwater_telemetry::facts::{ServiceFacts, WorkerFacts};
use std::collections::BTreeMap;

/// The keys of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct KeyStatus {
    pub(crate) replicated: u32,
    pub(crate) partitions: Vec<PartitionStatus>,
}

/// A partition of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct PartitionStatus {
    pub(crate) partition: u16,
    pub(crate) homes: u8,
    pub(crate) in_flight: u64,
    pub(crate) request_rate_millis: u64,
    pub(crate) set: Vec<String>,
}

impl KeyStatus {
    /// `None` if requests have no keys.
    pub(crate) fn new(service: &ServiceFacts) -> Option<Self> {
        let mut replicated = None;
        let mut partitions = BTreeMap::<u16, PartitionStatus>::new();
        for worker in &service.workers {
            let Some(keys) = &worker.snapshot.keys else {
                continue;
            };
            replicated = Some(keys.replicated.max(replicated.unwrap_or(0)));
            for view in &keys.partitions {
                let sum = partitions.entry(view.partition).or_default();
                sum.add(view, worker, service);
            }
        }
        let mut partitions: Vec<_> = partitions.into_values().collect();
        partitions.sort_by_key(|it| (core::cmp::Reverse(it.in_flight), it.partition));
        partitions.truncate(KeyView::PARTITIONS_MAX);
        Some(Self {
            replicated: replicated?,
            partitions,
        })
    }
}

impl PartitionStatus {
    fn add(&mut self, view: &PartitionView, worker: &WorkerFacts, service: &ServiceFacts) {
        self.partition = view.partition;
        self.homes = self.homes.max(view.homes);
        self.in_flight += u64::from(view.in_flight);
        self.request_rate_millis += view.query_rate_millis;
        if self.set.is_empty() {
            let names = view.servers.iter();
            let names = names.filter_map(|server| name_of(*server, worker, service));
            self.set = names.collect();
        }
    }
}

/// The name of the replica that this is a part of.
fn name_of(part: ReplicaId, worker: &WorkerFacts, service: &ServiceFacts) -> Option<String> {
    let place = worker.ids.iter().position(|parts| parts.contains(&part))?;
    Some(service.replicas.get(place)?.name.clone())
}
