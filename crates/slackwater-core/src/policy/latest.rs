//! The latest report of every replica, for any rule of choice.
//!
//! If the pool of Prequal would hold half of the fleet or more, its choice herds: it uses the same
//! reports again and again, and a replica that once looked slow gets no queries that could correct
//! that. [`LatestReports`] keeps one report of each replica for as long as it is fresh, and
//! corrects it at each pick: RIF is what *others* had in flight when it reported, plus what this
//! client has now, so that queries that have ended no longer count, plus what others are assumed to
//! have sent there since, as this client has. A [`LatestRule`] decides among them.
//!
//! An unprobed replica has no report. It counts with an estimate that has the spread of reports: if
//! all are alike, the lowest of all is found among the unprobed as often as there are of them. So a
//! few unprobed replicas take nothing from what the others report, and where all are unprobed only
//! the client's own counts decide. `[A13]` `[Decision 0002]`
//!
//! With `local_only` it sends no probes and uses the client's own counts and round trips, which for
//! a single client is about as good. A pick looks at every report, so its time is in proportion to
//! the fleet, except with a rule that compares only the newest reports, which are kept together,
//! and some [further] ones if few come or most queries are this client's [own](own_share).

mod few;
mod further;
mod in_flight;
mod keep;
mod order;
mod own_share;
mod rows;
mod rule;
mod seen;

pub(in crate::policy) use in_flight::FEWEST_IN_FLIGHT;
pub(in crate::policy) use rule::{LatestLoad, LatestRule, Reported, Update};

use crate::draw::Draw;
use crate::fixed::{Rate, mul_div};
use crate::policy::fleet::Fleet;
use crate::policy::prequal::PrequalConfig;
use crate::policy::probed::rank;
use crate::policy::probed::recent_mean::RecentMean;
use crate::policy::probed::{Choice, Client};
use crate::policy::query::Query;
use crate::policy::report_yield::ReportYield;
use crate::policy::turns::FINE;
use crate::replica::ReplicaId;
use crate::report::{LoadReport, Rif};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use core::fmt::Debug;
use core::num::NonZeroU64;
use further::Further;
use in_flight::FleetRank;
use order::ORDERED_MAX;
use own_share::OwnShare;
use rows::{Row, Rows};

/// Where a report comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) enum From {
    /// It answers a probe, or takes the place of an unprobed replica's answer. `[A13]`
    Probe { local: bool },
    /// It came with a response.
    Response,
}

/// Values that all candidates for a query share.
#[derive(Clone, Copy, Debug)]
struct Survey<M> {
    /// For rules with hot and cold.
    rif_limit: Option<Rif>,
    /// The median of the known latencies, which stands for an unknown one in such rules. `[A7]`
    stand_in_ns: u64,
    /// What this client usually has in flight at a replica, with one more, in 1/1024. It is used
    /// for unprobed candidates.
    own_usual: u64,
    moment: M,
}

/// The latest report of every replica, and the rule that chooses among them.
#[derive(Debug)]
pub struct LatestReports<R: LatestRule> {
    rule: R,
    rows: Rows<R::Known>,
    report_age_max_ns: u64,
    /// The time since which reports were fresh at the last choice.
    fresh_since: Instant,
    /// What this client has in flight at a replica, in 1/1024, by recent reports. It is only noted
    /// while a replica is unprobed.
    own: RecentMean,
    /// Reports that come with responses.
    carried: ReportYield,
    further: Further,
    own_share: OwnShare,
    /// Buffer to find a median in, for rules that need one.
    scratch_ns: Vec<u64>,
}

impl<R: LatestRule> LatestReports<R> {
    pub(in crate::policy) fn new(rule: R, config: &PrequalConfig) -> Self {
        Self {
            rule,
            rows: Rows::new(R::NEWEST_MAX),
            report_age_max_ns: span_ns(config.report_age_max),
            fresh_since: Instant::EPOCH,
            own: RecentMean::default(),
            carried: ReportYield::unheard(Rate::ONE),
            further: Further::default(),
            own_share: OwnShare::default(),
            scratch_ns: Vec::new(),
        }
    }

    /// Removes reports that have reached their maximum age. `[A5]`
    #[inline]
    fn expire(&mut self, now: Instant, client: &mut Client) {
        if let Some(since) = self.fresh_since(now) {
            self.fresh_since = since;
            client.counters.removed_expired += self.rows.expire(since) as u64;
        }
    }

    /// The time since which reports are fresh, if any can be older.
    fn fresh_since(&self, now: Instant) -> Option<Instant> {
        let age_ns = now.as_nanos().checked_sub(self.report_age_max_ns)?;
        Some(Instant::from_nanos(age_ns.saturating_add(1)))
    }

