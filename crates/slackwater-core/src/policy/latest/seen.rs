//! The latest reports, and the order of the next choice, as seen from outside.

use super::{LatestReports, LatestRule, Row, Survey};
use crate::policy::fleet::Fleet;
use crate::policy::pooled_view::PooledView;
use crate::policy::probed::{Client, Compared};
use crate::policy::query::Query;
use crate::time::Instant;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

impl<R: LatestRule> LatestReports<R> {
    /// The report of one replica.
    pub(super) fn view(
        &self,
        now: Instant,
        row: &Row<R::Known>,
        survey: &Survey<R::Moment>,
        fleet: &Fleet,
    ) -> PooledView {
        let own_in_flight = fleet.in_flight(row.replica);
        let rif = super::rounded(self.in_flight(row, own_in_flight, survey.own_usual));
        PooledView {
            replica: row.replica,
            rif,
            latency: (row.latency_ns).map(|ns| Duration::from_nanos(ns.get())),
            age: now.saturating_since(row.received_at),
            uses_left: u32::MAX,
            local: row.local,
            hot: survey.rif_limit.is_some_and(|limit| rif >= limit),
        }
    }

    /// All reports, oldest first.
    pub(super) fn seen(&self, now: Instant, client: &Client) -> Vec<PooledView> {
        let survey = self.survey(&Query::first(), client, &mut Vec::new());
        let rows = self.rows.all().iter();
        let mut views: Vec<_> = rows
            .map(|row| self.view(now, row, &survey, &client.fleet))
            .collect();
        views.sort_by_key(|view| Reverse(view.age));
        views
    }

    /// The reports that are compared for the next query, oldest first.
    pub(super) fn looked_at(&self, now: Instant, client: &Client) -> Vec<Compared> {
        let query = Query::first();
        let survey = self.survey(&query, client, &mut Vec::new());
        let fresh_since = self.fresh_since(now).unwrap_or(Instant::EPOCH);
        let mut rows: Vec<_> = self
            .candidates(&query)
            .filter(|row| row.received_at >= fresh_since)
            .collect();
        rows.sort_by_key(|row| row.received_at);
        let rows = rows.into_iter();
        rows.map(|row| self.weighed(now, row, &survey, &client.fleet))
            .collect()
    }

    /// What a candidate is compared by.
    pub(super) fn weighed(
        &self,
        now: Instant,
        row: &Row<R::Known>,
        survey: &Survey<R::Moment>,
        fleet: &Fleet,
    ) -> Compared {
        let load = self.load(now, row, survey, fleet);
        Compared {
            replica: row.replica,
            place: self.rule.place(load, &row.known, &survey.moment),
            values: self.rule.values(load, &row.known, &survey.moment),
        }
    }
}
