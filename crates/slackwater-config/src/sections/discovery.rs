//! The section `[discovery]` of each service, and `[dns]`: sources of a fleet other than a list.

use super::address::{Address, is_host_name};
use super::files::file_name;
use super::idle::idle_key;
use super::kubernetes::KubernetesService;
use crate::table::{
    self, Any, DAY, Described, FILE, HOUR, MINUTE, MS, Many, STRING, Share, Span, Within, Written,
    field, keys, settings,
};
use crate::toml_reader::values::{Unfit, quote, show_duration, text};
use crate::toml_reader::{Format, Item, Mistake, Reader, Remark};
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_core::Quantile;
use slackwater_core::health::HealthSettings;
use slackwater_xds::FleetName;
use std::path::PathBuf;

const RESOURCE_EXPECTED: &str = "the name of one EDS resource, from 1 to 1024 bytes of text";
const CLUSTER_EXPECTED: &str = "the name of one cluster, from 1 to 1024 bytes of text";

const SERVER_EXPECTED: &str = "an address such as \"10.0.0.53\" or \"10.0.0.53:53\"";

/// The most replicas of a service.
pub const REPLICAS_MAX: usize = 65_536;

settings! {
    /// The DNS servers to query.
    pub struct DnsServers in "dns" {
        /// Name servers, with or without a port, such as `"10.0.0.53"`.
        servers: Vec<SocketAddr> = Vec::new(), SERVERS, "those of the system";
        /// Timeout of one query to one server.
        timeout: Duration = Duration::from_secs(2), Within(Span, Duration::from_millis(10)..=MINUTE);
    }
}

const SERVERS: Many<Written<SocketAddr>> = Many {
    of: Written {
        what: SERVER_EXPECTED,
        expected: SERVER_EXPECTED,
        parse: |written| {
            let ip = written.parse().map(|ip| SocketAddr::new(ip, 53));
            written.parse().or(ip).map_err(|_| Unfit::Range)
        },
        text: SocketAddr::to_string,
    },
    // The system's own resolver uses at most three.
    max: 16,
    what: "servers",
};

/// The DNS name to look up.
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

/// Protection against lists that lose many replicas at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardSettings {
    /// The share of the replicas that a new list must keep to be accepted at once: 0 to 1, default
    /// 0. At 0, every list with a replica is accepted at once.
    pub keep_share: Quantile,
    /// A list that keeps fewer waits this long: 0 to 24 hours, default 1 minute.
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

/// Bounds of the time between two lookups, whatever the TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlBounds {
    /// Lower bound: 1 ms to 1 hour, default 1 s.
    pub min: Duration,
    /// Upper bound: `min` to 24 hours, default 5 minutes.
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
    /// A DNS name.
    Dns(DnsName),
    /// A file that another program updates.
    File(PathBuf),
    /// The `EndpointSlice`s of a service of a cluster.
    Kubernetes(KubernetesService),
    /// A fleet of the control plane, by the name of its EDS resource or of its cluster.
    Xds(FleetName),
}

impl FleetSource {
    /// Whether the source is a cluster's API.
    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Kubernetes(_))
    }
}

/// Where a service's fleet comes from, and which lists are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoverySettings {
    /// The source.
    pub source: FleetSource,
    /// When a new list is accepted.
    pub guard: GuardSettings,
    /// Bounds of a DNS name's TTL.
    pub ttl: TtlBounds,
    /// Warm-up time, in which a new replica gets less than its share: 0 to 1 hour, default 10 s. At
    /// 0 it gets its whole share at once.
    pub warm_up: Duration,
}

impl Default for DiscoverySettings {
    fn default() -> Self {
        Self {
            source: FleetSource::List,
            guard: GuardSettings::default(),
            ttl: TtlBounds::default(),
            warm_up: HealthSettings::WARM_UP_STANDARD,
        }
    }
}

keys! { DiscoverySettings in "discovery" {
    /// Every address of the host is a replica, at this port: the IPv4 ones, if there are any.
    dns: Described("a host name and a port", STRING), "none";
    /// Every address of every target is a replica, at the target's port. SRV weights apply;
    /// priorities are [tiers](../how-to/weights-and-tiers.md#tiers).
    srv: Described("a service name such as `\"_http._tcp.web.internal\"`", STRING), "none";
    /// A file that lists the replicas in TOML, JSON or YAML, by its suffix. It is read again when
    /// it changes.
    file: FILE, "none";
    /// The endpoints of this EDS resource, from the [control plane](../how-to/xds.md). Needs
    /// `xds.server` or `xds.bootstrap`.
    xds: Described("the name of a resource", STRING), "none";
    /// The endpoints of this cluster (CDS) of the control plane, as `discovery.xds`. It may choose
    /// the [policy](../how-to/xds.md#the-policy-of-a-cluster).
    xds_cluster: Described("the name of a cluster", STRING), "none";
    /// Every ready pod of a service of a [cluster](../how-to/kubernetes.md):
    /// `namespace/service:port`. The port is a name, or the number at which the pods listen.
    kubernetes: Described("a service and a port such as `\"shop/web:http\"`", STRING), "none";
    /// Shortest time between two lookups of a name, whatever its TTL.
    ttl_min at ttl.min: Within(Span, MS..=HOUR);
    /// Longest time between two lookups of a name.
    ttl_max at ttl.max: Within(Span, MS..=DAY);
    /// A new list that keeps fewer than this share of the replicas waits for `keep_time`. 0: every
    /// list counts at once. Empty lists never do.
    keep_share at guard.keep_share: Any(Share);
    /// How long the source must repeat such a list until it counts.
    keep_time at guard.keep_time: Within(Span, Duration::ZERO..=DAY);
    /// Longest time until a new replica gets its whole share ([warming
    /// up](../explanation/health.md#replicas-that-are-new)). 0: at once.
    warm_up at warm_up: Within(Span, Duration::ZERO..=HOUR);
} }

