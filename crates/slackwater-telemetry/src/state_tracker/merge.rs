//! Merges the facts that decide replicas' states over workers: a sign holds as soon as one worker
//! finds it, numbers are means.

use crate::attempt_failure::{Failing, FailureKind};
use crate::facts::{ReplicaFacts, ServiceFacts, WorkerFacts};
use crate::replica_state::{HealthSigns, ServiceStanding, Signs, Why};
use core::time::Duration;
use slackwater_core::ReplicaId;
use slackwater_core::policy::{HealthView, ReplicaView, Reports, policy_named};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Time without a failed attempt after which passed health checks count.
const REFUTED_AFTER: Duration = Duration::from_secs(10);

/// Returns the signs of each replica of a service.
pub(super) fn signs(now: SystemTime, service: &ServiceFacts) -> Vec<Signs> {
    let polled = policy_named(service.policy).is_some_and(|entry| entry.reports == Reports::Polled);
    let probed = (service.workers.iter()).any(|worker| worker.counters.probes_sent > 0);
    let mut all: Vec<_> = (service.replicas.iter())
        .map(|replica| Signs {
            probed,
            polled,
            ..of_fleet(replica)
        })
        .collect();
    let mut healths = vec![Vec::<Vec<_>>::new(); all.len()];
    for worker in &service.workers {
        let parts = Parts::of(worker);
        for (signs, in_flight) in all.iter_mut().zip(&worker.in_flight) {
            signs.in_flight += in_flight;
        }
        for ((signs, healths), ids) in all.iter_mut().zip(&mut healths).zip(&worker.ids) {
            let views: Vec<_> = parts.views(ids).collect();
            let all_are = |what: fn(&ReplicaView) -> bool| {
                !views.is_empty() && views.iter().all(|view| what(view))
            };
            signs.available &= views.iter().all(|view| view.available);
            signs.draining |= views.iter().any(|view| view.draining);
            // Parts are probed separately. An answer from one of them shows that the replica is
            // reachable.
            signs.unprobed |= all_are(|view| view.unprobed);
            signs.unreachable |= all_are(|view| view.lost);
            healths.push(parts.healths(ids).collect());
        }
    }
    for (place, (signs, healths)) in all.iter_mut().zip(&healths).enumerate() {
        signs.health = health(healths);
        let evidence = service.workers.iter();
        signs.failing = Failing::of(evidence.filter_map(|worker| worker.evidence.get(place)))
            .filter(|failing| {
                // A check may reach the agent, which still reports that it takes no requests.
                let is_server_gone = signs.draining && failing.last.kind == FailureKind::Withdrawn;
                is_server_gone || !is_refuted(now, failing, service.replicas.get(place))
            });
    }
    let healths = || all.iter().filter_map(|signs| signs.health.as_ref());
    let success = median(healths().map(|it| it.success_millionths)).unwrap_or(0);
    let latency = median(healths().filter_map(|it| it.latency));
    for health in all.iter_mut().filter_map(|signs| signs.health.as_mut()) {
        health.median_success_millionths = success;
        health.median_latency = latency;
    }
    all
}

