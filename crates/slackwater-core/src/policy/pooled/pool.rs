//! The probe pool: at most m reports, one for each replica, oldest first.
//!
//! `[A5]` `[Prequal §4 "The probe pool"]` The pool keeps order and bounds. The rule of choice and
//! the policy around it decide which report is chosen, charged or removed.

use crate::draw::Draw;
use crate::policy::pooled_view::PooledView;
use crate::policy::probed::rank::{self, Best, Load, Order, PoolRank};
use crate::policy::query::Query;
use crate::replica::ReplicaId;
use crate::report::Rif;
use crate::time::Instant;
use alloc::vec::Vec;
use core::time::Duration;

/// A report in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PooledReport {
    pub(super) replica: ReplicaId,
    /// As reported, plus one for each query sent there since. `[A11]`
    pub(super) rif: Rif,
    pub(super) latency_ns: Option<u64>,
    /// By the client's own clock, since a replica's clock may be wrong. `[A5]`
    pub(super) received_at: Instant,
    /// At least 1; a report whose uses are spent is gone.
    pub(super) uses_left: u32,
    pub(super) local: bool,
}

/// What happened to a report that was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// It took a free place.
    Added,
    /// It took the place of its replica's older report.
    Replaced,
    /// It took the place of the oldest report.
    Evicted,
}

/// The pool.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// Oldest first.
    reports: Vec<PooledReport>,
    capacity: usize,
    /// Buffer to find a median in.
    scratch_ns: Vec<u64>,
}

impl Pool {
    pub(super) fn new(capacity: u16) -> Self {
        let capacity = usize::from(capacity);
        Self {
            reports: Vec::with_capacity(capacity),
            capacity,
            scratch_ns: Vec::with_capacity(capacity),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.reports.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn at(&self, index: usize) -> &PooledReport {
        &self.reports[index]
    }

    /// Puts a report in as the newest.
    pub(super) fn insert(&mut self, report: PooledReport) -> Inserted {
        let inserted = if self.remove_replica(report.replica) {
            Inserted::Replaced
        } else if self.reports.len() == self.capacity {
            self.reports.remove(0);
            Inserted::Evicted
        } else {
            Inserted::Added
        };
        self.reports.push(report);
        inserted
    }

    /// Removes a replica's report. Returns `true` if there was one.
    pub(super) fn remove_replica(&mut self, replica: ReplicaId) -> bool {
        match self.position(replica) {
            Some(index) => {
                self.reports.remove(index);
                true
            }
            None => false,
        }
    }

    pub(super) fn position(&self, replica: ReplicaId) -> Option<usize> {
        self.reports
            .iter()
            .position(|report| report.replica == replica)
    }

    pub(super) fn remove_at(&mut self, index: usize) {
        self.reports.remove(index);
    }

    /// Removes the reports that have reached `age_max_ns`. Returns their number.
    pub(super) fn expire(&mut self, now: Instant, age_max_ns: u64) -> usize {
        let expired = self
            .reports
            .iter()
            .take_while(|r| now.ns_since(r.received_at) >= age_max_ns)
            .count();
        if expired > 0 {
            self.reports.drain(..expired);
        }
        expired
    }

    /// Charges `queries` to the report's replica. `[A11]`
    pub(super) fn compensate(&mut self, index: usize, queries: u32) {
        let report = &mut self.reports[index];
        report.rif = Rif::new(report.rif.count().saturating_add(queries));
    }

    /// Spends one use. Returns `true` if it was the last one, so that the report is gone.
    pub(super) fn spend(&mut self, index: usize) -> bool {
        let report = &mut self.reports[index];
        report.uses_left -= 1;
        let spent = report.uses_left == 0;
        if spent {
            self.reports.remove(index);
        }
        spent
    }

    /// How many reports the query can use: those of replicas that it may go to.
    pub(super) fn usable(&self, query: &Query<'_>) -> usize {
        if query.allows_all() {
            return self.reports.len();
        }
        self.reports
            .iter()
            .filter(|report| query.allows(report.replica))
            .count()
    }

    /// The best report that the query can use.
    pub(super) fn best(
        &mut self,
        query: &Query<'_>,
        order: impl Order,
        draw: &mut dyn Draw,
    ) -> Option<Best> {
        let stand_in_ns = self.stand_in_ns();
        if query.allows_all() {
            return rank::best(self.ranks(order, stand_in_ns, |_| true), draw);
        }
        let allowed = |report: &PooledReport| query.allows(report.replica);
        rank::best(self.ranks(order, stand_in_ns, allowed), draw)
    }

    /// The worst report in the same order. `[A10]`
    pub(super) fn worst(&mut self, order: impl Order, draw: &mut dyn Draw) -> Option<usize> {
        let stand_in_ns = self.stand_in_ns();
        rank::worst(self.ranks(order, stand_in_ns, |_| true), draw)
    }

    /// The stand-in for an unknown latency: the median of the known ones in the pool. `[A7]`
    fn stand_in_ns(&mut self) -> u64 {
        if self
            .reports
            .iter()
            .all(|report| report.latency_ns.is_some())
        {
            return 0; // not used
        }
        self.scratch_ns.clear();
        self.scratch_ns
            .extend(self.reports.iter().filter_map(|report| report.latency_ns));
        rank::stand_in_ns(&mut self.scratch_ns)
    }

    /// The reports, as rules compare them.
    pub(super) fn loads(&mut self) -> impl Iterator<Item = (&PooledReport, Load)> {
        let stand_in_ns = self.stand_in_ns();
        (self.reports.iter()).map(move |report| (report, report.load(stand_in_ns)))
    }

    /// Like [`Self::loads`] after expiry, oldest first.
    pub(super) fn fresh_loads(&self, now: Instant, age_max_ns: u64) -> Vec<(ReplicaId, Load)> {
        let fresh =
            (self.reports.iter()).filter(|report| now.ns_since(report.received_at) < age_max_ns);
        let mut known_ns: Vec<_> = fresh.clone().filter_map(|it| it.latency_ns).collect();
        let stand_in_ns = rank::stand_in_ns(&mut known_ns);
        fresh
            .map(|report| (report.replica, report.load(stand_in_ns)))
            .collect()
    }

    fn ranks(
        &self,
        order: impl Order,
        stand_in_ns: u64,
        allowed: impl Fn(&PooledReport) -> bool + Clone,
    ) -> impl Iterator<Item = PoolRank> + Clone {
        let allowed = (0_u32..)
            .zip(&self.reports)
            .filter(move |(_, report)| allowed(report));
        allowed.map(move |(index, report)| {
            PoolRank::new(index, order(report.replica, report.load(stand_in_ns)))
        })
    }

    /// The pool as seen from outside, oldest first.
    pub(super) fn views(&self, now: Instant, limit: Option<Rif>) -> Vec<PooledView> {
        self.reports
            .iter()
            .map(|report| report.view(now, limit))
            .collect()
    }
}

impl PooledReport {
    fn load(&self, stand_in_ns: u64) -> Load {
        Load {
            rif: u64::from(self.rif.count()),
            latency_ns: self.latency_ns.unwrap_or(stand_in_ns),
        }
    }

    pub(super) fn view(&self, now: Instant, limit: Option<Rif>) -> PooledView {
        PooledView {
            replica: self.replica,
            rif: self.rif,
            latency: self.latency_ns.map(Duration::from_nanos),
            age: now.saturating_since(self.received_at),
            uses_left: self.uses_left,
            local: self.local,
            hot: limit.is_some_and(|limit| self.rif >= limit),
        }
    }
}
