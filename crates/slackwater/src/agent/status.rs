//! What the admin server hears of an agent: its own load, and one replica, the server behind it.

use super::tls::Tls;
use crate::admin::{Facts, ReplicaFacts, ServiceFacts, StatusSource, WorkerFacts};
use crate::forward::{ConnectionCounts, ReplicaCounts, UnreadableCounts, unreadable_requests};
use crate::log::lost_lines;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use slackwater_tower::server::Load;
use slackwater_tower::server::admission::Admission;
use std::sync::Arc;

/// All that an agent can tell of itself.
#[derive(Debug)]
pub(super) struct AgentStatus {
    /// The server, as the user wrote it.
    pub(super) server: String,
    pub(super) load: Load,
    pub(super) admission: Option<Admission>,
    /// One for each worker.
    pub(super) counts: Vec<Arc<ReplicaCounts>>,
    /// The same.
    pub(super) unreadable: Vec<Arc<UnreadableCounts>>,
    /// The same.
    pub(super) connections: Vec<Arc<ConnectionCounts>>,
    pub(super) tls: Tls,
}

impl StatusSource for AgentStatus {
    fn facts(&self) -> BoxFuture<'_, Facts> {
        let worker = |counts: &Arc<ReplicaCounts>| WorkerFacts {
            requests: vec![counts.read()],
            ..WorkerFacts::default()
        };
        let unreadable: Vec<_> = self.unreadable.iter().map(|it| &**it).collect();
        core::future::ready(Facts {
            role: "agent",
            services: vec![ServiceFacts {
                name: "default".to_owned(),
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
                    health: None,
                }],
                workers: self.counts.iter().map(worker).collect(),
            }],
            certificates: self.tls.certificates(),
            handshakes: self.tls.handshakes(),
            client_connections: ConnectionCounts::sum(self.connections.iter().map(|it| &**it)),
            proxy_headers_refused: 0,
            unreadable_requests: unreadable_requests(&unreadable),
            own_load: Some(self.load.report(None)),
            own_queue: self.admission.as_ref().map(Admission::view),
            own_ties: self.admission.as_ref().and_then(Admission::tie_counts),
            reloads: None,
            overrides: None,
            log_lost: lost_lines(),
            access_log_lost: None,
            spans: None,
        })
        .boxed()
    }
}
