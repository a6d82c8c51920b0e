//! Fleets in the DNS: every address of a host name, or every target of a service name (SRV).
//!
//! As everywhere here, of a host with IPv4 and IPv6 addresses the IPv4 ones are taken. IPv6 is asked for only once the
//! server has said that there is no IPv4 address: an answer that is late or lost must not turn the whole fleet over.
//! Likewise one target of a service that cannot be looked up spoils the whole answer, while one that is said to have no
//! address is merely left out. Of a service's targets those of the most urgent priority that has any address are taken
//! (RFC 2782: the lowest number). Nothing is cached here but the last fleet.

use super::schedule::Schedule;
use super::{Fleet, REPLICAS_MAX, Source, TtlBounds};
use crate::config::{ReplicaConfig, unreachable};
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
use std::collections::BTreeMap;

/// Targets of one service that are looked up at once.
const LOOKUPS_AT_ONCE: usize = 8;

/// The most targets of one service.
const TARGETS_MAX: usize = 4096;

/// A negative answer without a time to live of its own is good for so long.
const NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// Whom to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DnsServers {
    /// In the order of preference; empty: what the system says (`/etc/resolv.conf`).
    pub(crate) servers: Vec<SocketAddr>,
    /// For one question to one server, which is asked twice: 10 ms to 1 minute, default 2 s.
    pub(crate) timeout: Duration,
}

/// Asks the DNS; one for the whole process, cheap to clone.
#[derive(Clone)]
pub(crate) struct Resolver(TokioResolver);

