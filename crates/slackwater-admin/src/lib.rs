//! The admin server: status as JSON, metrics for Prometheus, live data, and whether the process
//! lives and is ready.
//!
//! It has a thread of its own, so it answers while the workers are busy, and it is bounded: so many
//! connections, so much time for a head, short bodies. It serves any
//! [`StatusSource`](slackwater_telemetry::facts::StatusSource). `docs/reference/admin.md` and
//! `docs/reference/live.md` document the fields.
//!
//! **Absent on purpose**: what requests are, and who answers them. A process that can be changed at
//! run time implements [`Controlled`]; a command with an answer of its own adds a path for it
//! ([`AdminServer::get`]).

mod asset;
mod control;
#[cfg(feature = "dashboard")]
mod dashboard;
#[cfg(not(feature = "dashboard"))]
mod dashboard {
    //! No dashboard: a build without it.
    pub(super) const ASSETS: &[super::asset::Asset] = &[];
}
mod guard;
mod hub;
mod idle;
mod live;
mod metrics;
mod openapi;
mod query;
mod readiness;
mod reply;
mod reserve;
mod router;
mod server;
mod standing;
mod status;
#[cfg(test)]
mod tests;

pub use control::{
    Asking, Changed, Clear, Control, Controlled, Done, Meaning, Overrides, Refused, Reload,
    Reloaded, ReplicaChange, ReplicaOverridden, SettingOverridden, SettingsChange, SettingsChanged,
    Wanted,
};
pub use guard::may_change;
pub use live::{Extra, messages};
pub use openapi::DOCUMENT;
pub use query::Query;
pub use reply::{Reply, in_pieces, json, refusal};
pub use router::Asked;
pub use server::{AdminServer, AdminThread, bind};
pub use status::{Status, since_epoch_ms};
