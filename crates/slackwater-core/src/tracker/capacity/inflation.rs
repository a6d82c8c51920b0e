//! Capacity from how latency grows with RIF. It needs only what the tracker sees, and detects every
//! bottleneck.
//!
//! Queries that meet few others show the latency without load. If the newest take twice as long,
//! the replica could have carried half of them. The mean of a few latencies is unreliable where
//! they vary widely. So means are of square roots, which a few long queries move less, and over as
//! many queries as they need to be accurate.
//!
//! Each query only adds to sums. The means follow once per reading, because each of them needs a
//! division.

use super::shortage::Shortage;
use super::{FINE, Fine, ONE_RIF, grow, mul_div, towards};

/// The replica is over its capacity when queries that meet few others take less than this share of
/// what the newest take, in 1/1024. It would be higher without noise.
pub(super) const INFLATED_BELOW: u64 = FINE * 6 / 10;
/// Queries in the mean of the unloaded latency.
const UNLOADED_MEMORY: u64 = 300;
/// Queries in the mean RIF. Half of that mean or less is "few others".
const RIF_MEMORY: u64 = 1_000;
/// Fewest (`NEWEST_MIN`) and most (`NEWEST_MAX`) queries in the mean of the current latency.
const NEWEST_MIN: u64 = 24;
const NEWEST_MAX: u64 = 1_024;
/// Between the two, as many queries as a standard error of 8 % needs: this many times their squared
/// coefficient of variation.
const NEWEST_BY_VARIATION: u64 = 156;
/// The first queries to end are the shortest of the earliest arrivals. Nothing is learned before
/// this many times the highest RIF have ended: then few of the longer queries are missing.
const SETTLED: u64 = 3;
/// Queries before which nothing is known.
const QUERIES_MIN: u64 = 32;
/// Queries that met up to this RIF in the mean, themselves included, count as alone.
const ALONE: Fine = ONE_RIF * 3 / 2;
/// How many times higher the RIF of the newest queries must be than that of the unloaded ones, in
/// 1/1024, to show whether the unloaded ones were slowed down themselves.
const CONTRAST: u64 = FINE * 3 / 2;

/// The square root of nanoseconds, in 1/16.
fn root(latency_ns: u64) -> u64 {
    latency_ns.saturating_mul(256).isqrt()
}

/// The inverse of [`root`]: nanoseconds.
fn square(root: u64) -> u64 {
    mul_div(root, root, 256)
}

/// Sums over the queries of one reading.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    queries: u64,
    roots: u64,
    /// Sum of the RIF that they met, themselves included.
    rif: u64,
    /// The queries among them that met few others.
    few: u64,
    few_roots: u64,
    few_rif: u64,
    /// Squared distances of their roots from the former mean, summed.
    few_squares: u64,
}

impl Sums {
    /// The mean RIF, from a sum over `queries`.
    fn mean_rif(sum: u64, queries: u64) -> Fine {
        mul_div(sum, ONE_RIF, queries)
    }
}

/// The estimate from latency. Latencies are kept as roots.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inflation {
    /// Sums of the current reading.
    sums: Sums,
    /// Queries that met up to this RIF met few others. Queries that were alone always did.
    few: Fine,
    /// Queries that ended before learning starts, and the highest RIF among them.
    early: u64,
    early_rif_most: Fine,
    is_settled: bool,
    queries: u64,
    /// The queries that met few others, with their mean and variance.
    unloaded_queries: u64,
    unloaded: u64,
    /// The RIF that they met; unused once `is_sure`.
    unloaded_rif: Fine,
    variance: u64,
    /// Means over the newest queries.
    newest: u64,
    newest_rif: Fine,
    /// The mean RIF over many queries.
    usual_rif: Fine,
    capacity: Option<Fine>,
    /// The queries that met few others were not slowed down by them. If all queries met as many
    /// others, as with clients that keep a fixed number in flight, the latency without others
    /// cannot be known.
    is_sure: bool,
    shortage: Shortage,
}

