//! The choice by a look at each candidate, where the newest reports alone are not the ones: for a
//! query that may go to a few replicas only, and while [further](super::further) reports are
//! needed.

use super::rows::Row;
use super::{LatestReports, LatestRule, Lowest, Survey};
use crate::draw::Draw;
use crate::policy::probed::{Choice, Client, rank};
use crate::policy::query::Query;
use crate::time::Instant;

impl<R: LatestRule> LatestReports<R> {
    /// Like [`Self::best`], for any [candidates](Self::candidates).
    #[inline(never)]
    pub(super) fn best_of_few(
        &self,
        now: Instant,
        query: &Query<'_>,
        survey: &Survey<R::Moment>,
        client: &Client,
        draw: &mut dyn Draw,
    ) -> Option<Choice> {
        if !query.among.is_empty() {
            let rows = (0..).zip(query.among);
            let rows = rows.filter_map(|(index, &replica)| Some((index, self.fresh(replica)?)));
            return self.best_of(now, rows, survey, client, draw);
        }
        let rows = (0..).zip(self.candidates(query));
        self.best_of(now, rows, survey, client, draw)
    }

    /// The best of these rows, each with its index.
    fn best_of<'a>(
        &'a self,
        now: Instant,
        mut rows: impl Iterator<Item = (u32, &'a Row<R::Known>)> + Clone,
        survey: &Survey<R::Moment>,
        client: &Client,
        draw: &mut dyn Draw,
    ) -> Option<Choice> {
        let fleet = &client.fleet;
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
            let drawn = rank::best(rows.clone().map(rank), draw)?;
            (index, runner_up) = (drawn.index, drawn.runner_up);
        }
        let at = |index: usize| move |row: &(u32, &Row<R::Known>)| row.0 as usize == index;
        let runner_up = runner_up.and_then(|index| rows.clone().find(at(index)));
        let (_, chosen) = rows.find(at(index))?;
        Some(Choice {
            replica: chosen.replica,
            reason: R::reason(first.first()),
            rif_limit: survey.rif_limit,
            candidates,
            chosen: Some(self.view(now, chosen, survey, fleet)),
            runner_up: runner_up.map(|(_, row)| row.replica),
        })
    }
}
