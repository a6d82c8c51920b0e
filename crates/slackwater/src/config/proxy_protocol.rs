//! The keys `proxy_protocol` and `proxy_protocol_trust` of a listener.

use super::forwarded::read_networks;
use super::network::Network;
use crate::toml_reader::Reader;
use crate::toml_reader::values::one_of;

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
