//! Capacity by how latency grows with RIF: it takes nothing but what the tracker sees, and tells of
//! every bottleneck.
//!
//! Queries that meet few others take what a query takes; if the newest take twice as long, the
//! replica could have carried half of them. The mean of a few latencies is a poor thing where they
//! are very different, so means are of square roots, which a few long queries move less, and over
//! as many as it takes to know them.
//!
//! For each query there are but sums; means follow them once in a reading, for each of those
//! divides.

use super::shortage::Shortage;
use super::{FINE, Fine, ONE_RIF, grow, mul_div, towards};

/// Where queries that meet few others take less than this share of what the newest take, in 1/1024,
/// the replica is beyond its capacity. Lower than it would be without noise.
const INFLATED_BELOW: u64 = FINE * 6 / 10;
/// So many queries the unloaded latency is a mean of.
const UNLOADED_MEMORY: u64 = 300;
/// And the mean RIF, of which half or less is few others.
const RIF_MEMORY: u64 = 1_000;
/// So many, at least and at most, the latency of now is a mean of.
const NEWEST_MIN: u64 = 24;
const NEWEST_MAX: u64 = 1_024;
/// Between these, as many as it takes for a standard error of 8 %: so many times their squared
/// coefficient of variation.
const NEWEST_BY_VARIATION: u64 = 156;
/// The first queries to end are the shortest of those that came first. Nothing is learned before so
/// many times as many have ended as were ever in flight: of queries that take longer than that few
/// are missed.
const SETTLED: u64 = 3;
/// Before so many queries nothing is known.
const QUERIES_MIN: u64 = 32;
/// Queries that met up to so many others and themselves, in the mean, are as good as alone.
const ALONE: Fine = ONE_RIF * 3 / 2;
/// What the newest queries met has to be so many times what those met that are taken for unloaded,
/// in 1/1024, to tell whether these were slowed down themselves.
const CONTRAST: u64 = FINE * 3 / 2;

/// The square root of nanoseconds, in 1/16.
fn root(latency_ns: u64) -> u64 {
    latency_ns.saturating_mul(256).isqrt()
}

/// The nanoseconds of which [`root`] makes this.
fn square(root: u64) -> u64 {
    mul_div(root, root, 256)
}

/// Sums over the queries of one reading.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    queries: u64,
    roots: u64,
    /// What they met, themselves included.
    rif: u64,
    /// Those of them that met few others.
    few: u64,
    few_roots: u64,
    few_rif: u64,
    /// How far their roots are from the mean as it was before: squares of it, and as they were in
    /// the mean.
    few_squares: u64,
}

impl Sums {
    /// The RIF that so many queries met in the mean, of the sum.
    fn mean_rif(sum: u64, queries: u64) -> Fine {
        mul_div(sum, ONE_RIF, queries)
    }
}

/// What is known of it. Latencies are kept as roots.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inflation {
    /// What this reading has learned so far.
    sums: Sums,
    /// Up to so many others, and themselves, are few; those that were alone always are.
    few: Fine,
    /// Queries that ended before those that are learned from, and the most RIF among them.
    early: u64,
    early_rif_most: Fine,
    is_settled: bool,
    queries: u64,
    /// Those that met few others, and their mean and variance.
    unloaded_queries: u64,
    unloaded: u64,
    /// What they met; nobody asks once it is sure.
    unloaded_rif: Fine,
    variance: u64,
    /// Means over the newest.
    newest: u64,
    newest_rif: Fine,
    /// The mean over many.
    usual_rif: Fine,
    capacity: Option<Fine>,
    /// Those that met few others were not slowed down by them. Where all have met as many, as those
    /// of clients do that always have so many under way, nobody can say what it would be without.
    is_sure: bool,
    shortage: Shortage,
}

impl Inflation {
    /// Learns from the queries that have ended within the last `span_ns`, which with idle time
    /// before it are all that has passed since the last reading; `learn_all` calls [`Self::learn`]
    /// for every one of them.
    pub(super) fn read(&mut self, span_ns: u64, passed_ns: u64, learn_all: impl FnOnce(&mut Self)) {
        learn_all(self);
        let sums = core::mem::take(&mut self.sums);
        if sums.queries == 0 {
            return;
        }
        self.follow(&sums);
        if self.queries >= QUERIES_MIN {
            self.find(sums.queries, span_ns, passed_ns);
        }
        self.few = (self.usual_rif / 2).min(self.capacity.unwrap_or(Fine::MAX));
    }

