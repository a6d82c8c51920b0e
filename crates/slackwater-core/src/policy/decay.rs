//! Exponential decay without a mathematics library: the share of a value that is left after some
//! time.
//!
//! e^(−x) is 2^(−k) · e^(−r), where k is the whole number of halvings nearest to x / ln 2. r is at
//! most half of ln 2 either way, small enough for a short Taylor series. It uses only additions,
//! multiplications and divisions, so the result is the same on every machine.

use core::f64::consts::LN_2;

/// Terms of the series after the first. The next one would be below (ln 2 / 2)^13 / 13! ≈ 2 ·
/// 10^−16.
const TERMS: u32 = 12;

/// Halvings after which nothing is left: the least positive normal number is 2^−1022.
const HALVINGS_MAX: u64 = 1022;

/// e^(−x) for x ≥ 0, with a relative error far below 10^−9. Results below 2^−1022 are zero. A
/// negative x counts as 0.
pub(crate) fn exp_neg(x: f64) -> f64 {
    let x = x.max(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "x is not negative, and a cast of what is too large saturates"
    )]
    let halvings = (x / LN_2 + 0.5) as u64;
    if halvings > HALVINGS_MAX {
        return 0.0;
    }
    let rest = x - halvings as f64 * LN_2;
    let series = (1..=TERMS)
        .rev()
        .fold(1.0, |sum, term| 1.0 - rest / f64::from(term) * sum);
    // A double with no fraction and this exponent is 2^(−halvings).
    series * f64::from_bits((1023 - halvings) << 52)
}

/// The share that is left after `span_ns` with the time constant `constant_ns`: e^(−span /
/// constant). With a constant of 0 nothing is left after any span.
pub(crate) fn left_after(span_ns: u64, constant_ns: u64) -> f64 {
    if constant_ns == 0 {
        return 0.0;
    }
    exp_neg(span_ns as f64 / constant_ns as f64)
}

/// A mean of samples with weights that grow with time: e^(t/τ) for a sample at time t. Older
/// samples thereby fade, and means with the same weights can be added (forward decay: Cormode,
/// Shkapenyuk, Srivastava, Xu, 2009).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ForwardMean {
    pub(crate) weight: f64,
    pub(crate) sum: f64,
}

impl ForwardMean {
    pub(crate) fn record(&mut self, weight: f64, sample: f64) {
        self.weight += weight;
        self.sum += weight * sample;
    }

    /// The mean, or `none` if there are no samples.
    pub(crate) fn or(&self, none: f64) -> f64 {
        if self.weight > 0.0 {
            self.sum / self.weight
        } else {
            none
        }
    }

    pub(crate) fn scale(&mut self, factor: f64) {
        self.weight *= factor;
        self.sum *= factor;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.weight += other.weight;
        self.sum += other.sum;
    }
}

/// The whole part of a number, as close as an `i64` gets.
pub(super) fn whole(number: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is too large becomes the largest"
    )]
    let whole = number as i64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_neg_matches_known_values() {
        // To 17 digits, from tables.
        let known = [
            (0.1, 0.904_837_418_035_959_6),
            (0.346_573_590_279_972_64, core::f64::consts::FRAC_1_SQRT_2),
            (LN_2, 0.5),
            (0.5, 0.606_530_659_712_633_4),
            (1.0, 0.367_879_441_171_442_33),
            (2.0, 0.135_335_283_236_612_7),
            (10.0, 4.539_992_976_248_485e-5),
            (100.0, 3.720_075_976_020_836e-44),
            (700.0, 9.859_676_543_759_77e-305),
        ];
        for (x, expected) in known {
            let error = (exp_neg(x) / expected - 1.0).abs();
            assert!(error < 1e-12, "e^-{x}: off by {error}");
        }
    }

    #[test]
    fn exp_neg_is_one_at_zero_and_zero_far_out() {
        for x in [0.0, -0.0, -5.0, f64::NAN] {
            assert_eq!(exp_neg(x).to_bits(), 1.0_f64.to_bits(), "e^-{x}");
        }
        for x in [709.0, 1e9, f64::MAX, f64::INFINITY] {
            assert_eq!(exp_neg(x).to_bits(), 0, "e^-{x}");
        }
    }

    #[test]
    fn exp_neg_is_multiplicative_and_decreasing() {
        let mut last = 1.0;
        for step in 1..5_000_u32 {
            let x = f64::from(step) / 50.0;
            let (whole, halves) = (exp_neg(x), exp_neg(x / 2.0));
            assert!((halves * halves / whole - 1.0).abs() < 1e-12, "{x}");
            assert!(whole < last, "{x}");
            last = whole;
        }
    }

    #[test]
    fn one_minute_bias_weighs_last_minute_63_percent_and_the_one_before_23() {
        for (minute, share) in [(0, 0.632), (1, 0.233)] {
            let mut mean = ForwardMean::default();
            for second in 0..1_200 {
                let weight = 1.0 / exp_neg(f64::from(second) / 60.0);
                let ago = (1_199 - second) / 60;
                mean.record(weight, if ago == minute { 1.0 } else { 0.0 });
            }
            // One sample a second is off by half a second, which is 1/120 of the share.
            assert!((mean.or(0.0) - share).abs() < 0.006, "{mean:?}");
        }
    }

    #[test]
    fn zero_time_constant_leaves_no_weight() {
        assert_eq!(left_after(0, 0).to_bits(), 0);
        assert_eq!(left_after(7, 0).to_bits(), 0);
        assert_eq!(left_after(0, 7).to_bits(), 1.0_f64.to_bits());
        assert!((left_after(14, 7) - 0.135_335_283_236_612_7).abs() < 1e-12);
    }
}
