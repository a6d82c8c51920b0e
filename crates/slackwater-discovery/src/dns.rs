//! Fleets in the DNS: every address of a host name, or every target of a service name (SRV).
//!
//! As everywhere here, of a host with IPv4 and IPv6 addresses the IPv4 ones are taken. IPv6 is
//! asked for only once the server has said that there is no IPv4 address: an answer that is late or
//! lost must not turn the whole fleet over. Likewise one target of a service that cannot be looked
//! up spoils the whole answer, while one that is said to have no address is merely left out. A
//! service's targets bring their weights, and their priorities are tiers (RFC 2782: the lowest
//! number is the most urgent). Nothing is cached here but the last fleet.

use super::schedule::Schedule;
use super::{Fleet, Source};
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU16;
use core::time::Duration;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use rustls::pki_types::ServerName;
use slackwater_config::REPLICAS_MAX;
use slackwater_config::TtlBounds;
use slackwater_config::{DnsName, DnsServers};
use slackwater_config::{OwnAddresses, ReplicaConfig, unreachable};
use std::collections::BTreeMap;

/// Targets of one service that are looked up at once.
const LOOKUPS_AT_ONCE: usize = 8;

/// The most targets of one service.
const TARGETS_MAX: usize = 4096;

/// A negative answer without a time to live of its own is good for so long.
const NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// Asks the DNS; one for the whole process, cheap to clone.
#[derive(Clone)]
pub struct Resolver(TokioResolver);

impl Resolver {
    /// Reads the system's settings, unless servers are given.
    ///
    /// # Errors
    ///
    /// The system's settings cannot be read.
    pub fn new(dns: &DnsServers) -> Result<Self, String> {
        let told = |error: NetError| {
            format!(
                "the system's DNS settings cannot be used ({error}); name servers in dns.servers"
            )
        };
        let mut builder = if dns.servers.is_empty() {
            TokioResolver::builder_tokio().map_err(told)?
        } else {
            let servers = dns.servers.iter().map(|server| name_server(*server));
            let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        let options = builder.options_mut();
        options.timeout = dns.timeout;
        // How long an answer is good for is the schedule's business.
        options.cache_size = 0;
        // An answer that does not fit a datagram is asked for again by TCP anyway; this is for what
        // loses datagrams.
        options.try_tcp_on_error = true;
        builder.build().map(Self).map_err(told)
    }

    /// The addresses of a host, and how long they are good for; none if there are none.
    async fn addresses(&self, host: &str) -> Result<(Vec<IpAddr>, Duration), Unknown> {
        let (four, ttl) = self.ask(host, RecordType::A).await?;
        if !four.is_empty() {
            return Ok((four, ttl));
        }
        let (six, six_ttl) = self.ask(host, RecordType::AAAA).await?;
        // Should IPv4 addresses appear, they are wanted.
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

    /// The records of one kind, which may come with others that lead to them.
    async fn records(
        &self,
        name: &str,
        kind: RecordType,
    ) -> Result<(Vec<Record>, Duration), Unknown> {
        let found = self.0.lookup(name, kind).await;
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

/// Nobody could say; why.
#[derive(Debug)]
struct Unknown(String);

/// Looks a name up, again and again.
#[derive(Debug)]
pub struct DnsSource {
    resolver: Resolver,
    name: DnsName,
    probe_port: Option<NonZeroU16>,
    /// In place of the host's own.
    server_name: Option<ServerName<'static>>,
    own: OwnAddresses,
    /// What was found and is no place for a replica, as the log has it.
    left_out: String,
    schedule: Schedule,
    /// Before the next question.
    wait: Duration,
}

impl DnsSource {
    /// `probe_port` is where probes go; otherwise they go to the replica's own port. `server_name`
    /// is what certificates must be for, where it is not the host that the address was found for.
    /// What is found at `own` is left out. `seed` is for when to ask.
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
            left_out: String::new(),
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
                // Blocked names are answered so, and who takes it for an address sends requests to
                // itself.
                let (usable, left_out) = self.sift(addresses);
                if usable.is_empty() {
                    return Err(format!("{} has no usable address: {left_out}", self.name));
                }
                self.log_left_out(left_out);
                let replicas = usable.into_iter().map(|found| self.replica(found));
                Ok(Fleet::new(replicas.take(REPLICAS_MAX)))
            }
            Err(Unknown(why)) => {
                self.wait = self.schedule.after_failure();
                Err(why)
            }
        }
    }

    /// Addresses that may be replicas, and what there is to say of the others.
    fn sift(&self, addresses: Vec<Found>) -> (Vec<Found>, String) {
        let mut usable = Vec::with_capacity(addresses.len());
        let mut left_out = Vec::new();
        for found in addresses {
            let why = unreachable(found.address).map(str::to_owned);
            match why.or_else(|| self.own.why_not(found.address)) {
                Some(why) => left_out.push((found.address, why)),
                None => usable.push(found),
            }
        }
        let told = (left_out.first()).map(|(address, why)| match left_out.len() {
            1 => format!("{address} {why}"),
            many => format!("{address} {why}; and {} more like it", many - 1),
        });
        (usable, told.unwrap_or_default())
    }

    /// Says so in the log, once for as long as it stays the same.
    fn log_left_out(&mut self, left_out: String) {
        if !left_out.is_empty() && left_out != self.left_out {
            tracing::warn!(source = self.name(), "an address is left out: {left_out}");
        }
        self.left_out = left_out;
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
    // Servers shuffle their answers.
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

/// Where a service says that it is.
struct Target {
    priority: u16,
    weight: u16,
    host: String,
    port: u16,
}

impl Target {
    fn of(record: &Record) -> Option<Self> {
        match &record.data {
            // The root stands for "decidedly not here".
            RData::SRV(target) if !target.target.is_root() => Some(Self {
                priority: target.priority,
                weight: target.weight,
                host: target.target.to_ascii(),
                port: target.port,
            }),
            _ => None,
        }
    }

    /// Its addresses, each with all of its weight.
    async fn look_up(self, resolver: Resolver) -> Result<(u16, Vec<Found>, Duration), Unknown> {
        let (addresses, ttl) = resolver.addresses(&self.host).await?;
        let mut found = found_at(&self.host, &addresses, self.port);
        for found in &mut found {
            found.weight = self.weight.into();
        }
        Ok((self.priority, found, ttl))
    }
}

/// A weight of 0 beside others is a sixteenth of 1.
const SHARES_OF_ONE: u32 = 16;

/// Targets with a weight of 0 beside others are to be chosen hardly ever, and where all have 0 all
/// are alike (RFC 2782).
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

/// Every address of all targets. The most urgent priority that has any address is tier 0, the next
/// one tier 1.
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