impl Resolver {
    /// Reads the system's settings, unless servers are given.
    ///
    /// # Errors
    ///
    /// The system's settings cannot be read.
    pub(crate) fn new(dns: &DnsServers) -> Result<Self, String> {
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
        // An answer that does not fit a datagram is asked for again by TCP anyway; this is for what loses datagrams.
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

/// What is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DnsName {
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

/// Looks a name up, again and again.
#[derive(Debug)]
pub(crate) struct DnsSource {
    resolver: Resolver,
    name: DnsName,
    probe_port: Option<NonZeroU16>,
    /// In place of the host's own.
    server_name: Option<ServerName<'static>>,
    schedule: Schedule,
    /// Before the next question.
    wait: Duration,
}

impl DnsSource {
    /// `probe_port` is where probes go; otherwise they go to the replica's own port. `server_name` is what certificates must
    /// be for, where it is not the host that the address was found for. `seed` is for when to ask.
    pub(crate) fn new(
        resolver: Resolver,
        name: DnsName,
        probe_port: Option<NonZeroU16>,
        server_name: Option<ServerName<'static>>,
        ttl: TtlBounds,
        seed: u64,
    ) -> Self {
        Self {
            resolver,
            name,
            probe_port,
            server_name,
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
                // Blocked names are answered so, and who takes it for an address sends requests to itself.
                let why = (addresses.iter())
                    .find_map(|(found, _)| Some(format!("{found} {}", unreachable(*found)?)));
                let mut usable = (addresses.into_iter())
                    .filter(|(found, _)| unreachable(*found).is_none())
                    .peekable();
                if usable.peek().is_none() {
                    let why = why.unwrap_or_default();
                    return Err(format!("{} has no usable address: {why}", self.name));
                }
                let replicas = usable.map(|found| self.replica(found));
                Ok(Fleet::new(replicas.take(REPLICAS_MAX)))
            }
            Err(Unknown(why)) => {
                self.wait = self.schedule.after_failure();
                Err(why)
            }
        }
    }

    fn replica(&self, (address, host): Found) -> ReplicaConfig {
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
type Found = (SocketAddr, String);

fn found_at(host: &str, addresses: &[IpAddr], port: u16) -> Vec<Found> {
    let mut addresses = addresses.to_vec();
    // Servers shuffle their answers.
    addresses.sort_unstable();
    addresses.dedup();
    let addresses = addresses.into_iter();
    let found = |ip| (SocketAddr::new(ip, port), host.to_owned());
    addresses.map(found).collect()
}

/// Where a service says that it is.
struct Target {
    priority: u16,
    host: String,
    port: u16,
}

impl Target {
    fn of(record: &Record) -> Option<Self> {
        match &record.data {
            // The root stands for "decidedly not here".
            RData::SRV(target) if !target.target.is_root() => Some(Self {
                priority: target.priority,
                host: target.target.to_ascii(),
                port: target.port,
            }),
            _ => None,
        }
    }

    async fn look_up(self, resolver: Resolver) -> Result<(u16, Vec<Found>, Duration), Unknown> {
        let (addresses, ttl) = resolver.addresses(&self.host).await?;
        Ok((
            self.priority,
            found_at(&self.host, &addresses, self.port),
            ttl,
        ))
    }
}

/// Every address of the targets that come first.
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
    let mut first = by_priority.into_values().next().unwrap_or_default();
    first.sort_unstable();
    Ok((first, ttl))
}

#[cfg(test)]
mod tests {
    use super::super::tests::holding;
    use super::super::{Discovery, GuardSettings};
    use super::*;
    use hickory_resolver::proto::op::{Message, ResponseCode};
    use hickory_resolver::proto::rr::Name;
    use hickory_resolver::proto::rr::rdata::{A, AAAA, SRV};
    use std::sync::{Arc, Mutex, PoisonError};
    use tokio::net::UdpSocket;
    use tokio::time::timeout;

    /// For what must come; far beyond what it takes on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(30);

    type Zone = Vec<(&'static str, u32, RData)>;

    /// A name server of the test's own, on loopback.
    struct Server {
        address: SocketAddr,
        state: Arc<Mutex<State>>,
    }

    #[derive(Default)]
    struct State {
        zone: Zone,
        /// Names that it fails for.
        broken: Vec<&'static str>,
        asked: Vec<String>,
    }

    impl Server {
        async fn start(zone: Zone) -> Self {
            let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
            let address = socket.local_addr().expect("bound");
            let state = Arc::new(Mutex::new(State {
                zone,
                ..State::default()
            }));
            let server = Self {
                address,
                state: Arc::clone(&state),
            };
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok((size, from)) = socket.recv_from(&mut buffer).await {
                    let asked = Message::from_vec(&buffer[..size]).expect("a question");
                    let answer = answer(&state, &asked).to_vec().expect("encoded");
                    let _ = socket.send_to(&answer, from).await;
                }
            });
            server
        }

        fn state(&self) -> std::sync::MutexGuard<'_, State> {
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn discovery(&self, name: DnsName, ttl: TtlBounds) -> Discovery {
            let resolver = Resolver::new(&DnsServers {
                servers: vec![self.address],
                timeout: Duration::from_secs(5),
            })
            .expect("usable");
            let source = DnsSource::new(resolver, name, None, None, ttl, 1);
            Discovery::follow("web", source, GuardSettings::default(), holding(&[]))
        }
    }

    fn answer(state: &Mutex<State>, asked: &Message) -> Message {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut message = Message::response(asked.metadata.id, asked.metadata.op_code);
        message.metadata.recursion_desired = true;
        message.metadata.recursion_available = true;
        let query = asked.queries[0].clone();
        let name = query.name().to_ascii();
        let name = name.trim_end_matches('.').to_owned();
        state.asked.push(format!("{} {name}", query.query_type()));
        message.add_query(query.clone());
        if state.broken.contains(&name.as_str()) {
            message.metadata.response_code = ResponseCode::ServFail;
            return message;
        }
        let known = state.zone.iter().filter(|(owner, ..)| *owner == name);
        let mut is_known = false;
        for (_, ttl, data) in known {
            is_known = true;
            if data.record_type() == query.query_type() {
                let record = Record::from_rdata(query.name().clone(), *ttl, data.clone());
                message.add_answer(record);
            }
        }
        if !is_known {
            message.metadata.response_code = ResponseCode::NXDomain;
        }
        message
    }

    fn four(last: u8) -> RData {
        RData::A(A::new(10, 0, 0, last))
    }

    fn six(last: u16) -> RData {
        RData::AAAA(AAAA::new(0xfd00, 0, 0, 0, 0, 0, 0, last))
    }

    fn srv(priority: u16, port: u16, target: &str) -> RData {
        let target = Name::from_ascii(target).expect("a name");
        RData::SRV(SRV::new(priority, 1, port, target))
    }

    /// Asks as soon as it may.
    const AT_ONCE: TtlBounds = TtlBounds {
        min: Duration::from_millis(2),
        max: Duration::from_millis(4),
    };

    fn host(name: &str) -> DnsName {
        DnsName::Host(name.to_owned(), 80)
    }

    async fn names(discovery: &Discovery) -> Vec<String> {
        timeout(PATIENCE, discovery.spoken()).await.expect("spoken");
        let fleet = discovery.fleet();
        let replicas = fleet.replicas().iter();
        replicas.map(|replica| replica.name.clone()).collect()
    }

    /// Waits until the source has asked and been answered twice more.
    async fn asked_again(server: &Server) {
        let before = server.state().asked.len();
        let again = async {
            while server.state().asked.len() < before + 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, again).await.expect("asked again");
    }

    #[tokio::test]
    async fn every_address_is_a_replica_and_a_shuffle_is_no_change() {
        let server = Server::start(vec![
            ("web.test", 0, four(2)),
            ("web.test", 0, four(1)),
            ("web.test", 0, six(1)),
        ])
        .await;
        let discovery = server.discovery(host("web.test."), AT_ONCE);
        assert_eq!(names(&discovery).await, ["10.0.0.1:80", "10.0.0.2:80"]);
        assert!(!server.state().asked.contains(&"AAAA web.test".to_owned()));

        let fleet = discovery.fleet();
        server.state().zone.reverse();
        server.state().zone.push(("web.test", 0, four(2)));
        asked_again(&server).await;
        assert!(Arc::ptr_eq(&fleet, &discovery.fleet()), "the same value");

        let mut fleets = discovery.fleets().subscribe();
        server.state().zone.push(("web.test", 0, four(9)));
        timeout(PATIENCE, fleets.changed())
            .await
            .expect("in time")
            .expect("followed");
        let expected = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.9:80"];
        assert_eq!(names(&discovery).await, expected);
    }

    #[tokio::test]
    async fn without_an_ipv4_address_the_ipv6_ones_are_taken() {
        let server = Server::start(vec![("web.test", 0, six(2)), ("web.test", 0, six(1))]).await;
        let discovery = server.discovery(host("web.test."), AT_ONCE);
        assert_eq!(names(&discovery).await, ["[fd00::1]:80", "[fd00::2]:80"]);
    }

    #[tokio::test]
    async fn no_answer_and_no_addresses_keep_the_last_fleet() {
        let server = Server::start(vec![("web.test", 0, four(1)), ("web.test", 0, six(1))]).await;
        let discovery = server.discovery(host("web.test."), AT_ONCE);
        assert_eq!(names(&discovery).await, ["10.0.0.1:80"]);

        server.state().broken.push("web.test");
        let failed = async |expected: &str| loop {
            let failure = discovery.state().failure;
            if failure.is_some_and(|failure| failure.contains(expected)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        timeout(PATIENCE, failed("web.test.: "))
            .await
            .expect("told");
        assert_eq!(names(&discovery).await, ["10.0.0.1:80"], "not to IPv6");

        server.state().broken.clear();
        server.state().zone.clear();
        let told = timeout(PATIENCE, failed("web.test.:80 has no addresses"));
        told.await.expect("told");
        assert_eq!(names(&discovery).await, ["10.0.0.1:80"]);

        let mut fleets = discovery.fleets().subscribe();
        server.state().zone.push(("web.test", 0, four(2)));
        timeout(PATIENCE, fleets.changed())
            .await
            .expect("in time")
            .expect("followed");
        assert_eq!(names(&discovery).await, ["10.0.0.2:80"]);
    }

    #[tokio::test]
    async fn addresses_that_nobody_can_be_reached_at_are_none() {
        let nowhere = || RData::A(A::new(0, 0, 0, 0));
        let server =
            Server::start(vec![("web.test", 0, four(1)), ("web.test", 0, nowhere())]).await;
        let discovery = server.discovery(host("web.test."), AT_ONCE);
        assert_eq!(names(&discovery).await, ["10.0.0.1:80"]);

        server.state().zone = vec![("web.test", 0, nowhere())];
        let failed = async {
            loop {
                if let Some(failure) = discovery.state().failure {
                    return failure;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let failure = timeout(PATIENCE, failed).await.expect("told");
        assert_eq!(
            failure,
            "web.test.:80 has no usable address: 0.0.0.0:80 is every address of this machine, expected one address of the \
             replica"
        );
        assert_eq!(names(&discovery).await, ["10.0.0.1:80"]);
    }

    #[tokio::test]
    async fn a_service_is_its_most_urgent_targets_with_their_ports() {
        let server = Server::start(vec![
            ("_http._tcp.web.test", 0, srv(20, 8003, "c.test.")),
            ("_http._tcp.web.test", 0, srv(10, 8002, "b.test.")),
            ("_http._tcp.web.test", 0, srv(10, 8001, "a.test.")),
            ("_http._tcp.web.test", 0, srv(5, 8000, "gone.test.")),
            ("_http._tcp.web.test", 0, srv(0, 0, ".")),
            ("a.test", 0, four(1)),
            ("a.test", 0, four(4)),
            ("b.test", 0, four(2)),
            ("c.test", 0, four(3)),
        ])
        .await;
        let service = DnsName::Service("_http._tcp.web.test.".to_owned());
        let discovery = server.discovery(service, AT_ONCE);
        let expected = ["10.0.0.1:8001", "10.0.0.2:8002", "10.0.0.4:8001"];
        assert_eq!(names(&discovery).await, expected);

        // Half an answer is none.
        server.state().broken.push("b.test");
        server.state().zone.retain(|(owner, ..)| *owner != "a.test");
        let failed = async {
            while discovery.state().failure.is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, failed).await.expect("told");
        assert_eq!(names(&discovery).await, expected);

        // The next priority, once the first has no address any more.
        server.state().broken.clear();
        server.state().zone.retain(|(owner, ..)| *owner != "b.test");
        let mut fleets = discovery.fleets().subscribe();
        timeout(PATIENCE, fleets.changed())
            .await
            .expect("in time")
            .expect("followed");
        assert_eq!(names(&discovery).await, ["10.0.0.3:8003"]);
    }

    #[tokio::test]
    async fn a_name_is_asked_for_again_when_its_answer_is_too_old_and_not_before() {
        let server =
            Server::start(vec![("web.test", 3600, four(1)), ("now.test", 0, four(1))]).await;
        let bounds = TtlBounds {
            min: AT_ONCE.min,
            max: Duration::from_hours(24),
        };
        let long = server.discovery(host("web.test."), bounds);
        assert_eq!(names(&long).await, ["10.0.0.1:80"]);
        let short = server.discovery(host("now.test."), bounds);
        assert_eq!(names(&short).await, ["10.0.0.1:80"]);
        for _ in 0..5 {
            asked_again(&server).await;
        }
        let asked = server.state().asked.clone();
        let count = |name| asked.iter().filter(|asked| asked.ends_with(name)).count();
        assert_eq!(count("web.test"), 1, "{asked:?}");
        assert!(count("now.test") > 5, "{asked:?}");
    }
}
