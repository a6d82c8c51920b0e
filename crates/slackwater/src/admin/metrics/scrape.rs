//! What metrics are written from: the facts of one moment, the status made of them, and replicas beyond the bound in one.

use super::super::facts::{Facts, RequestCounts};
use super::super::latency::LatencyFacts;
use super::super::status::{ReplicaStatus, Status};
use super::system::System;
use crate::latency_histogram::Latencies;

/// What stands in the place of the names of all replicas beyond the bound.
pub(super) const OTHER: &str = "(other)";

/// Everything that is told.
#[derive(Debug)]
pub(in crate::admin) struct Scrape<'f> {
    pub(super) status: &'f Status,
    /// In the order of the status.
    pub(super) latencies: Vec<LatencyFacts>,
    pub(super) replicas: Vec<Row<'f>>,
    /// Replicas without series of their own, by service.
    pub(super) folded: Vec<u64>,
    pub(super) system: System,
}

/// A replica, or all of a service that have no series of their own.
#[derive(Debug)]
pub(super) struct Row<'f> {
    pub(super) service: &'f str,
    pub(super) name: &'f str,
    /// `None`: it is several, of which only counts are told, added up.
    pub(super) status: Option<&'f ReplicaStatus>,
    pub(super) requests: RequestCounts,
    pub(super) in_flight: u64,
    /// Health checks passed and failed; `None` where there are none.
    pub(super) checks: Option<(u64, u64)>,
    pub(super) heads: Latencies,
}

impl<'f> Scrape<'f> {
    /// `replicas_max`: as many have series of their own, in the order of the status.
    pub(in crate::admin) fn new(facts: &Facts, status: &'f Status, replicas_max: u32) -> Self {
        let mut heads = Vec::with_capacity(status.replicas.len());
        for service in &facts.services {
            let begin = heads.len();
            heads.resize(begin + service.replicas.len(), Latencies::default());
            for worker in &service.workers {
                for (sum, of_worker) in heads[begin..].iter_mut().zip(&worker.heads) {
                    *sum += of_worker;
                }
            }
        }
        let mut replicas: Vec<Row<'f>> = Vec::new();
        let mut folded = vec![0; status.services.len()];
        for (number, (replica, heads)) in status.replicas.iter().zip(heads).enumerate() {
            let row = Row::new(replica, heads);
            if number < replicas_max as usize {
                replicas.push(row);
                continue;
            }
            let mut services = status.services.iter();
            if let Some(place) = services.position(|it| it.name == replica.service) {
                folded[place] += 1;
            }
            match replicas.last_mut() {
                Some(other) if other.status.is_none() && other.service == row.service => {
                    other.add(&row);
                }
                _ => replicas.push(Row {
                    name: OTHER,
                    status: None,
                    ..row
                }),
            }
        }
        Self {
            status,
            latencies: (facts.services.iter())
                .map(|service| LatencyFacts::sum(&service.workers))
                .collect(),
            replicas,
            folded,
            system: System::now(),
        }
    }

    /// How many replicas have no series of their own.
    pub(in crate::admin) fn folded(&self) -> u64 {
        self.folded.iter().sum()
    }

    /// Replicas that have series of their own.
    pub(super) fn each_replica(&self) -> impl Iterator<Item = (&Row<'f>, &'f ReplicaStatus)> {
        let rows = self.replicas.iter();
        rows.filter_map(|row| Some((row, row.status?)))
    }
}

impl<'f> Row<'f> {
    fn new(replica: &'f ReplicaStatus, heads: Latencies) -> Self {
        let health = replica.health.as_ref();
        Self {
            service: &replica.service,
            name: &replica.name,
            status: Some(replica),
            requests: replica.requests,
            in_flight: replica.in_flight,
            checks: health.map(|health| (health.checks_passed, health.checks_failed)),
            heads,
        }
    }

    fn add(&mut self, other: &Row<'_>) {
        self.requests += other.requests;
        self.in_flight += other.in_flight;
        let sum = |(passed, failed), (more_passed, more_failed)| {
            (passed + more_passed, failed + more_failed)
        };
        self.checks = match (self.checks, other.checks) {
            (Some(checks), Some(more)) => Some(sum(checks, more)),
            (checks, more) => checks.or(more),
        };
        self.heads += &other.heads;
    }

    /// The values of `service` and `replica`.
    pub(super) const fn labels(&self) -> [&str; 2] {
        [self.service, self.name]
    }
}
