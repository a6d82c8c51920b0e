//! The admin server: status as JSON, metrics for Prometheus, and whether the process lives and is ready.
//!
//! It has a thread of its own, so it answers while the workers are busy, and it is bounded: so many connections, so much
//! time for a head, no bodies. Whoever carries requests is a [`StatusSource`]; this module knows nothing of how.
//! The fields are documented in `docs/admin.md`.

mod facts;
mod latency;
mod metrics;
mod server;
mod standing;
mod status;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use facts::Phase;
pub(crate) use facts::{
    AdmissionCounts, CertificateFacts, ConnectionFacts, Facts, HandshakeFacts, HealthFacts,
    Lifecycle, LineFacts, ReloadFacts, ReplicaFacts, RequestCounts, ServiceFacts, StatusCount,
    StatusSource, WorkerFacts,
};
pub(crate) use latency::{LatencyFacts, RESPONSE_CLASSES, ResponseClass};
pub(crate) use server::{AdminServer, AdminThread, Reply, bind, reply};
pub(crate) use status::{LOST_NOTE, Status, silent_note};
