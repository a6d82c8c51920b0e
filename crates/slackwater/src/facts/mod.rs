//! What whoever carries requests tells of it: plain facts, gathered when somebody asks.
//!
//! `serve`, `agent` and `demo` each implement [`StatusSource`]. The facts are in the core's own terms (counters, snapshots,
//! replica ids of each worker); `admin` turns them into what people and programs read.

pub(crate) mod latency;

pub(crate) use latency::{LatencyFacts, RESPONSE_CLASSES, ResponseClass, ServiceExemplars};

use crate::discovery::SourceState;
use crate::latency_histogram::Latencies;
use crate::traces::SpanCounts;
use core::ops::AddAssign;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use slackwater_core::policy::{Counters, Snapshot};
use slackwater_core::tracker::CapacitySource;
use slackwater_core::{LoadReport, ReplicaId};
use slackwater_tower::client::Reported;
use slackwater_tower::server::admission::{AdmissionView, TieCounts};
use std::sync::Arc;
use std::time::SystemTime;

/// Somebody who carries requests and can say how that goes.
pub(crate) trait StatusSource: Send + Sync + 'static {
    /// The facts now, read from where workers leave them: nobody has to answer, and nothing is waited for but short locks.
    fn facts(&self) -> Facts;
}

/// A source's knowledge at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The sub-command: `serve`, `agent` or `demo`.
    pub(crate) role: &'static str,
    /// The fleets, in the order of the configuration.
    pub(crate) services: Vec<ServiceFacts>,
    /// The certificates that it shows, to clients and to replicas.
    pub(crate) certificates: Vec<CertificateFacts>,
    /// How handshakes ended at each listener that speaks TLS.
    pub(crate) handshakes: Vec<HandshakeFacts>,
    /// Connections with clients.
    pub(crate) client_connections: ConnectionFacts,
    /// Those that have ended, by why.
    pub(crate) client_ends: Vec<(&'static str, u64)>,
    /// Connections closed because they did not begin with the PROXY header that they had to.
    pub(crate) proxy_headers_refused: u64,
    /// Requests over HTTP/1.1 that could not be read, by the status that was answered.
    pub(crate) unreadable_requests: Vec<StatusCount>,
    /// Requests that no service had, by what was answered.
    pub(crate) unrouted_requests: UnroutedFacts,
    /// What the process answers to probes itself; `None` unless it stands before a replica.
    pub(crate) own_load: Option<LoadReport>,
    /// What told the capacity in that.
    pub(crate) own_capacity_source: Option<CapacitySource>,
    /// The queue before that replica; `None` if there is none.
    pub(crate) own_queue: Option<AdmissionView>,
    /// How long requests waited in it, however that ended.
    pub(crate) own_waits: Latencies,
    /// What happened there to requests with a copy elsewhere; `None` if none are dropped for that.
    pub(crate) own_ties: Option<TieCounts>,
    /// How often the configuration was read again; `None` where it never is.
    pub(crate) reloads: Option<ReloadFacts>,
    /// What is changed at run time; `None` where nothing can be.
    pub(crate) overrides: Option<OverrideFacts>,
    /// Lines of the log that were lost.
    pub(crate) log_lost: u64,
    /// Lines that the access log has lost; `None` if there is none.
    pub(crate) access_log_lost: Option<u64>,
    /// What became of spans; `None` if nothing is traced.
    pub(crate) spans: Option<SpanCounts>,
    /// Whether what policies are told is recorded still; `None` where nothing was to be.
    pub(crate) recording: Option<bool>,
}

/// What is changed at run time.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OverrideFacts {
    /// There is a token, and whoever knows it may change something.
    pub(crate) allowed: bool,
    /// Keys that are set, over file and flags.
    pub(crate) settings: u64,
    /// Replicas that are drained or have another weight than their fleet says.
    pub(crate) replicas: u64,
    /// Requests that were refused because whoever sent them did not know the token. This count only rises.
    pub(crate) refused: u64,
}

