//! The settings of keys: how far a key's replicas may be loaded, how many they are, and when they
//! become more.

use crate::fixed::{ONE, Quantile};
use crate::policy::{
    ConfigError, ProbeRound, Query, Settings, Valid, require, require_span, section,
};
use core::time::Duration;

/// Settings that make sense.
pub type KeyConfig = Valid<KeySettings>;

/// How queries with a key find their replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySettings {
    /// A key's replica gets no more of its queries while the next one would take more than this
    /// many times the mean over the other replicas, as `(load + 1) × mean latency`: 1 to 1,000,
    /// in millionths, default 2,000,000. 0: without a bound.
    pub balance_factor_millionths: u32,
    /// Replicas of a key, the home among them: 1 to 16, default 4.
    pub set: u8,
    /// Partitions of the keys: 0 to 16,384, default 0. 0: each key by itself, without replication.
    pub partitions: u16,
    /// Most homes of a partition: 1 to 16, default 1: no replication. Above 1 only with partitions.
    pub replicate_max: u8,
    /// A partition gets more homes above this part of their fair share of the load: above 0 to 1,
    /// default 0.5.
    pub replicate_above: Quantile,
    /// How long that must last: above 0 to 1 hour, default 10 s.
    pub replicate_time: Duration,
    /// Homes that a policy with rounds probes for each query: 0 to 8, default 2. 0: only random
    /// replicas.
    pub hint_homes: u8,
}

impl KeySettings {
    /// Most partitions.
    pub const PARTITIONS_MAX: u16 = 16_384;
}

impl Default for KeySettings {
    fn default() -> Self {
        Self {
            balance_factor_millionths: 2 * ONE,
            set: 4,
            partitions: 0,
            replicate_max: 1,
            replicate_above: Quantile::from_millionths(ONE / 2).unwrap_or(Quantile::ONE),
            replicate_time: Duration::from_secs(10),
            hint_homes: 2,
        }
    }
}

impl Settings for KeySettings {
    fn check(&self) -> Result<(), ConfigError> {
        let factor = self.balance_factor_millionths;
        require(
            factor == 0 || (ONE..=1_000 * ONE).contains(&factor),
            "balance_factor",
            "0 or from 1 to 1,000",
        )?;
        require(
            (1..=Query::AMONG_MAX).contains(&self.set.into()),
            "set",
            "from 1 to 16",
        )?;
        require(
            self.partitions <= Self::PARTITIONS_MAX,
            "partitions",
            "at most 16,384",
        )?;
        require(
            (1..=Query::AMONG_MAX).contains(&self.replicate_max.into()),
            "replicate_max",
            "from 1 to 16",
        )?;
        require(
            self.replicate_max == 1 || self.partitions > 0,
            "replicate_max",
            "1 without partitions",
        )?;
        require(
            self.replicate_above > Quantile::ZERO,
            "replicate_above",
            "above 0 and at most 1",
        )?;
        require_span(self.replicate_time, "replicate_time")?;
        require(
            usize::from(self.hint_homes) <= ProbeRound::MAX_PROBES,
            "hint_homes",
            "at most 8",
        )
    }
}

section! {
    KeySettings in "key" {
        /// A key's replica gets no more of its queries while the next one would take more than
        /// this many times the mean of the others, by requests in flight and mean latency: from 1
        /// to 1,000. 1 is even and moves keys often. 0: without a bound.
        balance_factor in Factor: balance_factor_millionths;
        /// Replicas of a key: from 1 to 16. The first is its home. While the home is busy, the
        /// policy chooses among the others; while all are, among all replicas.
        set in U8: set;
        /// Partitions of the keys, each with its own replicas: at most 16,384. 0: each key has
        /// its own.
        partitions in U16: partitions;
        /// Most homes of a partition, from 1 to 16. 1: it is never replicated.
        replicate_max in U8: replicate_max;
        /// A partition gets twice as many homes while it has more than this part of their fair
        /// share of requests in flight: above 0, at most 1.
        replicate_above in Quantile: replicate_above;
        /// How long it must have that many, and how long it must have far fewer until homes are
        /// taken away again: above 0, at most 1 hour.
        replicate_time in Duration: replicate_time;
        /// Homes that are probed for each request under a policy that waits for probes: at most 8.
        /// 0: only random replicas.
        hint_homes in U8: hint_homes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::check_ranges;

    #[test]
    fn settings_out_of_range_are_named() {
        check_ranges::<KeySettings>(&[
            ("balance_factor", |it| {
                it.balance_factor_millionths = ONE - 1;
            }),
            ("balance_factor", |it| {
                it.balance_factor_millionths = 1_000 * ONE + 1;
            }),
            ("set", |it| it.set = 0),
            ("set", |it| it.set = 17),
            ("partitions", |it| it.partitions = 16_385),
            ("replicate_max", |it| it.replicate_max = 0),
            ("replicate_max", |it| it.replicate_max = 2),
            ("replicate_max", |it| {
                (it.partitions, it.replicate_max) = (1, 17);
            }),
            ("replicate_above", |it| it.replicate_above = Quantile::ZERO),
            ("replicate_time", |it| it.replicate_time = Duration::ZERO),
            ("hint_homes", |it| it.hint_homes = 9),
        ]);
        let widest = KeySettings {
            balance_factor_millionths: 0,
            set: 16,
            partitions: 16_384,
            replicate_max: 16,
            hint_homes: 8,
            ..KeySettings::default()
        };
        assert_eq!(widest.check(), Ok(()));
    }
}
