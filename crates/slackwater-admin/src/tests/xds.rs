//! The stream to a control plane, for the tests' facts.

use slackwater_telemetry::facts::XdsState;

pub(super) fn xds_state() -> XdsState {
    XdsState {
        server: "https://xds.internal:18000/".to_owned(),
        is_connected: true,
        version: "7".to_owned(),
        nonce: "12".to_owned(),
        streams: 2,
        accepted: 11,
        rejected: 1,
        rejection: Some("api: endpoints[0].priority is 16".to_owned()),
    }
}
