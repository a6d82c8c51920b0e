//! The configuration as the rest of the program sees it: every value in its range, every address resolved.
//!
//! Only [`Config::load_over`](super::Config::load_over) makes these, so nobody has to check them again. Keys, units, ranges and
//! defaults for users are in `docs/configuration.md`; a test keeps the two in step.

use super::connect::Connect;
use super::decisions::DecisionSettings;
use super::discovery::DiscoverySettings;
use super::discovery::DnsServers;
use super::forwarded::ForwardedSettings;
use super::health::HealthSettings;
use super::hedge::HedgingSettings;
use super::log::{AccessLogSettings, LogSettings};
use super::network::Network;
use super::queue::QueueSettings;
use super::request_id::RequestIdSettings;
use super::retries::RetrySettings;
use super::sticky::StickySettings;
use super::tie::TyingSettings;
use super::tracing::TracingSettings;
use super::{AdminToken, ListenerTls, OwnAddresses};
use crate::routes::Route;
use crate::tls::{ClientTls, HttpVersion};
use core::fmt;
use core::net::SocketAddr;
use core::num::NonZeroU16;
use core::time::Duration;
use http::HeaderValue;
use http::uri::PathAndQuery;
use rustls::pki_types::ServerName;
use slackwater_core::health::HealthConfig;
use slackwater_core::policy::{PolicyEntry, PolicySettings};
use slackwater_http::proxy_protocol::Version;
use std::path::PathBuf;

/// A valid configuration of `slackwater serve`.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect: 1 to 64, no address twice.
    pub listeners: Vec<ListenerConfig>,
    /// Threads that carry requests, each with its own policies: 1 to 1,024, default one for each core.
    pub workers: NonZeroU16,
    /// Fleets with their policies, in the order of the file: 1 to 1,024, no name twice.
    pub services: Vec<ServiceConfig>,
    /// Whom services ask whose fleet is in the DNS.
    pub dns: DnsServers,
    /// What becomes of a request: the first that matches decides. At least one; their services and listeners are places
    /// in the lists above.
    pub routes: Vec<Route>,
    /// Whose word on a request's origin is believed, and what is said of it.
    pub forwarded: ForwardedSettings,
    /// Protocols to which a client's HTTP/1.1 connection may change, by their names in `Upgrade`: 0 to 16, default `websocket`.
    pub upgrade_protocols: Vec<HeaderValue>,
    /// What becomes of CONNECT; default refused. Routes have it already.
    pub connect: Connect,
    /// From the signal to stop, when readiness begins to tell, until no connection is taken: 0 to 10 minutes, default 0.
    pub drain_delay: Duration,
    /// How long anything may take that is no service's own.
    pub timeouts: Timeouts,
    /// How much of anything there may be.
    pub limits: Limits,
    /// The admin server.
    pub admin: AdminSettings,
    /// The log.
    pub log: LogSettings,
    /// The access log.
    pub access_log: AccessLogSettings,
    /// Distributed tracing.
    pub tracing: TracingSettings,
    /// Which requests' decisions are kept.
    pub decisions: DecisionSettings,
    /// What requests are called.
    pub request_id: RequestIdSettings,
}

/// One place where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// What routes and the log call it: the address as it was written unless told otherwise.
    pub name: String,
    /// Port 0 lets the system choose.
    pub address: SocketAddr,
    /// `None`: clients connect without TLS.
    pub tls: Option<ListenerTls>,
    /// From which networks connections may come, each of which has to begin with a PROXY header: 1 to 256. `None`: such
    /// headers are not understood.
    pub proxy_protocol: Option<Vec<Network>>,
}

