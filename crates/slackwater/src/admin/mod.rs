//! The admin server: status as JSON, metrics for Prometheus, live data, and whether the process lives and is ready.
//!
//! It has a thread of its own, so it answers while the workers are busy, and it is bounded: so many connections, so much
//! time for a head, short bodies. Whoever carries requests is a [`StatusSource`](slackwater_telemetry::facts::StatusSource); this module knows
//! nothing of how.
//! The fields are documented in `docs/admin.md` and `docs/live.md`.

mod asset;
mod control;
mod dashboard;
mod guard;
mod idle;
mod live;
mod metrics;
mod openapi;
mod query;
mod reply;
mod reserve;
mod router;
mod server;
mod standing;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use control::{
    Asking, Changed, Clear, Control, Controlled, Done, Meaning, Overrides, Refused, Reload,
    Reloaded, ReplicaChange, ReplicaOverridden, SettingOverridden, SettingsChange, SettingsChanged,
    Wanted,
};
pub(crate) use guard::may_change;
pub(crate) use live::Extra;
pub(crate) use reply::{Reply, in_pieces, json, refusal};
pub(crate) use router::Asked;
pub(crate) use server::{AdminServer, AdminThread, bind};
pub(crate) use status::{LOST_NOTE, Status, silent_note, since_epoch_ms};
