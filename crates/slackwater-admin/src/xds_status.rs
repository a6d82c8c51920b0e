//! The part of the status about a control plane.

use serde::{Deserialize, Serialize};
use slackwater_telemetry::facts::XdsState;

/// The stream to the control plane that sends a fleet, and the version of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct XdsStatus {
    pub(crate) server: String,
    pub(crate) connected: bool,
    pub(crate) version: String,
    pub(crate) nonce: String,
    pub(crate) streams: u64,
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
    pub(crate) rejection: Option<String>,
}

impl From<&XdsState> for XdsStatus {
    fn from(state: &XdsState) -> Self {
        Self {
            server: state.server.clone(),
            connected: state.is_connected,
            version: state.version.clone(),
            nonce: state.nonce.clone(),
            streams: state.streams,
            accepted: state.accepted,
            rejected: state.rejected,
            rejection: state.rejection.clone(),
        }
    }
}
