//! What the admin server hears from the workers.
//!
//! Facts are read straight from each worker's balancers (a short lock, taken now and then) and counts; no worker has to
//! answer anything, so the status comes also when workers are busy.

use super::counts::{DoorCounts, UnroutedCounts};
use super::orders::Orders;
use super::service::ServiceView;
use super::silence::{Key, Silent, SilentReplica};
use super::tls::Tls;
use crate::access_log::Switch;
use crate::admin::Control;
use crate::discovery::{Discovery, Fleet};
use crate::forward::{ConnectionCounts, unreadable_requests};
use crate::health::{Health, ReplicaHealth};
use crate::log::lost_lines;
use crate::record::Recorder;
use crate::traces;
use slackwater_config::{
    Config, HealthCheck, ProbeTransport, ReplicaConfig, ServiceConfig, SettingOverrides,
};
use slackwater_core::policy::ReplicaView;
use slackwater_telemetry::facts::{
    Facts, HealthFacts, OverrideFacts, ReloadFacts, ReplicaFacts, ServiceFacts, StatusSource,
};
use slackwater_telemetry::latency_histogram::Latencies;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;
use tokio::sync::watch;

/// One service of the process, and each worker's part of it.
#[derive(Clone, Debug)]
pub(super) struct ServiceParts {
    /// No other service of the process has it, and no earlier one of this name.
    pub(super) number: u64,
    pub(super) config: Arc<ServiceConfig>,
    pub(super) discovery: Arc<Discovery>,
    pub(super) health: watch::Receiver<Health>,
    /// What the operator wants of its replicas.
    pub(super) orders: watch::Sender<Arc<Orders>>,
    pub(super) views: Vec<ServiceView>,
}

/// All services of one `serve`, as they are now.
#[derive(Debug, Default)]
pub(super) struct Workers {
    services: Mutex<Arc<[ServiceParts]>>,
    reloads: Mutex<ReloadFacts>,
    /// What is set at run time.
    settings: Mutex<Arc<SettingOverrides>>,
    /// How that is done; absent where it cannot be.
    control: OnceLock<Control>,
    tls: Mutex<Option<(Tls, Arc<Config>)>>,
    /// Of each worker.
    counts: Vec<DoorCounts>,
    /// `None`: there is none.
    access_log: Option<Switch>,
    /// `None`: nothing is traced.
    spans: Option<traces::Switch>,
    /// `None`: nothing is recorded.
    recorder: Option<Recorder>,
}

