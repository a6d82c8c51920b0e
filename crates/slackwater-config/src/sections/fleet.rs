//! Listeners and replicas: the keys `listen`, `admin.listen` and `replicas`, and all conflicts
//! between two addresses.

use super::address::{Address, OwnAddresses, normal, overlap, unreachable};
use super::model::{ReplicaConfig, ServiceConfig};
use super::tls::SERVER_NAME;
use super::zone::{ZONE, Zone};
use crate::table::{self, Any, Described, Maybe, Number, STRING, Within, settings};
use crate::tls::ClientTls;
use crate::toml_reader::values::{found, nonzero, quote, text, whole};
use crate::toml_reader::{Definition, Item, Mistake, Reader};
use core::net::SocketAddr;
use core::num::NonZeroU16;
use rustls::pki_types::ServerName;
use std::collections::BTreeMap;
use toml::de::DeValue;

/// The most replicas, after host names have become addresses.
const REPLICAS_MAX: usize = 65_536;

/// The most listeners.
pub(super) const LISTENERS_MAX: usize = 64;

const LISTEN_EXPECTED: &str = "an address and a port such as \"127.0.0.1:8080\" or \"[::1]:8080\"";
const REPLICA_EXPECTED: &str =
    "\"host:port\" or a table such as { address = \"10.0.0.1:8080\", probe = \"10.0.0.1:9000\" }";

/// A listener's address, and where it was set; `None` for a default.
pub(super) type Listener = (SocketAddr, Option<Definition>);

/// Reads the key `listen`; at least one address, unless mistakes were recorded.
pub(super) fn read_listen(reader: &mut Reader<'_>) -> Vec<Listener> {
    let Some(items) = reader.take_list("listen") else {
        reader.add_missing("listen", "--listen", LISTEN_EXPECTED);
        return Vec::new();
    };
    if items.is_empty() || items.len() > LISTENERS_MAX {
        if let Some(definition) = reader.definition("listen") {
            let count = items.len();
            reader.add_mistake(definition.mistake(format!(
                "found a list of {count}, expected from 1 to {LISTENERS_MAX} addresses"
            )));
        }
        return Vec::new();
    }
    let mut listeners: Vec<Listener> = Vec::new();
    for item in items {
        let Some(address) = reader.note(listen_address(&item)) else {
            continue;
        };
        reader.note(add_listener(&mut listeners, address, &item));
    }
    listeners
}

/// Adds a listener's address, unless it conflicts with another one.
pub(super) fn add_listener(
    listeners: &mut Vec<Listener>,
    address: SocketAddr,
    item: &Item<'_>,
) -> Result<(), Mistake> {
    match listeners.iter().find(|(other, _)| overlap(*other, address)) {
        Some((other, _)) if *other == address => Err(item.mistake(format!(
            "{address} is given twice, expected each address once"
        ))),
        Some((other, _)) => Err(item.mistake(format!(
            "{address} is taken by {other}, expected each address once"
        ))),
        None => {
            listeners.push((address, Some(item.definition.clone())));
            Ok(())
        }
    }
}

/// Reads the key `admin.listen`; `None` if it is "none".
pub(super) fn read_admin(reader: &mut Reader<'_>, default: Option<SocketAddr>) -> Option<Listener> {
    let Some(item) = reader.take("admin.listen") else {
        return Some((default?, None));
    };
    if item.value.as_str() == Some("none") {
        return None;
    }
    let address = reader.note(listen_address(&item))?;
    Some((address, Some(item.definition)))
}

pub(super) fn listen_address(item: &Item<'_>) -> Result<SocketAddr, Mistake> {
    if let Some(port) = port_alone(&item.value) {
        return Err(item.mistake(format!(
            "found {}, a port alone; expected \"0.0.0.0:{port}\" for every address of this machine, or \"127.0.0.1:{port}\" \
             for clients on this machine only",
            found(&item.value)
        )));
    }
    let written = item.read(|value| text(value, LISTEN_EXPECTED), LISTEN_EXPECTED)?;
    match Address::parse(written) {
        Ok(Address::Ip(address)) => Ok(address),
        Ok(Address::Name(..)) => Err(item.mistake(format!(
            "found the host name {written:?}, expected {LISTEN_EXPECTED}"
        ))),
        Err(expected) => Err(item.mistake(format!("found {written:?}, {expected}"))),
    }
}

