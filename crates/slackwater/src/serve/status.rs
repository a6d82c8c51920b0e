//! What the admin server hears from the workers.
//!
//! Facts are read straight from each worker's balancer (a short lock, taken now and then) and counts; no worker has to
//! answer anything, so the status comes also when workers are busy.

use super::worker::WorkerView;
use crate::admin::{Facts, ReplicaFacts, StatusSource, WorkerFacts};
use crate::config::{Config, ProbeTransport};
use crate::forward::ReplicaCounts;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// All workers of one `serve`.
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) config: Arc<Config>,
    pub(super) views: Vec<WorkerView>,
}

impl StatusSource for Workers {
    fn facts(&self) -> BoxFuture<'_, Facts> {
        core::future::ready(Facts {
            role: "serve",
            policy: self.config.policy.name,
            replicas: self.replicas(),
            workers: self.views.iter().map(WorkerView::facts).collect(),
            own_load: None,
        })
        .boxed()
    }
}

impl Workers {
    fn replicas(&self) -> Vec<ReplicaFacts> {
        let are_probed = self.config.probe.transport != ProbeTransport::None;
        let replicas = self.config.replicas.iter();
        replicas
            .map(|replica| ReplicaFacts {
                name: replica.name.clone(),
                address: replica.address.to_string(),
                probe_address: are_probed.then(|| replica.probe_address.to_string()),
            })
            .collect()
    }
}

impl Workers {
    /// For each replica, in the order of the configuration, whether a worker that probes it gets no answers.
    pub(super) fn silent(&self) -> Vec<bool> {
        let mut silent = vec![false; self.config.replicas.len()];
        let probing = |view: &&WorkerView| view.balancer.counters().probes_sent > 0;
        for view in self.views.iter().filter(probing) {
            for replica in view.balancer.snapshot().replicas {
                // Names were handed out in the order of the configuration, so they are sorted.
                let index = view.ids.binary_search(&replica.replica).ok();
                if let Some(known) = index.and_then(|index| silent.get_mut(index)) {
                    *known |= replica.silent;
                }
            }
        }
        silent
    }
}

impl WorkerView {
    fn facts(&self) -> WorkerFacts {
        WorkerFacts {
            ids: self.ids.clone(),
            requests: self.counts.iter().map(ReplicaCounts::read).collect(),
            counters: self.balancer.counters(),
            snapshot: self.balancer.snapshot(),
        }
    }
}
