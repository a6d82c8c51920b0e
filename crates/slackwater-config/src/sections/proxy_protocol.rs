//! The keys of the PROXY protocol: `proxy_protocol` and `proxy_protocol_trust` of a listener, `replica.proxy_protocol` of a
//! service.

use super::forwarded::read_networks;
use super::model::{ProbeTransport, ReplicaProtocol};
use super::network::Network;
use super::probe::ProbeSection;
use crate::toml_reader::Reader;
use crate::toml_reader::values::one_of;
use slackwater_http::proxy_protocol::Version;

/// From whom connections with a PROXY header may come; `None` where none is required, or after a mistake.
///
/// Whoever may send headers can name any client that he likes, so there is no default for that: it has to be said.
pub(super) fn read_proxy_protocol(reader: &mut Reader<'_>, prefix: &str) -> Option<Vec<Network>> {
    const NAMES: [(&str, bool); 2] = [("off", false), ("required", true)];
    let field = format!("{prefix}proxy_protocol");
    let required = reader.setting(&field, false, "", |value| one_of(value, &NAMES));
    let trust_field = format!("{prefix}proxy_protocol_trust");
    let said = reader.said_section(&trust_field);
    let trust = read_networks(reader, &trust_field);
    match (required.value, required.said, said) {
        (false, None, Some(said)) => {
            reader.add_mistake(said.mistake("does nothing without proxy_protocol = \"required\""));
            None
        }
        (true, Some(said), None) => {
            let expected = Network::EXPECTED;
            reader.add_mistake(said.mistake(format!(
                "found no proxy_protocol_trust beside it, expected the proxies that send headers: a list of {expected}"
            )));
            None
        }
        (true, _, Some(said)) if trust.is_empty() => {
            reader.add_mistake(said.mistake("found no network, expected at least one"));
            None
        }
        (required, ..) => required.then_some(trust),
    }
}

const VERSIONS: [(&str, Option<Version>); 3] = [
    ("off", None),
    ("v1", Some(Version::One)),
    ("v2", Some(Version::Two)),
];

/// What a form is called.
pub(super) fn name_of_version(version: Version) -> &'static str {
    let named = VERSIONS.iter().find(|(_, known)| *known == Some(version));
    named.map_or("off", |(name, _)| name)
}

/// The key `replica.proxy_protocol`, of the service that `prefix` names.
///
/// A header speaks of the connection as a whole, so there can be none where requests of several clients share one, or where
/// somebody else than a client asks on it without one.
pub(super) fn read_proxy_protocol_out(
    reader: &mut Reader<'_>,
    prefix: &str,
    protocol: ReplicaProtocol,
    probe: &ProbeSection,
) -> Option<Version> {
    let key = format!("{prefix}replica.proxy_protocol");
    let version = reader.setting(&key, None, "", |value| one_of(value, &VERSIONS));
    if let (Some(_), Some(said)) = (version.value, version.said) {
        if protocol == ReplicaProtocol::H2c {
            reader.add_mistake(said.mistake(format!(
                "expects {prefix}replica.protocol = \"http1\": an HTTP/2 connection carries requests of several clients"
            )));
        }
        if probe.transport.value == ProbeTransport::Http && probe.port.value.is_none() {
            reader.add_mistake(said.mistake(format!(
                "expects {prefix}probe.port, where no header is awaited, or {prefix}probe.transport = \"udp\": HTTP probes \
                 have no header"
            )));
        }
    }
    version.value
}