/// Whether a service's replicas all fail; since when is not known here.
pub(super) fn service_standing(replicas: &[ReplicaFacts]) -> ServiceStanding {
    let standings = replicas.iter().map(|replica| &replica.standing);
    let wanted: Vec<_> = standings.filter(|it| !it.state.is_on_purpose()).collect();
    let taking = wanted.iter().filter(|it| !it.state.is_alarming()).count();
    let all_fail = taking == 0 && !wanted.is_empty();
    let mut standing = ServiceStanding {
        all_fail,
        wanted: wanted.len(),
        taking,
        ..ServiceStanding::default()
    };
    if all_fail {
        let mut reasons = BTreeMap::<String, (usize, &'static str)>::new();
        for it in &wanted {
            let reason = reasons.entry(it.why.to_string());
            reason.or_insert((0, it.why.remedy())).0 += 1;
        }
        if let Some((why, (_, remedy))) = reasons.into_iter().max_by_key(|(_, (count, _))| *count) {
            standing.why = why;
            standing.remedy = remedy;
        }
        let evidence = wanted.iter().map(|it| match it.why {
            Why::NoResponse(_) => it.signs.failing.as_ref().map(|failing| failing.last.age),
            _ => Some(Duration::ZERO),
        });
        standing.evidence_age = evidence.flatten().min();
    }
    standing
}

/// Whether later health checks that passed refute failed attempts. They do not while attempts
/// continue to fail: requests are better evidence than checks.
fn is_refuted(now: SystemTime, failing: &Failing, replica: Option<&ReplicaFacts>) -> bool {
    let failed_at = now.checked_sub(failing.last.age);
    let checks = replica.and_then(|replica| replica.health.as_ref());
    let passed = checks.filter(|it| it.verdict == "up");
    let checked_at = passed
        .and_then(|it| it.checked_at_ms)
        .map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
    failing.last.age >= REFUTED_AFTER && checked_at > failed_at
}

/// The facts that need no worker.
fn of_fleet(replica: &ReplicaFacts) -> Signs {
    let checks = replica.health.as_ref().filter(|it| it.verdict == "down");
    let is_there = replica.behind.is_none_or(|behind| behind.is_there);
    Signs {
        disabled: replica.weight == 0,
        down: checks.map(|checks| checks.last_failure.clone()),
        not_connectable: !is_there,
        drained: replica.drained,
        available: replica.weight > 0 && is_there,
        in_flight: replica.behind.map_or(0, |behind| behind.in_flight),
        ..Signs::default()
    }
}

/// Merges the judgement of each worker about each part of a replica.
fn health(workers: &[Vec<&HealthView>]) -> Option<HealthSigns> {
    let views: Vec<_> = workers.iter().flatten().copied().collect();
    // The states are in order of severity.
    let state = views.iter().map(|view| view.state).max()?;
    let finds_so = |worker: &&Vec<&HealthView>| worker.iter().any(|view| view.state == state);
    let mut causes = (views.iter().filter(|view| view.state == state)).map(|view| view.is_slow);
    let is_slow = causes.next();
    let millionths = |of: fn(&HealthView) -> u32| {
        let mean = mean(views.iter().map(|view| u128::from(of(view))));
        u32::try_from(mean.unwrap_or(0)).unwrap_or(u32::MAX)
    };
    let latencies = views.iter().filter_map(|view| view.latency);
    let latency = mean(latencies.map(|latency| latency.as_nanos()));
    Some(HealthSigns {
        state,
        workers_agreeing: workers.iter().filter(finds_so).count(),
        workers: workers.iter().filter(|worker| !worker.is_empty()).count(),
        is_slow: is_slow.filter(|first| causes.all(|other| other == *first)),
        share_millionths: millionths(|view| view.share_millionths),
        success_millionths: millionths(|view| view.success_millionths),
        latency: latency.and_then(|it| Some(Duration::from_nanos(it.try_into().ok()?))),
        median_success_millionths: 0,
        median_latency: None,
    })
}

fn mean(values: impl Iterator<Item = u128>) -> Option<u128> {
    let (count, sum) = values.fold((0_u128, 0_u128), |(count, sum), value| {
        (count + 1, sum.saturating_add(value))
    });
    sum.checked_div(count)
}

fn median<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// The state of each part of a replica in one worker's policy.
struct Parts<'f> {
    views: BTreeMap<ReplicaId, &'f ReplicaView>,
    healths: BTreeMap<ReplicaId, &'f HealthView>,
}

impl<'f> Parts<'f> {
    fn of(worker: &'f WorkerFacts) -> Self {
        let snapshot = &worker.snapshot;
        Self {
            views: (snapshot.replicas.iter())
                .map(|view| (view.replica, view))
                .collect(),
            healths: (snapshot.health.iter())
                .map(|view| (view.replica, view))
                .collect(),
        }
    }

    fn views(&self, ids: &[ReplicaId]) -> impl Iterator<Item = &'f ReplicaView> {
        ids.iter().filter_map(|id| self.views.get(id).copied())
    }

    fn healths(&self, ids: &[ReplicaId]) -> impl Iterator<Item = &'f HealthView> {
        ids.iter().filter_map(|id| self.healths.get(id).copied())
    }
}

#[cfg(test)]
mod tests;
