//! The state of a process that carries requests, as plain facts that are gathered on demand.
//!
//! `serve`, `agent` and `demo` each implement [`StatusSource`]. The facts use the core's terms
//! (counters, snapshots, replica ids of each worker); `admin` converts them for people and
//! programs.

mod admission;
mod entry;
mod last_counts;
pub mod latency;
mod recent;

pub use admission::AdmissionCounts;
pub use entry::{ListenerFacts, RouteFacts, RouteService};
pub use last_counts::LastCounts;
pub use latency::{LatencyFacts, RESPONSE_CLASSES, ResponseClass, ServiceExemplars};
pub use recent::RecentFacts;

use crate::attempt_failure::AttemptEvidence;
use crate::latency_histogram::Latencies;
use crate::replica_state::{ServiceStanding, Standing};
use crate::trace::SpanCounts;
use core::ops::{AddAssign, Sub};
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use slackwater_core::overload::AdmissionView;
use slackwater_core::policy::{Counters, Snapshot};
use slackwater_core::report::Reported;
use slackwater_core::tail::TieCounts;
use slackwater_core::tracker::CapacitySource;
use slackwater_core::{LoadReport, ReplicaId};
use std::sync::Arc;
use std::time::SystemTime;

/// The lists that a fleet's source has returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceState {
    /// The source: `dns web.internal:8080`; `list` for a fleet that never changes.
    pub source: String,
    /// Time of its last answer, accepted or not.
    pub answered_at: Option<SystemTime>,
    /// Why its last answer was not accepted; `None` if it was.
    pub failure: Option<String>,
    /// Number of replicas in its last accepted list, of which the fleet may be a subset.
    pub listed: usize,
    /// Number of changes of the fleet.
    pub changes: u64,
    /// Number of failed lookups and of answers that were not accepted.
    pub failures: u64,
    /// The control plane, if the source is one.
    pub xds: Option<XdsState>,
}

/// The stream to the control plane that sends a fleet, and the version of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "XdsStatus"))]
pub struct XdsState {
    /// URL of the control plane.
    pub server: String,
    /// Whether a stream is open.
    #[serde(rename = "connected")]
    pub is_connected: bool,
    /// Version of the service's endpoints that is in use: of their EDS resource, or of the cluster
    /// that has them inside. Empty before the first.
    pub version: String,
    /// Nonce of the last response on the current stream.
    pub nonce: String,
    /// Number of streams that were opened.
    pub streams: u64,
    /// Number of responses accepted (ACK).
    pub accepted: u64,
    /// Number of responses rejected (NACK).
    pub rejected: u64,
    /// Text of the last NACK.
    pub rejection: Option<String>,
}

impl SourceState {
    /// Returns whether the source has answered or failed at least once.
    pub fn has_spoken(&self) -> bool {
        self.answered_at.is_some() || self.failures > 0
    }
}

/// A process that carries requests and reports its state.
pub trait StatusSource: Send + Sync + 'static {
    /// Gathers the current facts. Workers leave them in shared memory, so this waits only for short
    /// locks.
    fn facts(&self) -> Facts;
}

/// The state of a source at one moment.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The subcommand: `serve`, `agent` or `demo`.
    pub role: &'static str,
    /// The services, in the order of the configuration.
    pub services: Vec<ServiceFacts>,
    /// The listeners.
    pub listeners: Arc<[ListenerFacts]>,
    /// The routes; the first that matches a request applies.
    pub routes: Arc<[RouteFacts]>,
    /// The certificates in use, for clients and for replicas.
    pub certificates: Vec<CertificateFacts>,
    /// Results of TLS handshakes at each listener.
    pub handshakes: Vec<HandshakeFacts>,
    /// Connections with clients.
    pub client_connections: ConnectionFacts,
    /// Ended connections with clients, by reason.
    pub client_ends: Vec<(&'static str, u64)>,
    /// Connections closed because they did not begin with the required PROXY header.
    pub proxy_headers_refused: u64,
    /// HTTP/1.1 requests that could not be parsed, by the status of the answer.
    pub unreadable_requests: Vec<StatusCount>,
    /// Requests that reached no service, by the answer.
    pub unrouted_requests: UnroutedFacts,
    /// The process's own answer to probes; `None` unless it is an agent.
    pub own_load: Option<LoadReport>,
    /// How the capacity in that answer was determined.
    pub own_capacity_source: Option<CapacitySource>,
    /// The agent's queue before its server; `None` if there is none.
    pub own_queue: Option<AdmissionView>,
    /// Waiting times in that queue, for any outcome.
    pub own_waits: Latencies,
    /// Tied requests at the agent's server; `None` if ties are not shared.
    pub own_ties: Option<TieCounts>,
    /// Hints that the agent's server has answered; `None` if they are not noted.
    pub own_hints: Option<HintFacts>,
    /// Reloads of the configuration; `None` if it is never reloaded.
    pub reloads: Option<ReloadFacts>,
    /// Changes made at run time; `None` if they are not possible.
    pub overrides: Option<OverrideFacts>,
    /// Lost lines of the log.
    pub log_lost: u64,
    /// Lost lines of the access log; `None` if there is none.
    pub access_log_lost: Option<u64>,
    /// Counts of spans; `None` if nothing is traced.
    pub spans: Option<SpanCounts>,
    /// Whether recording is still active; `None` if it was not requested.
    pub recording: Option<bool>,
}