impl Workers {
    /// The services of now, in the order of the configuration.
    pub(super) fn services(&self) -> Arc<[ServiceParts]> {
        let services = self.services.lock();
        Arc::clone(&services.unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn new(
        counts: Vec<DoorCounts>,
        access_log: Option<Switch>,
        spans: Option<traces::Switch>,
        recorder: Option<Recorder>,
    ) -> Self {
        Self {
            counts,
            access_log,
            spans,
            recorder,
            ..Self::default()
        }
    }

    fn proxy_headers_refused(&self) -> u64 {
        let counts = self.counts.iter();
        counts
            .map(|worker| worker.proxy_headers_refused.read())
            .sum()
    }

    /// The configuration has been read again; why it was not taken, if it was not.
    pub(super) fn count_reload(&self, failure: Option<String>) {
        let mut reloads = self.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            None => reloads.taken += 1,
            Some(_) => reloads.refused += 1,
        }
        reloads.last_at = Some(SystemTime::now());
        reloads.failure = failure;
    }

    fn reloads(&self) -> ReloadFacts {
        let reloads = self.reloads.lock();
        reloads.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is set at run time is this from now on.
    pub(super) fn set_settings(&self, settings: &SettingOverrides) {
        let place = self.settings.lock();
        *place.unwrap_or_else(PoisonError::into_inner) = Arc::new(settings.clone());
    }

    /// What is set at run time.
    pub(super) fn settings(&self) -> Arc<SettingOverrides> {
        let settings = self.settings.lock();
        Arc::clone(&settings.unwrap_or_else(PoisonError::into_inner))
    }

    /// What can be changed is changed by this from now on.
    pub(super) fn set_control(&self, control: &Control) {
        let _ = self.control.set(control.clone());
    }

    fn override_facts(&self, services: &[ServiceParts]) -> Option<OverrideFacts> {
        let control = self.control.get()?;
        let count = |all: usize| u64::try_from(all).unwrap_or(u64::MAX);
        let replicas = services.iter().map(|service| service.orders.borrow().len());
        Some(OverrideFacts {
            allowed: control.is_allowed(),
            settings: count(self.settings().len()),
            replicas: count(replicas.sum()),
            refused: control.refused(),
        })
    }

    /// The configuration in force.
    pub(super) fn config(&self) -> Option<Arc<Config>> {
        let place = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().map(|(_, config)| Arc::clone(config))
    }

    /// What is spoken by, with the configuration that says where.
    pub(super) fn set_tls(&self, tls: &Tls, config: &Arc<Config>) {
        let place = self.tls.lock();
        let now = (tls.clone(), Arc::clone(config));
        *place.unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    pub(super) fn set_services(&self, services: Vec<ServiceParts>) {
        let place = self.services.lock();
        *place.unwrap_or_else(PoisonError::into_inner) = services.into();
    }
}

impl StatusSource for Workers {
    fn facts(&self) -> Facts {
        let services = self.services();
        let tls = self
            .tls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let unreadable: Vec<_> = self.counts.iter().map(|it| &*it.unreadable).collect();
        Facts {
            role: "serve",
            services: services.iter().map(ServiceParts::facts).collect(),
            certificates: tls
                .as_ref()
                .map_or_else(Vec::new, |(tls, _)| tls.certificates()),
            handshakes: tls
                .as_ref()
                .map_or_else(Vec::new, |(tls, config)| tls.handshakes(config)),
            client_connections: ConnectionCounts::sum(
                self.counts.iter().map(|it| &*it.connections),
            ),
            client_ends: ConnectionCounts::ended(self.counts.iter().map(|it| &*it.connections)),
            proxy_headers_refused: self.proxy_headers_refused(),
            unreadable_requests: unreadable_requests(&unreadable),
            unrouted_requests: UnroutedCounts::sum(self.counts.iter().map(|it| &*it.unrouted)),
            own_load: None,
            own_capacity_source: None,
            own_queue: None,
            own_waits: Latencies::default(),
            own_ties: None,
            reloads: Some(self.reloads()),
            overrides: self.override_facts(&services),
            log_lost: lost_lines(),
            access_log_lost: self.access_log.as_ref().map(Switch::dropped),
            spans: self.spans.as_ref().map(traces::Switch::counts),
            recording: self.recorder.as_ref().map(Recorder::is_running),
        }
    }
}

impl ServiceParts {
    fn facts(&self) -> ServiceFacts {
        let fleet = self.discovery.fleet();
        ServiceFacts {
            name: self.config.name.clone(),
            number: self.number,
            policy: self.config.policy.name,
            discovery: Some(self.discovery.state()),
            replicas: self.replicas(&fleet),
            workers: self.views.iter().map(|view| view.facts(&fleet)).collect(),
        }
    }

    fn replicas(&self, fleet: &Fleet) -> Vec<ReplicaFacts> {
        let is_checked = self.config.health.check != HealthCheck::None;
        let health = is_checked.then(|| self.health.borrow());
        let found = |replica: &ReplicaConfig| {
            let found = health.as_ref()?.get(&replica.address);
            Some(found.map_or_else(|| facts(&ReplicaHealth::default()), facts))
        };
        let are_probed = self.config.probe.transport != ProbeTransport::None;
        let orders = self.orders.borrow();
        let replicas = fleet.replicas().iter();
        replicas
            .map(|replica| ReplicaFacts {
                name: replica.name.clone(),
                address: replica.address.to_string(),
                probe_address: are_probed.then(|| replica.probe_address.to_string()),
                weight: orders.weight(replica),
                fleet_weight: replica.weight,
                drained: orders.is_drained(replica),
                tier: replica.tier,
                health: found(replica),
                behind: None,
            })
            .collect()
    }
}

fn facts(health: &ReplicaHealth) -> HealthFacts {
    HealthFacts {
        verdict: health.verdict.as_str().to_owned(),
        checks_passed: health.checks_passed,
        checks_failed: health.checks_failed,
        went_down: health.went_down,
        came_back: health.came_back,
        last_failure: health.last_failure.clone(),
    }
}

impl Workers {
    /// The replicas of which a worker that probes them gets no answers, and all that are known.
    pub(super) fn silent(&self) -> (Silent, BTreeSet<Key>) {
        let (mut silent, mut known) = (Silent::new(), BTreeSet::new());
        for service in self.services().iter() {
            let fleet = service.discovery.fleet();
            let key = |address| (service.config.name.clone(), address);
            known.extend(fleet.replicas().iter().map(|replica| key(replica.address)));
            for view in &service.views {
                let facts = view.facts(&fleet);
                if facts.counters.probes_sent == 0 {
                    continue;
                }
                let views: BTreeMap<_, _> = (facts.snapshot.replicas.iter())
                    .map(|view| (view.replica, view))
                    .collect();
                for (replica, parts) in fleet.replicas().iter().zip(&facts.ids) {
                    let all_are = |what: fn(&ReplicaView) -> bool| {
                        let is_so = |part| views.get(part).is_some_and(|view| what(view));
                        !parts.is_empty() && parts.iter().all(is_so)
                    };
                    let is_lost = all_are(|view| view.lost);
                    if is_lost || all_are(|view| view.silent) {
                        let said = SilentReplica {
                            name: replica.name.clone(),
                            probe_address: replica.probe_address,
                            policy: service.config.policy.name,
                            is_lost,
                        };
                        silent.push((key(replica.address), said));
                    }
                }
            }
        }
        (silent, known)
    }
}