/// What became of the configuration when it was read again.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReloadFacts {
    /// How often it was taken.
    pub(crate) taken: u64,
    /// How often it was not, so that the one before stayed.
    pub(crate) refused: u64,
    /// When it was last read again.
    pub(crate) last_at: Option<SystemTime>,
    /// Why it was not taken then; `None` if it was.
    pub(crate) failure: Option<String>,
}

/// Connections with clients, over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ConnectionFacts {
    /// That have begun; this only rises.
    pub(crate) begun: u64,
    /// That are there now.
    pub(crate) open: u64,
}

/// The line before a service, of one worker or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LineFacts {
    /// Requests that have a place in the service.
    pub(crate) inside: u64,
    /// Requests that wait for one.
    pub(crate) waiting: u64,
    /// For how long the oldest of them has; 0 if there are none.
    pub(crate) age_us: u64,
}

/// What pays for further copies of requests, of one worker or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetFacts {
    /// What it pays for: `retry`, `hedge` or `tie`.
    pub(crate) name: &'static str,
    /// So many copies could be sent at once now, in millionths.
    pub(crate) left_millionths: u64,
    /// So many at most, in millionths.
    pub(crate) size_millionths: u64,
}

/// Requests that no service had, over all workers. Every count only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct UnroutedFacts {
    /// No route is for them: 404.
    pub(crate) no_route: u64,
    /// Their path can be read in two ways: 400.
    pub(crate) doubtful_path: u64,
    /// Their route has an answer for them, and they are not fit even for that.
    pub(crate) refused: u64,
    /// Their route sends them elsewhere.
    pub(crate) redirected: u64,
    /// Their route answers itself.
    pub(crate) responded: u64,
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StatusCount {
    pub(crate) status: u16,
    pub(crate) requests: u64,
}

/// A certificate in force.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CertificateFacts {
    /// What it is shown for: `listener NAME` or `service NAME`.
    pub(crate) purpose: String,
    /// Its file.
    pub(crate) file: String,
    /// Its last second, from 1970 on; `None` where that cannot be read.
    pub(crate) expires_s: Option<i64>,
}

/// How TLS handshakes ended at one listener, over all workers. Every count only rises.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct HandshakeFacts {
    /// What the configuration calls it.
    pub(crate) listener: String,
    /// Full ones.
    pub(crate) full: u64,
    /// Those that resumed a session.
    pub(crate) resumed: u64,
    /// The client had no acceptable version, cipher or certificate, or broke off.
    pub(crate) failed: u64,
    /// Not done within `timeouts.handshake`.
    pub(crate) timed_out: u64,
    /// The client spoke plain HTTP.
    pub(crate) plain: u64,
    /// Ended for a newer one, because there were too many.
    pub(crate) displaced: u64,
}

/// One fleet, and who chooses from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceFacts {
    /// What the configuration calls it.
    pub(crate) name: String,
    /// Another one: it has begun anew since, and so have all its counts. No two services of the process have the same.
    pub(crate) number: u64,
    /// The policy's name; `none` where there is nothing to choose.
    pub(crate) policy: &'static str,
    /// Where the fleet comes from, and what became of the last list; `None` where it never changes.
    pub(crate) discovery: Option<SourceState>,
    /// The fleet, in the order of the configuration.
    pub(crate) replicas: Vec<ReplicaFacts>,
    /// Each worker's own knowledge of it.
    pub(crate) workers: Vec<WorkerFacts>,
}

/// Who a replica is.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaFacts {
    /// What users call it.
    pub(crate) name: String,
    /// Where its requests go.
    pub(crate) address: String,
    /// Where its probes go; `None` if it gets none.
    pub(crate) probe_address: Option<String>,
    /// Its share beside the others'; 0: it gets no new requests.
    pub(crate) weight: u32,
    /// The same as its fleet says, where an operator may want another one.
    pub(crate) fleet_weight: u32,
    /// An operator wants it to get no new requests.
    pub(crate) drained: bool,
    /// It gets requests only while nobody of a lower tier can take them.
    pub(crate) tier: u8,
    /// What its checks found; `None` if there are none.
    pub(crate) health: Option<HealthFacts>,
    /// What is known of it where no policy chooses: by an agent, of the server behind it.
    pub(crate) behind: Option<BehindFacts>,
}

