//! What a process that carries requests knows of them: plain facts, gathered on demand.
//!
//! `serve`, `agent` and `demo` each implement [`StatusSource`]. The facts are in the core's own
//! terms (counters, snapshots, replica ids of each worker); `admin` turns them into what people and
//! programs read.

mod entry;
pub mod latency;
mod recent;

pub use entry::{ListenerFacts, RouteFacts, RouteService};
pub use latency::{LatencyFacts, RESPONSE_CLASSES, ResponseClass, ServiceExemplars};
pub use recent::RecentFacts;

use crate::attempt_failure::AttemptEvidence;
use crate::latency_histogram::Latencies;
use crate::replica_state::{ServiceStanding, Standing};
use crate::trace::SpanCounts;
use core::ops::AddAssign;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use slackwater_core::overload::AdmissionView;
use slackwater_core::policy::{Counters, Snapshot};
use slackwater_core::report::Reported;
use slackwater_core::tail::TieCounts;
use slackwater_core::tracker::CapacitySource;
use slackwater_core::{LoadReport, ReplicaId};
use std::sync::Arc;
use std::time::SystemTime;

/// What became of a source's lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceState {
    /// What it asks: `dns web.internal:8080`; `list` for one that never changes.
    pub source: String,
    /// When it last said who is in the fleet, whether that was believed or not.
    pub answered_at: Option<SystemTime>,
    /// Why the last thing that it said was not taken; `None` if it was.
    pub failure: Option<String>,
    /// How often the fleet has changed.
    pub changes: u64,
    /// How often it could not say, or was not believed.
    pub failures: u64,
}

impl SourceState {
    /// Whether the source has answered or failed at least once.
    pub fn has_spoken(&self) -> bool {
        self.answered_at.is_some() || self.failures > 0
    }
}

/// Somebody who carries requests and can say how that goes.
pub trait StatusSource: Send + Sync + 'static {
    /// The facts now, read from where workers leave them: nobody has to answer, and nothing is
    /// waited for but short locks.
    fn facts(&self) -> Facts;
}

/// A source's knowledge at one moment.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The sub-command: `serve`, `agent` or `demo`.
    pub role: &'static str,
    /// The fleets, in the order of the configuration.
    pub services: Vec<ServiceFacts>,
    /// Where clients connect.
    pub listeners: Arc<[ListenerFacts]>,
    /// Which requests go where: the first that matches decides.
    pub routes: Arc<[RouteFacts]>,
    /// The certificates that it shows, to clients and to replicas.
    pub certificates: Vec<CertificateFacts>,
    /// How handshakes ended at each listener that speaks TLS.
    pub handshakes: Vec<HandshakeFacts>,
    /// Connections with clients.
    pub client_connections: ConnectionFacts,
    /// Those that have ended, by why.
    pub client_ends: Vec<(&'static str, u64)>,
    /// Connections closed because they did not begin with the PROXY header that they had to.
    pub proxy_headers_refused: u64,
    /// Requests over HTTP/1.1 that could not be read, by the status that was answered.
    pub unreadable_requests: Vec<StatusCount>,
    /// Requests that no service had, by what was answered.
    pub unrouted_requests: UnroutedFacts,
    /// What the process answers to probes itself; `None` unless it stands before a replica.
    pub own_load: Option<LoadReport>,
    /// What told the capacity in that.
    pub own_capacity_source: Option<CapacitySource>,
    /// The queue before that replica; `None` if there is none.
    pub own_queue: Option<AdmissionView>,
    /// How long requests waited in it, however that ended.
    pub own_waits: Latencies,
    /// What happened there to requests with a copy elsewhere; `None` if none are dropped for that.
    pub own_ties: Option<TieCounts>,
    /// How often the configuration was read again; `None` where it never is.
    pub reloads: Option<ReloadFacts>,
    /// What is changed at run time; `None` where nothing can be.
    pub overrides: Option<OverrideFacts>,
    /// Lines of the log that were lost.
    pub log_lost: u64,
    /// Lines that the access log has lost; `None` if there is none.
    pub access_log_lost: Option<u64>,
    /// What became of spans; `None` if nothing is traced.
    pub spans: Option<SpanCounts>,
    /// Whether what policies are told is recorded still; `None` where nothing was to be.
    pub recording: Option<bool>,
}

/// What is changed at run time.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverrideFacts {
    /// There is a token, and whoever knows it may change something.
    pub allowed: bool,
    /// Keys that are set, over file and flags.
    pub settings: u64,
    /// Replicas that are drained or have another weight than their fleet says.
    pub replicas: u64,
    /// Requests that were refused because whoever sent them did not know the token. This count only
    /// rises.
    pub refused: u64,
}

