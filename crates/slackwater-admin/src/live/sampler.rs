//! Makes a tick of two readings of the status.

use super::difference::{Ended, all_risen, named, risen};
use super::latencies::{Histograms, Window, quantiles};
use super::messages::{
    Classes, Columns, Compared, Counts, Fleet, FleetReplica, FleetService, FleetSource,
    PooledReport, RifLimit, ServiceTick, StandingTick, Tick,
};
use crate::Status;
use crate::reported_status::whole;
use crate::status::{PooledStatus, ReplicaStatus, ServiceStatus, WorkerStatus};
use core::time::Duration;
use serde_json::Value;
use slackwater_core::policy::POLICIES;
use slackwater_telemetry::comparison::comparisons;
use slackwater_telemetry::facts::ResponseClass;
use slackwater_telemetry::facts::{Facts, LastCounts, Phase, RequestCounts, ServiceFacts};
use slackwater_telemetry::policy::PolicyFacts;
use slackwater_telemetry::replica_state::{ReplicaState, StateFacts};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::SystemTime;

/// A reading: the status at one moment, with each service and its replicas.
#[derive(Debug)]
pub(super) struct Look {
    status: Status,
    /// Latencies of each service; also gives the number of its replicas.
    histograms: Vec<Histograms>,
    /// What each replica's counts of each service rose by since the last reading.
    rises: Vec<Vec<RequestCounts>>,
}

/// A service of a reading.
#[derive(Clone, Copy)]
struct Part<'l> {
    service: &'l ServiceStatus,
    replicas: &'l [ReplicaStatus],
    histograms: &'l Histograms,
    rises: &'l [RequestCounts],
}

impl Look {
    /// Makes a reading of all facts. `last` has the counts of the last one by service.
    pub(super) fn new(
        facts: &Facts,
        phase: Phase,
        uptime: Duration,
        last: &mut BTreeMap<String, LastCounts>,
    ) -> Self {
        let now = SystemTime::now();
        let mut before = core::mem::take(last);
        let rise = |service: &ServiceFacts| {
            let mut counts = before.remove(&service.name).unwrap_or_default();
            let rise = counts.rise(now, service);
            last.insert(service.name.clone(), counts);
            rise
        };
        Self {
            status: Status::new(facts, phase, uptime),
            histograms: facts.services.iter().map(Histograms::of).collect(),
            rises: facts.services.iter().map(rise).collect(),
        }
    }

    /// Latencies of each service.
    pub(super) fn histograms(&self) -> &[Histograms] {
        &self.histograms
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let mut rest = self.status.replicas.as_slice();
        let services = self.status.services.iter().zip(&self.histograms);
        let services = services.zip(&self.rises);
        services.map_while(move |((service, histograms), rises)| {
            let (replicas, others) = rest.split_at_checked(histograms.heads.len())?;
            rest = others;
            Some(Part {
                service,
                replicas,
                histograms,
                rises,
            })
        })
    }

    /// The fleet, with the first revision.
    pub(super) fn fleet(&self, interval: Duration, demo: Option<Value>) -> Fleet {
        let replica = |replica: &ReplicaStatus| FleetReplica {
            name: replica.name.clone(),
            address: replica.address.clone(),
            tier: replica.tier,
            weight: replica.weight,
            zone: replica.zone.clone(),
        };
        let service = |part: Part<'_>| FleetService {
            name: part.service.name.clone(),
            policy: part.service.policy.clone(),
            discovery: (part.service.discovery.as_ref()).map(|it| FleetSource {
                source: it.source.clone(),
                failure: it.failure.clone(),
            }),
            replicas: part.replicas.iter().map(replica).collect(),
        };
        let states = ReplicaState::ALL.into_iter();
        Fleet {
            revision: 1,
            role: self.status.role.clone(),
            version: self.status.version.clone(),
            process: self.status.process,
            interval_ms: whole(interval.as_millis()),
            states: (states.clone().map(|state| state.as_str().to_owned())).collect(),
            replica_states: states.map(StateFacts::from).collect(),
            policies: POLICIES.iter().map(PolicyFacts::from).collect(),
            comparisons: comparisons(),
            listeners: self.status.listeners.clone(),
            routes: self.status.routes.clone(),
            certificates: self.status.certificates.clone(),
            reloads: self.status.reloads.clone(),
            services: self.parts().map(service).collect(),
            demo,
        }
    }

    /// Returns the changes since `before` and the current state. `fleet` is the fleet of this
    /// reading, and `window` has its last seconds.
    pub(super) fn tick(
        &self,
        before: &Self,
        interval: Duration,
        at_ms: u64,
        fleet: &Fleet,
        window: &Window,
    ) -> Tick {
        let services = self.parts().map(|part| {
            let mut before = before.parts();
            // A service that was built again has no earlier reading.
            let before = before.find(|before| part.histograms.goes_on(before.histograms));
            let workers = self.status.workers.iter();
            let workers = workers.filter(|worker| worker.service == part.service.name);
            let workers: Vec<_> = workers.collect();
            let begun = window.beginning(&part.service.name);
            service_tick(before, part, begun, &workers, interval)
        });
        Tick {
            revision: fleet.revision,
            at_ms,
            uptime_ms: self.status.uptime_ms,
            interval_ms: whole(interval.as_millis()),
            phase: self.status.phase,
            own_load: self.status.own_load.clone(),
            own_queue: self.status.own_queue.clone(),
            unrouted: all_risen(
                Some(&named(&before.status.unrouted_requests)),
                &named(&self.status.unrouted_requests),
            ),
            services: services.collect(),
            problems: self.status.problems.clone(),
            demo: None,
        }
    }

    /// The status of this reading.
    pub(super) const fn status(&self) -> &Status {
        &self.status
    }
}

