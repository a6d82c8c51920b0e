//! The choice for a query that may go to a few replicas only: it looks at their reports, however
//! many are newer.

use super::rows::Row;
use super::{LatestReports, LatestRule, Lowest, Survey};
use crate::draw::Draw;
use crate::policy::probed::{Choice, Client, rank};
use crate::policy::query::Query;
use crate::replica::ReplicaId;
use crate::time::Instant;

impl<R: LatestRule> LatestReports<R> {
    /// The report of a replica, if it is fresh.
    pub(super) fn fresh(&self, replica: ReplicaId) -> Option<&Row<R::Known>> {
        let row = self.rows.find(replica)?;
        (row.received_at >= self.fresh_since).then_some(row)
    }

    /// Like [`Self::best`], for a query that may go to a few replicas only.
    #[inline(never)]
    pub(super) fn best_of_few(
        &self,
        now: Instant,
        query: &Query<'_>,
        survey: &Survey<R::Moment>,
        client: &Client,
        draw: &mut dyn Draw,
    ) -> Option<Choice> {
        let fleet = &client.fleet;
        let rows = (0_u32..).zip(query.among);
        let rows = rows.filter_map(|(index, &replica)| Some((index, self.fresh(replica)?)));
        let rank = |(index, row)| self.rank(now, index, row, survey, fleet);
        let (mut lowest, mut candidates) = (Lowest::NONE, 0);
        for row in rows.clone() {
            lowest.offer(rank(row));
            candidates += 1;
        }
        let Lowest { first, second } = lowest;
        let (mut index, mut runner_up) = (first.index(), Some(second.index()));
        if candidates < 2 {
            runner_up = None;
        } else if second.ties_with(first) {
            let drawn = rank::best(rows.map(rank), draw)?;
            (index, runner_up) = (drawn.index, drawn.runner_up);
        }
        let runner_up = runner_up.and_then(|index| query.among.get(index));
        let chosen = self.rows.find(*query.among.get(index)?)?;
        Some(Choice {
            replica: chosen.replica,
            reason: R::reason(first.first()),
            rif_limit: survey.rif_limit,
            candidates,
            chosen: Some(Self::view(now, chosen, survey, fleet)),
            runner_up: runner_up.copied(),
        })
    }
}