/// What became of the configuration when it was read again.
#[derive(Clone, Debug, Default)]
pub struct ReloadFacts {
    /// How often it was taken.
    pub taken: u64,
    /// How often it was not, so that the one before stayed.
    pub refused: u64,
    /// When it was last read again.
    pub last_at: Option<SystemTime>,
    /// Why it was not taken then; `None` if it was.
    pub failure: Option<String>,
}

/// Connections with clients, over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionFacts {
    /// That have begun; this only rises.
    pub begun: u64,
    /// That are there now.
    pub open: u64,
}

/// The line before a service, of one worker or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineFacts {
    /// Requests that have a place in the service.
    pub inside: u64,
    /// Requests that wait for one.
    pub waiting: u64,
    /// For how long the oldest of them has; 0 if there are none.
    pub age_us: u64,
}

/// What pays for further copies of requests, of one worker or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetFacts {
    /// What it pays for: `retry`, `hedge` or `tie`.
    pub name: &'static str,
    /// So many copies could be sent at once now, in millionths.
    pub left_millionths: u64,
    /// So many at most, in millionths.
    pub size_millionths: u64,
}

/// Requests that no service had, over all workers. Every count only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnroutedFacts {
    /// No route is for them: 404.
    pub no_route: u64,
    /// Their path can be read in two ways: 400.
    pub doubtful_path: u64,
    /// Their route has an answer for them, and they are not fit even for that.
    pub refused: u64,
    /// Their route sends them elsewhere.
    pub redirected: u64,
    /// Their route answers itself.
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

/// Requests that were answered so.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusCount {
    /// The status that was answered.
    pub status: u16,
    /// How often.
    pub requests: u64,
}

/// A certificate in force.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CertificateFacts {
    /// What it is shown for: `listener NAME` or `service NAME`.
    pub purpose: String,
    /// Its file.
    pub file: String,
    /// The DNS names that it is for.
    pub names: Vec<String>,
    /// Its last second, from 1970 on; `None` where that cannot be read.
    pub expires_s: Option<i64>,
}

/// How TLS handshakes ended at one listener, over all workers. Every count only rises.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HandshakeFacts {
    /// What the configuration calls it.
    pub listener: String,
    /// Full ones.
    pub full: u64,
    /// Those that resumed a session.
    pub resumed: u64,
    /// The client had no acceptable version, cipher or certificate, or broke off.
    pub failed: u64,
    /// Not done within `timeouts.handshake`.
    pub timed_out: u64,
    /// The client spoke plain HTTP.
    pub plain: u64,
    /// Ended for a newer one, because there were too many.
    pub displaced: u64,
}

/// One fleet, and who chooses from it.
#[derive(Clone, Debug, Default)]
pub struct ServiceFacts {
    /// What the configuration calls it.
    pub name: String,
    /// Another one: it has begun anew since, and so have all its counts. No two services of the
    /// process have the same.
    pub number: u64,
    /// The policy's name; `none` where there is nothing to choose.
    pub policy: &'static str,
    /// Where the fleet comes from, and what became of the last list; `None` where it never changes.
    pub discovery: Option<SourceState>,
    /// The fleet, in the order of the configuration.
    pub replicas: Vec<ReplicaFacts>,
    /// Each worker's own knowledge of it.
    pub workers: Vec<WorkerFacts>,
    /// Whether all of its replicas fail. This and the next are filled in by a
    /// [`StateTracker`](crate::state_tracker::StateTracker).
    pub standing: ServiceStanding,
    /// What became of its requests in the last seconds.
    pub recent: RecentFacts,
}

/// Who a replica is.
#[derive(Clone, Debug, Default)]
pub struct ReplicaFacts {
    /// What users call it.
    pub name: String,
    /// Where its requests go.
    pub address: String,
    /// Where its probes go; `None` if it gets none.
    pub probe_address: Option<String>,
    /// Its share beside the others'; 0: it gets no new requests.
    pub weight: u32,
    /// The same as its fleet says, where an operator may want another one.
    pub fleet_weight: u32,
    /// An operator wants it to get no new requests.
    pub drained: bool,
    /// It gets requests only while nobody of a lower tier can take them.
    pub tier: u8,
    /// What its checks found; `None` if there are none.
    pub health: Option<HealthFacts>,
    /// What is known of it where no policy chooses: by an agent, of the server behind it.
    pub behind: Option<BehindFacts>,
    /// Its state, which a [`StateTracker`](crate::state_tracker::StateTracker) fills in from all of
    /// this.
    pub standing: Standing,
}