fn service_tick(
    before: Option<Part<'_>>,
    now: Part<'_>,
    begun: Option<&Histograms>,
    workers: &[&WorkerStatus],
    interval: Duration,
) -> ServiceTick {
    let ended: Vec<_> = now.rises.iter().map(Ended::of).collect();
    let nothing = Histograms::default();
    let seen = before.map_or(&nothing, |before| before.histograms);
    // An agent records no requests by class, so they are classified by their attempts.
    let classes = if now.histograms.is_of_agent {
        classes_of(&ended)
    } else {
        classes_seen(now.histograms, seen)
    };
    let requests = classes.sum();
    let counts = &now.service.counts;
    let counted = before.map(|before| &before.service.counts);
    let mut admission = all_risen(
        before
            .map(|before| named(&before.service.admission))
            .as_ref(),
        &named(&now.service.admission),
    );
    let retries = ended.iter().map(|it| it.retries).sum::<u64>();
    if retries > 0 {
        admission.insert("retries".to_owned(), retries);
    }
    let rises =
        |of: fn(&crate::status::PolicyCounts) -> &Counts| all_risen(counted.map(of), of(counts));
    let rif_limit = rif_limit(workers);
    ServiceTick {
        requests,
        failed: classes.failed(),
        rate: per_second(requests, interval),
        classes,
        latency: quantiles(&now.histograms.since(seen)),
        latency_10s: begun.and_then(|begun| quantiles(&now.histograms.since(begun))),
        picks: rises(|counts| &counts.picks),
        no_replica: risen(counted.map_or(0, |it| it.no_replica), counts.no_replica),
        probes: rises(|counts| &counts.probes),
        removals: rises(|counts| &counts.removals),
        admission,
        tier: now.service.tier,
        all_fail: now.service.standing.all_fail,
        rif_limit,
        compared: workers.iter().filter_map(|it| compared(it)).collect(),
        pool: pool(workers, now.replicas),
        replicas: columns(now, begun, &ended, rif_limit),
        standings: standings(now.replicas),
    }
}

/// Returns the replicas with a new state or a reason.
fn standings(replicas: &[ReplicaStatus]) -> Vec<StandingTick> {
    // A remedy belongs to its cause, so it is sent once for all replicas with that cause.
    let mut causes = HashSet::new();
    let told = |(place, replica): (usize, &ReplicaStatus)| {
        (replica.since_ms.is_some() || replica.why.is_some()).then(|| StandingTick {
            replica: place,
            since_ms: replica.since_ms,
            why: replica.why.clone(),
            remedy: (replica.remedy.clone()).filter(|_| causes.insert(replica.why.clone())),
            // For healthy replicas it would change with each check, and make every tick larger.
            checked_at_ms: (replica.health.as_ref())
                .filter(|_| replica.state().is_alarming())
                .and_then(|it| it.checked_at_ms)
                .or_else(|| replica.failure.as_ref().map(|it| it.last_at_ms)),
            failed_in_a_row: replica.failure.as_ref().map(|it| it.in_a_row),
        })
    };
    replicas.iter().enumerate().filter_map(told).collect()
}

/// Classes of requests as clients saw them.
fn classes_seen(now: &Histograms, before: &Histograms) -> Classes {
    let class = |class| now.ended(before, class);
    Classes {
        informational: class(ResponseClass::Informational),
        success: class(ResponseClass::Success),
        redirect: class(ResponseClass::Redirect),
        client: class(ResponseClass::Client),
        server: class(ResponseClass::Server),
        grpc_failed: class(ResponseClass::GrpcFailed),
        broken: class(ResponseClass::Broken),
        client_gone: class(ResponseClass::ClientGone),
    }
}