    /// The reports to choose from: the newest, and the [further] ones. A replica without a fresh
    /// report is left out while there is another: one that answers no probes, and is not unprobed
    /// yet, may be gone.
    ///
    /// For a query that may go to a few replicas only: their reports, however many are newer. Those
    /// beyond the newest are not searched for expired ones, so their age is checked here.
    fn candidates<'a>(
        &'a self,
        query: &'a Query<'a>,
    ) -> impl Iterator<Item = &'a Row<R::Known>> + Clone {
        let (newest, all) = if query.among.is_empty() {
            (self.rows.newest(), self.rows.all())
        } else {
            (&[] as &[_], &[] as &[_])
        };
        let further = self.further.places(newest.len(), all.len());
        let further = further.map(|place| &all[place]);
        let further = further.filter(|row| row.received_at >= self.fresh_since);
        let few = query.among.iter().filter_map(|&it| self.fresh(it));
        let rows = newest.iter().chain(further).chain(few);
        rows.filter(move |row| query.allows(row.replica))
    }

    /// Whether further reports are compared, and there are any.
    fn compares_further(&self) -> bool {
        self.further.are_needed() && self.rows.newest().len() < self.rows.all().len()
    }

    /// The report of a replica, if it is fresh.
    fn fresh(&self, replica: ReplicaId) -> Option<&Row<R::Known>> {
        let row = self.rows.find(replica)?;
        (row.received_at >= self.fresh_since).then_some(row)
    }

    /// The RIF that a report counts with, in 1/1024. `[A11]` `[A13]` `[Decision 0029]`
    #[inline]
    fn in_flight(&self, row: &Row<R::Known>, own_in_flight: u32, own_usual: u64) -> u64 {
        let own = u64::from(own_in_flight) * FINE;
        let mut others = u64::from(row.others) * FINE;
        if row.local {
            // Other clients have more where this one has more.
            let most = u64::from(u32::MAX) * FINE;
            others = mul_div(others, own + FINE, own_usual).min(most);
        }
        let since = u64::from(own_in_flight.saturating_sub(row.own));
        own + others + since * self.own_share.others_alike()
    }

    /// The load of a candidate.
    #[inline]
    fn load(
        &self,
        now: Instant,
        row: &Row<R::Known>,
        survey: &Survey<R::Moment>,
        fleet: &Fleet,
    ) -> LatestLoad {
        let (own_in_flight, turn) = fleet.sent_to(row.replica);
        LatestLoad {
            in_flight: self.in_flight(row, own_in_flight, survey.own_usual),
            rif_limit: survey.rif_limit,
            latency_ns: row.latency_ns.map_or(survey.stand_in_ns, NonZeroU64::get),
            age_ns: now.ns_since(row.received_at),
            turn,
        }
    }

    /// Whether this client sends most of the queries. The queries of replicas that answer no probes
    /// are in no report, so it is not known then.
    fn sends_most(&self, client: &Client) -> bool {
        self.own_share.is_most() && !client.any_unprobed()
    }

    /// The values that the candidates share. `known_ns` is a buffer for a median.
    #[inline]
    fn survey(
        &self,
        query: &Query<'_>,
        client: &Client,
        known_ns: &mut Vec<u64>,
    ) -> Survey<R::Moment> {
        let own_usual = if client.any_unprobed() {
            self.own.mean() + FINE
        } else {
            0 // not used
        };
        let mut survey = Survey {
            rif_limit: None,
            stand_in_ns: 0, // not used
            own_usual,
            moment: self.rule.moment(),
        };
        if let Some(rif_limit) = R::RIF_LIMIT {
            known_ns.clear();
            let mut lowest = None;
            let mut count = 0;
            for row in self.candidates(query) {
                let own_in_flight = client.fleet.in_flight(row.replica);
                let rif = rounded(self.in_flight(row, own_in_flight, own_usual));
                lowest = Some(lowest.map_or(rif, |lowest: Rif| rif.min(lowest)));
                known_ns.extend(row.latency_ns.map(NonZeroU64::get));
                count += 1;
            }
            survey.rif_limit = lowest.map(|lowest| rif_limit(&self.rule, lowest));
            if known_ns.len() < count {
                survey.stand_in_ns = rank::stand_in_ns(known_ns);
            }
        }
        survey
    }

    /// Like [`Self::survey`], without an allocation.
    #[inline]
    fn survey_with_buffer(&mut self, query: &Query<'_>, client: &Client) -> Survey<R::Moment> {
        if R::RIF_LIMIT.is_none() {
            return self.survey(query, client, &mut Vec::new());
        }
        let mut known_ns = core::mem::take(&mut self.scratch_ns);
        let survey = self.survey(query, client, &mut known_ns);
        self.scratch_ns = known_ns;
        survey
    }

    /// Makes a report the latest of its replica. Returns whether it replaces one.
    fn keep(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        own_in_flight: u32,
        latency_ns: Option<NonZeroU64>,
        report: &LoadReport,
        from: From,
    ) -> bool {
        let others = report.rif.count().saturating_sub(own_in_flight);
        let local = from == From::Probe { local: true };
        let reported = Reported {
            replica,
            from,
            rif: report.rif.max(Rif::new(own_in_flight)),
            others: if local { 0 } else { others },
            latency_ns: latency_ns.map(NonZeroU64::get),
            query_rate_millis: report.query_rate_millis.unwrap_or(0),
            capacity_millirif: report.capacity_millirif.unwrap_or(0),
            cost_ns: report.cost.map_or(0, span_ns),
        };
        let Update { known, of_all } = self.rule.handle_report(now, reported);
        let replaces = self.rows.insert(Row {
            replica,
            received_at: now,
            latency_ns,
            others,
            own: own_in_flight,
            local,
            known,
        });
        if of_all {
            self.know_all_anew();
        }
        replaces
    }

    /// Lets each report count with what is known of its replica now.
    #[cold]
    fn know_all_anew(&mut self) {
        for row in self.rows.all_mut() {
            row.known = self.rule.known(row.replica, row.others_min());
        }
    }

    /// The rank of the row at `index`.
    fn rank(
        &self,
        now: Instant,
        index: u32,
        row: &Row<R::Known>,
        survey: &Survey<R::Moment>,
        fleet: &Fleet,
    ) -> FleetRank {
        let load = self.load(now, row, survey, fleet);
        FleetRank::new(index, self.rule.place(load, &row.known, &survey.moment))
    }

    /// Offers the rows besides the `likely` ones that can be lower than one of the two lowest. Not
    /// inlined, since most picks do without.
    #[inline(never)]
    fn offer_rest(
        &self,
        now: Instant,
        query: &Query<'_>,
        survey: &Survey<R::Moment>,
        fleet: &Fleet,
        likely: [u32; 2],
        lowest: &mut Lowest,
    ) {
        let first_min = |row: &Row<R::Known>| R::FIRST_MIN.map_or(0, |min| min(&row.known));
        for (index, row) in (0..).zip(self.rows.newest()) {
            let may_be_low = first_min(row) <= lowest.second.first();
            if may_be_low && !likely.contains(&index) && query.allows(row.replica) {
                lowest.offer(self.rank(now, index, row, survey, fleet));
            }
        }
    }

    /// The best of the candidates, if there is one. Of equals, one is drawn as in [`rank::best`].
    fn best(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        client: &Client,
        draw: &mut dyn Draw,
    ) -> Option<Choice> {
        let survey = self.survey_with_buffer(query, client);
        if !query.among.is_empty() || self.compares_further() {
            return self.best_of_few(now, query, &survey, client, draw);
        }
        let fleet = &client.fleet;
        let rows = self.rows.newest();
        let allows = |row: &Row<R::Known>| query.allows_all() || query.allows(row.replica);
        // With a lower bound, the rows that can be lowest come first: most others need no look.
        let (likely, rest_min) = if let Some(first_min) = R::FIRST_MIN {
            likely(rows, |row| first_min(&row.known))
        } else {
            ([u32::MAX; 2], 0)
        };
        let mut lowest = Lowest::NONE;
        for index in likely {
            if let Some(row) = rows.get(index as usize)
                && allows(row)
            {
                lowest.offer(self.rank(now, index, row, &survey, fleet));
            }
        }
        if rest_min <= lowest.second.first() {
            self.offer_rest(now, query, &survey, fleet, likely, &mut lowest);
        }
        let candidates = if query.allows_all() {
            rows.len()
        } else {
            rows.iter().filter(|row| allows(row)).count()
        };
        if candidates == 0 {
            return None;
        }
        let Lowest { first, second } = lowest;
        let (mut chosen, mut runner_up) = (rows.get(first.index())?, None);
        if candidates > 1 {
            runner_up = rows.get(second.index());
            if second.ties_with(first) {
                let rank = |index, row: &_| self.rank(now, index, row, &survey, fleet);
                (chosen, runner_up) = drawn(rows, query, rank, draw)?;
            }
        }
        Some(Choice {
            replica: chosen.replica,
            reason: R::reason(first.first()),
            rif_limit: survey.rif_limit,
            candidates: u16::try_from(candidates).unwrap_or(u16::MAX),
            chosen: Some(self.view(now, chosen, &survey, fleet)),
            runner_up: runner_up.map(|row| row.replica),
        })
    }
}