/// What an agent knows of the server behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BehindFacts {
    /// It could be connected to when that was last tried.
    pub is_there: bool,
    /// Requests that it has not finished, those that wait for their turn included.
    pub in_flight: u64,
}

/// What the checks of a replica found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HealthFacts {
    /// `up`, `down`, or `unknown` before the first check.
    pub verdict: String,
    /// Checks that it has passed. This count and the next only rise.
    pub checks_passed: u64,
    /// Checks that it has failed.
    pub checks_failed: u64,
    /// How often it was up and then down.
    pub went_down: u64,
    /// How often it was down and then up.
    pub came_back: u64,
    /// Why the last one that failed did.
    pub last_failure: Option<String>,
    /// When the last check ended, in milliseconds since 1970; `None` before the first.
    pub checked_at_ms: Option<u64>,
}

/// What one worker knows. The two lists follow the order of [`ServiceFacts::replicas`]; a missing
/// end counts as unknown.
#[derive(Clone, Debug, Default)]
pub struct WorkerFacts {
    /// What its policy calls the parts of each replica; none of one that it does not know yet, or
    /// that has no weight.
    pub ids: Vec<Vec<ReplicaId>>,
    /// The tier in use; `None` where nobody can take requests in any.
    pub tier: Option<u8>,
    /// How its requests to each replica ended.
    pub requests: Vec<RequestCounts>,
    /// Whether its attempts at each replica get a response.
    pub evidence: Vec<AttemptEvidence>,
    /// What became of its requests before a replica had them.
    pub admission: AdmissionCounts,
    /// The line before the service; `None` where everybody may come in.
    pub line: Option<LineFacts>,
    /// How long those who stood in it did, however that ended.
    pub waits: Latencies,
    /// Its connections to replicas that have ended, by why.
    pub replica_ends: Vec<(&'static str, u64)>,
    /// What pays for further copies of requests.
    pub budgets: Vec<BudgetFacts>,
    /// Requests that stand for others in what follows.
    pub exemplars: ServiceExemplars,
    /// How long requests took, as their clients saw it.
    pub latency: Box<LatencyFacts>,
    /// How long each replica took to the head of a response.
    pub heads: Vec<Latencies>,
    /// What replicas, or parts of them, last said of their load.
    pub reported: Vec<Reported>,
    /// What happened to its policy.
    pub counters: Counters,
    /// What its policy knows.
    pub snapshot: Snapshot,
}

/// How requests to a replica ended. Every count only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestCounts {
    /// Requests sent there, further tries included.
    pub sent: u64,
    /// Of these: further tries of requests that had been sent to another replica before.
    pub retries: u64,
    /// Of these: second copies of requests that were late at another replica.
    pub hedges: u64,
    /// Of those with a head: those for which a new connection was made.
    pub connections: u64,
    /// Responses by the first digit of their status.
    pub responses_1xx: u64,
    /// As above.
    pub responses_2xx: u64,
    /// As above.
    pub responses_3xx: u64,
    /// As above.
    pub responses_4xx: u64,
    /// As above.
    pub responses_5xx: u64,
    /// No connection: refused, unreachable, or not within `timeouts.connect`.
    pub connect_failures: u64,
    /// No response head within `timeouts.first_byte`.
    pub timeouts: u64,
    /// The connection broke before the response was complete.
    pub broken: u64,
    /// The client left before the response was complete.
    pub client_gone: u64,
    /// Left because the other copy of the request was answered first.
    pub superseded: u64,
    /// Responses whose gRPC status blames the server, in their head or in their trailers.
    pub grpc_failures: u64,
    /// Reports of the replica's load that came with responses, and that the policy was told of.
    pub reports_carried: u64,
    /// Requests that found no room there and went elsewhere, or waited.
    pub full: u64,
    /// Requests that the replica, or its agent, turned away unstarted.
    pub shed: u64,
}

