//! The choice by a look at each candidate, where the newest reports alone are not the ones: for a
//! query that may go to a few replicas only, and while few reports come.

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
        let fleet = &client.fleet;
        let mut candidates = self.candidates(query);
        let rank = |(index, row)| self.rank(now, index, row, survey, fleet);
        let ranks = (0..).zip(candidates.clone()).map(rank);
        let (mut lowest, mut count) = (Lowest::NONE, 0);
        for rank in ranks.clone() {
            lowest.offer(rank);
            count += 1;
        }
        let Lowest { first, second } = lowest;
        let (mut index, mut runner_up) = (first.index(), Some(second.index()));
        if count < 2 {
            runner_up = None;
        } else if second.ties_with(first) {
            let drawn = rank::best(ranks, draw)?;
            (index, runner_up) = (drawn.index, drawn.runner_up);
        }
        let runner_up = runner_up.and_then(|index| candidates.clone().nth(index));
        let chosen = candidates.nth(index)?;
        Some(Choice {
            replica: chosen.replica,
            reason: R::reason(first.first()),
            rif_limit: survey.rif_limit,
            candidates: count,
            chosen: Some(Self::view(now, chosen, survey, fleet)),
            runner_up: runner_up.map(|row| row.replica),
        })
    }
}