/// Returns the port of a value without an address: `8080`, `"8080"`, `":8080"` and `"*:8080"`.
fn port_alone(value: &DeValue<'_>) -> Option<u16> {
    match value {
        DeValue::Integer(_) => whole(value).ok(),
        DeValue::String(text) => {
            let prefixes = ["*:", ":", ""].into_iter();
            let mut rests = prefixes.filter_map(|prefix| text.strip_prefix(prefix));
            rests.find_map(|rest| rest.parse().ok())
        }
        _ => None,
    }
}

settings! {
    /// The keys of a table in `replicas`, except the addresses.
    pub(super) struct ReplicaKeys in "" {
        /// The name that the replica's certificate must have.
        server_name: Option<ServerName<'static>> = None, Maybe(SERVER_NAME),
            "`replica.tls.server_name`, else the host of its address";
        /// The replica's share of requests relative to other
        /// [weights](../how-to/weights-and-tiers.md#weights). 0: `disabled`, no new requests.
        weight: u16 = 1, Any(Number);
        /// The replica gets requests only while no replica of a lower
        /// [tier](../how-to/weights-and-tiers.md#tiers) is available.
        tier: u8 = 0, Within(Number, 0..=ReplicaConfig::TIER_MAX);
        /// The replica's [zone](../how-to/zones.md). `""`: not known, so it is never far.
        zone: Zone = Zone::default(), ZONE;
    } then {
        /// Where the replica takes requests.
        address: Described("an address", STRING), "required";
        /// Where the replica answers probes.
        probe: Described("an address, or a port from 1 to 65535", PROBE), "`probe.port`, else the replica's own address";
    }
}

const PROBE: &str = r#"{"type": ["string", "integer"], "minimum": 1, "maximum": 65535}"#;

/// An entry of `replicas` before its name is resolved.
struct Entry {
    definition: Definition,
    written: String,
    address: Address,
    probe: Option<ProbePlace>,
    keys: ReplicaKeys,
}

/// The destination of a replica's probes, if it has its own.
#[derive(Clone)]
enum ProbePlace {
    Address(Address, Definition),
    Port(NonZeroU16),
}

/// Reads the key `replicas` of the service that `prefix` names: at least one, unless mistakes were
/// recorded. `probe_port` is for replicas without their own `probe`.
pub(super) fn read_replicas(
    reader: &mut Reader<'_>,
    prefix: &str,
    probe_port: Option<NonZeroU16>,
    tls: Option<&ClientTls>,
) -> Vec<(ReplicaConfig, Definition)> {
    const EXPECTED: &str = "a list such as [\"127.0.0.1:9001\", \"127.0.0.1:9002\"]";
    let field = format!("{prefix}replicas");
    let Some(items) = reader.take_list(&field) else {
        if prefix.is_empty() {
            reader.add_missing(&field, "--replicas", EXPECTED);
        } else {
            reader.add_missing_key(&field, EXPECTED);
        }
        return Vec::new();
    };
    if items.is_empty()
        && let Some(definition) = reader.section_definition(&field)
    {
        reader.add_mistake(definition.mistake(format!("found no replica, expected {EXPECTED}")));
    }
    let mut fleet = Fleet::default();
    for item in items {
        let entry = read_entry(reader, &item);
        let resolved = entry.and_then(|entry| reader.note(resolve(&entry, probe_port, tls)));
        for (replica, definition) in resolved.unwrap_or_default() {
            if let Err(mistake) = fleet.add(replica, definition) {
                reader.add_mistake(mistake);
            }
        }
        if fleet.replicas.len() > REPLICAS_MAX {
            reader.add_mistake(item.mistake(format!(
                "is one too many, expected at most {REPLICAS_MAX} replicas"
            )));
            break;
        }
    }
    fleet.replicas
}

