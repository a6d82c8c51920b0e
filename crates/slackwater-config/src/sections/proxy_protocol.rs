//! The keys of the PROXY protocol: `proxy_protocol` and `proxy_protocol_trust` of a listener,
//! `replica.proxy_protocol` of a service.

use super::forwarded::NETWORKS;
use super::model::ProbeTransport;
use super::network::Network;
use super::probe::ProbeSection;
use super::replica::{ReplicaProtocol, ReplicaSettings};
use crate::toml_reader::Reader;
use crate::toml_reader::values::one_of;

/// The networks from which connections with a PROXY header may come; `None` if no header is
/// required, or after a mistake.
///
/// A sender of headers can claim any client address, so there is no default: the networks must be
/// set.
pub(super) fn read_proxy_protocol(reader: &mut Reader<'_>, prefix: &str) -> Option<Vec<Network>> {
    const NAMES: [(&str, bool); 2] = [("off", false), ("required", true)];
    let field = format!("{prefix}proxy_protocol");
    let required = reader.setting(&field, false, "", |value| one_of(value, &NAMES));
    let trust_field = format!("{prefix}proxy_protocol_trust");
    let definition = reader.section_definition(&trust_field);
    let trust = NETWORKS.list(reader, &trust_field);
    match (required.value, required.definition, definition) {
        (false, None, Some(definition)) => {
            reader.add_mistake(
                definition.mistake("does nothing without proxy_protocol = \"required\""),
            );
            None
        }
        (true, Some(definition), None) => {
            let expected = Network::EXPECTED;
            reader.add_mistake(definition.mistake(format!(
                "found no proxy_protocol_trust beside it, expected the proxies that send headers: a list of {expected}"
            )));
            None
        }
        (true, _, Some(definition)) if trust.is_empty() => {
            reader.add_mistake(definition.mistake("found no network, expected at least one"));
            None
        }
        (required, ..) => required.then_some(trust),
    }
}

/// Records a mistake for each setting that rules out `replica.proxy_protocol` of the service that
/// `prefix` names.
///
/// A header describes the connection as a whole. It cannot be used where several clients' requests
/// share a connection, or where the proxy itself connects to the same port without a header.
pub(super) fn note_proxy_protocol_out(
    reader: &mut Reader<'_>,
    prefix: &str,
    replica: &ReplicaSettings,
    probe: &ProbeSection,
) {
    let definition = reader.definition(&format!("{prefix}replica.proxy_protocol"));
    let Some(definition) = definition.filter(|_| replica.proxy_protocol.is_some()) else {
        return;
    };
    if replica.protocol == ReplicaProtocol::H2c {
        reader.add_mistake(definition.mistake(format!(
            "expects {prefix}replica.protocol = \"http1\": an HTTP/2 connection carries requests of several clients"
        )));
    }
    if probe.transport.value == ProbeTransport::Http && probe.port.is_none() {
        reader.add_mistake(definition.mistake(format!(
            "expects {prefix}probe.port, where no header is awaited, or {prefix}probe.transport = \"udp\": HTTP probes \
             have no header"
        )));
    }
}
