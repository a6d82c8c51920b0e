//! The latest reports, and the order of the next choice, as seen from outside.

use super::{Candidate, LatestReports, LatestRule};
use crate::policy::fleet::Fleet;
use crate::policy::pooled_view::PooledView;
use crate::policy::probed::{Client, Compared, Keep};
use crate::policy::query::Query;
use crate::replica::ReplicaId;
use crate::report::Rif;
use crate::time::Instant;
use alloc::vec::Vec;
use core::time::Duration;

impl<R: LatestRule> LatestReports<R> {
    /// The report of one replica.
    pub(super) fn view(
        &self,
        now: Instant,
        replica: ReplicaId,
        rif_limit: Option<Rif>,
        fleet: &Fleet,
    ) -> Option<PooledView> {
        let latest = self.latest.find(replica)?;
        let rif = self.rif(latest, fleet.in_flight(replica));
        Some(PooledView {
            replica,
            rif,
            latency: latest.latency_ns.map(Duration::from_nanos),
            age: now.saturating_since(latest.received_at),
            uses_left: u32::MAX,
            local: latest.local,
            hot: rif_limit.is_some_and(|limit| rif >= limit),
        })
    }

    /// All reports, oldest first.
    pub(super) fn seen(&self, now: Instant, client: &Client) -> Vec<PooledView> {
        let rif_limit = self.rif_limit(client);
        let fleet = &client.fleet;
        let view = |&replica: &ReplicaId| self.view(now, replica, rif_limit, fleet);
        let mut views: Vec<_> = fleet.available().iter().filter_map(view).collect();
        views.sort_by_key(|view| core::cmp::Reverse(view.age));
        views
    }

    /// The reports that are compared for the next query, oldest first.
    pub(super) fn looked_at(&self, now: Instant, client: &Client) -> Vec<Compared> {
        let received_at = |candidate: &Candidate<'_>| candidate.latest.received_at;
        let since = self.newest_since(Query::first(), &client.fleet, &mut Vec::new());
        let mut compared: Vec<_> = self
            .candidates(Query::first(), since, &client.fleet)
            .filter(|candidate| now.ns_since(received_at(candidate)) < self.report_age_max_ns)
            .collect();
        compared.sort_by_key(received_at);
        let all = compared.iter().copied();
        let Some(survey) = self.survey_of(all, since, &mut Vec::new()) else {
            return Vec::new();
        };
        let scored = |candidate: Candidate<'_>| {
            let load = Self::load(now, candidate, &survey);
            Compared {
                replica: candidate.replica,
                place: self.rule.place(load, &survey.moment),
                values: self.rule.values(load, &survey.moment),
            }
        };
        compared.into_iter().map(scored).collect()
    }
}
