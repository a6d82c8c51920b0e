//! Fleets in the DNS: every address of a host name, or every target of a service name (SRV).
//!
//! If a host has both IPv4 and IPv6 addresses, only the IPv4 addresses are used, as everywhere in
//! Slackwater. IPv6 is queried only after the server has answered that there is no IPv4 address: a
//! late or lost answer must not replace the whole fleet. Likewise, if the lookup of one target of a
//! service fails, the whole answer is discarded; a target without addresses is only left out.
//! Weights and priorities come from the SRV records; priorities become tiers (RFC 2782: the lowest
//! number is the most urgent). Only the last fleet is cached.

use super::remarks::Remarks;
use super::schedule::Schedule;
use super::usable::sift;
use super::{Fleet, Source};
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU16;
use core::time::Duration;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use rustls::pki_types::ServerName;
use slackwater_config::REPLICAS_MAX;
use slackwater_config::TtlBounds;
use slackwater_config::{DnsName, DnsServers};
use slackwater_config::{OwnAddresses, ReplicaConfig, Zone};
use std::collections::BTreeMap;

/// Concurrent lookups of targets of one service.
const LOOKUPS_AT_ONCE: usize = 8;

/// Maximum number of targets of one service.
const TARGETS_MAX: usize = 4096;

/// Time to live of a negative answer that carries none.
const NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// DNS client; one for the whole process, cheap to clone.
#[derive(Clone)]
pub struct Resolver {
    lookups: TokioResolver,
    /// Domains to which a name without a final dot may belong, in the order of lookups.
    domains: Vec<Name>,
}

impl Resolver {
    /// Reads the system's settings, unless servers are given.
    ///
    /// # Errors
    ///
    /// Fails if the system's settings cannot be read.
    pub fn new(dns: &DnsServers) -> Result<Self, String> {
        let settings = if dns.servers.is_empty() {
            read_system_conf()
        } else {
            let servers = dns.servers.iter().map(|server| name_server(*server));
            let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
            Ok((config, ResolverOpts::default()))
        };
        let resolver = settings
            .and_then(|(config, options)| Self::with_settings(config, options, dns.timeout));
        resolver.map_err(|error| {
            format!(
                "the system's DNS settings cannot be used ({error}); name servers in dns.servers"
            )
        })
    }

    fn with_settings(
        config: ResolverConfig,
        mut options: ResolverOpts,
        timeout: Duration,
    ) -> Result<Self, NetError> {
        options.timeout = timeout;
        // No cache: [`Schedule`] decides how long an answer is valid.
        options.cache_size = 0;
        // An answer that does not fit into a datagram is repeated over TCP anyway. This option is
        // for networks that lose datagrams.
        options.try_tcp_on_error = true;
        let domains = config.domain().into_iter().chain(config.search());
        let domains = domains.cloned().collect();
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let lookups = builder.with_options(options).build()?;
        Ok(Self { lookups, domains })
    }

    /// Returns the addresses of a host and their time to live. The list is empty if the host has no
    /// addresses.
    async fn addresses(&self, host: &str) -> Result<(Vec<IpAddr>, Duration), Unknown> {
        let (four, ttl) = self.ask(host, RecordType::A).await?;
        if !four.is_empty() {
            return Ok((four, ttl));
        }
        let (six, six_ttl) = self.ask(host, RecordType::AAAA).await?;
        // The shorter time to live counts, so that new IPv4 addresses are noticed.
        Ok((six, ttl.min(six_ttl)))
    }

