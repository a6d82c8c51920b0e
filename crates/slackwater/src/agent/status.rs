//! The agent's source of status for the admin server: its own load, and one replica, which is the
//! server behind it.

use super::presence::Presence;
use super::tls::Tls;
use super::worker::WorkerCounts;
use crate::log::lost_lines;
use slackwater_proxy::forward::{ConnectionCounts, unreadable_requests};
use slackwater_telemetry::facts::{
    BehindFacts, Facts, HintFacts, ReplicaFacts, ServiceFacts, StatusSource, UnroutedFacts,
    WorkerFacts,
};
use slackwater_telemetry::latency_histogram::Latencies;
use slackwater_telemetry::replica_state::Standing;
use slackwater_telemetry::state_tracker::StateTracker;
use slackwater_tower::server::Load;
use slackwater_tower::server::admission::Admission;
use std::sync::Arc;
use std::time::SystemTime;

/// Name of an agent's one service. No service can be configured with it, so an agent's counts are
/// never added to those of a proxy that has sent the same requests.
const AGENT: &str = "(agent)";

/// All that an agent reports of itself.
#[derive(Debug)]
pub(super) struct AgentStatus {
    /// The server, as the user wrote it.
    pub(super) server: String,
    pub(super) load: Load,
    pub(super) presence: Presence,
    pub(super) admission: Option<Admission>,
    /// Counters of each worker.
    pub(super) workers: Vec<WorkerCounts>,
    pub(super) tls: Tls,
    pub(super) states: StateTracker,
}

impl StatusSource for AgentStatus {
    fn facts(&self) -> Facts {
        let worker = |counts: &WorkerCounts| WorkerFacts {
            requests: vec![counts.requests.read()],
            replica_ends: counts.ends.read(),
            heads: vec![counts.requests.heads.read()],
            ..WorkerFacts::default()
        };
        let load = self.load.report(None);
        let mut own_waits = Latencies::default();
        for worker in &self.workers {
            own_waits += &worker.waits.read();
        }
        let unreadable: Vec<_> = self.workers.iter().map(|it| &*it.unreadable).collect();
        let connections = || self.workers.iter().map(|it| &*it.connections);
        let service = || ServiceFacts {
            name: AGENT.to_owned(),
            number: 0,
            policy: "none",
            discovery: None,
            replicas: vec![ReplicaFacts {
                name: self.server.clone(),
                address: self.server.clone(),
                probe_address: None,
                weight: 1,
                fleet_weight: 1,
                drained: false,
                tier: 0,
                zone: None,
                far: false,
                health: None,
                behind: Some(BehindFacts {
                    is_there: !self.presence.is_withdrawn(),
                    in_flight: load.rif.count().into(),
                }),
                standing: Standing::default(),
            }],
            workers: self.workers.iter().map(worker).collect(),
            ..ServiceFacts::default()
        };
        Facts {
            role: "agent",
            services: (self.states).observe(SystemTime::now(), || vec![service()]),
            listeners: Arc::default(),
            routes: Arc::default(),
            certificates: self.tls.certificates(),
            handshakes: self.tls.handshakes(),
            client_connections: ConnectionCounts::sum(connections()),
            client_ends: ConnectionCounts::ended(connections()),
            proxy_headers_refused: 0,
            unreadable_requests: unreadable_requests(&unreadable),
            unrouted_requests: UnroutedFacts::default(),
            own_load: Some(load),
            own_capacity_source: self.load.capacity_source(),
            own_queue: self.admission.as_ref().map(Admission::view),
            own_waits,
            own_ties: self.admission.as_ref().and_then(Admission::tie_counts),
            own_hints: self.load.hint_counts().map(|counts| HintFacts {
                entries: counts.entries as u64,
                hits: counts.hits,
                misses: counts.misses,
            }),
            reloads: None,
            overrides: None,
            log_lost: lost_lines(),
            access_log_lost: None,
            spans: None,
            recording: None,
        }
    }
}
