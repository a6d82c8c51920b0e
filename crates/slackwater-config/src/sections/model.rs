//! The configuration as the rest of the program sees it: every value in its range, every address
//! resolved.
//!
//! Only [`Config::load_over`](super::Config::load_over) makes these values, so no caller has to
//! check them again. Keys, units, ranges and defaults for users are in
//! `docs/reference/configuration.md`; a test keeps the two in step.

use super::connect::Connect;
use super::decisions::DecisionSettings;
use super::discovery::DiscoverySettings;
use super::discovery::DnsServers;
use super::forwarded::ForwardedSettings;
use super::health::HealthSettings;
use super::hedge::HedgingSettings;
use super::key::KeyRouting;
use super::kubernetes::KubernetesSettings;
use super::log::{AccessLogSettings, LogSettings};
use super::network::Network;
use super::probe_hint::ProbeHint;
use super::queue::QueueSettings;
use super::replica::ReplicaSettings;
use super::request_id::RequestIdSettings;
use super::retries::RetrySettings;
use super::sticky::StickySettings;
use super::subset::SubsetSettings;
use super::tie::TyingSettings;
use super::tracing::TracingSettings;
use super::xds::XdsSettings;
use super::zone::{Zone, ZoneSettings};
use super::{AdminSettings, ListenerTls, OwnAddresses};
use crate::routes::Route;
use crate::table::{Bytes, DAY, HOUR, MINUTE, MS, Number, SECOND, Span, Within, named, settings};
use core::fmt;
use core::net::SocketAddr;
use core::num::NonZeroU16;
use core::time::Duration;
use http::HeaderValue;
use http::uri::PathAndQuery;
use rustls::pki_types::ServerName;
use slackwater_core::health::HealthConfig;
use slackwater_core::policy::{PolicyEntry, PolicySettings};
use std::path::PathBuf;

/// A valid configuration of `slackwater serve`.
#[derive(Clone, Debug)]
pub struct Config {
    /// Listeners: 1 to 64, no address twice.
    pub listeners: Vec<ListenerConfig>,
    /// Threads that carry requests, each with its own policies: 1 to 1,024, default one for each
    /// core.
    pub workers: NonZeroU16,
    /// Services in the order of the file: 1 to 1,024, no name twice.
    pub services: Vec<ServiceConfig>,
    /// The zone of this process.
    pub zone: ZoneSettings,
    /// DNS servers for services whose fleet is in the DNS.
    pub dns: DnsServers,
    /// The control plane of services whose fleet is an EDS resource.
    pub xds: XdsSettings,
    /// The cluster of services whose fleet is in a cluster.
    pub kubernetes: KubernetesSettings,
    /// Routes in order; the first that matches a request decides. At least one. Their services and
    /// listeners are indices of the lists above.
    pub routes: Vec<Route>,
    /// The proxies that are trusted to name a request's origin, and the headers that name it to
    /// replicas.
    pub forwarded: ForwardedSettings,
    /// Protocols to which a client's HTTP/1.1 connection may change, by their names in `Upgrade`: 0
    /// to 16, default `websocket`.
    pub upgrade_protocols: Vec<HeaderValue>,
    /// Handling of CONNECT; default: refused. Routes already include it.
    pub connect: Connect,
    /// From SIGTERM, when `/readyz` turns 503, until listeners close: 0 to 10 minutes, default 0.
    pub drain_delay: Duration,
    /// Timeouts that do not belong to a service.
    pub timeouts: Timeouts,
    /// Limits.
    pub limits: Limits,
    /// The admin server.
    pub admin: AdminSettings,
    /// The log.
    pub log: LogSettings,
    /// The access log.
    pub access_log: AccessLogSettings,
    /// Distributed tracing.
    pub tracing: TracingSettings,
    /// The requests whose decisions are recorded.
    pub decisions: DecisionSettings,
    /// The request id's header.
    pub request_id: RequestIdSettings,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// The name in routes and the log; by default the address as it was written.
    pub name: String,
    /// Port 0 lets the system choose.
    pub address: SocketAddr,
    /// `None`: clients connect without TLS.
    pub tls: Option<ListenerTls>,
    /// Networks that may connect; each connection must begin with a PROXY header: 1 to 256. `None`:
    /// PROXY headers are not understood.
    pub proxy_protocol: Option<Vec<Network>>,
}