impl ServiceConfig {
    /// The list of replicas in TOML.
    pub(super) fn shown_replicas(&self) -> String {
        let shown = |replica: &ReplicaConfig| {
            let (address, probe) = (quote(replica.address), quote(replica.probe_address));
            let server_name = quote(replica.server_name.to_str());
            let keys = [
                ("address", Some(address)),
                ("probe", Some(probe)),
                (
                    "server_name",
                    self.replica.tls.as_ref().map(|_| server_name),
                ),
                (
                    "weight",
                    (replica.weight != 1).then(|| replica.weight.to_string()),
                ),
                (
                    "tier",
                    (replica.tier != 0).then(|| replica.tier.to_string()),
                ),
                ("zone", replica.zone.name().map(quote)),
            ];
            let keys =
                (keys.into_iter()).filter_map(|(key, value)| Some(format!("{key} = {}", value?)));
            let keys = keys.collect::<Vec<_>>().join(", ");
            format!("  {{ {keys} }},\n")
        };
        format!(
            "[\n{}]",
            self.replicas.iter().map(shown).collect::<String>()
        )
    }
}

/// The replicas so far, and the name that uses each address.
#[derive(Default)]
struct Fleet {
    replicas: Vec<(ReplicaConfig, Definition)>,
    taken: BTreeMap<SocketAddr, String>,
}

impl Fleet {
    fn add(&mut self, replica: ReplicaConfig, definition: Definition) -> Result<(), Mistake> {
        let address = normal(replica.address);
        if let Some(first) = self.taken.get(&address) {
            return Err(definition.mistake(format!(
                "{} is {first} again, expected each replica once",
                replica.name
            )));
        }
        let name = if definition.field == "replicas" {
            format!("{:?}", replica.name)
        } else {
            definition.field.clone()
        };
        self.taken.insert(address, name);
        self.replicas.push((replica, definition));
        Ok(())
    }
}

fn read_entry<'s>(reader: &mut Reader<'s>, item: &Item<'s>) -> Option<Entry> {
    match &item.value {
        DeValue::String(written) => {
            let address = reader.note(replica_address(item, written))?;
            Some(Entry {
                definition: item.definition.clone(),
                written: written.to_string(),
                address,
                probe: None,
                keys: ReplicaKeys::default(),
            })
        }
        DeValue::Table(_) => {
            let prefix = format!("{}.", item.definition.field);
            let [at, probe] =
                ["address", "probe"].map(|key| reader.take(&format!("{prefix}{key}")));
            let keys: ReplicaKeys = table::read(reader, &prefix);
            let Some(at) = at else {
                reader.add_mistake(item.mistake("address is missing, expected \"host:port\""));
                return None;
            };
            let written = reader.note(at.read(|value| text(value, "\"host:port\""), ""));
            let address = written.and_then(|written| reader.note(replica_address(&at, written)));
            let probe = probe.and_then(|probe| reader.note(probe_place(&probe)));
            Some(Entry {
                definition: at.definition.clone(),
                written: written?.to_owned(),
                address: address?,
                probe,
                keys,
            })
        }
        other => {
            reader.add_mistake(item.mistake(format!(
                "found {}, expected {REPLICA_EXPECTED}",
                found(other)
            )));
            None
        }
    }
}

fn replica_address(item: &Item<'_>, written: &str) -> Result<Address, Mistake> {
    let address = Address::parse(written)
        .map_err(|expected| item.mistake(format!("found {written:?}, {expected}")))?;
    if address.port() == 0 {
        return Err(item.mistake(format!(
            "found {written:?}, expected a port from 1 to 65535"
        )));
    }
    Ok(address)
}