/// What became of requests to a service before a replica had them. Every count only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdmissionCounts {
    /// Requests that had to wait for a place.
    pub queued: u64,
    /// Requests turned away because no replica had room for another connection in time.
    pub shed_replicas_full: u64,
    /// Requests turned away because the queue was full.
    pub shed_queue_full: u64,
    /// Requests turned away because they had waited for `queue.wait_max`.
    pub shed_wait_over: u64,
    /// Requests turned away because their own time was over while they waited.
    pub shed_deadline: u64,
    /// Further tries that there were none of because the budget was spent.
    pub retries_over_budget: u64,
    /// Second copies of late requests.
    pub hedges: u64,
    /// Of these: those whose answer was taken.
    pub hedges_won: u64,
    /// Late requests without a second copy, because the budget was spent.
    pub hedges_over_budget: u64,
    /// Late requests without a second copy, because too many were late.
    pub hedges_while_slow: u64,
    /// Requests of which nobody could say when they would be late: too few of their class had
    /// ended.
    pub hedges_unknown: u64,
    /// Requests that were sent with the name of a second replica.
    pub ties: u64,
    /// Of these: those of which the second copy was sent.
    pub ties_sent: u64,
    /// Of these: those whose second copy's answer was taken.
    pub ties_won: u64,
    /// Copies that a replica dropped because the other one had begun.
    pub ties_dropped: u64,
    /// Requests whose second copy was not sent, because too many had not been dropped.
    pub ties_over_budget: u64,
    /// Copies of requests, sent to replicas that are out to see how they do.
    pub shadow_trials: u64,
    /// Copies of requests that other services have had.
    pub mirrored: u64,
    /// Copies that there are none of: the body was too large or never complete, or too many copies
    /// were on their way.
    pub mirror_skipped: u64,
}

impl AdmissionCounts {
    /// Requests that were turned away, for whatever reason.
    pub const fn shed(&self) -> u64 {
        self.shed_replicas_full + self.shed_queue_full + self.shed_wait_over + self.shed_deadline
    }
}

impl AddAssign for AdmissionCounts {
    fn add_assign(&mut self, other: Self) {
        self.queued += other.queued;
        self.shed_queue_full += other.shed_queue_full;
        self.shed_wait_over += other.shed_wait_over;
        self.shed_deadline += other.shed_deadline;
        self.shed_replicas_full += other.shed_replicas_full;
        self.retries_over_budget += other.retries_over_budget;
        self.hedges += other.hedges;
        self.hedges_won += other.hedges_won;
        self.hedges_over_budget += other.hedges_over_budget;
        self.hedges_while_slow += other.hedges_while_slow;
        self.hedges_unknown += other.hedges_unknown;
        self.ties += other.ties;
        self.ties_sent += other.ties_sent;
        self.ties_won += other.ties_won;
        self.ties_dropped += other.ties_dropped;
        self.ties_over_budget += other.ties_over_budget;
        self.shadow_trials += other.shadow_trials;
        self.mirrored += other.mirrored;
        self.mirror_skipped += other.mirror_skipped;
    }
}

impl AddAssign for RequestCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.retries += other.retries;
        self.hedges += other.hedges;
        self.superseded += other.superseded;
        self.connections += other.connections;
        self.responses_1xx += other.responses_1xx;
        self.responses_2xx += other.responses_2xx;
        self.responses_3xx += other.responses_3xx;
        self.responses_4xx += other.responses_4xx;
        self.responses_5xx += other.responses_5xx;
        self.connect_failures += other.connect_failures;
        self.timeouts += other.timeouts;
        self.broken += other.broken;
        self.client_gone += other.client_gone;
        self.grpc_failures += other.grpc_failures;
        self.reports_carried += other.reports_carried;
        self.full += other.full;
        self.shed += other.shed;
    }
}

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It does not listen yet.
    #[default]
    Starting,
    /// It takes requests.
    Serving,
    /// It refuses requests for now: the server that it stands before is not there.
    Withdrawn,
    /// It finishes what it has and takes nothing new.
    Draining,
}

impl Phase {
    /// Its name, as JSON has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Withdrawn => "withdrawn",
            Self::Draining => "draining",
        }
    }
}

/// The phase, shared between whoever goes through it and the admin server that tells of it. Starts
/// at [`Phase::Starting`] and goes forward only, but for [`Phase::Withdrawn`], which comes and goes
/// while it serves.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle(Arc<Life>);

#[derive(Debug, Default)]
struct Life {
    /// 0, 1 or 2: starting, serving, draining.
    stage: AtomicU8,
    withdrawn: AtomicBool,
}

impl Lifecycle {
    /// Every listener is open: `/readyz` says yes from now on.
    pub fn set_serving(&self) {
        self.0.stage.fetch_max(1, Ordering::Relaxed);
    }

    /// Requests are refused for now (`true`), or taken again: `/readyz` says no meanwhile.
    pub fn set_withdrawn(&self, withdrawn: bool) {
        self.0.withdrawn.store(withdrawn, Ordering::Relaxed);
    }

    /// The process stops: `/readyz` says no from now on.
    pub fn set_draining(&self) {
        self.0.stage.fetch_max(2, Ordering::Relaxed);
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        match self.0.stage.load(Ordering::Relaxed) {
            0 => Phase::Starting,
            1 if self.0.withdrawn.load(Ordering::Relaxed) => Phase::Withdrawn,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }
}
