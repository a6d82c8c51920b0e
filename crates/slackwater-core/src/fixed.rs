//! Rates and quantiles in millionths.
//!
//! Everything that decides in Prequal is a whole number, so that two implementations agree bit for
//! bit. A rate such as 0.5 probes per query is 500,000 millionths, and an accumulator turns it into
//! whole probes without drift.

use core::fmt;

/// One, in millionths.
pub(crate) const ONE: u32 = 1_000_000;

/// How often something happens per query, in millionths, from 0 to [`Rate::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u32);

impl Rate {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Once per query.
    pub const ONE: Self = Self(ONE);
    /// The largest rate: 64 per query.
    pub const MAX: Self = Self(64 * ONE);

    /// A rate of `millionths` / 1,000,000 per query; `None` above [`Rate::MAX`].
    pub const fn from_millionths(millionths: u32) -> Option<Self> {
        if millionths <= Self::MAX.0 {
            Some(Self(millionths))
        } else {
            None
        }
    }

    /// A whole rate; `None` above [`Rate::MAX`].
    pub const fn per_query(times: u32) -> Option<Self> {
        match times.checked_mul(ONE) {
            Some(millionths) => Self::from_millionths(millionths),
            None => None,
        }
    }

    /// The rate in millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// The rate minus `other`, at least 0.
    pub(crate) const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// A share of the rate, in millionths; at most all of it.
    pub(crate) fn share(self, share_millionths: u32) -> Self {
        let millionths = u64::from(self.0) * u64::from(share_millionths) / u64::from(ONE);
        Self(u32::try_from(millionths).unwrap_or(self.0).min(self.0))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_millionths(self.0, f)
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rate({self})")
    }
}

/// A share of a distribution, in millionths, from 0 to 1 inclusive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantile(u32);

impl Quantile {
    /// The lowest value.
    pub const ZERO: Self = Self(0);
    /// The highest value.
    pub const ONE: Self = Self(ONE);

    /// The quantile `millionths` / 1,000,000; `None` above 1.
    pub const fn from_millionths(millionths: u32) -> Option<Self> {
        if millionths <= ONE {
            Some(Self(millionths))
        } else {
            None
        }
    }

    /// The quantile in millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// The nearest rank among `len` sorted values, as an index from 0: ⌈q · len⌉ − 1, and 0 for a
    /// quantile of 0.
    pub(crate) const fn nearest_rank(self, len: usize) -> usize {
        // The product of a quantile of at most 10^6 and a length of at most 2^44 fits a u64.
        let rank = (self.0 as u64 * len as u64).div_ceil(ONE as u64);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most len, which was a usize"
        )]
        let rank = rank as usize;
        rank.saturating_sub(1)
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_millionths(self.0, f)
    }
}

impl fmt::Debug for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantile({self})")
    }
}

fn write_millionths(millionths: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (whole, mut rest) = (millionths / ONE, millionths % ONE);
    write!(f, "{whole}")?;
    if rest > 0 {
        let mut digits = 6;
        while rest % 10 == 0 {
            rest /= 10;
            digits -= 1;
        }
        write!(f, ".{rest:0digits$}")?;
    }
    Ok(())
}

/// Turns a rate per query into whole events, query by query. Each step returns the floor or the
/// ceiling of the rate, and after any number of steps the total is exactly ⌊steps · rate⌋.
///
/// [Prequal §4 "Probing rate", footnote 7: "rounding deterministically so as to guarantee `r_probe`
/// probes per query in the limit"; the same for removal]
#[derive(Clone, Debug, Default)]
pub(crate) struct Accumulator {
    /// What is owed beyond the events already returned, in millionths; always below one.
    owed: u32,
}

impl Accumulator {
    /// The events that are due with this query.
    pub(crate) fn step(&mut self, rate: Rate) -> u32 {
        // At most 64 · 10^6 + 10^6 − 1: far from overflow.
        let owed = self.owed + rate.0;
        self.owed = owed % ONE;
        owed / ONE
    }
}

/// Returns the mean if `value` differs from it by at most `band_millionths` of the mean, so that
/// chance makes no difference. Otherwise returns `value`.
pub(crate) fn banded(value: u64, mean: u64, band_millionths: u64) -> u64 {
    if value.abs_diff(mean) > mul_div(mean, band_millionths, ONE.into()) {
        value
    } else {
        mean
    }
}