/// Hints of probes at an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HintFacts {
    /// Hints in memory.
    pub entries: u64,
    /// Probes whose hint was known.
    pub hits: u64,
    /// Probes whose hint was not known.
    pub misses: u64,
}

/// Changes made at run time.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverrideFacts {
    /// Whether a token is configured, so that a client with the token may make changes.
    pub allowed: bool,
    /// Keys that override the file and the flags.
    pub settings: u64,
    /// Replicas that are drained or have another weight than in their fleet's source.
    pub replicas: u64,
    /// Requests that were rejected because of a missing or wrong token. This count only rises.
    pub refused: u64,
}

/// Reloads of the configuration.
#[derive(Clone, Debug, Default)]
pub struct ReloadFacts {
    /// Number of successful reloads.
    pub taken: u64,
    /// Number of failed reloads, after which the previous configuration stayed in force.
    pub refused: u64,
    /// Time of the last reload.
    pub last_at: Option<SystemTime>,
    /// Why the last reload failed; `None` if it succeeded.
    pub failure: Option<String>,
}

/// Connections with clients, over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionFacts {
    /// Connections accepted; this only rises.
    pub begun: u64,
    /// Connections that are open now.
    pub open: u64,
}

/// The queue of a service, in one worker or in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineFacts {
    /// Requests that hold a permit.
    pub inside: u64,
    /// Requests that wait for a permit.
    pub waiting: u64,
    /// Waiting time of the oldest of them; 0 if there are none.
    pub age_us: u64,
}

/// A budget for further copies of requests, of one worker or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetFacts {
    /// Its purpose: `retry`, `hedge` or `tie`.
    pub name: &'static str,
    /// Copies that could be sent at once now, in millionths.
    pub left_millionths: u64,
    /// Upper bound of that, in millionths.
    pub size_millionths: u64,
}

/// Requests that reached no service, over all workers. Every count only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnroutedFacts {
    /// Requests without a matching route: 404.
    pub no_route: u64,
    /// Requests whose path has several interpretations: 400.
    pub doubtful_path: u64,
    /// Requests that their route would answer itself, but that are invalid.
    pub refused: u64,
    /// Requests that their route redirected.
    pub redirected: u64,
    /// Requests that their route answered.
    pub responded: u64,
}

impl AddAssign for UnroutedFacts {
    fn add_assign(&mut self, other: Self) {
        self.no_route += other.no_route;
        self.doubtful_path += other.doubtful_path;
        self.refused += other.refused;
        self.redirected += other.redirected;
        self.responded += other.responded;
    }
}

/// Requests by the status of the answer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusCount {
    /// The status of the answer.
    pub status: u16,
    /// Number of requests.
    pub requests: u64,
}

/// A certificate in force.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CertificateFacts {
    /// Its use: `listener NAME` or `service NAME`.
    pub purpose: String,
    /// Its file.
    pub file: String,
    /// The DNS names that it is for.
    pub names: Vec<String>,
    /// Its last second of validity, in seconds since 1970; `None` if that cannot be read.
    pub expires_s: Option<i64>,
}

/// Results of TLS handshakes at a listener, over all workers. Every count only rises.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HandshakeFacts {
    /// The listener's name in the configuration.
    pub listener: String,
    /// Full handshakes.
    pub full: u64,
    /// Resumed sessions.
    pub resumed: u64,
    /// Failed: the client had no acceptable version, cipher or certificate, or broke off.
    pub failed: u64,
    /// Not finished within `timeouts.handshake`.
    pub timed_out: u64,
    /// The client spoke plain HTTP.
    pub plain: u64,
    /// Cut off in favour of a newer one, because there were too many.
    pub displaced: u64,
}

