//! The status as JSON: the answer to `GET /status`. `docs/reference/admin.md` documents each field,
//! and a test keeps the two in step. Fields are only ever added; readers must ignore unknown ones.

use super::key_status::KeyStatus;
use super::reported_status::{ReportedStatus, whole};
use super::standing::{ServiceStandingStatus, StandingCounts, StandingStatus};
use core::ops::AddAssign;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use slackwater_core::LoadReport;
use slackwater_core::overload::{AdmissionView, Priority, Shed};
use slackwater_core::policy::{Counters, PooledView};
use slackwater_core::tail::TieCounts;
use slackwater_core::tracker::CapacitySource;
use slackwater_telemetry::attempt_failure::FailureFacts;
use slackwater_telemetry::comparison::Figures;
use slackwater_telemetry::date::since_epoch_ms;
use slackwater_telemetry::facts::latency::{
    LatencyFacts, LatencyStatus, QuantileStatus, latency_status, quantiles,
};
use slackwater_telemetry::facts::{
    AdmissionCounts, CertificateFacts, ConnectionFacts, Facts, HandshakeFacts, HealthFacts,
    HintFacts, LineFacts, ListenerFacts, OverrideFacts, Phase, RecentFacts, ReloadFacts,
    ReplicaFacts, RequestCounts, RouteFacts, ServiceFacts, SourceState, StatusCount, UnroutedFacts,
    WorkerFacts, XdsState,
};
use slackwater_telemetry::latency_histogram::Latencies;
use slackwater_telemetry::problems::{Problem, problems};
use slackwater_telemetry::replica_state::ReplicaState;
use slackwater_telemetry::trace::SpanCounts;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The whole status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    pub(crate) version: String,
    pub(crate) role: String,
    pub(crate) process: u32,
    pub(crate) phase: Phase,
    pub(crate) uptime_ms: u64,
    pub(crate) problems: Vec<Problem>,
    pub(crate) client_connections: ConnectionFacts,
    pub(crate) proxy_headers_refused: u64,
    pub(crate) unreadable_requests: Vec<StatusCount>,
    pub(crate) unrouted_requests: UnroutedFacts,
    pub(crate) own_load: Option<LoadStatus>,
    pub(crate) own_queue: Option<QueueStatus>,
    pub(crate) own_ties: Option<TieStatus>,
    pub(crate) own_hints: Option<HintFacts>,
    pub(crate) reloads: Option<ReloadStatus>,
    pub(crate) overrides: Option<OverrideFacts>,
    pub(crate) listeners: Vec<ListenerFacts>,
    pub(crate) routes: Vec<RouteFacts>,
    pub(crate) certificates: Vec<CertificateFacts>,
    pub(crate) handshakes: Vec<HandshakeFacts>,
    pub(crate) log_lost: u64,
    pub(crate) access_log_lost: Option<u64>,
    pub(crate) spans: Option<SpanCounts>,
    pub(crate) recording: Option<bool>,
    pub(crate) counts: PolicyCounts,
    pub(crate) services: Vec<ServiceStatus>,
    pub(crate) replicas: Vec<ReplicaStatus>,
    pub(crate) workers: Vec<WorkerStatus>,
}

/// Results of tied requests at an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct TieStatus {
    pub(crate) dropped: u64,
    pub(crate) doubled: u64,
    pub(crate) untied: u64,
    pub(crate) notified: u64,
    pub(crate) unnotified: u64,
    pub(crate) strange: u64,
}

/// Results of reloading the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(!default))]
#[serde(default)]
#[expect(missing_docs, reason = "docs/reference/admin.md documents each field")]
pub struct ReloadStatus {
    pub taken: u64,
    pub refused: u64,
    pub last_at_ms: Option<u64>,
    pub failure: Option<String>,
}

/// A service, over all workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct ServiceStatus {
    pub(crate) name: String,
    pub(crate) policy: String,
    pub(crate) discovery: Option<DiscoveryStatus>,
    pub(crate) tier: Option<u8>,
    pub(crate) standing: ServiceStandingStatus,
    pub(crate) recent: RecentFacts,
    pub(crate) admission: AdmissionCounts,
    pub(crate) line: Option<LineFacts>,
    pub(crate) latency: Vec<LatencyStatus>,
    pub(crate) keys: Option<KeyStatus>,
    pub(crate) counts: PolicyCounts,
}