impl Inflation {
    /// Learns from the queries that have ended within the last `span_ns`. With the idle time before
    /// it, that is all the time since the last reading. `may_wait` is whether they may have waited
    /// for something other than a CPU: only then can their latency show a shortage. `learn_all`
    /// calls [`Self::learn`] for each of them.
    pub(super) fn read(
        &mut self,
        span_ns: u64,
        passed_ns: u64,
        may_wait: bool,
        learn_all: impl FnOnce(&mut Self),
    ) {
        learn_all(self);
        let sums = core::mem::take(&mut self.sums);
        if sums.queries == 0 {
            return;
        }
        self.follow(&sums);
        if self.queries >= QUERIES_MIN {
            self.find(sums.queries, span_ns, passed_ns, may_wait);
        }
        // Without a capacity, the few so far may have waited, and any that met more waited longer.
        let most = self.capacity.unwrap_or(self.unloaded_rif + ONE_RIF / 2);
        self.few = (self.usual_rif / 2).min(most);
    }

    /// Adds a query with this latency that met this many others.
    #[inline]
    pub(super) fn learn(&mut self, others: u32, latency_ns: u64) {
        let rif = u64::from(others) + 1;
        if !self.is_settled {
            let rif = rif * ONE_RIF;
            self.early += 1;
            self.early_rif_most = self.early_rif_most.max(rif);
            self.is_settled = self.early * ONE_RIF > self.early_rif_most * SETTLED;
            return;
        }
        let root = root(latency_ns);
        let sums = &mut self.sums;
        sums.queries += 1;
        sums.roots += root;
        sums.rif += rif;
        if rif * ONE_RIF <= self.few.max(ONE_RIF) || self.queries + sums.queries <= QUERIES_MIN {
            let distance = root.abs_diff(self.unloaded);
            sums.few += 1;
            sums.few_roots += root;
            sums.few_rif += rif;
            let square = distance.saturating_mul(distance);
            sums.few_squares = sums.few_squares.saturating_add(square);
        }
    }

    /// Moves the means towards the newest queries.
    fn follow(&mut self, sums: &Sums) {
        let count = sums.queries;
        self.queries += count;
        let rif = Sums::mean_rif(sums.rif, count);
        let memory = RIF_MEMORY.min(self.queries);
        self.usual_rif = towards(self.usual_rif, rif, count, memory);
        if sums.few > 0 {
            self.follow_few(sums);
        }
        let memory = self.newest_memory().min(self.queries);
        self.newest = towards(self.newest, sums.roots / count, count, memory);
        self.newest_rif = towards(self.newest_rif, rif, count, memory);
    }

    fn follow_few(&mut self, sums: &Sums) {
        let count = sums.few;
        self.unloaded_queries += count;
        let memory = if self.is_sure {
            UNLOADED_MEMORY.min(self.unloaded_queries)
        } else {
            let memory = QUERIES_MIN.min(self.unloaded_queries);
            let rif = Sums::mean_rif(sums.few_rif, count);
            self.unloaded_rif = towards(self.unloaded_rif, rif, count, memory);
            memory
        };
        let squared = |distance: u64| distance.saturating_mul(distance);
        let mean = sums.few_roots / count;
        let before = self.unloaded;
        self.unloaded = towards(before, mean, count, memory);
        // The variance around the new mean: remove the distance of the old mean from these queries,
        // and add that of the new one.
        let variance = (sums.few_squares / count).saturating_sub(squared(mean.abs_diff(before)));
        let variance = variance.saturating_add(squared(mean.abs_diff(self.unloaded)));
        self.variance = towards(self.variance, variance, count, memory);
    }

    /// Updates the capacity after `count` more queries and this much time.
    fn find(&mut self, count: u64, span_ns: u64, passed_ns: u64, may_wait: bool) {
        let Some(unloaded_ns) = self.unloaded_ns() else {
            // It is no share of anything, so nothing shows a shortage.
            self.shortage.was_not_for(passed_ns);
            return;
        };
        self.is_sure = self.is_sure || self.was_not_slowed_down();
        if !self.is_sure {
            return;
        }
        let got = mul_div(unloaded_ns, FINE, square(self.newest));
        let capacity = self.capacity.unwrap_or(self.newest_rif);
        self.capacity = Some(if got < INFLATED_BELOW && may_wait {
            self.shortage.is_now();
            let carried = mul_div(self.newest_rif, got, FINE);
            towards(capacity, carried, count, self.newest_memory())
        } else {
            self.shortage.was_not_for(passed_ns);
            grow(capacity, self.newest_rif, self.newest_rif, span_ns)
        });
    }