impl DiscoverySettings {
    /// Reads the section of the service that `prefix` names, with remarks. A service has either a
    /// list or one other source; the list itself is read elsewhere.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> (Self, Vec<Remark>) {
        let settings = Self {
            source: read_source(reader, prefix),
            ..table::read(reader, prefix)
        };
        let key = |name| field::<Self>(prefix, name);
        let (source, ttl) = (&settings.source, settings.ttl);
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
        if *source == FleetSource::List {
            let told = "only with discovery.dns, srv, file, kubernetes, xds or xds_cluster";
            idle.extend([("keep_share", told), ("keep_time", told)]);
        }
        let idle = idle.into_iter();
        let remarks = idle.filter_map(|(name, told)| idle_key(reader, &key(name), told));
        let remarks = remarks.collect();
        (settings, remarks)
    }
}

impl DiscoverySettings {
    /// Writes the keys that have an effect.
    pub(super) fn write(&self, to: &mut String, prefix: &str) {
        let source = match &self.source {
            FleetSource::List => ("", String::new()),
            FleetSource::Dns(name @ DnsName::Host(..)) => ("dns", quote(name)),
            FleetSource::Dns(name @ DnsName::Service(_)) => ("srv", quote(name)),
            FleetSource::File(file) => ("file", file_name(file)),
            FleetSource::Kubernetes(service) => ("kubernetes", quote(service)),
            FleetSource::Xds(FleetName::Endpoints(name)) => ("xds", quote(name)),
            FleetSource::Xds(FleetName::Cluster(name)) => ("xds_cluster", quote(name)),
        };
        let does_something = |name: &str| match self.source {
            FleetSource::Dns(_) => true,
            FleetSource::File(_) | FleetSource::Kubernetes(_) | FleetSource::Xds(_) => {
                !name.starts_with("ttl_")
            }
            FleetSource::List => name == "warm_up",
        };
        let mut keys = table::shown_with(self, &[(source.0, Some(source.1))]);
        keys.retain(|(name, _)| does_something(name));
        table::write_keys(to, &format!("{prefix}discovery"), keys);
    }
}

fn read_source(reader: &mut Reader<'_>, prefix: &str) -> FleetSource {
    let [dns, srv, file, kubernetes, xds, cluster] =
        ["dns", "srv", "file", "kubernetes", "xds", "xds_cluster"]
            .map(|name| reader.take(&format!("{prefix}discovery.{name}")));
    let all = [&dns, &srv, &file, &kubernetes, &xds, &cluster];
    let set: Vec<_> = all.into_iter().flatten().cloned().collect();
    let list = format!("{prefix}replicas");
    if let Some(first) = set.first()
        && let Some(list) = reader.definition(&list)
    {
        reader.add_mistake(list.mistake(format!(
            "is given beside {}, expected one of the two",
            first.definition.field
        )));
        reader.give_up(&list.field);
    }
    if let [first, second, ..] = set.as_slice() {
        reader.add_mistake(second.mistake(format!(
            "is given beside {}, expected one of the two",
            first.definition.field
        )));
    }
    let dns = dns.and_then(|item| reader.note(read_host(&item)));
    let srv = srv.and_then(|item| reader.note(read_service_name(&item)));
    let file = file.and_then(|item| {
        let read = read_file(reader, &item);
        reader.note(read)
    });
    let kubernetes = kubernetes.and_then(|item| reader.note(KubernetesService::read(&item)));
    let xds = xds.and_then(|item| reader.note(read_resource_name(&item, RESOURCE_EXPECTED)));
    let cluster = cluster.and_then(|item| reader.note(read_resource_name(&item, CLUSTER_EXPECTED)));
    let xds = xds.map(FleetName::Endpoints);
    let xds = xds.or(cluster.map(FleetName::Cluster));
    let name = dns.or(srv).map(FleetSource::Dns);
    let source = name.or(file.map(FleetSource::File));
    let source = source.or(kubernetes.map(FleetSource::Kubernetes));
    let source = source.or(xds.map(FleetSource::Xds));
    match source {
        Some(source) => source,
        None if set.is_empty() => FleetSource::List,
        // The mistake is already recorded, so this value is never used. It only avoids a second
        // mistake about the missing list.
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

fn read_file(reader: &Reader<'_>, item: &Item<'_>) -> Result<PathBuf, Mistake> {
    const EXPECTED: &str = "the name of a file that ends in .toml, .json, .yaml or .yml";
    let written = item.read(|value| text(value, EXPECTED), EXPECTED)?;
    let file = reader.path_of(item, written);
    if Format::of(&file).is_none() {
        return Err(item.mistake(format!("found {written:?}, expected {EXPECTED}")));
    }
    Ok(file)
}

/// Reads the name of a resource, which is any text to everybody but the control plane.
fn read_resource_name(item: &Item<'_>, expected: &'static str) -> Result<String, Mistake> {
    let written = item.read(|value| text(value, expected), expected)?;
    if FleetName::fits(written) {
        return Ok(written.to_owned());
    }
    Err(item.mistake(format!("is no name, expected {expected}")))
}