/// Where a service's fleet comes from, and whether the last list was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct DiscoveryStatus {
    pub(crate) source: String,
    pub(crate) answered_at_ms: Option<u64>,
    pub(crate) failure: Option<String>,
    #[serde(default)]
    pub(crate) listed: usize,
    pub(crate) changes: u64,
    pub(crate) failures: u64,
    pub(crate) xds: Option<XdsState>,
}

/// A replica, over all workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct ReplicaStatus {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) probe_address: Option<String>,
    pub(crate) weight: u32,
    pub(crate) fleet_weight: u32,
    pub(crate) drained: bool,
    pub(crate) tier: u8,
    #[serde(default)]
    pub(crate) zone: Option<String>,
    #[serde(default)]
    pub(crate) far: bool,
    pub(crate) state: String,
    pub(crate) since_ms: Option<u64>,
    pub(crate) why: Option<String>,
    #[serde(default)]
    pub(crate) remedy: Option<String>,
    pub(crate) failure: Option<FailureFacts>,
    pub(crate) share_percent: Option<u32>,
    pub(crate) available: bool,
    pub(crate) health: Option<HealthFacts>,
    pub(crate) standing: Option<StandingStatus>,
    pub(crate) reported: Option<ReportedStatus>,
    pub(crate) head_us: Option<QuantileStatus>,
    pub(crate) in_flight: u64,
    pub(crate) requests: RequestCounts,
}

/// A worker's part of a service: its policy's counts and its pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct WorkerStatus {
    pub(crate) service: String,
    pub(crate) worker: usize,
    pub(crate) rif_limit: Option<u32>,
    pub(crate) probe_rate_millionths: Option<u32>,
    /// How the next pick compares replicas: the comparison's name.
    #[serde(default)]
    pub(crate) comparison: Option<String>,
    /// The values that all candidates share.
    #[serde(default)]
    pub(crate) shared: BTreeMap<String, f64>,
    pub(crate) pool: Vec<PooledStatus>,
    pub(crate) counts: PolicyCounts,
}

/// A report in the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct PooledStatus {
    pub(crate) replica: String,
    pub(crate) rif: u32,
    pub(crate) latency_us: Option<u64>,
    pub(crate) age_ms: u64,
    pub(crate) uses_left: u32,
    pub(crate) hot: bool,
    pub(crate) local: bool,
    #[serde(default)]
    pub(crate) rank: Option<u32>,
    /// The compared values.
    #[serde(default)]
    pub(crate) factors: BTreeMap<String, f64>,
    pub(crate) next: bool,
}

/// An agent's answer to probes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(!default))]
#[serde(default)]
#[expect(missing_docs, reason = "docs/reference/admin.md documents each field")]
pub struct LoadStatus {
    pub rif: u32,
    pub latency_us: Option<u64>,
    pub draining: bool,
    pub capacity_millirif: Option<u32>,
    pub capacity_source: Option<String>,
    pub cost_us: Option<u64>,
    pub cpu_millionths: Option<u32>,
}

/// An agent's queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(!default))]
#[serde(default)]
#[expect(missing_docs, reason = "docs/reference/admin.md documents each field")]
pub struct QueueStatus {
    pub limit: u32,
    pub rif: u32,
    pub waiting: BTreeMap<String, u32>,
    pub age_us: u64,
    pub standing: bool,
    pub least_latency_us: Option<u64>,
    pub queued: u64,
    pub shed: BTreeMap<String, u64>,
}

/// [`Counters`] in groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct PolicyCounts {
    pub(crate) picks: BTreeMap<String, u64>,
    pub(crate) no_replica: u64,
    pub(crate) probes: BTreeMap<String, u64>,
    pub(crate) removals: BTreeMap<String, u64>,
    pub(crate) standing: StandingCounts,
    pub(crate) rounds: u64,
    pub(crate) probing_ns: u64,
}