/// The two lowest of some ranks.
#[derive(Clone, Copy)]
struct Lowest {
    first: FleetRank,
    second: FleetRank,
}

impl Lowest {
    const NONE: Self = Self {
        first: FleetRank::HIGHEST,
        second: FleetRank::HIGHEST,
    };

    #[inline]
    fn offer(&mut self, rank: FleetRank) {
        if rank < self.first {
            self.second = core::mem::replace(&mut self.first, rank);
        } else if rank < self.second {
            self.second = rank;
        }
    }
}

/// The indexes of the two rows with the lowest values, and the lowest value of the others. Not
/// inlined, so that each value it keeps has a register.
#[inline(never)]
fn likely<T>(rows: &[T], value: impl Fn(&T) -> u64) -> ([u32; 2], u64) {
    // Most often there are as many rows as there can be. With that number known, the compiler makes
    // no loop of it, which takes a quarter less time.
    match rows.as_array::<ORDERED_MAX>() {
        Some(rows) => lowest_two(rows.iter().map(value)),
        None => lowest_two(rows.iter().map(value)),
    }
}

/// Like [`likely`], of the rows' values.
#[inline]
fn lowest_two(values: impl Iterator<Item = u64>) -> ([u32; 2], u64) {
    let (mut first, mut second) = ((u64::MAX, u32::MAX), (u64::MAX, u32::MAX));
    let mut rest_min = u64::MAX;
    for (index, value) in (0..).zip(values) {
        if value < second.0 {
            rest_min = second.0;
            second = (value, index);
            if value < first.0 {
                core::mem::swap(&mut first, &mut second);
            }
        } else if value < rest_min {
            rest_min = value;
        }
    }
    ([first.1, second.1], rest_min)
}