/// A fleet, and who chooses from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// What routes, the status and the log call it: 1 to 64 letters, digits, `-` and `_`.
    pub name: String,
    /// Who chooses; default [`DEFAULT_POLICY`](slackwater_core::policy::DEFAULT_POLICY).
    pub policy: &'static PolicyEntry,
    /// What [`PolicyEntry::build`] takes.
    pub policy_settings: PolicySettings,
    /// Where the fleet comes from.
    pub discovery: DiscoverySettings,
    /// Whom to choose from, where the fleet is a list: 1 to 65,536, no address twice. Else none.
    pub replicas: Vec<ReplicaConfig>,
    /// How to speak to replicas.
    pub replica: ReplicaSettings,
    /// How to ask replicas for their load.
    pub probe: ProbeSettings,
    /// Which requests are tried again.
    pub retries: RetrySettings,
    /// Which requests are sent a second time while they are out.
    pub hedge: HedgingSettings,
    /// Which requests two replicas have at once, of which one works on it.
    pub tie: TyingSettings,
    /// By what requests that belong together find the same replica.
    pub sticky: StickySettings,
    /// Whether and how replicas are checked.
    pub health: HealthSettings,
    /// Who is chosen less, or not at all, by how requests to it went.
    pub passive_health: HealthConfig,
    /// How many requests there may be at once.
    pub queue: QueueSettings,
    /// As [`Config::timeouts`], with `connect` and `first_byte` of the service's own.
    pub timeouts: Timeouts,
}

impl ServiceConfig {
    /// How long a replica that joins warms up by the clock; zero where it does so by evidence, or not at all.
    pub fn clock_warm_up(&self) -> Duration {
        match self.passive_health.warm_up {
            Some(_) => Duration::ZERO,
            None => self.discovery.warm_up,
        }
    }

    /// Whether the policy asks replicas for their load at all.
    pub fn policy_probes(&self) -> bool {
        self.policy.has_probes()
    }

    /// Whether any probe is ever sent: the policy asks, and nothing keeps it from that.
    pub fn sends_probes(&self) -> bool {
        let is_local = self.policy.may_be_local() && self.policy_settings.prequal.local_only;
        self.policy_probes() && !is_local
    }
}

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaConfig {
    /// What users call it: the address as they wrote it. A host name of several addresses makes as many replicas, each
    /// with its own address as its name.
    pub name: String,
    /// Where its requests go.
    pub address: SocketAddr,
    /// The name that its certificate must be for: its own, or else the service's, or else the host as it was written.
    /// Means nothing without TLS.
    pub server_name: ServerName<'static>,
    /// Where its probes go, whatever carries them: its own address and port unless told otherwise.
    pub probe_address: SocketAddr,
    /// Its share of the requests beside the others' weights: 0 to 65,535, default 1; targets of SRV records up to 16 times
    /// that. 0: it gets no new requests, not even when nobody else is there, and no probes.
    pub weight: u32,
    /// It gets requests only while no replica of a lower tier is there to take them: 0 to [`Self::TIER_MAX`], default 0.
    pub tier: u8,
}

impl ReplicaConfig {
    /// The most tiers are this and one.
    pub const TIER_MAX: u8 = 15;
}

/// How to speak to replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSettings {
    /// The protocol of every replica; default HTTP/1.1.
    pub protocol: ReplicaProtocol,
    /// Connections that each worker keeps open to a replica while they carry nothing: 0 to 65,536, default 64. At 0,
    /// each request has a connection of its own. HTTP/1.1 only.
    pub idle_connections_max: u32,
    /// Connections to a replica at once, over all workers: 1 to 65,536, or as many as are wanted. Each worker has its share,
    /// and at least one. Over HTTP/1.1 that many requests are in flight there; others take another replica, or wait for at
    /// most `timeouts.connect`.
    pub connections_max: Option<u32>,
    /// TLS to replicas; `None`: without.
    pub tls: Option<ClientTls>,
    /// The form of the PROXY header that tells a replica whose a connection is; `None`, the default: there is none.
    /// HTTP/1.1 only. A connection carries one client's requests then.
    pub proxy_protocol: Option<Version>,
}

impl Config {
    /// Where it listens, for clients and for whoever looks at it.
    pub fn own_addresses(&self) -> OwnAddresses {
        let listeners = self.listeners.iter().map(|listener| listener.address);
        OwnAddresses::new(listeners.chain(self.admin.listen))
    }
}

/// What replicas speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: without TLS known in advance, with TLS agreed on.
    H2c,
}

impl ReplicaProtocol {
    /// Its name in the configuration.
    pub const fn as_str(self, has_tls: bool) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::H2c if has_tls => "h2",
            Self::H2c => "h2c",
        }
    }

    /// What TLS is to agree on.
    pub const fn alpn(self) -> HttpVersion {
        match self {
            Self::Http1 => HttpVersion::Http1,
            Self::H2c => HttpVersion::Http2,
        }
    }
}