    /// Whether the queries that met few others were alone, or took hardly less than others that met
    /// many more. If they had had to wait, latency would have grown as much as RIF. Growth below
    /// the square root of that is less than halfway.
    fn was_not_slowed_down(&self) -> bool {
        let more_rif = mul_div(self.newest_rif, FINE, self.unloaded_rif);
        let longer = mul_div(square(self.newest), FINE, square(self.unloaded));
        let grew_little = mul_div(longer, longer, FINE) <= more_rif;
        self.unloaded_rif <= ALONE || (more_rif >= CONTRAST && grew_little)
    }

    fn newest_memory(&self) -> u64 {
        let squared = self.unloaded.saturating_mul(self.unloaded);
        mul_div(NEWEST_BY_VARIATION, self.variance, squared).clamp(NEWEST_MIN, NEWEST_MAX)
    }

    /// Latency of a query that meets few others, in nanoseconds. It is too high while it is not
    /// certain that they were few. `None` if it is too short for the clock.
    pub(super) fn unloaded_ns(&self) -> Option<u64> {
        let unloaded_ns = (self.queries >= QUERIES_MIN).then(|| square(self.unloaded));
        unloaded_ns.filter(|&ns| ns > 0)
    }

    pub(super) fn capacity(&self) -> Option<Fine> {
        self.capacity
    }