    async fn ask(&self, host: &str, kind: RecordType) -> Result<(Vec<IpAddr>, Duration), Unknown> {
        let (records, ttl) = self.records(host, kind).await?;
        let addresses = records.iter().filter_map(|record| match &record.data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        });
        Ok((addresses.take(REPLICAS_MAX).collect(), ttl))
    }

    /// Returns the records of one kind; an answer may also contain records that lead to them.
    ///
    /// A name without a final dot is looked up in one domain after the other, until one has
    /// records. If none has, a failed lookup is the result: the records may be there.
    async fn records(
        &self,
        name: &str,
        kind: RecordType,
    ) -> Result<(Vec<Record>, Duration), Unknown> {
        let parsed = Name::from_utf8(name).map_err(|error| Unknown(format!("{name}: {error}")))?;
        let mut none = Ok((Vec::new(), Duration::MAX));
        for name in self.full_names(parsed) {
            match (self.records_at(name, kind).await, &mut none) {
                (Ok((records, ttl)), _) if !records.is_empty() => return Ok((records, ttl)),
                (Ok((_, ttl)), Ok((_, least))) => *least = ttl.min(*least),
                (Err(unknown), Ok(_)) => none = Err(unknown),
                (_, Err(_)) => {}
            }
        }
        none
    }

    /// The fully qualified names that `name` may mean, in the order of lookups. hickory itself goes
    /// on to the next one after a failure, too, and returns only the last result.
    fn full_names(&self, name: Name) -> Vec<Name> {
        if name.is_fqdn() {
            return vec![name];
        }
        let in_domain = |domain| name.clone().append_domain(domain).ok();
        let mut names: Vec<_> = self.domains.iter().filter_map(in_domain).collect();
        let labels_min = self.lookups.options().ndots + 1;
        let is_first = usize::from(name.num_labels()) >= labels_min || name.is_localhost();
        let index = if is_first { 0 } else { names.len() };
        let mut full = name;
        full.set_fqdn(true);
        names.insert(index, full);
        // The machine's own domain is usually the first one of the search list, too.
        names.dedup();
        names
    }

    /// As [`records`](Self::records), for a fully qualified name.
    async fn records_at(
        &self,
        name: Name,
        kind: RecordType,
    ) -> Result<(Vec<Record>, Duration), Unknown> {
        let found = self.lookups.lookup(name.clone(), kind).await;
        let records = match found {
            Ok(found) => found.answers().to_vec(),
            Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
                let ttl = none.negative_ttl.map_or(NEGATIVE_TTL, seconds);
                return Ok((Vec::new(), ttl));
            }
            Err(error) => return Err(Unknown(format!("{name}: {error}"))),
        };
        let ttl = records.iter().map(|record| record.ttl).min();
        Ok((records, ttl.map_or(NEGATIVE_TTL, seconds)))
    }
}

impl core::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    for connection in &mut server.connections {
        connection.port = address.port();
    }
    server
}

/// Why a lookup failed.
#[derive(Debug, PartialEq, Eq)]
struct Unknown(String);

/// Looks up a name repeatedly.
#[derive(Debug)]
pub struct DnsSource {
    resolver: Resolver,
    name: DnsName,
    probe_port: Option<NonZeroU16>,
    /// Overrides the host's own name.
    server_name: Option<ServerName<'static>>,
    own: OwnAddresses,
    remarks: Remarks,
    schedule: Schedule,
    /// Wait before the next lookup.
    wait: Duration,
}

impl DnsSource {
    /// `probe_port` is the port for probes; without it, probes go to the replica's own port.
    /// `server_name` is the name that certificates must be valid for; by default it is the host
    /// that was looked up. Addresses in `own` are left out. `seed` is for the times of the lookups.
    pub fn new(
        resolver: Resolver,
        name: DnsName,
        probe_port: Option<NonZeroU16>,
        server_name: Option<ServerName<'static>>,
        own: OwnAddresses,
        ttl: TtlBounds,
        seed: u64,
    ) -> Self {
        Self {
            resolver,
            name,
            probe_port,
            server_name,
            own,
            remarks: Remarks::default(),
            schedule: Schedule::new(ttl, seed),
            wait: Duration::ZERO,
        }
    }

    async fn look_up(&mut self) -> Result<Fleet, String> {
        tokio::time::sleep(self.wait).await;
        let found = match &self.name {
            DnsName::Host(host, port) => {
                let found = self.resolver.addresses(host).await;
                found.map(|(addresses, ttl)| (found_at(host, &addresses, *port), ttl))
            }
            DnsName::Service(service) => service_addresses(&self.resolver, service).await,
        };
        match found {
            Ok((addresses, ttl)) => {
                self.wait = self.schedule.after_answer(ttl);
                if addresses.is_empty() {
                    return Err(format!("{} has no addresses", self.name));
                }
                // Blocked names are answered with such addresses; used as replicas, they would make
                // the proxy send requests to itself.
                let (usable, left_out) = sift(&self.own, addresses, |found| found.address);
                if usable.is_empty() {
                    return Err(format!("{} has no usable address: {left_out}", self.name));
                }
                let remark = (!left_out.is_empty()).then(|| format!("address ignored: {left_out}"));
                self.remarks.log(&self.name(), Vec::from_iter(remark));
                let replicas = usable.into_iter().map(|found| self.replica(found));
                Ok(Fleet::new(replicas.take(REPLICAS_MAX)))
            }
            Err(Unknown(why)) => {
                self.wait = self.schedule.after_failure();
                Err(why)
            }
        }
    }