/// What an agent knows of the server behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BehindFacts {
    /// It could be connected to when that was last tried.
    pub(crate) is_there: bool,
    /// Requests that it has not finished, those that wait for their turn included.
    pub(crate) in_flight: u64,
}

/// What the checks of a replica found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct HealthFacts {
    /// `up`, `down`, or `unknown` before the first check.
    pub(crate) verdict: String,
    /// Checks that it has passed. This count and the next only rise.
    pub(crate) checks_passed: u64,
    /// Checks that it has failed.
    pub(crate) checks_failed: u64,
    /// How often it was up and then down.
    pub(crate) went_down: u64,
    /// How often it was down and then up.
    pub(crate) came_back: u64,
    /// Why the last one that failed did.
    pub(crate) last_failure: Option<String>,
}

/// What one worker knows. The two lists follow the order of [`ServiceFacts::replicas`]; a missing end counts as unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerFacts {
    /// What its policy calls the parts of each replica; none of one that it does not know yet, or that has no weight.
    pub(crate) ids: Vec<Vec<ReplicaId>>,
    /// The tier in use; `None` where nobody can take requests in any.
    pub(crate) tier: Option<u8>,
    /// How its requests to each replica ended.
    pub(crate) requests: Vec<RequestCounts>,
    /// What became of its requests before a replica had them.
    pub(crate) admission: AdmissionCounts,
    /// The line before the service; `None` where everybody may come in.
    pub(crate) line: Option<LineFacts>,
    /// How long those who stood in it did, however that ended.
    pub(crate) waits: Latencies,
    /// Its connections to replicas that have ended, by why.
    pub(crate) replica_ends: Vec<(&'static str, u64)>,
    /// What pays for further copies of requests.
    pub(crate) budgets: Vec<BudgetFacts>,
    /// Requests that stand for others in what follows.
    pub(crate) exemplars: ServiceExemplars,
    /// How long requests took, as their clients saw it.
    pub(crate) latency: Box<LatencyFacts>,
    /// How long each replica took to the head of a response.
    pub(crate) heads: Vec<Latencies>,
    /// What replicas, or parts of them, last said of their load.
    pub(crate) reported: Vec<Reported>,
    /// What happened to its policy.
    pub(crate) counters: Counters,
    /// What its policy knows.
    pub(crate) snapshot: Snapshot,
}

/// How requests to a replica ended. Every count only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RequestCounts {
    /// Requests sent there, further tries included.
    pub(crate) sent: u64,
    /// Of these: further tries of requests that had been sent to another replica before.
    pub(crate) retries: u64,
    /// Of these: second copies of requests that were late at another replica.
    pub(crate) hedges: u64,
    /// Of those with a head: those for which a new connection was made.
    pub(crate) connections: u64,
    /// Responses by the first digit of their status.
    pub(crate) responses_1xx: u64,
    /// As above.
    pub(crate) responses_2xx: u64,
    /// As above.
    pub(crate) responses_3xx: u64,
    /// As above.
    pub(crate) responses_4xx: u64,
    /// As above.
    pub(crate) responses_5xx: u64,
    /// No connection: refused, unreachable, or not within `timeouts.connect`.
    pub(crate) connect_failures: u64,
    /// No response head within `timeouts.first_byte`.
    pub(crate) timeouts: u64,
    /// The connection broke before the response was complete.
    pub(crate) broken: u64,
    /// The client left before the response was complete.
    pub(crate) client_gone: u64,
    /// Left because the other copy of the request was answered first.
    pub(crate) superseded: u64,
    /// Responses whose gRPC status blames the server, in their head or in their trailers.
    pub(crate) grpc_failures: u64,
    /// Reports of the replica's load that came with responses, and that the policy was told of.
    pub(crate) reports_carried: u64,
    /// Requests that found no room there and went elsewhere, or waited.
    pub(crate) full: u64,
    /// Requests that the replica, or its agent, turned away unstarted.
    pub(crate) shed: u64,
}