    /// Whether the capacity is more than a guess from below: recently more queries were in flight
    /// than could be carried.
    pub(super) fn is_recent(&self) -> bool {
        self.shortage.is_recent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn first_completions_do_not_bias_the_mean() {
        let mut inflation = Inflation::default();
        let mut end = |count: u32, others: u32, latency_ns: u64| {
            inflation.read(1_000 * MS, 1_000 * MS, true, |inflation| {
                (0..count).for_each(|_| inflation.learn(others, latency_ns));
            });
        };
        // Twenty come first, together. The short ones end first, followed by others of their kind.
        end(60, 19, 50 * MS);
        end(1_000, 99, 100 * MS);
        let unloaded = inflation.unloaded_ns().unwrap_or_default();
        assert!(unloaded.abs_diff(100 * MS) < MS, "{inflation:?}");
        assert!(!inflation.is_recent(), "none was slowed down");
    }

    /// The state after `readings` readings of `queries` queries. Every other query takes nine times
    /// as long, so its root is three times as large.
    fn of_two_kinds(readings: u32, queries: u64, longer: u64) -> Inflation {
        let mut inflation = Inflation {
            is_settled: true,
            ..Inflation::default()
        };
        for _ in 0..readings {
            inflation.read(50 * MS, 50 * MS, true, |inflation| {
                for query in 0..queries {
                    let times = if query % 2 == 0 { 1 } else { longer };
                    inflation.learn(0, times * MS);
                }
            });
        }
        inflation
    }

    #[test]
    fn mean_does_not_depend_on_number_of_readings() {
        for (readings, queries) in [(1, 1_000), (10, 100), (100, 10)] {
            let inflation = of_two_kinds(readings, queries, 9);
            let unloaded = inflation.unloaded_ns().unwrap_or_default();
            assert!(unloaded.abs_diff(4 * MS) < MS / 20, "{inflation:?}");
            // The squared coefficient of variation is a quarter.
            let memory = inflation.newest_memory();
            assert!((38..=40).contains(&memory), "a quarter of 156: {memory}");
            assert_eq!(inflation.queries, 1_000);
        }
        let alike = of_two_kinds(1, 1_000, 1);
        assert_eq!(alike.variance, 0, "where none differs from another");
    }

    /// Learns from `count` queries that met `others` and took as long as this.
    fn end(inflation: &mut Inflation, count: u32, others: u32, latency_ns: u64) {
        inflation.read(0, 0, true, |inflation| {
            (0..count).for_each(|_| inflation.learn(others, latency_ns));
        });
    }

    /// The state after `count` queries of 4 ms that met `others`. None is left out as too early.
    fn after(count: u32, others: u32) -> Inflation {
        let mut inflation = Inflation {
            is_settled: true,
            ..Inflation::default()
        };
        end(&mut inflation, count, others, 4 * MS);
        inflation
    }

    #[test]
    fn learning_begins_after_three_times_the_highest_rif() {
        let mut inflation = Inflation::default();
        end(&mut inflation, 10, 1, MS);
        assert_eq!(inflation.queries, 3, "six, and the one that shows it");
    }

    #[test]
    fn nothing_is_known_before_32_queries() {
        let of = |count| {
            let inflation = after(count, 0);
            (inflation.unloaded_ns(), inflation.capacity())
        };
        assert_eq!(of(31), (None, None));
        assert_eq!(of(32), (Some(4 * MS), Some(ONE_RIF)));
        // All of the first 32 stand for the latency without load.
        assert_eq!(after(31, 9).unloaded_queries, 31);
        assert_eq!(after(40, 9).unloaded_queries, 32);
    }

    #[test]
    fn longer_queries_that_waited_for_no_other_thing_are_no_shortage() {
        let of = |may_wait| {
            let mut inflation = after(1_000, 0);
            inflation.read(0, 0, may_wait, |inflation| {
                (0..1_000).for_each(|_| inflation.learn(9, 40 * MS));
            });
            inflation.is_recent()
        };
        assert!(of(true));
        assert!(!of(false));
    }

    /// They take 2,000 times as long, and the capacity is none of what it was.
    #[test]
    fn capacity_returns_after_all_queries_have_stalled() {
        let mut inflation = after(1_000, 0);
        let read = |inflation: &mut Inflation, latency_ns| {
            inflation.read(50 * MS, 50 * MS, true, |inflation| {
                (0..100).for_each(|_| inflation.learn(3, latency_ns));
            });
        };
        read(&mut inflation, 8_000 * MS);
        assert_eq!(inflation.capacity(), Some(0));
        for _ in 0..200 {
            read(&mut inflation, 4 * MS);
        }
        assert!(inflation.capacity() >= Some(3 * ONE_RIF));
    }

    #[test]
    fn queries_that_met_at_most_half_of_the_usual_rif_met_few_others() {
        let is_few = |inflation: &Inflation, others| {
            let mut inflation = *inflation;
            let before = inflation.unloaded_queries;
            end(&mut inflation, 1, others, MS);
            inflation.unloaded_queries > before
        };
        let mut usual = after(1_000, 7);
        assert!(is_few(&usual, 3) && !is_few(&usual, 4), "half of eight");
        // No more than can be carried are few.
        usual.capacity = Some(3 * ONE_RIF);
        end(&mut usual, 1, 7, 4 * MS);
        assert!(is_few(&usual, 2) && !is_few(&usual, 3));
        usual.capacity = Some(ONE_RIF / 2);
        end(&mut usual, 1, 7, 4 * MS);
        assert!(is_few(&usual, 0) && !is_few(&usual, 1), "alone is few");
        // While nothing shows what can be carried, the few so far decide.
        for (quarters, most) in [(9, 2), (11, 3)] {
            let mut unsure = after(40, 1);
            unsure.unloaded_rif = ONE_RIF * quarters / 4;
            end(&mut unsure, 1_000, 49, 100 * MS);
            assert!(is_few(&unsure, most - 1) && !is_few(&unsure, most));
        }
    }

    #[test]
    fn usual_rif_is_a_mean_over_a_thousand_queries() {
        let mut inflation = after(2_000, 0);
        end(&mut inflation, 100, 10, 4 * MS);
        assert_eq!(inflation.usual_rif, 2 * ONE_RIF);
    }

    #[test]
    fn unloaded_latency_is_a_mean_over_300_queries_once_it_is_sure() {
        let mut inflation = after(2_000, 0);
        assert!(inflation.is_sure);
        end(&mut inflation, 30, 0, 16 * MS);
        // Roots are averaged: 2.2 is a tenth of the way from 2 to 4.
        assert_eq!(inflation.unloaded_ns(), Some(4_840_000));
        let mut unsure = after(2_000, 2);
        unsure.usual_rif = 8 * ONE_RIF;
        end(&mut unsure, 1, 2, 4 * MS);
        assert!(!unsure.is_sure);
        end(&mut unsure, 8, 2, 16 * MS);
        assert_eq!(
            unsure.unloaded_ns(),
            Some(25 * MS / 4),
            "over 32 until then"
        );
    }

    #[test]
    fn newest_latency_is_a_mean_over_24_to_1024_queries() {
        let mut alike = after(2_000, 0);
        assert_eq!(alike.newest_memory(), 24);
        end(&mut alike, 6, 12, 16 * MS);
        assert_eq!(alike.newest_rif, 4 * ONE_RIF, "a quarter of the way");
        assert_eq!(square(alike.newest), 25 * MS / 4);
        let mut varying = after(2_000, 0);
        // One query in a hundred takes 10,000 times as long.
        varying.read(0, 0, true, |inflation| {
            for query in 0..2_000 {
                let times = if query % 100 == 0 { 10_000 } else { 1 };
                inflation.learn(0, times * MS);
            }
        });
        assert_eq!(varying.newest_memory(), 1_024);
        end(&mut varying, 256, 12, MS);
        assert_eq!(varying.newest_rif, 4 * ONE_RIF, "a quarter of the way");
    }

    #[test]
    fn queries_that_met_half_an_other_in_the_mean_were_alone() {
        for (with_another, is_sure) in [(16, true), (17, false)] {
            let mut inflation = after(0, 0);
            inflation.read(0, 0, true, |inflation| {
                (0..32).for_each(|query| inflation.learn(u32::from(query < with_another), MS));
            });
            assert_eq!(inflation.is_sure, is_sure, "{with_another}");
        }
    }

    /// Whether the latency without load is sure after queries of 4 ms that met one other, and
    /// others that met `rif_percent` of that RIF and took `latency_ns`.
    fn is_sure_beside(rif_percent: u32, latency_ns: u64) -> bool {
        let mut inflation = after(32, 1);
        inflation.read(0, 0, true, |inflation| {
            for query in 0..100 {
                let rif = (rif_percent * 2 + query) / 100;
                inflation.learn(rif - 1, latency_ns);
            }
        });
        inflation.is_sure
    }

    #[test]
    fn few_were_not_slowed_down_if_one_and_a_half_times_the_rif_took_as_long() {
        assert!(is_sure_beside(150, 4 * MS));
        assert!(!is_sure_beside(149, 4 * MS));
    }

    #[test]
    fn few_were_not_slowed_down_if_latency_grew_less_than_the_root_of_rif() {
        assert!(is_sure_beside(400, 8 * MS));
        assert!(!is_sure_beside(400, 8 * MS + MS / 20));
    }

    #[test]
    fn unloaded_latency_below_three_fifths_of_the_newest_shows_the_capacity() {
        let after_unloaded = |unloaded_ms| {
            let mut inflation = after(0, 0);
            end(&mut inflation, 400, 0, unloaded_ms * MS);
            end(&mut inflation, 400, 9, 10_000 * MS);
            inflation
        };
        let over = after_unloaded(5_990);
        assert!(over.is_recent());
        let found = over.capacity().expect("known");
        assert!(
            found.abs_diff(ONE_RIF * 599 / 100) < ONE_RIF / 50,
            "{found}"
        );
        let within = after_unloaded(6_000);
        assert!(!within.is_recent());
        assert_eq!(within.capacity(), Some(ONE_RIF), "no time to rise");
    }

    #[test]
    fn readings_that_differ_from_each_other_count_as_variation() {
        let mut inflation = after(2_000, 0);
        end(&mut inflation, 30, 0, 400 * MS);
        // The root of a tenth of 300 queries is 20 instead of 2. The mean is 3.8 then, and the
        // squared distance of that tenth 16.2².
        assert_eq!(inflation.newest_memory(), 283, "156 × 26.2 / 3.8²");
    }

    #[test]
    fn capacity_follows_as_many_queries_as_the_newest_latency() {
        for (memory, parts_of_squared_mean) in [(24, 0), (156, 1), (312, 2)] {
            let mut inflation = after(2_000, 0);
            let squared_mean = inflation.unloaded * inflation.unloaded;
            inflation.variance = squared_mean * parts_of_squared_mean;
            end(&mut inflation, 400, 15, 16 * MS);
            assert_eq!(inflation.capacity(), Some(4 * ONE_RIF));
            // Eight in flight that take as long are two without a wait, a quarter of the way.
            inflation.newest_rif = 8 * ONE_RIF;
            end(&mut inflation, memory / 4, 7, 16 * MS);
            assert_eq!(inflation.capacity(), Some(ONE_RIF * 7 / 2), "{memory}");
        }
    }
}
