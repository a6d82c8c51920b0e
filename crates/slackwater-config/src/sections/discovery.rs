//! The sections `[discovery]`, of each service, and `[dns]`: where a fleet comes from that is not a list.

use super::address::{Address, is_host_name};
use super::assemble::timeout;
use crate::toml_reader::values::{Unfit, quantile, show_duration, text};
use crate::toml_reader::{Format, Item, Mistake, Place, Reader, Remark, Severity};
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_core::Quantile;
use std::path::{Path, PathBuf};

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_hours(24);
const DNS_PORT: u16 = 53;
const DNS_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a new replica is spared.
const WARM_UP: Duration = Duration::from_secs(10);

/// The most name servers; resolvers of the system have three.
const SERVERS_MAX: usize = 16;

/// The most replicas of a fleet.
pub const REPLICAS_MAX: usize = 65_536;

/// Whom to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsServers {
    /// In the order of preference; empty: what the system says (`/etc/resolv.conf`).
    pub servers: Vec<SocketAddr>,
    /// For one question to one server, which is asked twice: 10 ms to 1 minute, default 2 s.
    pub timeout: Duration,
}

/// What is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsName {
    /// Each address of this host is a replica, at this port.
    Host(String, u16),
    /// Each address of each target of this service is a replica, at the target's port.
    Service(String),
}

impl core::fmt::Display for DnsName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Host(host, port) => write!(f, "{host}:{port}"),
            Self::Service(service) => f.write_str(service),
        }
    }
}

/// What is believed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardSettings {
    /// The share of the replicas that must still be in a list for it to be taken at once: 0 to 1, default 0. At 0, every
    /// list is that has a replica.
    pub keep_share: Quantile,
    /// A list that has lost more waits for so long: 0 to 24 hours, default 1 minute.
    pub keep_time: Duration,
}

impl Default for GuardSettings {
    fn default() -> Self {
        Self {
            keep_share: Quantile::ZERO,
            keep_time: Duration::from_mins(1),
        }
    }
}

/// What a time to live is kept within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlBounds {
    /// Never sooner: 1 ms to 1 hour, default 1 s.
    pub min: Duration,
    /// Never later: from `min` to 24 hours, default 5 minutes.
    pub max: Duration,
}

impl Default for TtlBounds {
    fn default() -> Self {
        Self {
            min: Duration::from_secs(1),
            max: Duration::from_mins(5),
        }
    }
}

/// Where a service's fleet comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetSource {
    /// The service's `replicas`.
    List,
    /// A name in the DNS.
    Dns(DnsName),
    /// A file that somebody keeps up to date.
    File(PathBuf),
}

/// Where a service's fleet comes from, and what is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoverySettings {
    /// The source.
    pub source: FleetSource,
    /// Which of its lists are taken.
    pub guard: GuardSettings,
    /// For names in the DNS.
    pub ttl: TtlBounds,
    /// A replica that joins gets less than its share for so long: 0 to 1 hour, default 10 s. At 0 it gets all of it at
    /// once.
    pub warm_up: Duration,
}

impl DiscoverySettings {
    /// The section of the service that `prefix` names, and what is to be remarked on it. A service has either a list or
    /// one other source; the list itself is read elsewhere.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> (Self, Vec<Remark>) {
        let source = read_source(reader, prefix);
        let key = |name: &str| format!("{prefix}discovery.{name}");
        let default = GuardSettings::default();
        let share = reader.setting(
            &key("keep_share"),
            default.keep_share,
            "a number from 0 to 1",
            quantile,
        );
        let keep_time = Duration::ZERO..=DAY;
        let guard = GuardSettings {
            keep_share: share.value,
            keep_time: timeout(reader, &key("keep_time"), default.keep_time, &keep_time),
        };
        let default = TtlBounds::default();
        let hour = Duration::from_hours(1);
        let ttl = TtlBounds {
            min: timeout(reader, &key("ttl_min"), default.min, &(MS..=hour)),
            max: timeout(reader, &key("ttl_max"), default.max, &(MS..=DAY)),
        };
        if ttl.min > ttl.max {
            let expected = format!(
                "found less than ttl_min, expected {} or more",
                show_duration(ttl.min)
            );
            reader.add_mistake_near(&key("ttl_max"), expected);
        }
        let mut idle: Vec<(&str, &str)> = Vec::new();
        if !matches!(source, FleetSource::Dns(_)) {
            let told = "only with discovery.dns or discovery.srv";
            idle.extend([("ttl_min", told), ("ttl_max", told)]);
        }
        if source == FleetSource::List {
            let told = "only with discovery.dns, discovery.srv or discovery.file";
            idle.extend([("keep_share", told), ("keep_time", told)]);
        }
        let idle = idle.into_iter().map(|(name, told)| (key(name), told));
        let remarks = idle
            .filter(|(field, _)| reader.has(field))
            .map(|(field, told)| Remark {
                severity: Severity::Warning,
                about: Mistake {
                    place: reader.place_near(&field),
                    field,
                    message: format!("does nothing here, {told}"),
                },
            })
            .collect();
        let settings = Self {
            source,
            guard,
            ttl,
            warm_up: timeout(reader, &key("warm_up"), WARM_UP, &(Duration::ZERO..=hour)),
        };
        (settings, remarks)
    }
}

