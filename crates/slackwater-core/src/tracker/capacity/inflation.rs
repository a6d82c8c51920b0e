//! Capacity by how latency grows with RIF: it takes nothing but what the tracker sees, and tells of every bottleneck.
//!
//! Queries that meet few others take what a query takes; if the newest take twice as long, the replica could have carried
//! half of them. The mean of a few latencies is a poor thing where they are very different, so means are of square roots,
//! which a few long queries move less, and over as many as it takes to know them.

use super::shortage::Shortage;
use super::{FINE, Fine, ONE_RIF, grow, mul_div, towards};
use crate::fixed::follow;

/// Where queries that meet few others take less than this share of what the newest take, in 1/1024, the replica is beyond its
/// capacity. Lower than it would be without noise.
const INFLATED_BELOW: u64 = FINE * 6 / 10;
/// So many queries the unloaded latency is a mean of.
const UNLOADED_MEMORY: u64 = 300;
/// And the mean RIF, of which half or less is few others.
const RIF_MEMORY: u64 = 1_000;
/// So many, at least and at most, the latency of now is a mean of.
const NEWEST_MIN: u64 = 24;
const NEWEST_MAX: u64 = 1_024;
/// Between these, as many as it takes for a standard error of 8 %: so many times their squared coefficient of variation.
const NEWEST_BY_VARIATION: u64 = 156;
/// The first queries to end are the shortest of those that came first. Nothing is learned before so many times as many have
/// ended as were ever in flight: of queries that take longer than that few are missed.
const SETTLED: u64 = 3;
/// Before so many queries nothing is known.
const QUERIES_MIN: u64 = 32;
/// Queries that met up to so many others and themselves, in the mean, are as good as alone.
const ALONE: Fine = ONE_RIF * 3 / 2;
/// What the newest queries met has to be so many times what those met that are taken for unloaded, in 1/1024, to tell
/// whether these were slowed down themselves.
const CONTRAST: u64 = FINE * 3 / 2;

/// The square root of nanoseconds, in 1/16.
fn root(latency_ns: u64) -> u64 {
    latency_ns.saturating_mul(256).isqrt()
}

/// The nanoseconds of which [`root`] makes this.
fn square(root: u64) -> u64 {
    mul_div(root, root, 256)
}

/// What is known of it. Latencies are kept as roots.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inflation {
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
    /// Those that met few others were not slowed down by them. Where all have met as many, as those of clients do that always
    /// have so many under way, nobody can say what it would be without.
    is_sure: bool,
    shortage: Shortage,
}

impl Inflation {
    /// Learns from the queries that have ended within the last `span_ns`; `learn_all` calls [`Self::learn`] for every one of them.
    pub(super) fn read(&mut self, span_ns: u64, learn_all: impl FnOnce(&mut Self)) {
        let before = self.queries;
        learn_all(self);
        let count = self.queries - before;
        if count == 0 || self.queries < QUERIES_MIN {
            return;
        }
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
            self.shortage.was_not_for(span_ns);
            grow(capacity, self.newest_rif, span_ns)
        });
    }

    /// A query has met so many others, and taken so long.
    #[inline]
    pub(super) fn learn(&mut self, others: u32, latency_ns: u64) {
        let rif = (u64::from(others) + 1) * ONE_RIF;
        if !self.is_settled {
            self.early += 1;
            self.early_rif_most = self.early_rif_most.max(rif);
            self.is_settled = self.early * ONE_RIF > self.early_rif_most * SETTLED;
            return;
        }
        let root = root(latency_ns);
        self.queries += 1;
        self.usual_rif = follow(self.usual_rif, rif, RIF_MEMORY.min(self.queries));
        let few = (self.usual_rif / 2).min(self.capacity.unwrap_or(Fine::MAX));
        if rif <= few.max(ONE_RIF) || self.queries <= QUERIES_MIN {
            self.unloaded_queries += 1;
            let memory = if self.is_sure {
                UNLOADED_MEMORY.min(self.unloaded_queries)
            } else {
                let memory = QUERIES_MIN.min(self.unloaded_queries);
                self.unloaded_rif = follow(self.unloaded_rif, rif, memory);
                memory
            };
            self.unloaded = follow(self.unloaded, root, memory);
            let distance = self.unloaded.abs_diff(root);
            let squared = distance.saturating_mul(distance);
            self.variance = follow(self.variance, squared, memory);
        }
        let memory = self.newest_memory().min(self.queries);
        self.newest = follow(self.newest, root, memory);
        self.newest_rif = follow(self.newest_rif, rif, memory);
    }

    /// Whether those that met few others were alone, or took hardly less than others that met many more: where they had to wait,
    /// latency would have grown as much as RIF. By less than the root of that is less than halfway.
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

    /// What a query takes that meets few others, in nanoseconds; more than that while it is not sure that they were few.
    pub(super) fn unloaded_ns(&self) -> Option<u64> {
        (self.queries >= QUERIES_MIN).then(|| square(self.unloaded))
    }

    pub(super) fn capacity(&self) -> Option<Fine> {
        self.capacity
    }

    /// Whether that is more than a guess from below: more were in flight not long ago than could be carried.
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
            inflation.read(1_000 * MS, |inflation| {
                (0..count).for_each(|_| inflation.learn(others, latency_ns));
            });
        };
        // Of twenty that came first and together the short ones end first, and others of their kind after them.
        end(40, 19, 50 * MS);
        end(1_000, 99, 100 * MS);
        let unloaded = inflation.unloaded_ns().unwrap_or_default();
        assert!(unloaded.abs_diff(100 * MS) < MS, "{inflation:?}");
        assert!(!inflation.is_recent(), "none was slowed down");
    }
}