impl Status {
    pub(crate) fn new(facts: &Facts, phase: Phase, uptime: Duration) -> Self {
        let services: Vec<_> = facts.services.iter().map(ServiceStatus::new).collect();
        let mut counts = PolicyCounts::default();
        for service in &services {
            counts += service.counts.clone();
        }
        let workers = |service: &ServiceFacts| -> Vec<_> {
            let workers = service.workers.iter().enumerate();
            let status = workers.map(|(index, worker)| WorkerStatus::new(index, worker, service));
            status.collect()
        };
        let now = SystemTime::now();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: facts.role.to_owned(),
            process: std::process::id(),
            phase,
            uptime_ms: whole(uptime.as_millis()),
            problems: problems(facts, phase, now),
            client_connections: facts.client_connections,
            proxy_headers_refused: facts.proxy_headers_refused,
            unreadable_requests: facts.unreadable_requests.clone(),
            unrouted_requests: facts.unrouted_requests,
            own_load: (facts.own_load.as_ref())
                .map(|report| LoadStatus::new(report, facts.own_capacity_source)),
            own_queue: facts.own_queue.as_ref().map(QueueStatus::from),
            own_ties: facts.own_ties.as_ref().map(TieStatus::from),
            own_hints: facts.own_hints,
            reloads: facts.reloads.as_ref().map(ReloadStatus::from),
            overrides: facts.overrides.clone(),
            listeners: facts.listeners.to_vec(),
            routes: facts.routes.to_vec(),
            certificates: facts.certificates.clone(),
            handshakes: facts.handshakes.clone(),
            log_lost: facts.log_lost,
            access_log_lost: facts.access_log_lost,
            spans: facts.spans,
            recording: facts.recording,
            counts,
            services,
            replicas: (facts.services.iter())
                .flat_map(|service| replicas(service, now))
                .collect(),
            workers: facts.services.iter().flat_map(workers).collect(),
        }
    }
}

impl ServiceStatus {
    fn new(service: &ServiceFacts) -> Self {
        let mut counts = PolicyCounts::default();
        let mut admission = AdmissionCounts::default();
        for worker in &service.workers {
            counts += PolicyCounts::from(&worker.counters);
            admission += worker.admission;
        }
        Self {
            name: service.name.clone(),
            policy: service.policy.to_owned(),
            discovery: service.discovery.as_ref().map(DiscoveryStatus::from),
            tier: tier(&service.workers),
            standing: ServiceStandingStatus::from(&service.standing),
            recent: service.recent.clone(),
            admission,
            line: line(&service.workers),
            latency: latency_status(&LatencyFacts::sum(&service.workers)),
            keys: KeyStatus::new(service),
            counts,
        }
    }
}

/// Adds up the queues of all workers; `None` if no worker has one.
fn line(workers: &[WorkerFacts]) -> Option<LineFacts> {
    let lines = workers.iter().filter_map(|worker| worker.line);
    lines.reduce(|sum, line| LineFacts {
        inside: sum.inside + line.inside,
        waiting: sum.waiting + line.waiting,
        age_us: sum.age_us.max(line.age_us),
    })
}

/// Returns the highest tier that any worker uses; `None` if a worker finds no available replica in
/// any tier.
fn tier(workers: &[WorkerFacts]) -> Option<u8> {
    let tiers: Option<Vec<_>> = workers.iter().map(|worker| worker.tier).collect();
    tiers?.into_iter().max()
}

/// Returns a service's replicas over all workers, each with its state, and the counts of all
/// workers.
fn replicas(service: &ServiceFacts, now: SystemTime) -> Vec<ReplicaStatus> {
    let mut replicas: Vec<_> = (service.replicas.iter())
        .map(|replica| ReplicaStatus::new(replica, &service.name, now))
        .collect();
    let mut reports = vec![None; replicas.len()];
    let mut heads = vec![Latencies::default(); replicas.len()];
    for worker in &service.workers {
        let reported: BTreeMap<_, _> = (worker.reported.iter())
            .map(|it| (it.replica, it))
            .collect();
        for (last, parts) in reports.iter_mut().zip(&worker.ids) {
            let said = parts.iter().filter_map(|part| reported.get(part).copied());
            *last = said.chain(*last).min_by_key(|it| it.age);
        }
        for (sum, of_worker) in heads.iter_mut().zip(&worker.heads) {
            *sum += of_worker;
        }
        for (replica, requests) in replicas.iter_mut().zip(&worker.requests) {
            replica.requests += *requests;
        }
    }
    for (replica, (reported, heads)) in replicas.iter_mut().zip(reports.iter().zip(&heads)) {
        replica.reported = reported.map(ReportedStatus::from);
        replica.head_us = quantiles(heads);
    }
    replicas
}

