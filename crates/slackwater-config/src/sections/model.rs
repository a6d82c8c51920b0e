//! The configuration as the rest of the program sees it: every value in its range, every address
//! resolved.
//!
//! Only [`Config::load_over`](super::Config::load_over) makes these, so nobody has to check them
//! again. Keys, units, ranges and defaults for users are in `docs/reference/configuration.md`; a
//! test keeps the two in step.

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
use super::replica::ReplicaSettings;
use super::request_id::RequestIdSettings;
use super::retries::RetrySettings;
use super::sticky::StickySettings;
use super::tie::TyingSettings;
use super::tracing::TracingSettings;
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
    /// Where clients connect: 1 to 64, no address twice.
    pub listeners: Vec<ListenerConfig>,
    /// Threads that carry requests, each with its own policies: 1 to 1,024, default one for each
    /// core.
    pub workers: NonZeroU16,
    /// Fleets with their policies, in the order of the file: 1 to 1,024, no name twice.
    pub services: Vec<ServiceConfig>,
    /// Whom services ask whose fleet is in the DNS.
    pub dns: DnsServers,
    /// What becomes of a request: the first that matches decides. At least one; their services and
    /// listeners are places in the lists above.
    pub routes: Vec<Route>,
    /// Whose word on a request's origin is believed, and what is said of it.
    pub forwarded: ForwardedSettings,
    /// Protocols to which a client's HTTP/1.1 connection may change, by their names in `Upgrade`: 0
    /// to 16, default `websocket`.
    pub upgrade_protocols: Vec<HeaderValue>,
    /// What becomes of CONNECT; default refused. Routes have it already.
    pub connect: Connect,
    /// From the signal to stop, when readiness begins to tell, until no connection is taken: 0 to
    /// 10 minutes, default 0.
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
    /// From which networks connections may come, each of which has to begin with a PROXY header: 1
    /// to 256. `None`: such headers are not understood.
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
    /// How long a replica that joins warms up by the clock; zero where it does so by evidence, or
    /// not at all.
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
    /// What users call it: the address as they wrote it. A host name of several addresses makes as
    /// many replicas, each with its own address as its name.
    pub name: String,
    /// Where its requests go.
    pub address: SocketAddr,
    /// The name that its certificate must be for: its own, or else the service's, or else the host
    /// as it was written. Means nothing without TLS.
    pub server_name: ServerName<'static>,
    /// Where its probes go, whatever carries them: its own address and port unless told otherwise.
    pub probe_address: SocketAddr,
    /// Its share of the requests beside the others' weights: 0 to 65,535, default 1; targets of SRV
    /// records up to 16 times that. 0: it gets no new requests, not even when nobody else is there,
    /// and no probes.
    pub weight: u32,
    /// It gets requests only while no replica of a lower tier is there to take them: 0 to
    /// [`Self::TIER_MAX`], default 0.
    pub tier: u8,
}

impl ReplicaConfig {
    /// The most tiers are this and one.
    pub const TIER_MAX: u8 = 15;
}

impl Config {
    /// Where it listens, for clients and for whoever looks at it.
    pub fn own_addresses(&self) -> OwnAddresses {
        let listeners = self.listeners.iter().map(|listener| listener.address);
        OwnAddresses::new(listeners.chain(self.admin.listen))
    }
}

/// How to ask replicas for their load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSettings {
    /// What carries probes; default UDP.
    pub transport: ProbeTransport,
    /// The port that probes of every replica go to, where the replica names no address of its own
    /// for them. `None`: the replica's port. Already part of [`ReplicaConfig::probe_address`].
    pub port: Option<NonZeroU16>,
    /// What HTTP probes ask for; default `/prequal/probe`.
    pub path: PathAndQuery,
    /// Whether HTTP probes go over TLS: by default if the replicas' requests do, and never without
    /// that.
    pub tls: bool,
    /// Signs probes and their answers. `None`: unsigned.
    pub key: Option<ProbeKey>,
    /// The file that [`Self::key`] was read from.
    pub key_file: Option<PathBuf>,
}

named! {
    /// What carries probes.
    pub enum ProbeTransport {
        /// One datagram each way.
        Udp = "udp",
        /// A request on a connection that is kept.
        Http = "http",
        /// Nothing: each worker goes by what it sees itself. Sets `local_only` of the Prequal
        /// settings. `[A13]`
        None = "none",
    }
}

/// A secret shared with the replicas: 16 to 64 bytes. Its text form says how long it is and nothing
/// else.
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
    /// How long anything may take.
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
        /// From SIGTERM until requests in flight are cut off. 0: at once.
        drain: Duration = Duration::from_secs(30), Within(Span, Duration::ZERO..=DAY);
        /// From SIGTERM until idle connections are closed. A request that comes before is served as
        /// the connection's last. At most `timeouts.drain`.
        drain_idle: Duration = SECOND, Within(Span, Duration::ZERO..=MINUTE);
    }
}

impl Timeouts {
    /// The keys that a service may have, too.
    pub(super) const OF_SERVICE: [&str; 2] = ["connect", "first_byte"];

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

settings! {
    /// How much of anything there may be.
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
