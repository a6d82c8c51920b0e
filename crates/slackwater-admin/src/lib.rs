//! The admin server: status as JSON, metrics for Prometheus, live data, liveness and readiness.
//!
//! It has its own thread, so it responds while the workers are busy. It is bounded: the number of
//! connections, the time for a head, and the length of a body. It serves any
//! [`StatusSource`](slackwater_telemetry::facts::StatusSource). `docs/reference/admin.md` and
//! `docs/reference/live.md` document the fields.
//!
//! **Absent on purpose**: the meaning of requests, and the code that answers them. A process that
//! can be changed at run time implements [`Controlled`]; a command with its own answers adds a path
//! for each ([`AdminServer::get`]).

mod asset;
mod control;
#[cfg(feature = "dashboard")]
mod dashboard;
#[cfg(not(feature = "dashboard"))]
mod dashboard {
    //! A build without the dashboard.
    pub(super) const ASSETS: &[super::asset::Asset] = &[];
}
mod guard;
mod hub;
mod idle;
mod key_status;
mod live;
mod metrics;
mod openapi;
mod query;
mod readiness;
mod reply;
mod reported_status;
mod reserve;
mod router;
mod server;
mod standing;
mod status;
#[cfg(test)]
mod tests;

pub use control::{
    Asking, Changed, Clear, Control, Controlled, Done, Meaning, Overrides, PolicyRefused, Refused,
    Reload, Reloaded, ReplicaChange, ReplicaOverridden, SettingChosen, SettingOverridden,
    SettingsChange, SettingsChanged, Wanted,
};
pub use guard::may_change;
pub use live::{Extra, messages};
pub use openapi::DOCUMENT;
pub use query::Query;
pub use reply::{Reply, in_pieces, json, refusal};
pub use router::Asked;
pub use server::{AdminServer, AdminThread, bind};
pub use status::Status;