impl ReplicaStatus {
    fn new(replica: &ReplicaFacts, service: &str, now: SystemTime) -> Self {
        let standing = &replica.standing;
        let signs = &standing.signs;
        Self {
            service: service.to_owned(),
            name: replica.name.clone(),
            address: replica.address.clone(),
            probe_address: replica.probe_address.clone(),
            weight: replica.weight,
            fleet_weight: replica.fleet_weight,
            drained: replica.drained,
            tier: replica.tier,
            zone: replica.zone.clone(),
            far: replica.far,
            state: standing.state.as_str().to_owned(),
            since_ms: standing.since.map(since_epoch_ms),
            why: standing.why(),
            remedy: standing.remedy(),
            failure: signs
                .failing
                .as_ref()
                .map(|failing| FailureFacts::new(failing, now)),
            share_percent: standing.share_percent(),
            available: signs.available,
            health: replica.health.clone(),
            standing: signs.health.as_ref().map(StandingStatus::from),
            reported: None,
            head_us: None,
            in_flight: signs.in_flight,
            requests: RequestCounts::default(),
        }
    }

    /// Its state.
    pub(crate) fn state(&self) -> ReplicaState {
        ReplicaState::named(&self.state).unwrap_or_default()
    }
}

impl WorkerStatus {
    fn new(index: usize, worker: &WorkerFacts, service: &ServiceFacts) -> Self {
        let names = service.replicas.iter().map(|replica| replica.name.as_str());
        let names: BTreeMap<_, _> = (worker.ids.iter().zip(names))
            .flat_map(|(parts, name)| parts.iter().map(move |&part| (part, name)))
            .collect();
        let order = (0_u32..).zip(&worker.snapshot.order);
        let order: BTreeMap<_, _> = order
            .map(|(rank, it)| (it.replica, (rank, it.values)))
            .collect();
        let comparison = worker.snapshot.comparison;
        let factors = |values| Figures::of_candidate(comparison, values).to_map();
        let pooled = |view: &PooledView| PooledStatus {
            replica: names
                .get(&view.replica)
                .map_or_else(|| view.replica.to_string(), ToString::to_string),
            rif: view.rif.count(),
            latency_us: view.latency.map(|latency| whole(latency.as_micros())),
            age_ms: whole(view.age.as_millis()),
            uses_left: view.uses_left,
            hot: view.hot,
            local: view.local,
            rank: order.get(&view.replica).map(|(rank, _)| *rank),
            factors: (order.get(&view.replica))
                .map_or_else(BTreeMap::new, |(_, values)| factors(*values)),
            next: worker.snapshot.next == Some(view.replica),
        };
        Self {
            service: service.name.clone(),
            worker: index,
            rif_limit: worker.snapshot.rif_limit.map(slackwater_core::Rif::count),
            probe_rate_millionths: (worker.snapshot.probe_rate)
                .map(slackwater_core::Rate::millionths),
            comparison: comparison.map(|comparison| comparison.name.to_owned()),
            shared: Figures::shared(comparison, worker.snapshot.shared).to_map(),
            pool: worker.snapshot.pool.iter().map(pooled).collect(),
            counts: PolicyCounts::from(&worker.counters),
        }
    }
}

impl From<&ReloadFacts> for ReloadStatus {
    fn from(reloads: &ReloadFacts) -> Self {
        Self {
            taken: reloads.taken,
            refused: reloads.refused,
            last_at_ms: reloads.last_at.map(since_epoch_ms),
            failure: reloads.failure.clone(),
        }
    }
}