/// `a` · `b` / `c`, rounded down, at most 2^64 − 1; a `c` of 0 counts as 1.
#[inline]
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let c = c.max(1);
    // This is nearly always enough. A 128-bit division takes many times as long, and some are made
    // for each query.
    if let Some(product) = a.checked_mul(b) {
        return product / c;
    }
    mul_div_wide(a, b, c)
}

#[cold]
fn mul_div_wide(a: u64, b: u64, c: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b) / u128::from(c);
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// `a` · `b` / 2^`bits`, rounded down, at most 2^64 − 1.
#[inline]
pub(crate) fn mul_shift(a: u64, b: u64, bits: u32) -> u64 {
    let product = (u128::from(a) * u128::from(b)) >> bits;
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// Moves a mean by `1 / count` of the way towards a new value, as for a mean over `count` values. A
/// `count` of 0 counts as 1.
#[inline]
pub(crate) fn follow(mean: u64, value: u64, count: u64) -> u64 {
    let count = count.max(1);
    if value >= mean {
        mean + (value - mean) / count
    } else {
        mean - (mean - value) / count
    }
}

/// `from`, moved towards `to` by `part` of `whole`, or all the way.
#[inline]
pub(crate) fn towards(from: u64, to: u64, part: u64, whole: u64) -> u64 {
    let way = mul_div(from.abs_diff(to), part.min(whole), whole);
    if to >= from { from + way } else { from - way }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn rate(millionths: u32) -> Rate {
        Rate::from_millionths(millionths).expect("within range")
    }

    #[test]
    fn accumulated_total_is_exact_at_every_step() {
        for millionths in [
            0, 1, 250_000, 333_333, 500_000, 999_999, 1_000_000, 1_410_000, 3_000_000,
        ] {
            let mut accumulator = Accumulator::default();
            let mut total = 0_u64;
            for steps in 1..=10_000_u64 {
                let events = accumulator.step(rate(millionths));
                assert!(events == millionths / ONE || events == millionths.div_ceil(ONE));
                total += u64::from(events);
                assert_eq!(total, steps * u64::from(millionths) / u64::from(ONE));
            }
        }
    }

    #[test]
    fn rate_of_one_half_yields_an_event_every_second_step() {
        let mut accumulator = Accumulator::default();
        let events: Vec<_> = (0..6).map(|_| accumulator.step(rate(500_000))).collect();
        assert_eq!(events, [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn nearest_rank_rounds_up() {
        let q = |millionths| Quantile::from_millionths(millionths).expect("at most one");
        assert_eq!(q(840_896).nearest_rank(128), 107, "the 108th of 128");
        assert_eq!(
            q(500_000).nearest_rank(4),
            1,
            "exactly half: the second, not the third"
        );
        assert_eq!(q(500_001).nearest_rank(4), 2);
        assert_eq!(q(999_000).nearest_rank(128), 127);
        assert_eq!(q(0).nearest_rank(5), 0);
        assert_eq!(q(1).nearest_rank(5), 0);
        assert_eq!(q(ONE).nearest_rank(5), 4);
    }

    #[test]
    fn rates_and_quantiles_check_ranges_and_print_decimals() {
        assert!(Rate::from_millionths(64_000_001).is_none());
        assert!(Rate::per_query(u32::MAX).is_none());
        assert!(Quantile::from_millionths(1_000_001).is_none());
        assert_eq!(rate(3_000_000).to_string(), "3");
        assert_eq!(rate(1_410_000).to_string(), "1.41");
        assert_eq!(rate(1).to_string(), "0.000001");
        assert_eq!(
            Quantile::from_millionths(840_896)
                .expect("below one")
                .to_string(),
            "0.840896"
        );
    }

    #[test]
    fn mul_div_does_not_overflow() {
        assert_eq!(mul_div(7, 3, 2), 10, "rounded down");
        assert_eq!(mul_div(7, 3, 0), 21, "none counts as one");
        let most = u64::MAX;
        assert_eq!(mul_div(most, 1, 1), most);
        assert_eq!(mul_div(most, 3, 4), most / 4 * 3 + 2, "beyond 64 bits");
        assert_eq!(mul_div(1 << 32, 1 << 32, 1 << 10), 1 << 54, "by one bit");
        assert_eq!(mul_div(most, 2, 1), most, "no more than there is room for");
        assert_eq!(mul_div(most, most, 0), most);
    }

    #[test]
    fn values_up_to_the_edge_of_the_band_are_the_mean() {
        let banded = [84, 85, 115, 116].map(|value| banded(value, 100, 150_000));
        assert_eq!(banded, [84, 100, 100, 116]);
    }
}
