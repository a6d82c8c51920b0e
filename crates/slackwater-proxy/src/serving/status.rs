//! The status of the workers, for the admin server.
//!
//! Facts are read directly from each worker's balancers (with a short lock, rarely taken) and
//! counts. No worker has to respond, so the status is available even while workers are busy.

use super::entry::Entry;
use super::tls::Tls;
use crate::access_log::Switch;
use crate::forward::{ConnectionCounts, unreadable_requests};
use crate::health::{Health, ReplicaHealth};
use crate::record::Recorder;
use crate::routing::{ListenerCounts, UnroutedCounts};
use crate::service::ServiceView;
use crate::service::orders::Orders;
use crate::traces;
use slackwater_config::{Config, HealthCheck, ProbeTransport, ReplicaConfig, ServiceConfig};
use slackwater_discovery::{Discovery, Fleet};
use slackwater_telemetry::date::since_epoch_ms;
use slackwater_telemetry::facts::{
    Facts, HealthFacts, ReloadFacts, ReplicaFacts, ServiceFacts, StatusSource,
};
use slackwater_telemetry::latency_histogram::Latencies;
use slackwater_telemetry::replica_state::Standing;
use slackwater_telemetry::state_tracker::{News, StateTracker};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio::sync::watch;

/// One service of the process, with each worker's part of it.
#[derive(Clone, Debug)]
pub struct ServiceParts {
    /// Unique in the process, also over time.
    pub(crate) number: u64,
    /// Its settings.
    pub config: Arc<ServiceConfig>,
    /// Follows its fleet.
    pub discovery: Arc<Discovery>,
    pub(crate) health: watch::Receiver<Health>,
    /// The operator's orders for its replicas.
    pub orders: watch::Sender<Arc<Orders>>,
    pub(crate) views: Vec<ServiceView>,
}

/// The current services of one `serve`.
#[derive(Debug, Default)]
pub struct Workers {
    services: Mutex<Arc<[ServiceParts]>>,
    reloads: Mutex<ReloadFacts>,
    tls: Mutex<Option<(Tls, Arc<Config>)>>,
    /// Listeners and routes of the current configuration.
    entry: Mutex<Entry>,
    /// Counts of each worker.
    counts: Vec<ListenerCounts>,
    /// `None` if there is no access log.
    access_log: Option<Switch>,
    /// `None` if tracing is off.
    spans: Option<traces::Switch>,
    /// `None` if nothing is recorded.
    recorder: Option<Recorder>,
    states: StateTracker,
}

impl Workers {
    /// The current services, in the order of the configuration.
    pub fn services(&self) -> Arc<[ServiceParts]> {
        let services = self.services.lock();
        Arc::clone(&services.unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn new(
        counts: Vec<ListenerCounts>,
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

    /// Counts a reload; `failure` is why it was rejected.
    pub fn count_reload(&self, failure: Option<String>) {
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

    /// The configuration in force.
    pub fn config(&self) -> Option<Arc<Config>> {
        let place = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().map(|(_, config)| Arc::clone(config))
    }

    /// Sets the TLS state, with the configuration that it belongs to.
    pub(crate) fn set_tls(&self, tls: &Tls, config: &Arc<Config>) {
        let place = self.tls.lock();
        let entry = self.entry.lock();
        *entry.unwrap_or_else(PoisonError::into_inner) = Entry::of(config);
        let now = (tls.clone(), Arc::clone(config));
        *place.unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    pub(crate) fn set_services(&self, services: Vec<ServiceParts>) {
        let place = self.services.lock();
        *place.unwrap_or_else(PoisonError::into_inner) = services.into();
    }
}

impl Workers {
    /// Returns the facts of each service, with the state of each replica.
    fn service_facts(&self) -> Vec<ServiceFacts> {
        self.states.observe(SystemTime::now(), || {
            self.services().iter().map(ServiceParts::facts).collect()
        })
    }

    /// Returns the state changes of replicas and services since the last call.
    pub fn state_news(&self) -> News {
        self.service_facts();
        self.states.take_news()
    }
}

impl StatusSource for Workers {
    fn facts(&self) -> Facts {
        let tls = self
            .tls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let entry = self.entry.lock();
        let entry = entry.unwrap_or_else(PoisonError::into_inner).clone();
        let unreadable: Vec<_> = self.counts.iter().map(|it| &*it.unreadable).collect();
        Facts {
            role: "serve",
            services: self.service_facts(),
            listeners: entry.listeners,
            routes: entry.routes,
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
            own_hints: None,
            reloads: Some(self.reloads()),
            overrides: None,
            log_lost: 0,
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
            ..ServiceFacts::default()
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
                zone: replica.zone.name().map(str::to_owned),
                far: self.config.zone.far(&replica.zone).is_some(),
                health: found(replica),
                behind: None,
                standing: Standing::default(),
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
        checked_at_ms: health.checked_at.map(since_epoch_ms),
    }
}