impl From<&SourceState> for DiscoveryStatus {
    fn from(state: &SourceState) -> Self {
        Self {
            source: state.source.clone(),
            answered_at_ms: state.answered_at.map(since_epoch_ms),
            failure: state.failure.clone(),
            listed: state.listed,
            changes: state.changes,
            failures: state.failures,
            xds: state.xds.clone(),
        }
    }
}

impl LoadStatus {
    fn new(report: &LoadReport, capacity_source: Option<CapacitySource>) -> Self {
        Self {
            rif: report.rif.count(),
            latency_us: report.latency.map(|latency| whole(latency.as_micros())),
            draining: report.draining,
            capacity_millirif: report.capacity_millirif,
            capacity_source: capacity_source.map(|source| source.as_str().to_owned()),
            cost_us: report.cost.map(|cost| whole(cost.as_micros())),
            cpu_millionths: report.cpu_millionths,
        }
    }
}

impl From<&AdmissionView> for QueueStatus {
    fn from(view: &AdmissionView) -> Self {
        let waiting = Priority::ALL.iter().zip(view.waiting);
        let shed = Shed::ALL.iter().zip(view.shed);
        Self {
            limit: view.limit,
            rif: view.rif,
            waiting: waiting
                .map(|(it, count)| (it.name().to_owned(), count))
                .collect(),
            age_us: whole(view.age.as_micros()),
            standing: view.is_standing,
            least_latency_us: view.least_latency.map(|least| whole(least.as_micros())),
            queued: view.queued,
            shed: shed
                .map(|(it, count)| (it.name().to_owned(), count))
                .collect(),
        }
    }
}

impl From<&TieCounts> for TieStatus {
    fn from(counts: &TieCounts) -> Self {
        Self {
            dropped: counts.copies.dropped,
            doubled: counts.copies.doubled,
            untied: counts.copies.untied,
            notified: counts.notified,
            unnotified: counts.unnotified,
            strange: counts.strange,
        }
    }
}

impl From<&Counters> for PolicyCounts {
    fn from(c: &Counters) -> Self {
        let named = |counts: &[(&str, u64)]| {
            let owned = |&(name, count): &(&str, u64)| (name.to_owned(), count);
            counts.iter().map(owned).collect()
        };
        Self {
            picks: (c.picks.iter())
                .map(|(reason, count)| (reason.as_str().to_owned(), count))
                .collect(),
            no_replica: c.no_replica,
            probes: named(&[
                ("sent", c.probes_sent),
                ("unsent", c.probes_unsent),
                ("answered", c.probes_answered),
                ("lost", c.probes_lost),
                ("answered_late", c.reports_late),
                ("answered_by_unknown", c.reports_unknown),
                ("skipped_interval", c.probes_skipped_interval),
                ("skipped_outstanding", c.probes_skipped_outstanding),
                ("skipped_cap", c.probes_skipped_cap),
                ("skipped_rate", c.probes_skipped_rate),
                ("backed_off", c.probes_backed_off),
                ("idle", c.probes_idle),
                ("local", c.probes_local),
            ]),
            removals: named(&[
                ("spent", c.removed_spent),
                ("expired", c.removed_expired),
                ("oldest", c.removed_oldest),
                ("worst", c.removed_worst),
                ("evicted", c.evicted),
                ("replaced", c.replaced),
                ("withheld", c.removals_withheld),
            ]),
            standing: StandingCounts::from(&c.health),
            rounds: c.rounds,
            probing_ns: c.probing_ns,
        }
    }
}

impl AddAssign for PolicyCounts {
    fn add_assign(&mut self, other: Self) {
        let add = |sums: &mut BTreeMap<String, u64>, counts: BTreeMap<String, u64>| {
            for (name, count) in counts {
                *sums.entry(name).or_default() += count;
            }
        };
        add(&mut self.picks, other.picks);
        add(&mut self.probes, other.probes);
        add(&mut self.removals, other.removals);
        self.standing += other.standing;
        self.no_replica += other.no_replica;
        self.rounds += other.rounds;
        self.probing_ns += other.probing_ns;
    }
}
