//! What the admin server hears from the workers.
//!
//! Facts are read straight from each worker's balancers (a short lock, taken now and then) and counts; no worker has to
//! answer anything, so the status comes also when workers are busy.

use super::service::ServiceView;
use super::tls::Tls;
use super::worker::WorkerView;
use crate::access_log::Switch;
use crate::admin::{Facts, HealthFacts, ReplicaFacts, ServiceFacts, StatusSource, WorkerFacts};
use crate::config::{Config, HealthCheck, ProbeTransport, ReplicaConfig, ServiceConfig};
use crate::forward::ReplicaCounts;
use crate::health::{Health, ReplicaHealth};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::watch;

/// All workers of one `serve`.
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) config: Arc<Config>,
    pub(super) tls: Tls,
    pub(super) views: Vec<WorkerView>,
    /// `None`: there is none.
    pub(super) access_log: Option<Switch>,
    /// Of each service.
    pub(super) health: Vec<watch::Receiver<Health>>,
}

impl StatusSource for Workers {
    fn facts(&self) -> BoxFuture<'_, Facts> {
        let services = self.config.services.iter().enumerate();
        let facts = |(index, service): (usize, &ServiceConfig)| ServiceFacts {
            name: service.name.clone(),
            policy: service.policy.name,
            replicas: replicas(service, self.health.get(index)),
            workers: self.views_of(index).map(ServiceView::facts).collect(),
        };
        core::future::ready(Facts {
            role: "serve",
            services: services.map(facts).collect(),
            certificates: self.tls.certificates(),
            handshakes: self.tls.handshakes(&self.config),
            proxy_headers_refused: (self.views.iter())
                .map(|view| view.proxy_headers_refused.read())
                .sum(),
            own_load: None,
            access_log_lost: self.access_log.as_ref().map(Switch::dropped),
        })
        .boxed()
    }
}

fn replicas(
    service: &ServiceConfig,
    health: Option<&watch::Receiver<Health>>,
) -> Vec<ReplicaFacts> {
    let is_checked = service.health.check != HealthCheck::None;
    let health = health.filter(|_| is_checked).map(|health| health.borrow());
    let found = |replica: &ReplicaConfig| {
        let found = health.as_ref()?.get(&replica.address);
        Some(found.map_or_else(|| facts(&ReplicaHealth::default()), facts))
    };
    let are_probed = service.probe.transport != ProbeTransport::None;
    let replicas = service.replicas.iter();
    replicas
        .map(|replica| ReplicaFacts {
            name: replica.name.clone(),
            address: replica.address.to_string(),
            probe_address: are_probed.then(|| replica.probe_address.to_string()),
            health: found(replica),
        })
        .collect()
}

fn facts(health: &ReplicaHealth) -> HealthFacts {
    HealthFacts {
        verdict: health.verdict.as_str().to_owned(),
        checks_passed: health.checks_passed,
        checks_failed: health.checks_failed,
        last_failure: health.last_failure.clone(),
    }
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
