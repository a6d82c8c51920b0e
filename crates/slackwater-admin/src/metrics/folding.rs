//! Chooses the replicas with their own series, consistently from one scrape to the next.
//!
//! A replica with its own series keeps them until it leaves; the first of the others then takes its
//! place. The sum of the others never falls, because a reader would take that for a reset and add
//! the whole sum again. A replica's counts therefore stay in the sum when it leaves, or when it
//! gets its own series.

use slackwater_telemetry::facts::{Facts, RequestCounts};
use slackwater_telemetry::latency_histogram::Latencies;
use std::collections::{BTreeMap, BTreeSet};

/// Counts of one replica or of several.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    pub(super) requests: RequestCounts,
    /// Passed and failed health checks; `None` without checks.
    pub(super) checks: Option<(u64, u64)>,
    pub(super) heads: Latencies,
}

impl Counted {
    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        let sum = |(passed, failed), (more_passed, more_failed)| {
            (passed + more_passed, failed + more_failed)
        };
        self.checks = match (self.checks, other.checks) {
            (Some(checks), Some(more)) => Some(sum(checks, more)),
            (checks, more) => checks.or(more),
        };
        self.heads += &other.heads;
    }
}

/// The state between scrapes.
#[derive(Debug)]
pub(crate) struct Folding {
    replicas_max: usize,
    services: BTreeMap<String, OfService>,
}

#[derive(Debug, Default)]
struct OfService {
    /// The number of the service's instance; another one means that it was built again.
    number: u64,
    /// Replicas with their own series.
    own: BTreeSet<String>,
    /// The other replicas, with their counts at the last scrape.
    others: BTreeMap<String, Counted>,
    /// The sum of former others.
    before: Option<Counted>,
}

impl Folding {
    /// At most this many replicas have their own series, over all services.
    pub(crate) const fn new(replicas_max: usize) -> Self {
        Self {
            replicas_max,
            services: BTreeMap::new(),
        }
    }

    pub(super) const fn set_replicas_max(&mut self, replicas_max: usize) {
        self.replicas_max = replicas_max;
    }

    /// Returns whether each replica of each service has its own series, in the order of `facts`.
    pub(super) fn choose(&mut self, facts: &Facts) -> Vec<Vec<bool>> {
        let names = |number: usize| facts.services[number].replicas.iter().map(|it| &it.name);
        let is_there = |name: &str| facts.services.iter().any(|service| service.name == name);
        self.services.retain(|name, _| is_there(name));
        for (place, service) in facts.services.iter().enumerate() {
            let known = self.services.entry(service.name.clone()).or_default();
            if known.number != service.number {
                *known = OfService {
                    number: service.number,
                    own: core::mem::take(&mut known.own),
                    ..OfService::default()
                };
            }
            let there: BTreeSet<_> = names(place).collect();
            known.own.retain(|name| there.contains(name));
        }
        let taken: usize = self
            .services
            .values()
            .map(|service| service.own.len())
            .sum();
        let mut free = self.replicas_max.saturating_sub(taken);
        let mut chosen = Vec::with_capacity(facts.services.len());
        for (place, service) in facts.services.iter().enumerate() {
            let Some(known) = self.services.get_mut(&service.name) else {
                continue;
            };
            let of_service = names(place).map(|name| {
                if !known.own.contains(name) && free > 0 {
                    free -= 1;
                    known.own.insert(name.clone());
                }
                known.own.contains(name)
            });
            chosen.push(of_service.collect());
        }
        chosen
    }

    /// Returns the sum of all others of a service, present (`others`) and former ones; `None` if
    /// there never were any.
    pub(super) fn fold(
        &mut self,
        service: &str,
        others: BTreeMap<String, Counted>,
    ) -> Option<Counted> {
        let known = self.services.get_mut(service)?;
        for (name, counted) in core::mem::take(&mut known.others) {
            if !others.contains_key(&name) {
                known.before.get_or_insert_default().add(&counted);
            }
        }
        known.others = others;
        if known.others.is_empty() {
            return known.before.clone();
        }
        let mut sum = known.before.clone().unwrap_or_default();
        (known.others.values()).for_each(|counted| sum.add(counted));
        Some(sum)
    }
}