/// How to ask replicas for their load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSettings {
    /// What carries probes; default UDP.
    pub transport: ProbeTransport,
    /// The port that probes of every replica go to, where the replica names no address of its own for them. `None`: the
    /// replica's port. Already part of [`ReplicaConfig::probe_address`].
    pub port: Option<NonZeroU16>,
    /// What HTTP probes ask for; default `/prequal/probe`.
    pub path: PathAndQuery,
    /// Whether HTTP probes go over TLS: by default if the replicas' requests do, and never without that.
    pub tls: bool,
    /// Signs probes and their answers. `None`: unsigned.
    pub key: Option<ProbeKey>,
    /// The file that [`Self::key`] was read from.
    pub key_file: Option<PathBuf>,
}

/// What carries probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeTransport {
    /// One datagram each way.
    Udp,
    /// A request on a connection that is kept.
    Http,
    /// Nothing: each worker goes by what it sees itself. Sets `local_only` of the Prequal settings. `[A13]`
    None,
}

impl ProbeTransport {
    pub(super) const NAMES: [(&'static str, Self); 3] = [
        ("udp", Self::Udp),
        ("http", Self::Http),
        ("none", Self::None),
    ];

    /// Its name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Http => "http",
            Self::None => "none",
        }
    }
}

/// A secret shared with the replicas: 16 to 64 bytes. Its text form says how long it is and nothing else.
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

/// How long anything may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To a connection to a replica, its TLS handshake included: 1 ms to 1 minute, default 1 s.
    pub connect: Duration,
    /// From a client's connection to the end of its TLS handshake: 1 ms to 1 hour, default 10 s.
    pub handshake: Duration,
    /// From a client's first byte to the end of its request's head: 1 ms to 1 hour, default 10 s.
    pub head: Duration,
    /// From a request's dispatch to the head of the replica's response: 1 ms to 24 hours, default 60 s.
    pub first_byte: Duration,
    /// For which a replica may send nothing of a body that it has begun, and a client take nothing of a response: 1 ms to
    /// 24 hours, default 5 minutes.
    pub stall: Duration,
    /// For which neither side of a tunnel (a WebSocket, CONNECT) may say anything: 1 ms to 24 hours, default 1 hour.
    pub tunnel: Duration,
    /// A connection that carries nothing, to a client or to a replica, is closed after this: 1 ms to 24 hours, default
    /// 60 s.
    pub idle: Duration,
    /// From the signal to stop until requests that are still running are cut off: 0 to 24 hours, default 30 s; 0 cuts
    /// them off at once.
    pub drain: Duration,
    /// From the signal to stop until connections that carry no request are closed: 0 to 1 minute, default 1 s, never longer
    /// than [`Self::drain`]. A request that comes by then is the last of its connection.
    pub drain_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            first_byte: Duration::from_mins(1),
            stall: Duration::from_mins(5),
            tunnel: Duration::from_hours(1),
            idle: Duration::from_mins(1),
            drain: Duration::from_secs(30),
            drain_idle: Duration::from_secs(1),
        }
    }
}

impl Timeouts {
    /// The one that deadlines must be exact enough for.
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

/// How much of anything there may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients' connections at once, over all workers: 1 to 1,048,576, default 65,536. Others wait to be accepted.
    pub connections_max: u32,
    /// Requests at once on one HTTP/2 connection, to a client or to a replica: 1 to 65,536, default 256.
    pub streams_max: u32,
    /// Size of a head, of requests and of responses: 8 KiB to 1 MiB, default 64 KiB.
    pub head_bytes_max: u32,
    /// Fields of a head: 16 to 4,096, default 100.
    pub head_fields_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 65_536,
            streams_max: 256,
            head_bytes_max: 64 << 10,
            head_fields_max: 100,
        }
    }
}

/// The admin server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Where it listens; default 127.0.0.1:9900, `None` where the configuration says "none".
    pub listen: Option<SocketAddr>,
    /// Its connections at once: 1 to 4,096, default 64. Others wait to be accepted.
    pub connections_max: u32,
    /// What whoever changes something there has to know, and the file that it is in; by default `None`: nobody may.
    pub token: Option<(AdminToken, PathBuf)>,
    /// Replicas that have series of their own in the metrics: 0 to 1,000,000, default 1,000; those beyond are told together.
    /// `None` where there is but one.
    pub metrics_replicas_max: Option<u32>,
}
