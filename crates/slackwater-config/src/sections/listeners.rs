//! Listeners: the key `listen`, or tables `[[listeners]]`, which have more settings.

use super::fleet::{LISTENERS_MAX, Listener, add_listener, listen_address, read_listen};
use super::forwarded::NETWORKS;
use super::kinds::is_name;
use super::model::ListenerConfig;
use super::proxy_protocol::read_proxy_protocol;
use super::tls::read_listener_tls;
use crate::table::{self, Described, Kind, LIST, STRING, keys};
use crate::toml_reader::values::quote;
use crate::toml_reader::values::text;
use crate::toml_reader::{Definition, Reader, Remark};

/// A listener, and where its address was set.
#[derive(Debug)]
pub(super) struct LocatedListener {
    pub(super) config: ListenerConfig,
    definition: Option<Definition>,
}

impl LocatedListener {
    pub(super) fn address(&self) -> Listener {
        (self.config.address, self.definition.clone())
    }
}

/// The rows of the keys of a table in `listeners`.
#[derive(Clone, Default)]
pub(super) struct ListenerRows;

keys! { ListenerRows in "listeners[]" {
    /// Where clients connect, as `listen`.
    address: Described("an address", STRING), "required";
    /// `"required"`: every connection must begin with a [PROXY
    /// protocol](serve.md#the-proxy-protocol) header, version 1 or 2, that has the client's
    /// address.
    proxy_protocol: Described("`\"off\"`, `\"required\"`", r#"{"enum": ["off", "required"]}"#), "`\"off\"`";
    /// Networks of the proxies that may connect. Other connections are closed.
    proxy_protocol_trust: Described("a list of 1 to 256 networks such as `\"10.0.0.0/8\"`, or addresses", LIST),
        "required with `proxy_protocol`";
    /// The listener's name in routes.
    name: Described("1 to 64 letters, digits, `-` and `_`, each name once", STRING), "the address";
} }

impl ListenerConfig {
    /// Writes the listener as a table.
    pub(super) fn write(&self, to: &mut String) {
        let address = self.address.to_string();
        let name = (self.name != address).then(|| ("name", quote(&self.name)));
        let trust = (self.proxy_protocol.as_ref()).and_then(|networks| NETWORKS.show(networks));
        let proxies = trust.map(|trust| {
            let required = ("proxy_protocol", quote("required"));
            [required, ("proxy_protocol_trust", trust)]
        });
        let keys = (name.into_iter()).chain([("address", quote(address))]);
        table::write_keys(to, "[listeners]", keys.chain(proxies.into_iter().flatten()));
        if let Some(tls) = &self.tls {
            tls.write(to, "listeners.");
        }
    }
}

/// Reads all listeners; at least one, unless mistakes were recorded.
///
/// The section `[tls]` applies to all addresses of `listen`; each table has its own.
pub(super) fn read_listeners(
    reader: &mut Reader<'_>,
    remarks: &mut Vec<Remark>,
) -> Vec<LocatedListener> {
    let count = reader.count_tables("listeners");
    if count == 0 {
        let tls = read_listener_tls(reader, "", remarks);
        let short = |(address, definition): Listener| LocatedListener {
            config: ListenerConfig {
                name: address.to_string(),
                address,
                tls: tls.clone(),
                proxy_protocol: None,
            },
            definition,
        };
        return read_listen(reader).into_iter().map(short).collect();
    }
    if let Some(item) = reader.take("listen") {
        reader.add_mistake(item.mistake("and [[listeners]] say the same, expected one of them"));
    }
    // A section for all listeners would be ambiguous beside tables with sections of their own.
    if reader.has("tls") {
        reader.add_mistake_near(
            "tls",
            "is for addresses in listen, expected [listeners.tls] below its [[listeners]]"
                .to_owned(),
        );
        reader.give_up("tls");
    }
    if count > LISTENERS_MAX {
        reader.add_mistake_near(
            &format!("listeners[{LISTENERS_MAX}]"),
            format!("is one too many, expected at most {LISTENERS_MAX} listeners"),
        );
    }
    let mut listeners: Vec<LocatedListener> = Vec::new();
    let mut addresses = Vec::new();
    for index in 0..count.min(LISTENERS_MAX) {
        let prefix = format!("listeners[{index}].");
        let name = read_name(reader, &prefix, &listeners);
        let tls = read_listener_tls(reader, &prefix, remarks);
        let proxy_protocol = read_proxy_protocol(reader, &prefix);
        let field = format!("{prefix}address");
        let Some(item) = reader.take(&field) else {
            reader.add_missing_key(&field, "an address and a port such as \"0.0.0.0:443\"");
            continue;
        };
        let Some(address) = reader.note(listen_address(&item)) else {
            continue;
        };
        if let Err(mistake) = add_listener(&mut addresses, address, &item) {
            reader.add_mistake(mistake);
            continue;
        }
        listeners.push(LocatedListener {
            config: ListenerConfig {
                name: name.unwrap_or_else(|| address.to_string()),
                address,
                tls,
                proxy_protocol,
            },
            definition: Some(item.definition),
        });
    }
    listeners
}

/// Reads the key `name`; `None` if it is missing or wrong.
fn read_name(reader: &mut Reader<'_>, prefix: &str, others: &[LocatedListener]) -> Option<String> {
    const EXPECTED: &str = "from 1 to 64 letters, digits, - and _";
    let item = reader.take(&format!("{prefix}name"))?;
    let name = reader.note(item.read(|value| text(value, EXPECTED), ""))?;
    if !is_name(name) {
        reader.add_mistake(item.mistake(format!("found {name:?}, expected {EXPECTED}")));
        return None;
    }
    if others.iter().any(|other| other.config.name == name) {
        reader
            .add_mistake(item.mistake(format!("{name:?} is given twice, expected each name once")));
        return None;
    }
    Some(name.to_owned())
}