    /// A query has met so many others, and taken so long.
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

    /// Moves the means towards those of the newest queries.
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
        // Of the mean as it is now: those of the mean before are off by how far it was from these,
        // and these are from it.
        let variance = (sums.few_squares / count).saturating_sub(squared(mean.abs_diff(before)));
        let variance = variance.saturating_add(squared(mean.abs_diff(self.unloaded)));
        self.variance = towards(self.variance, variance, count, memory);
    }

    /// What can be carried, after so many more queries and so much time.
    fn find(&mut self, count: u64, span_ns: u64, passed_ns: u64) {
        self.is_sure = self.is_sure || self.was_not_slowed_down();
        if !self.is_sure {
            return;
        }
        let got = mul_div(square(self.unloaded), FINE, square(self.newest));
        let capacity = self.capacity.unwrap_or(self.newest_rif);
        self.capacity = Some(if got < INFLATED_BELOW {
            self.shortage.is_now();
            let carried = mul_div(self.newest_rif, got, FINE);
            towards(capacity, carried, count, self.newest_memory())
        } else {
            self.shortage.was_not_for(passed_ns);
            grow(capacity, self.newest_rif, span_ns)
        });
    }

    /// Whether those that met few others were alone, or took hardly less than others that met many
    /// more: where they had to wait, latency would have grown as much as RIF. By less than the root
    /// of that is less than halfway.
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

    /// What a query takes that meets few others, in nanoseconds; more than that while it is not
    /// sure that they were few.
    pub(super) fn unloaded_ns(&self) -> Option<u64> {
        (self.queries >= QUERIES_MIN).then(|| square(self.unloaded))
    }

    pub(super) fn capacity(&self) -> Option<Fine> {
        self.capacity
    }

    /// Whether that is more than a guess from below: more were in flight not long ago than could be
    /// carried.
    pub(super) fn is_recent(&self) -> bool {
        self.shortage.is_recent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_first_to_end_are_not_taken_for_what_all_take() {
        let mut inflation = Inflation::default();
        let mut end = |count: u32, others: u32, latency_ns: u64| {
            inflation.read(1_000 * MS, 1_000 * MS, |inflation| {
                (0..count).for_each(|_| inflation.learn(others, latency_ns));
            });
        };
        // Of twenty that came first and together the short ones end first, and others of their kind
        // after them.
        end(40, 19, 50 * MS);
        end(1_000, 99, 100 * MS);
        let unloaded = inflation.unloaded_ns().unwrap_or_default();
        assert!(unloaded.abs_diff(100 * MS) < MS, "{inflation:?}");
        assert!(!inflation.is_recent(), "none was slowed down");
    }

    /// After so many readings of so many queries, every other of which takes nine times as long:
    /// its root is three times.
    fn of_two_kinds(readings: u32, queries: u64, longer: u64) -> Inflation {
        let mut inflation = Inflation {
            is_settled: true,
            ..Inflation::default()
        };
        for _ in 0..readings {
            inflation.read(50 * MS, 50 * MS, |inflation| {
                for query in 0..queries {
                    let times = if query % 2 == 0 { 1 } else { longer };
                    inflation.learn(0, times * MS);
                }
            });
        }
        inflation
    }

    #[test]
    fn means_are_the_same_of_few_readings_and_of_many() {
        for (readings, queries) in [(1, 1_000), (10, 100), (100, 10)] {
            let inflation = of_two_kinds(readings, queries, 9);
            let unloaded = inflation.unloaded_ns().unwrap_or_default();
            assert!(unloaded.abs_diff(4 * MS) < MS / 20, "{inflation:?}");
            // A squared coefficient of variation of a quarter.
            let memory = inflation.newest_memory();
            assert!(memory.abs_diff(NEWEST_BY_VARIATION / 4) <= 2, "{memory}");
            assert_eq!(inflation.queries, 1_000);
        }
        let alike = of_two_kinds(1, 1_000, 1);
        assert_eq!(alike.variance, 0, "where none differs from another");
    }
}
