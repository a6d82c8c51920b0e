//! Chooses the replicas with their own series, consistently from one scrape to the next.
//!
//! A replica with its own series keeps them until it leaves; the first of the others then takes its
//! place. The sum of the others never falls, because a reader would take that for a reset and add
//! the whole sum again. A replica's counts therefore stay in the sum when it leaves, or when it
//! gets its own series. A replica that returns soon has its old counts, which are not added again.

use super::super::live::risen;
use core::time::Duration;
use slackwater_telemetry::facts::{Facts, RequestCounts};
use slackwater_telemetry::latency_histogram::Latencies;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// Time for which the counts of a replica that left are kept. A fleet keeps them for a minute, and
/// may see later that it left.
const RETURN_MAX: Duration = Duration::from_secs(90);
/// The most replicas of a service that left and whose counts are kept.
const LEFT_MAX: usize = 10_000;

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

    /// The counts that came after an earlier reading. `None` if anything but checks is less than in
    /// that.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let checks = match (self.checks, earlier.checks) {
            // They start again when a replica returns.
            (Some((passed, failed)), Some((passed_before, failed_before))) => {
                Some((risen(passed_before, passed), risen(failed_before, failed)))
            }
            (checks, _) => checks,
        };
        let risen = Self {
            requests: self.requests - earlier.requests,
            checks,
            heads: self.heads.clone() - &earlier.heads,
        };
        let mut sum = earlier.clone();
        sum.add(&risen);
        let has_fallen = sum.requests != self.requests || sum.heads != self.heads;
        (!has_fallen).then_some(risen)
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
    /// All replicas by their address, also those that left a moment ago, with their last counts.
    seen: BTreeMap<String, Seen>,
    /// The sum of all others so far.
    sum: Option<Counted>,
}

#[derive(Debug)]
struct Seen {
    counted: Counted,
    /// When it was first missing; `None` if it is there.
    left_at: Option<Instant>,
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

    /// Returns the sum of all others of a service, present and former ones; `None` if there never
    /// were any. `replicas` are all its present replicas by their address: their counts, and
    /// whether they have their own series.
    pub(super) fn fold(
        &mut self,
        service: &str,
        mut replicas: BTreeMap<String, (Counted, bool)>,
    ) -> Option<Counted> {
        let OfService { seen, sum, .. } = self.services.get_mut(service)?;
        let now = Instant::now();
        let mut left = 0;
        let mut count = |risen: &Counted, has_own: bool| {
            if !has_own {
                sum.get_or_insert_default().add(risen);
            }
        };
        seen.retain(|address, seen| {
            if let Some((counted, has_own)) = replicas.get_mut(address)
                && let Some(risen) = counted.since(&seen.counted)
            {
                count(&risen, *has_own);
                seen.counted = core::mem::take(counted);
                seen.left_at = None;
                return true;
            }
            // A replica with less of anything than before has returned, but not in all workers yet.
            // If it never catches up, it is a new one.
            left += 1;
            let left_at = *seen.left_at.get_or_insert(now);
            left <= LEFT_MAX && now.duration_since(left_at) < RETURN_MAX
        });
        for (address, (counted, has_own)) in replicas {
            seen.entry(address).or_insert_with(|| {
                count(&counted, has_own);
                let left_at = None;
                Seen { counted, left_at }
            });
        }
        sum.clone()
    }
}
