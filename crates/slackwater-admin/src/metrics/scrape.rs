//! The input of the metrics: the facts of one moment, the status made of them, and the sum of
//! replicas without their own series.

use super::super::status::{ReplicaStatus, Status};
use super::folding::{Counted, Folding};
use super::own_process::System;
use slackwater_telemetry::facts::latency::{LatencyFacts, ServiceExemplars};
use slackwater_telemetry::facts::{BudgetFacts, Facts, ServiceFacts};
use slackwater_telemetry::latency_histogram::Latencies;
use std::collections::BTreeMap;

/// The name of all replicas without their own series.
pub(super) const OTHER: &str = "(other)";

/// The input of all metrics.
#[derive(Debug)]
pub(crate) struct Scrape<'f> {
    pub(super) status: &'f Status,
    /// In the order of the status.
    pub(super) latencies: Vec<LatencyFacts>,
    /// In the order of the status.
    pub(super) exemplars: Vec<ServiceExemplars>,
    /// Waiting times in the queue, by service.
    pub(super) waits: Vec<Latencies>,
    /// Budgets for further copies, by service, over all workers.
    pub(super) budgets: Vec<Vec<BudgetFacts>>,
    /// Ended connections to replicas, by service and reason, over all workers.
    pub(super) replica_ends: Vec<Vec<(&'static str, u64)>>,
    /// Ended connections with clients, by reason.
    pub(super) client_ends: Vec<(&'static str, u64)>,
    /// Waiting times in an agent's queue.
    pub(super) own_waits: Latencies,
    pub(super) replicas: Vec<Row<'f>>,
    /// Number of replicas without their own series, by service.
    pub(super) folded: Vec<u64>,
    pub(super) system: System,
}

/// A replica, or all replicas of a service without their own series.
#[derive(Debug)]
pub(super) struct Row<'f> {
    pub(super) service: &'f str,
    pub(super) name: &'f str,
    /// The replica's status; `None` if the row is several replicas, of which only counts are
    /// written.
    pub(super) status: Option<&'f ReplicaStatus>,
    pub(super) counted: Counted,
    pub(super) in_flight: u64,
}

impl<'f> Scrape<'f> {
    /// Makes a scrape. `folding` keeps the state of the previous one.
    pub(crate) fn new(facts: &Facts, status: &'f Status, folding: &mut Folding) -> Self {
        let chosen = folding.choose(facts);
        let mut statuses = status.replicas.iter();
        let mut replicas: Vec<Row<'f>> = Vec::new();
        let mut folded = Vec::new();
        for ((service, told), chosen) in facts.services.iter().zip(&status.services).zip(chosen) {
            let mut heads = vec![Latencies::default(); service.replicas.len()];
            for worker in &service.workers {
                for (sum, of_worker) in heads.iter_mut().zip(&worker.heads) {
                    *sum += of_worker;
                }
            }
            // Replicas beyond the bound are summed up in one row, so that the number of series is
            // bounded.
            let mut counted = BTreeMap::new();
            let (mut others, mut in_flight) = (0, 0);
            for ((has_own, heads), replica) in chosen.into_iter().zip(heads).zip(&mut statuses) {
                let row = Row::new(replica, heads);
                counted.insert(replica.address.clone(), (row.counted.clone(), has_own));
                if has_own {
                    replicas.push(row);
                } else {
                    in_flight += row.in_flight;
                    others += 1;
                }
            }
            folded.push(others);
            if let Some(counted) = folding.fold(&told.name, counted) {
                replicas.push(Row {
                    service: &told.name,
                    name: OTHER,
                    status: None,
                    counted,
                    in_flight,
                });
            }
        }
        Self {
            status,
            latencies: (facts.services.iter())
                .map(|service| LatencyFacts::sum(&service.workers))
                .collect(),
            exemplars: (facts.services.iter())
                .map(|service| ServiceExemplars::newest(&service.workers))
                .collect(),
            waits: facts.services.iter().map(waits).collect(),
            budgets: facts.services.iter().map(budgets).collect(),
            replica_ends: facts.services.iter().map(replica_ends).collect(),
            client_ends: facts.client_ends.clone(),
            own_waits: facts.own_waits.clone(),
            replicas,
            folded,
            system: System::now(),
        }
    }

    /// Number of replicas without their own series.
    pub(crate) fn folded(&self) -> u64 {
        self.folded.iter().sum()
    }

    /// Replicas with their own series.
    pub(super) fn each_replica(&self) -> impl Iterator<Item = (&Row<'f>, &'f ReplicaStatus)> {
        let rows = self.replicas.iter();
        rows.filter_map(|row| Some((row, row.status?)))
    }
}

fn waits(service: &ServiceFacts) -> Latencies {
    let mut sum = Latencies::default();
    for worker in &service.workers {
        sum += &worker.waits;
    }
    sum
}

fn replica_ends(service: &ServiceFacts) -> Vec<(&'static str, u64)> {
    let mut workers = service.workers.iter().map(|it| &it.replica_ends);
    let mut sums = workers.next().cloned().unwrap_or_default();
    for ends in workers {
        for ((_, sum), (_, more)) in sums.iter_mut().zip(ends) {
            *sum += more;
        }
    }
    sums
}

/// All workers have the same budgets.
fn budgets(service: &ServiceFacts) -> Vec<BudgetFacts> {
    let mut workers = service.workers.iter();
    let mut sums = workers
        .next()
        .map_or_else(Vec::new, |it| it.budgets.clone());
    for worker in workers {
        for (sum, more) in sums.iter_mut().zip(&worker.budgets) {
            sum.left_millionths += more.left_millionths;
            sum.size_millionths += more.size_millionths;
        }
    }
    sums
}

impl<'f> Row<'f> {
    fn new(replica: &'f ReplicaStatus, heads: Latencies) -> Self {
        let health = replica.health.as_ref();
        Self {
            service: &replica.service,
            name: &replica.name,
            status: Some(replica),
            counted: Counted {
                requests: replica.requests,
                checks: health.map(|health| (health.checks_passed, health.checks_failed)),
                heads,
            },
            in_flight: replica.in_flight,
        }
    }

    /// The values of the labels `service` and `replica`.
    pub(super) const fn labels(&self) -> [&str; 2] {
        [self.service, self.name]
    }
}