/// The best of these rows and the runner-up, where several equals are the best.
#[cold]
fn drawn<'a, K>(
    rows: &'a [Row<K>],
    query: &Query<'_>,
    rank: impl Fn(u32, &Row<K>) -> FleetRank + Clone,
    draw: &mut dyn Draw,
) -> Option<(&'a Row<K>, Option<&'a Row<K>>)> {
    let allowed = (0..).zip(rows).filter(|(_, row)| query.allows(row.replica));
    let ranks = allowed.map(|(index, row)| rank(index, row));
    let best = rank::best(ranks, draw)?;
    let runner_up = best.runner_up.map(|index| &rows[index]);
    Some((&rows[best.index], runner_up))
}

/// A RIF in 1/1024, rounded to the nearest.
pub(in crate::policy) fn rounded(in_flight: u64) -> Rif {
    Rif::new(u32::try_from((in_flight + FINE / 2) / FINE).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{SplitMix64, below};
    use crate::policy::probed::rank::Place;

    #[test]
    fn likely_rows_are_the_two_lowest_and_the_rest_begins_with_the_third() {
        let mut draw = SplitMix64::new(5);
        for len in [0, 1, 2, 3, 16] {
            for _ in 0..500 {
                let values: Vec<_> = (0..len).map(|_| u64::from(below(&mut draw, 9))).collect();
                let ([first, second], rest_min) = likely(&values, |&value| value);
                let mut sorted: Vec<_> = values.iter().copied().zip(0..).collect();
                sorted.sort_unstable();
                let nth = |nth: usize| sorted.get(nth).copied();
                assert_eq!(first, nth(0).map_or(u32::MAX, |lowest| lowest.1));
                let value = |index: u32| values.get(index as usize).copied();
                assert_eq!(value(second), nth(1).map(|lowest| lowest.0));
                assert_ne!(Some(first), nth(1).map(|_| second), "not one twice");
                assert_eq!(rest_min, nth(2).map_or(u64::MAX, |lowest| lowest.0));
            }
        }
    }

    #[test]
    fn of_equal_places_the_earlier_is_lower_in_any_order_of_looks() {
        let place = |first| Place { first, second: 0 };
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            for (places, expected) in [
                ([7, 7, 7], (0, 1)),
                ([9, 7, 9], (1, 0)),
                ([7, 9, 9], (0, 1)),
            ] {
                let mut lowest = Lowest::NONE;
                for index in order {
                    let place = place(places[index as usize]);
                    lowest.offer(FleetRank::new(index, place));
                }
                let found = (lowest.first.index(), lowest.second.index());
                assert_eq!(found, expected, "{order:?}");
            }
        }
    }

    #[test]
    fn rif_is_rounded_to_the_nearest() {
        let whole = [0, 511, 512, 1_535, 1_536, u64::MAX - 512].map(|it| rounded(it).count());
        assert_eq!(whole, [0, 0, 1, 1, 2, u32::MAX]);
    }
}