/// What became of requests to a service before a replica had them. Every count only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AdmissionCounts {
    /// Requests that had to wait for a place.
    pub(crate) queued: u64,
    /// Requests turned away because no replica had room for another connection in time.
    pub(crate) shed_replicas_full: u64,
    /// Requests turned away because the queue was full.
    pub(crate) shed_queue_full: u64,
    /// Requests turned away because they had waited for `queue.wait_max`.
    pub(crate) shed_wait_over: u64,
    /// Requests turned away because their own time was over while they waited.
    pub(crate) shed_deadline: u64,
    /// Further tries that there were none of because the budget was spent.
    pub(crate) retries_over_budget: u64,
    /// Second copies of late requests.
    pub(crate) hedges: u64,
    /// Of these: those whose answer was taken.
    pub(crate) hedges_won: u64,
    /// Late requests without a second copy, because the budget was spent.
    pub(crate) hedges_over_budget: u64,
    /// Late requests without a second copy, because too many were late.
    pub(crate) hedges_while_slow: u64,
    /// Requests of which nobody could say when they would be late: too few of their class had ended.
    pub(crate) hedges_unknown: u64,
    /// Requests that were sent with the name of a second replica.
    pub(crate) ties: u64,
    /// Of these: those of which the second copy was sent.
    pub(crate) ties_sent: u64,
    /// Of these: those whose second copy's answer was taken.
    pub(crate) ties_won: u64,
    /// Copies that a replica dropped because the other one had begun.
    pub(crate) ties_dropped: u64,
    /// Requests whose second copy was not sent, because too many had not been dropped.
    pub(crate) ties_over_budget: u64,
    /// Copies of requests, sent to replicas that are out to see how they do.
    pub(crate) shadow_trials: u64,
    /// Copies of requests that other services have had.
    pub(crate) mirrored: u64,
    /// Copies that there are none of: the body was too large or never complete, or too many copies were on their way.
    pub(crate) mirror_skipped: u64,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// It does not listen yet.
    Starting,
    /// It takes requests.
    Serving,
    /// It refuses requests for now: the server that it stands before is not there.
    Withdrawn,
    /// It finishes what it has and takes nothing new.
    Draining,
}

/// The phase, shared between whoever goes through it and the admin server that tells of it. Starts at
/// [`Phase::Starting`] and goes forward only, but for [`Phase::Withdrawn`], which comes and goes while it serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lifecycle(Arc<Life>);

#[derive(Debug, Default)]
struct Life {
    /// 0, 1 or 2: starting, serving, draining.
    stage: AtomicU8,
    withdrawn: AtomicBool,
}

impl Lifecycle {
    /// Every listener is open: `/readyz` says yes from now on.
    pub(crate) fn set_serving(&self) {
        self.0.stage.fetch_max(1, Ordering::Relaxed);
    }

    /// Requests are refused for now (`true`), or taken again: `/readyz` says no meanwhile.
    pub(crate) fn set_withdrawn(&self, withdrawn: bool) {
        self.0.withdrawn.store(withdrawn, Ordering::Relaxed);
    }

    /// The process stops: `/readyz` says no from now on.
    pub(crate) fn set_draining(&self) {
        self.0.stage.fetch_max(2, Ordering::Relaxed);
    }

    /// The phase now.
    pub(crate) fn phase(&self) -> Phase {
        match self.0.stage.load(Ordering::Relaxed) {
            0 => Phase::Starting,
            1 if self.0.withdrawn.load(Ordering::Relaxed) => Phase::Withdrawn,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }
}