    fn replica(&self, found: Found) -> ReplicaConfig {
        let Found {
            address,
            host,
            weight,
            tier,
        } = found;
        let own = || {
            let host = ServerName::try_from(host.trim_end_matches('.').to_owned());
            host.unwrap_or_else(|_| address.ip().into())
        };
        let port = self.probe_port.map_or(address.port(), NonZeroU16::get);
        ReplicaConfig {
            name: address.to_string(),
            address,
            probe_address: SocketAddr::new(address.ip(), port),
            server_name: self.server_name.clone().unwrap_or_else(own),
            weight,
            tier,
            // The DNS knows no zones.
            zone: Zone::default(),
        }
    }
}

impl Source for DnsSource {
    fn name(&self) -> String {
        format!("dns {}", self.name)
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Fleet, String>> {
        self.look_up().boxed()
    }
}

/// An address, and the host that it was found for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    tier: u8,
    address: SocketAddr,
    host: String,
    weight: u32,
}

fn found_at(host: &str, addresses: &[IpAddr], port: u16) -> Vec<Found> {
    let mut addresses = addresses.to_vec();
    // DNS servers shuffle their answers.
    addresses.sort_unstable();
    addresses.dedup();
    let addresses = addresses.into_iter();
    let found = |ip| Found {
        tier: 0,
        address: SocketAddr::new(ip, port),
        host: host.to_owned(),
        weight: 1,
    };
    addresses.map(found).collect()
}

/// One target of a service (an SRV record).
struct Target {
    priority: u16,
    weight: u16,
    host: String,
    port: u16,
}

impl Target {
    fn of(record: &Record) -> Option<Self> {
        match &record.data {
            // RFC 2782: a target of "." means that the service is decidedly not available here.
            RData::SRV(target) if !target.target.is_root() => Some(Self {
                priority: target.priority,
                weight: target.weight,
                host: target.target.to_ascii(),
                port: target.port,
            }),
            _ => None,
        }
    }

    /// Looks up the target's addresses; each gets the target's whole weight.
    async fn look_up(self, resolver: Resolver) -> Result<(u16, Vec<Found>, Duration), Unknown> {
        let (addresses, ttl) = resolver.addresses(&self.host).await?;
        let mut found = found_at(&self.host, &addresses, self.port);
        for found in &mut found {
            found.weight = self.weight.into();
        }
        Ok((self.priority, found, ttl))
    }
}

/// A weight of 0 beside other weights counts as 1/16.
const SHARES_OF_ONE: u32 = 16;

/// Replaces weights of 0. RFC 2782: beside other weights, 0 is chosen very rarely; if all weights
/// are 0, all are equal.
fn settle_weights(of_one_priority: &mut [Found]) {
    let none = of_one_priority.iter().filter(|found| found.weight == 0);
    let all = of_one_priority.len();
    let settled: fn(u32) -> u32 = match none.count() {
        0 => return,
        none if none == all => |_| 1,
        _ => |weight| (weight * SHARES_OF_ONE).max(1),
    };
    for found in of_one_priority {
        found.weight = settled(found.weight);
    }
}

/// Looks up the addresses of all targets. The most urgent priority that has any address is tier 0,
/// the next one tier 1.
async fn service_addresses(
    resolver: &Resolver,
    service: &str,
) -> Result<(Vec<Found>, Duration), Unknown> {
    let (records, mut ttl) = resolver.records(service, RecordType::SRV).await?;
    let targets = records.iter().filter_map(Target::of).take(TARGETS_MAX);
    let lookups: Vec<_> = targets
        .map(|target| target.look_up(resolver.clone()))
        .collect();
    let looked_up: Vec<Result<_, Unknown>> = stream::iter(lookups)
        .buffered(LOOKUPS_AT_ONCE)
        .collect()
        .await;
    let mut by_priority: BTreeMap<u16, Vec<Found>> = BTreeMap::new();
    for found in looked_up {
        let (priority, addresses, target_ttl) = found?;
        ttl = ttl.min(target_ttl);
        if !addresses.is_empty() {
            by_priority.entry(priority).or_default().extend(addresses);
        }
    }
    let mut all = Vec::new();
    for (tier, mut found) in by_priority.into_values().enumerate() {
        settle_weights(&mut found);
        let tier = u8::try_from(tier).unwrap_or(u8::MAX);
        for found in &mut found {
            found.tier = tier.min(ReplicaConfig::TIER_MAX);
        }
        all.extend(found);
    }
    all.sort_unstable();
    Ok((all, ttl))
}

#[cfg(test)]
mod tests;