/// A service: its fleet and its policy.
#[derive(Clone, Debug, Default)]
pub struct ServiceFacts {
    /// Its name in the configuration.
    pub name: String,
    /// Number of this instance of the service, unique in the process. A new number means that the
    /// service was built again, and that all its counts started again.
    pub number: u64,
    /// The policy's name; `none` if there is nothing to choose.
    pub policy: &'static str,
    /// State of the fleet's source; `None` if the fleet never changes.
    pub discovery: Option<SourceState>,
    /// The replicas, in the order of the configuration.
    pub replicas: Vec<ReplicaFacts>,
    /// The state of each worker.
    pub workers: Vec<WorkerFacts>,
    /// Whether all of its replicas fail. A [`StateTracker`](crate::state_tracker::StateTracker)
    /// fills in this field and the next.
    pub standing: ServiceStanding,
    /// Results of its requests in the last seconds.
    pub recent: RecentFacts,
}

impl ServiceFacts {
    /// Whether it is the service of an agent, which records no latencies by class: each of its
    /// requests is one attempt.
    pub fn is_of_agent(&self) -> bool {
        (self.replicas.iter()).any(|replica| replica.behind.is_some())
    }
}

/// A replica's identity and settings.
#[derive(Clone, Debug, Default)]
pub struct ReplicaFacts {
    /// The name for users.
    pub name: String,
    /// Destination of its requests.
    pub address: String,
    /// Destination of its probes; `None` if it gets none.
    pub probe_address: Option<String>,
    /// Its weight relative to other replicas; 0: it gets no new requests.
    pub weight: u32,
    /// Its weight in the fleet's source, which an operator may override.
    pub fleet_weight: u32,
    /// Whether an operator has drained it.
    pub drained: bool,
    /// Its tier. It gets requests only while no replica of a lower tier is available.
    pub tier: u8,
    /// Its zone; `None` if it is not known.
    pub zone: Option<String>,
    /// Whether it is in another zone than this process.
    pub far: bool,
    /// Results of its health checks; `None` if there are none.
    pub health: Option<HealthFacts>,
    /// What an agent knows of the server behind it; `None` elsewhere.
    pub behind: Option<BehindFacts>,
    /// Its state. A [`StateTracker`](crate::state_tracker::StateTracker) derives it from all facts.
    pub standing: Standing,
}

/// What an agent knows of the server behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BehindFacts {
    /// Whether the last attempt to connect succeeded.
    pub is_there: bool,
    /// Requests that it has not finished, including queued ones.
    pub in_flight: u64,
}

/// Results of a replica's health checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HealthFacts {
    /// `up`, `down`, or `unknown` before the first check.
    pub verdict: String,
    /// Passed checks. This count and the next only rise.
    pub checks_passed: u64,
    /// Failed checks.
    pub checks_failed: u64,
    /// Number of changes from up to down.
    pub went_down: u64,
    /// Number of changes from down to up.
    pub came_back: u64,
    /// Why the last failed check failed.
    pub last_failure: Option<String>,
    /// End of the last check, in milliseconds since 1970; `None` before the first.
    pub checked_at_ms: Option<u64>,
}

/// The state of one worker. Lists by replica follow the order of [`ServiceFacts::replicas`];
/// missing entries at the end count as unknown.
#[derive(Clone, Debug, Default)]
pub struct WorkerFacts {
    /// The policy's ids of each replica's parts; empty if the policy does not know the replica yet,
    /// or if its weight is 0.
    pub ids: Vec<Vec<ReplicaId>>,
    /// The tier in use; `None` if no tier has an available replica.
    pub tier: Option<u8>,
    /// Results of its requests to each replica.
    pub requests: Vec<RequestCounts>,
    /// Its requests in flight at each replica, also those that its policy no longer knows.
    pub in_flight: Vec<u64>,
    /// Whether its attempts at each replica get a response.
    pub evidence: Vec<AttemptEvidence>,
    /// Results of its requests before they reached a replica.
    pub admission: AdmissionCounts,
    /// The queue of the service; `None` if there is no limit.
    pub line: Option<LineFacts>,
    /// Waiting times in the queue, for any outcome.
    pub waits: Latencies,
    /// Ended connections to replicas, by reason.
    pub replica_ends: Vec<(&'static str, u64)>,
    /// Budgets for further copies of requests.
    pub budgets: Vec<BudgetFacts>,
    /// Exemplars of the latencies below.
    pub exemplars: ServiceExemplars,
    /// Latencies of requests, as their clients saw them.
    pub latency: Box<LatencyFacts>,
    /// Time to the head of a response, by replica.
    pub heads: Vec<Latencies>,
    /// The last reports of replicas, or of parts of them.
    pub reported: Vec<Reported>,
    /// The policy's counters.
    pub counters: Counters,
    /// The policy's state.
    pub snapshot: Snapshot,
}

/// Results of requests to a replica. Every count only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestCounts {
    /// Requests sent there, including retries.
    pub sent: u64,
    /// Retries of requests that had been sent to another replica before. Part of `sent`.
    pub retries: u64,
    /// Hedges of requests that were late at another replica. Part of `sent`.
    pub hedges: u64,
    /// Responses whose head came over a new connection.
    pub connections: u64,
    /// Responses with a status from 100 to 199.
    pub responses_1xx: u64,
    /// Responses with a status from 200 to 299.
    pub responses_2xx: u64,
    /// Responses with a status from 300 to 399.
    pub responses_3xx: u64,
    /// Responses with a status from 400 to 499.
    pub responses_4xx: u64,
    /// Responses with a status from 500 to 599.
    pub responses_5xx: u64,
    /// No connection: refused, no route, or not within `timeouts.connect`.
    pub connect_failures: u64,
    /// No response head within `timeouts.first_byte`, or no whole response in time.
    pub timeouts: u64,
    /// The connection broke before the response was complete.
    pub broken: u64,
    /// The client left before the response was complete.
    pub client_gone: u64,
    /// Cancelled because the other copy of the request was answered first.
    pub superseded: u64,
    /// Responses whose gRPC status, in head or trailers, blames the server.
    pub grpc_failures: u64,
    /// Load reports that came with responses and were passed to the policy.
    pub reports_carried: u64,
    /// Requests for which the replica had no free connection or stream.
    pub full: u64,
    /// Requests that the replica, or its agent, rejected without starting them.
    pub shed: u64,
}