/// A fleet and its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// The name in routes, the status and the log: 1 to 64 letters, digits, `-` and `_`.
    pub name: String,
    /// The policy; default [`DEFAULT_POLICY`](slackwater_core::policy::DEFAULT_POLICY).
    pub policy: &'static PolicyEntry,
    /// The settings for [`PolicyEntry::build`].
    pub policy_settings: PolicySettings,
    /// Source of the fleet.
    pub discovery: DiscoverySettings,
    /// The part of the fleet that is used.
    pub subset: SubsetSettings,
    /// The replicas, if the fleet is a list: 1 to 65,536, no address twice. Otherwise empty.
    pub replicas: Vec<ReplicaConfig>,
    /// Protocol and connections to replicas.
    pub replica: ReplicaSettings,
    /// Probes.
    pub probe: ProbeSettings,
    /// Retries.
    pub retries: RetrySettings,
    /// Second copies of late requests.
    pub hedge: HedgingSettings,
    /// Requests that two replicas queue, of which one works on them.
    pub tie: TyingSettings,
    /// How requests that belong together find the same replica.
    pub sticky: StickySettings,
    /// Like [`Config::zone`].
    pub zone: ZoneSettings,
    /// Keys of requests, and the replicas that a key's requests go to.
    pub key: KeyRouting,
    /// Whether and how replicas are checked.
    pub health: HealthSettings,
    /// Passive health checks: replicas that get fewer requests, or none, because of the results of
    /// their requests.
    pub passive_health: HealthConfig,
    /// Limits of concurrent and waiting requests.
    pub queue: QueueSettings,
    /// Like [`Config::timeouts`], with the service's own `connect` and `first_byte`.
    pub timeouts: Timeouts,
}

impl ServiceConfig {
    /// How long a new replica warms up by time; zero if it warms up by evidence, or not at all.
    pub fn clock_warm_up(&self) -> Duration {
        match self.passive_health.warm_up {
            Some(_) => Duration::ZERO,
            None => self.discovery.warm_up,
        }
    }

    /// Returns whether the policy uses probes at all.
    pub fn policy_probes(&self) -> bool {
        self.policy.has_probes()
    }

    /// Returns whether any probe is sent: the policy uses probes, and no setting turns them off.
    pub fn sends_probes(&self) -> bool {
        let is_local = self.policy.may_be_local() && self.policy_settings.prequal.local_only;
        self.policy_probes() && !is_local
    }
}

/// A replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaConfig {
    /// The name for users: the address as they wrote it. A host name with several addresses makes
    /// several replicas, each named after its own address.
    pub name: String,
    /// Destination of its requests.
    pub address: SocketAddr,
    /// The name that its certificate must have: its own, otherwise the service's, otherwise the
    /// host as it was written. Without TLS it has no effect.
    pub server_name: ServerName<'static>,
    /// Destination of its probes for every transport: by default its own address and port.
    pub probe_address: SocketAddr,
    /// Its share of the requests relative to other weights: 0 to 65,535, default 1; targets of SRV
    /// records up to 16 times that. 0: it gets no probes and no new requests, even if no other
    /// replica is available.
    pub weight: u32,
    /// Its tier. It gets requests only while no replica of a lower tier is available: 0 to
    /// [`Self::TIER_MAX`], default 0.
    pub tier: u8,
    /// Its zone; by default it is not known.
    pub zone: Zone,
}

impl ReplicaConfig {
    /// The highest tier.
    pub const TIER_MAX: u8 = 15;
}

impl Config {
    /// The process's own listeners, for clients and the admin server.
    pub fn own_addresses(&self) -> OwnAddresses {
        let listeners = self.listeners.iter().map(|listener| listener.address);
        OwnAddresses::new(listeners.chain(self.admin.listen))
    }

    /// Whether any service follows a cluster.
    pub fn follows_cluster(&self) -> bool {
        (self.services.iter()).any(|service| service.discovery.source.is_cluster())
    }
}

