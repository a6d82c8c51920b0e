//! What the admin server hears from the workers.
//!
//! Facts are read straight from each worker's balancers (a short lock, taken now and then) and counts; no worker has to
//! answer anything, so the status comes also when workers are busy.

use super::service::ServiceView;
use super::tls::Tls;
use super::worker::WorkerView;
use crate::admin::{Facts, ReplicaFacts, ServiceFacts, StatusSource, WorkerFacts};
use crate::config::{Config, ProbeTransport, ServiceConfig};
use crate::forward::ReplicaCounts;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// All workers of one `serve`.
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) config: Arc<Config>,
    pub(super) tls: Tls,
    pub(super) views: Vec<WorkerView>,
}

impl StatusSource for Workers {
    fn facts(&self) -> BoxFuture<'_, Facts> {
        let services = self.config.services.iter().enumerate();
        let facts = |(index, service): (usize, &ServiceConfig)| ServiceFacts {
            name: service.name.clone(),
            policy: service.policy.name,
            replicas: replicas(service),
            workers: self.views_of(index).map(ServiceView::facts).collect(),
        };
        core::future::ready(Facts {
            role: "serve",
            services: services.map(facts).collect(),
            certificates: self.tls.certificates(),
            handshakes: self.tls.handshakes(&self.config),
            own_load: None,
        })
        .boxed()
    }
}

fn replicas(service: &ServiceConfig) -> Vec<ReplicaFacts> {
    let are_probed = service.probe.transport != ProbeTransport::None;
    let replicas = service.replicas.iter();
    replicas
        .map(|replica| ReplicaFacts {
            name: replica.name.clone(),
            address: replica.address.to_string(),
            probe_address: are_probed.then(|| replica.probe_address.to_string()),
        })
        .collect()
}

impl Workers {
    /// Each worker's part of a service.
    fn views_of(&self, service: usize) -> impl Iterator<Item = &ServiceView> {
        let views = self.views.iter();
        views.filter_map(move |view| view.services.get(service))
    }

    /// For each replica of a service, in the order of the configuration, whether a worker that probes it gets no answers.
    pub(super) fn silent(&self, service: usize) -> Vec<bool> {
        let replicas = self.config.services.get(service);
        let mut silent = vec![false; replicas.map_or(0, |service| service.replicas.len())];
        let probing = |view: &&ServiceView| view.balancer.counters().probes_sent > 0;
        for view in self.views_of(service).filter(probing) {
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

impl ServiceView {
    fn facts(&self) -> WorkerFacts {
        WorkerFacts {
            ids: self.ids.clone(),
            requests: self.counts.iter().map(ReplicaCounts::read).collect(),
            admission: self.admission.read(),
            counters: self.balancer.counters(),
            snapshot: self.balancer.snapshot(),
        }
    }
}