fn read_source(reader: &mut Reader<'_>, prefix: &str) -> FleetSource {
    let [dns, srv, file] =
        ["dns", "srv", "file"].map(|name| reader.take(&format!("{prefix}discovery.{name}")));
    let base = reader.source().and_then(|source| source.file().parent());
    let base = base.map(Path::to_owned);
    let said: Vec<_> = [&dns, &srv, &file].into_iter().flatten().cloned().collect();
    let list = format!("{prefix}replicas");
    if let Some(first) = said.first()
        && let Some(list) = reader.said(&list)
    {
        reader.add_mistake(list.mistake(format!(
            "is given beside {}, expected one of the two",
            first.said.field
        )));
        reader.give_up(&list.field);
    }
    if let [first, second, ..] = said.as_slice() {
        reader.add_mistake(second.mistake(format!(
            "is given beside {}, expected one of the two",
            first.said.field
        )));
    }
    let dns = dns.and_then(|item| reader.note(read_host(&item)));
    let srv = srv.and_then(|item| reader.note(read_service_name(&item)));
    let file = file.and_then(|item| reader.note(read_file(&item, base.as_deref())));
    let name = dns.or(srv).map(FleetSource::Dns);
    let source = name.or(file.map(FleetSource::File));
    match source {
        Some(source) => source,
        None if said.is_empty() => FleetSource::List,
        // Its mistake is noted, and nobody will look at this; that there is no list either is none.
        None => FleetSource::File(PathBuf::new()),
    }
}

fn read_host(item: &Item<'_>) -> Result<DnsName, Mistake> {
    const EXPECTED: &str = "a host name and a port such as \"web.internal:8080\"";
    let written = item.read(|value| text(value, EXPECTED), EXPECTED)?;
    match Address::parse(written) {
        Ok(Address::Name(host, port)) if port > 0 => Ok(DnsName::Host(host, port)),
        Ok(Address::Name(..)) => Err(item.mistake(format!(
            "found {written:?}, expected a port from 1 to 65535"
        ))),
        Ok(Address::Ip(_)) => Err(item.mistake(format!(
            "found the address {written:?}, which never changes, expected {EXPECTED}; addresses are a list: replicas"
        ))),
        Err(expected) => Err(item.mistake(format!("found {written:?}, {expected}"))),
    }
}

fn read_service_name(item: &Item<'_>) -> Result<DnsName, Mistake> {
    const EXPECTED: &str = "a service name such as \"_http._tcp.web.internal\"";
    let written = item.read(|value| text(value, EXPECTED), EXPECTED)?;
    if is_host_name(written) && written.starts_with('_') {
        return Ok(DnsName::Service(written.to_ascii_lowercase()));
    }
    Err(item.mistake(format!("found {written:?}, expected {EXPECTED}")))
}

/// A relative name in a configuration file starts from that file's own directory.
fn read_file(item: &Item<'_>, base: Option<&Path>) -> Result<PathBuf, Mistake> {
    const EXPECTED: &str = "the name of a file that ends in .toml, .json, .yaml or .yml";
    let written = item.read(|value| text(value, EXPECTED), EXPECTED)?;
    let base = base.filter(|_| matches!(item.said.place, Place::Line { .. }));
    let file = base.map_or_else(|| PathBuf::from(written), |base| base.join(written));
    if Format::of(&file).is_none() {
        return Err(item.mistake(format!("found {written:?}, expected {EXPECTED}")));
    }
    Ok(file)
}

/// The section `dns`, which is for all services.
pub(super) fn read_dns(reader: &mut Reader<'_>) -> DnsServers {
    const EXPECTED: &str = "an address such as \"10.0.0.53\" or \"10.0.0.53:53\"";
    let items = reader.take_list("dns.servers").unwrap_or_default();
    let mut servers = Vec::new();
    for item in items {
        let server = item.read(
            |value| {
                let written = text(value, EXPECTED)?;
                let ip = written.parse().map(|ip| SocketAddr::new(ip, DNS_PORT));
                let server = written.parse().or(ip);
                server.map_err(|_| Unfit::Other(format!("found {written:?}, expected {EXPECTED}")))
            },
            EXPECTED,
        );
        servers.extend(reader.note(server));
        if servers.len() > SERVERS_MAX {
            reader.add_mistake(item.mistake(format!(
                "is one too many, expected at most {SERVERS_MAX} servers"
            )));
            break;
        }
    }
    let range = MS * 10..=Duration::from_mins(1);
    DnsServers {
        servers,
        timeout: timeout(reader, "dns.timeout", DNS_TIMEOUT, &range),
    }
}

impl Default for DnsServers {
    /// The system's.
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: DNS_TIMEOUT,
        }
    }
}