/// Classes of attempts as replicas answered.
fn classes_of(ended: &[Ended]) -> Classes {
    let sum = |of: fn(&Ended) -> u64| ended.iter().map(of).sum::<u64>();
    let class = |class: usize| ended.iter().map(|it| it.classes[class]).sum::<u64>();
    let grpc_failed = sum(|it| it.grpc_failures);
    Classes {
        informational: class(0),
        // The status of gRPC failures is 200 as well.
        success: class(1).saturating_sub(grpc_failed),
        redirect: class(2),
        client: class(3),
        server: class(4),
        grpc_failed,
        broken: sum(|it| it.unanswered),
        client_gone: sum(|it| it.client_gone),
    }
}

fn columns(
    now: Part<'_>,
    begun: Option<&Histograms>,
    ended: &[Ended],
    limit: Option<RifLimit>,
) -> Columns {
    let mut columns = Columns::default();
    for (place, (replica, ended)) in now.replicas.iter().zip(ended).enumerate() {
        let reported = replica.reported.as_ref();
        let is_hot = |rif| limit.is_some_and(|limit| rif >= limit.median);
        columns.state.push(replica.state().code());
        columns.rif.push(reported.map(|it| it.rif));
        columns
            .latency_us
            .push(reported.and_then(|it| it.latency_us));
        columns.report_age_ms.push(reported.map(|it| it.age_ms));
        columns
            .capacity_millirif
            .push(reported.and_then(|it| it.capacity_millirif));
        columns.cost_us.push(reported.and_then(|it| it.cost_us));
        columns.hot.push(reported.map(|it| is_hot(it.rif).into()));
        columns.in_flight.push(replica.in_flight);
        columns.sent.push(ended.sent);
        columns.failed.push(ended.failed());
        let head = |histograms: &Histograms| histograms.heads.get(place).cloned();
        let heads = begun
            .and_then(head)
            .and_then(|begun| Some(head(now.histograms)? - &begun));
        let quantile = |part| Some(whole(heads.as_ref()?.quantile(part)?.as_micros()));
        columns.p50_us.push(quantile(0.5));
        columns.p99_us.push(quantile(0.99));
        let share = replica.standing.as_ref();
        columns
            .share
            .push(share.map(|it| it.share_millionths / 1_000));
    }
    // Columns of `null` would make a tick a fifth larger.
    if columns.capacity_millirif.iter().all(Option::is_none) {
        columns.capacity_millirif.clear();
    }
    if columns.cost_us.iter().all(Option::is_none) {
        columns.cost_us.clear();
    }
    columns
}

fn rif_limit(workers: &[&WorkerStatus]) -> Option<RifLimit> {
    let mut limits: Vec<_> = workers.iter().filter_map(|it| it.rif_limit).collect();
    limits.sort_unstable();
    Some(RifLimit {
        min: *limits.first()?,
        median: *limits.get(limits.len().saturating_sub(1) / 2)?,
        max: *limits.last()?,
    })
}

fn compared(worker: &WorkerStatus) -> Option<Compared> {
    Some(Compared {
        worker: worker.worker,
        comparison: worker.comparison.clone()?,
        shared: worker.shared.clone(),
    })
}

fn pool(workers: &[&WorkerStatus], replicas: &[ReplicaStatus]) -> Vec<PooledReport> {
    let names = replicas.iter().enumerate();
    let places: HashMap<&str, usize> = names
        .map(|(place, replica)| (replica.name.as_str(), place))
        .collect();
    let report = |worker: usize, report: &PooledStatus| {
        Some(PooledReport {
            worker,
            replica: *places.get(report.replica.as_str())?,
            rif: report.rif,
            latency_us: report.latency_us,
            age_ms: report.age_ms,
            uses_left: (report.uses_left != u32::MAX).then_some(report.uses_left),
            hot: report.hot,
            local: report.local,
            rank: report.rank,
            factors: report.factors.clone(),
            next: report.next,
        })
    };
    let reports = |worker: &&WorkerStatus| -> Vec<_> {
        // If reports decide, those without a rank are left out; in a large fleet, that is most of
        // the pool.
        let is_ranked = worker.pool.iter().any(|report| report.rank.is_some());
        let looked_at = |report: &&PooledStatus| !is_ranked || report.rank.is_some();
        let pool = worker.pool.iter().filter(looked_at);
        let pool = pool.filter_map(|it| report(worker.worker, it));
        let mut pool: Vec<_> = pool.collect();
        pool.sort_by_key(|it| (it.rank, it.age_ms));
        pool
    };
    workers.iter().flat_map(reports).collect()
}

/// A rate with one decimal.
fn per_second(count: u64, interval: Duration) -> f64 {
    let seconds = interval.as_secs_f64();
    if seconds > 0.0 {
        (count as f64 / seconds * 10.0).round() / 10.0
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests;