fn probe_place(item: &Item<'_>) -> Result<ProbePlace, Mistake> {
    const EXPECTED: &str = "\"host:port\", or a port from 1 to 65535 of the replica's own host";
    if let DeValue::Integer(_) = item.value {
        return item.read(nonzero, EXPECTED).map(ProbePlace::Port);
    }
    let written = item.read(|value| text(value, EXPECTED), EXPECTED)?;
    let address = replica_address(item, written)?;
    Ok(ProbePlace::Address(address, item.definition.clone()))
}

/// Makes one replica of each address of the entry's name.
fn resolve(
    entry: &Entry,
    probe_port: Option<NonZeroU16>,
    tls: Option<&ClientTls>,
) -> Result<Vec<(ReplicaConfig, Definition)>, Mistake> {
    let server_name = (entry.keys.server_name.clone())
        .or_else(|| tls.and_then(|tls| tls.server_name.clone()))
        .or_else(|| entry.address.server_name());
    let addresses = resolve_one(&entry.address, &entry.definition, &entry.written)?;
    let probe_address = match &entry.probe {
        Some(ProbePlace::Address(address, definition)) => {
            resolve_one(address, definition, "the probe address")?
                .first()
                .copied()
        }
        _ => None,
    };
    let port = match entry.probe {
        Some(ProbePlace::Port(port)) => Some(port),
        _ => probe_port,
    };
    // Replicas of one host name need different names, so each is named after its address.
    let many = addresses.len() > 1;
    let replica = |address: SocketAddr| {
        let own = port.map_or(address, |port| SocketAddr::new(address.ip(), port.get()));
        ReplicaConfig {
            name: if many {
                address.to_string()
            } else {
                entry.written.clone()
            },
            address,
            server_name: server_name.clone().unwrap_or_else(|| address.ip().into()),
            probe_address: probe_address.unwrap_or(own),
            weight: entry.keys.weight.into(),
            tier: entry.keys.tier,
            zone: entry.keys.zone.clone(),
        }
    };
    let replicas = addresses.into_iter().map(replica);
    Ok(replicas
        .map(|replica| (replica, entry.definition.clone()))
        .collect())
}

fn resolve_one(
    address: &Address,
    definition: &Definition,
    written: &str,
) -> Result<Vec<SocketAddr>, Mistake> {
    let addresses = address
        .resolve()
        .map_err(|why| definition.mistake(format!("{written} {why}")))?;
    match addresses.iter().find_map(|&found| unreachable(found)) {
        Some(why) => Err(definition.mistake(format!("{written} {why}"))),
        None => Ok(addresses),
    }
}

/// Records a mistake if a listener and the admin server have the same address.
pub(super) fn note_admin_collision(
    reader: &mut Reader<'_>,
    listeners: &[Listener],
    admin: Option<&Listener>,
) {
    for (address, definition) in listeners {
        if let Some((admin_address, admin_definition)) = admin
            && overlap(*address, *admin_address)
            && let Some(definition) = admin_definition.as_ref().or(definition.as_ref())
        {
            reader.add_mistake(definition.mistake(format!(
                "listen ({address}) and admin.listen ({admin_address}) collide, expected two addresses"
            )));
        }
    }
}

/// Records a mistake for each replica that is this process itself.
pub(super) fn note_loops(
    reader: &mut Reader<'_>,
    listeners: &[Listener],
    admin: Option<&Listener>,
    replicas: &[(ReplicaConfig, Definition)],
) {
    let own = listeners.iter().chain(admin).map(|(address, _)| *address);
    note_own(reader, &OwnAddresses::new(own), replicas);
}

/// Like [`note_loops`], with the process's own addresses.
pub(super) fn note_own(
    reader: &mut Reader<'_>,
    own: &OwnAddresses,
    replicas: &[(ReplicaConfig, Definition)],
) {
    for (replica, definition) in replicas {
        if let Some(why) = own.why_not(replica.address) {
            reader.add_mistake(definition.mistake(format!("{} {why}", replica.name)));
        }
    }
}