/// Settings of probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSettings {
    /// What carries probes; default UDP.
    pub transport: ProbeTransport,
    /// The port of probes to replicas without their own probe address. `None`: the replica's port.
    /// Already included in [`ReplicaConfig::probe_address`].
    pub port: Option<NonZeroU16>,
    /// The path of HTTP probes; default `/prequal/probe`.
    pub path: PathAndQuery,
    /// Whether HTTP probes use TLS: by default if requests to the replicas do, and never if they do
    /// not.
    pub tls: bool,
    /// What the probes of a round carry; default nothing. `[S3]`
    pub hint: ProbeHint,
    /// The first replicas of a key's set that are probed for it: 0 to 8, default 2.
    pub hint_homes: u8,
    /// Key that signs probes and their answers. `None`: unsigned.
    pub key: Option<ProbeKey>,
    /// The file that [`Self::key`] was read from.
    pub key_file: Option<PathBuf>,
}

named! {
    /// What carries probes.
    pub enum ProbeTransport {
        /// UDP: one datagram in each direction.
        Udp = "udp",
        /// HTTP: a request on a persistent connection.
        Http = "http",
        /// No probes: each worker uses only its own measurements. Sets `local_only` of the Prequal
        /// settings. `[A13]`
        None = "none",
    }
}

/// A secret shared with the replicas: 16 to 64 bytes. Its `Debug` form shows only its length.
#[derive(Clone, PartialEq, Eq)]
pub struct ProbeKey(Box<[u8]>);

impl ProbeKey {
    pub(super) const BYTES_MIN: usize = 16;
    pub(super) const BYTES_MAX: usize = 64;

    pub(super) fn new(bytes: Vec<u8>) -> Option<Self> {
        (Self::BYTES_MIN..=Self::BYTES_MAX)
            .contains(&bytes.len())
            .then(|| Self(bytes.into_boxed_slice()))
    }

    /// The secret itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ProbeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProbeKey({} bytes)", self.0.len())
    }
}

settings! {
    /// Timeouts.
    pub struct Timeouts in "timeouts" {
        /// To connect to a replica, TLS included. Then another replica is tried, up to
        /// `retries.attempts_max`.
        connect: Duration = SECOND, Within(Span, MS..=MINUTE);
        /// From a client's connection to the end of its TLS handshake.
        handshake: Duration = Duration::from_secs(10), Within(Span, MS..=HOUR);
        /// From a request's first byte to the end of its head.
        head: Duration = Duration::from_secs(10), Within(Span, MS..=HOUR);
        /// From a request's dispatch to the head of the response. Then 504.
        first_byte: Duration = MINUTE, Within(Span, MS..=DAY);
        /// Longest pause in the body of a response, and longest time that a client may read nothing
        /// of it. Then it is cut off.
        stall: Duration = Duration::from_mins(5), Within(Span, MS..=DAY);
        /// Longest silence of a tunnel (WebSocket, CONNECT), in place of `timeouts.stall`.
        tunnel: Duration = HOUR, Within(Span, MS..=DAY);
        /// An idle connection, to a client or to a replica, is closed after this.
        idle: Duration = MINUTE, Within(Span, MS..=DAY);
        /// After `drain_delay`, until requests in flight are cut off. 0: at once.
        drain: Duration = Duration::from_secs(30), Within(Span, Duration::ZERO..=DAY);
        /// After `drain_delay`, until idle connections are closed. A request that comes
        /// before is served as the connection's last. At most `timeouts.drain`.
        drain_idle: Duration = SECOND, Within(Span, Duration::ZERO..=MINUTE);
    }
}

impl Timeouts {
    /// The keys that a service may have, too.
    pub(super) const OF_SERVICE: [&str; 2] = ["connect", "first_byte"];

    /// The shortest timeout, which timers must be precise enough for.
    pub fn shortest(&self) -> Duration {
        let others = [
            self.head,
            self.first_byte,
            self.stall,
            self.tunnel,
            self.idle,
        ];
        others.into_iter().fold(self.handshake, Duration::min)
    }
}

settings! {
    /// Limits.
    pub struct Limits in "limits" {
        /// Client connections over all workers. Further ones wait to be accepted.
        connections_max: u32 = 65_536, Within(Number, 1..=1 << 20), fixed;
        /// Concurrent requests on one HTTP/2 connection, to a client or to a replica.
        streams_max: u32 = 256, Within(Number, 1..=65_536);
        /// Size of the head of a request or response.
        head_bytes_max: u32 = 64 << 10, Within(Bytes, 8 << 10..=1 << 20);
        /// Headers in the head of a request or response.
        head_fields_max: u32 = 100, Within(Number, 16..=4096);
    }
}
