//! Statistics over several seeds: a mean and its confidence interval.
//!
//! One run is one sample. Over n seeds the interval is Student's, with n − 1 degrees of freedom.
//! Two policies that were played with the same seeds had the same arrivals, costs and neighbours
//! (common random numbers). So they are compared seed by seed: what the seeds have in common
//! cancels out of the difference, and the interval is that of the policies alone.

/// A mean over seeds with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean; the geometric mean for ratios.
    pub value: f64,
    /// The ends of the 95 % interval; `None` for a single seed, whose spread is unknown.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Returns the mean of `samples`, one for each seed; `None` if there are none or one of them is
    /// not finite.
    pub fn mean(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() || !samples.iter().all(|sample| sample.is_finite()) {
            return None;
        }
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let half_width = t_975(samples.len() - 1).map(|t| {
            let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
            t * (squares / (n - 1.0) / n).sqrt()
        });
        Some(Self {
            value: mean,
            interval: half_width.map(|half| (mean - half, mean + half)),
        })
    }

    /// Returns by how much `samples` exceed `base`, seed by seed. Only seeds that both have count;
    /// `None` if there are none.
    pub fn difference(samples: &[f64], base: &[f64]) -> Option<Self> {
        let pairs = samples.iter().zip(base);
        Self::mean(
            &pairs
                .map(|(sample, base)| sample - base)
                .collect::<Vec<_>>(),
        )
    }

    /// Returns `samples` as a multiple of `base`, seed by seed. The geometric mean makes a against
    /// b the inverse of b against a. Only seeds that both have count; `None` if there are none or a
    /// value is not above 0.
    pub fn ratio(samples: &[f64], base: &[f64]) -> Option<Self> {
        let pairs = samples.iter().zip(base);
        let logarithms = pairs.map(|(sample, base)| (sample / base).ln());
        let log = Self::mean(&logarithms.collect::<Vec<_>>())?;
        Some(Self {
            value: log.value.exp(),
            interval: log.interval.map(|(low, high)| (low.exp(), high.exp())),
        })
    }

    /// Returns half the interval's width; 0 without an interval.
    pub fn half_width(&self) -> f64 {
        self.interval.map_or(0.0, |(low, high)| (high - low) / 2.0)
    }

    /// Returns whether `value` lies outside of the interval; `false` without one.
    pub fn excludes(&self, value: f64) -> bool {
        self.interval
            .is_some_and(|(low, high)| value < low || value > high)
    }
}

/// Student's t at 0.975 for 1 to 9 degrees of freedom, to six decimals.
const T_975: [f64; 9] = [
    12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004,
    2.262_157,
];

/// The standard normal's quantile at 0.975.
const Z_975: f64 = 1.959_963_985;

/// Returns Student's t at 0.975; `None` for no degrees of freedom. Above nine it is the expansion
/// in powers of 1/n, within 1e-5. `[Abramowitz & Stegun, 26.7.5]`
fn t_975(degrees: usize) -> Option<f64> {
    if let Some(t) = T_975.get(degrees.checked_sub(1)?) {
        return Some(*t);
    }
    let (z, n) = (Z_975, degrees as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    let fourth = (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1_482.0 * z.powi(5)
        - 1_920.0 * z.powi(3)
        - 945.0 * z)
        / 92_160.0;
    Some(z + first / n + second / n.powi(2) + third / n.powi(3) + fourth / n.powi(4))
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values without any rounding are compared")]
mod tests {
    use super::*;

    /// Returns P(|T| ≤ t) by Simpson's rule. With t = √n tan θ the density becomes cosⁿ⁻¹ θ, up to
    /// a factor that cancels.
    fn probability_within(t: f64, degrees: usize) -> f64 {
        let power = i32::try_from(degrees).unwrap() - 1;
        let integral = |end: f64| {
            const STEPS: usize = 2_000;
            let step = end / STEPS as f64;
            let weighted = (0..=STEPS).map(|i| {
                let weight = match i {
                    0 | STEPS => 1.0,
                    i if i % 2 == 1 => 4.0,
                    _ => 2.0,
                };
                weight * (i as f64 * step).cos().powi(power)
            });
            weighted.sum::<f64>() * step / 3.0
        };
        integral((t / (degrees as f64).sqrt()).atan()) / integral(core::f64::consts::FRAC_PI_2)
    }

    #[test]
    fn t_quantile_covers_95_percent_for_any_number_of_seeds() {
        for degrees in (1..=60).chain([100, 200]) {
            let covered = probability_within(t_975(degrees).unwrap(), degrees);
            assert!((covered - 0.95).abs() < 1e-6, "{degrees}: {covered}");
        }
        assert_eq!(t_975(0), None);
    }

    #[test]
    fn t_quantile_matches_printed_tables() {
        for (degrees, t) in [
            (1, 12.706),
            (2, 4.303),
            (9, 2.262),
            (10, 2.228),
            (30, 2.042),
            (120, 1.980),
        ] {
            assert!((t_975(degrees).unwrap() - t).abs() < 5e-4, "{degrees}");
        }
    }

    #[test]
    fn three_seeds_give_a_mean_and_an_interval() {
        let estimate = Estimate::mean(&[9.0, 10.0, 11.0]).unwrap();
        assert_eq!(estimate.value, 10.0);
        // The standard deviation is 1, so the half width is t(2) / √3.
        assert!((estimate.half_width() - 4.302_653 / 3f64.sqrt()).abs() < 1e-6);
        assert!(estimate.excludes(12.6) && estimate.excludes(7.4) && !estimate.excludes(12.4));
    }

    #[test]
    fn one_seed_has_no_interval_and_no_seed_no_mean() {
        let estimate = Estimate::mean(&[7.0]).unwrap();
        assert_eq!((estimate.value, estimate.interval), (7.0, None));
        assert_eq!(estimate.half_width(), 0.0);
        assert!(!estimate.excludes(1e9));
        assert_eq!(Estimate::mean(&[]), None);
        assert_eq!(Estimate::mean(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn paired_difference_removes_common_seed_effects() {
        let (base, samples) = ([100.0, 200.0, 300.0], [110.0, 211.0, 309.0]);
        let paired = Estimate::difference(&samples, &base).unwrap();
        assert_eq!(paired.value, 10.0);
        assert!(paired.half_width() < 3.0, "{paired:?}");
        assert!(Estimate::mean(&samples).unwrap().half_width() > 200.0);
        let shorter = Estimate::difference(&samples[..1], &base).unwrap();
        assert_eq!((shorter.value, shorter.interval), (10.0, None));
    }

    #[test]
    fn ratio_and_its_inverse_agree() {
        let (base, samples) = ([10.0, 20.0, 40.0], [20.0, 40.0, 80.0]);
        let twice = Estimate::ratio(&samples, &base).unwrap();
        assert!((twice.value - 2.0).abs() < 1e-12 && twice.half_width() < 1e-12);
        let other = [13.0, 19.0, 55.0];
        let there = Estimate::ratio(&other, &base).unwrap();
        let back = Estimate::ratio(&base, &other).unwrap();
        assert!((there.value * back.value - 1.0).abs() < 1e-12);
        let ((low, _), (_, high)) = (there.interval.unwrap(), back.interval.unwrap());
        assert!((low * high - 1.0).abs() < 1e-12);
        for nothing in [[0.0], [-1.0], [f64::INFINITY]] {
            assert_eq!(Estimate::ratio(&nothing, &[1.0]), None);
            assert_eq!(Estimate::ratio(&[1.0], &nothing), None);
        }
    }
}