impl RequestCounts {
    /// Combines each count with that of another reading.
    fn each(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            sent: combine(self.sent, other.sent),
            retries: combine(self.retries, other.retries),
            hedges: combine(self.hedges, other.hedges),
            superseded: combine(self.superseded, other.superseded),
            connections: combine(self.connections, other.connections),
            responses_1xx: combine(self.responses_1xx, other.responses_1xx),
            responses_2xx: combine(self.responses_2xx, other.responses_2xx),
            responses_3xx: combine(self.responses_3xx, other.responses_3xx),
            responses_4xx: combine(self.responses_4xx, other.responses_4xx),
            responses_5xx: combine(self.responses_5xx, other.responses_5xx),
            connect_failures: combine(self.connect_failures, other.connect_failures),
            timeouts: combine(self.timeouts, other.timeouts),
            broken: combine(self.broken, other.broken),
            client_gone: combine(self.client_gone, other.client_gone),
            grpc_failures: combine(self.grpc_failures, other.grpc_failures),
            reports_carried: combine(self.reports_carried, other.reports_carried),
            full: combine(self.full, other.full),
            shed: combine(self.shed, other.shed),
        }
    }
}

impl AddAssign for RequestCounts {
    fn add_assign(&mut self, other: Self) {
        *self = self.each(other, |ours, more| ours + more);
    }
}

/// The counts that came after an earlier reading; 0 for a count that has fallen.
impl Sub for RequestCounts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        self.each(earlier, u64::saturating_sub)
    }
}

/// The phase of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It is not listening yet, or a cluster has not said yet which replicas there are.
    #[default]
    Starting,
    /// It takes requests.
    Serving,
    /// It rejects requests for now: the server behind it is gone.
    Withdrawn,
    /// It finishes requests in flight and accepts no new ones.
    Draining,
}

impl Phase {
    /// The phase's name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Withdrawn => "withdrawn",
            Self::Draining => "draining",
        }
    }
}

/// The phase of the process, shared between the process and its admin server. It starts at
/// [`Phase::Starting`] and only moves forward, except for [`Phase::Withdrawn`], which comes and
/// goes while serving.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle(Arc<Life>);

#[derive(Debug, Default)]
struct Life {
    /// 0, 1 or 2: starting, serving, draining.
    stage: AtomicU8,
    withdrawn: AtomicBool,
}

impl Lifecycle {
    /// Marks every listener as open and every fleet as known: `/readyz` returns 200 from now on.
    pub fn set_serving(&self) {
        self.0.stage.fetch_max(1, Ordering::Relaxed);
    }

    /// Marks requests as rejected (`true`) or accepted again (`false`). `/readyz` returns 503 while
    /// they are rejected.
    pub fn set_withdrawn(&self, withdrawn: bool) {
        self.0.withdrawn.store(withdrawn, Ordering::Relaxed);
    }

    /// Marks the process as stopping: `/readyz` returns 503 from now on.
    pub fn set_draining(&self) {
        self.0.stage.fetch_max(2, Ordering::Relaxed);
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        match self.0.stage.load(Ordering::Relaxed) {
            0 => Phase::Starting,
            1 if self.0.withdrawn.load(Ordering::Relaxed) => Phase::Withdrawn,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }
}
