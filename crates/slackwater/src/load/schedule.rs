//! The intended start of each request: a pure, seeded sequence of offsets from the start of a run.
//!
//! The schedule does not depend on the target, so two targets with the same seed, rate and length
//! get exactly the same arrivals (common random numbers). A difference between their latencies is
//! then due to them and not to the draw.

use super::plan::Arrivals;
use core::time::Duration;
use slackwater_core::{Draw, SplitMix64};
use std::collections::VecDeque;

/// Uniform over [0, 1), with all 53 bits that a double holds.
fn fraction(draw: &mut impl Draw) -> f64 {
    const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
    (draw.draw() >> 11) as f64 * SCALE
}

/// The times of arrivals: offsets from the start of the run, never decreasing, all below the
/// schedule's length.
///
/// Arrivals are drawn in units of *mean gaps*; [`Rates`] convert them into time. So another rate
/// moves the arrivals that are still to come, without new draws.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    length: Duration,
    draws: SplitMix64,
    /// Number of past arrivals.
    count: u64,
    /// Mean gaps from the start to the next arrival.
    gaps: f64,
}

const NS_PER_SECOND: f64 = 1e9;

impl Schedule {
    /// Returns arrivals for `length`. Constant arrivals begin at offset 0, Poisson arrivals after
    /// their first gap. Only Poisson arrivals draw from `seed`.
    pub(crate) fn new(arrivals: Arrivals, length: Duration, seed: u64) -> Self {
        let mut schedule = Self {
            arrivals,
            length,
            draws: SplitMix64::new(seed),
            count: 0,
            gaps: 0.0,
        };
        schedule.draw_gap();
        schedule
    }

    /// Returns when the next arrival is due, by the current rates; `None` if the schedule ends
    /// before.
    pub(crate) fn next_offset(&self, rates: &Rates) -> Option<Duration> {
        // A double holds 53 bits of nanoseconds, 104 days, without loss.
        let offset = rates.offset_ns(self.gaps) / NS_PER_SECOND;
        let offset = Duration::try_from_secs_f64(offset).ok()?;
        (offset < self.length).then_some(offset)
    }

    /// Moves on to the following arrival.
    pub(crate) fn advance(&mut self) {
        self.count += 1;
        self.draw_gap();
    }

    fn draw_gap(&mut self) {
        self.gaps = match self.arrivals {
            // Calculated from the count, not from the last offset: rounding errors do not add up.
            Arrivals::Constant => self.count as f64,
            // The inverse of the exponential distribution; 1 - u is in (0, 1], so the logarithm is
            // finite.
            Arrivals::Poisson => self.gaps - (1.0 - fraction(&mut self.draws)).ln(),
        };
    }
}

/// The target rates in requests per second, and the time from which each applies.
#[derive(Debug, Clone)]
pub(crate) struct Rates(VecDeque<Step>);

/// One rate, until the next step.
#[derive(Debug, Clone, Copy)]
struct Step {
    from_ns: f64,
    /// Mean gaps from the start until this step.
    from_gaps: f64,
    per_second: f64,
}

impl Rates {
    /// Most steps that are kept. All arrivals before the oldest step are in the past.
    const STEPS_MAX: usize = 256;

    /// Returns a mean rate (above 0) that applies from the start.
    pub(crate) fn new(per_second: f64) -> Self {
        Self(VecDeque::from([Step {
            from_ns: 0.0,
            from_gaps: 0.0,
            per_second,
        }]))
    }

    /// Sets another mean rate (above 0) from this offset on. Later steps are removed.
    pub(crate) fn change(&mut self, from: Duration, per_second: f64) {
        let from_ns = from.as_secs_f64() * NS_PER_SECOND;
        while self.0.len() > 1 && self.0.back().is_some_and(|last| last.from_ns >= from_ns) {
            self.0.pop_back();
        }
        let Some(last) = self.0.back() else {
            return;
        };
        let from_gaps = last.from_gaps + (from_ns - last.from_ns) * last.per_second / NS_PER_SECOND;
        if self.0.len() == Self::STEPS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Step {
            from_ns,
            from_gaps,
            per_second,
        });
    }

    /// The newest rate.
    pub(crate) fn per_second(&self) -> f64 {
        self.0.back().map_or(0.0, |last| last.per_second)
    }

    fn offset_ns(&self, gaps: f64) -> f64 {
        let mut steps = self.0.iter().rev();
        let step = steps.find(|step| step.from_gaps <= gaps);
        let step = step.or_else(|| self.0.front());
        step.map_or(f64::INFINITY, |step| {
            step.from_ns + (gaps - step.from_gaps) * NS_PER_SECOND / step.per_second
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All offsets of a schedule. `change` may change the rates before each.
    fn offsets(
        mut schedule: Schedule,
        mut rates: Rates,
        mut change: impl FnMut(&mut Rates),
    ) -> Vec<Duration> {
        let mut offsets = Vec::new();
        while let Some(offset) = {
            change(&mut rates);
            schedule.next_offset(&rates)
        } {
            offsets.push(offset);
            schedule.advance();
        }
        offsets
    }

    fn at_rate(arrivals: Arrivals, rate: f64, length: Duration, seed: u64) -> Vec<Duration> {
        let schedule = Schedule::new(arrivals, length, seed);
        offsets(schedule, Rates::new(rate), |_| ())
    }

    fn poisson(rate: f64, seconds: u64, seed: u64) -> Vec<Duration> {
        at_rate(Arrivals::Poisson, rate, Duration::from_secs(seconds), seed)
    }

    #[test]
    fn random_fraction_is_at_least_0_and_below_1() {
        assert!(fraction(&mut || 0) <= 0.0);
        let highest = fraction(&mut || u64::MAX);
        assert!(highest < 1.0 && (1.0 - highest).ln().is_finite());
    }

    #[test]
    fn constant_arrivals_are_equally_spaced_and_start_at_zero() {
        let offsets = at_rate(Arrivals::Constant, 4.0, Duration::from_secs(1), 9);
        let expected: Vec<_> = [0, 250, 500, 750].map(Duration::from_millis).into();
        assert_eq!(offsets, expected);
    }

    #[test]
    fn constant_arrivals_do_not_drift_with_inexact_gaps() {
        let offsets = at_rate(Arrivals::Constant, 3.0, Duration::from_secs(100_000), 0);
        let last = *offsets.last().unwrap();
        let expected = Duration::from_secs_f64(299_999.0 / 3.0);
        assert!(
            last.abs_diff(expected) < Duration::from_nanos(100),
            "{last:?}"
        );
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_spread_of_an_exponential() {
        let offsets = poisson(1_000.0, 100, 7);
        let count = offsets.len() as f64;
        // 100,000 expected with a standard deviation of 316: four of them either way.
        assert!((98_735.0..101_265.0).contains(&count), "{count}");
        let gaps_ms: Vec<f64> = offsets
            .windows(2)
            .map(|pair| pair[1].abs_diff(pair[0]).as_secs_f64() * 1e3)
            .collect();
        let mean = gaps_ms.iter().sum::<f64>() / gaps_ms.len() as f64;
        let variance =
            gaps_ms.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps_ms.len() as f64;
        // An exponential's standard deviation equals its mean, and e^-3 of its gaps exceed three
        // means.
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.02,
            "{mean} {variance}"
        );
        let long = gaps_ms.iter().filter(|gap| **gap > 3.0 * mean).count() as f64;
        assert!(
            (long / gaps_ms.len() as f64 - (-3.0_f64).exp()).abs() < 0.003,
            "{long}"
        );
    }

    #[test]
    fn the_seed_alone_decides_poisson_arrivals() {
        assert_eq!(poisson(500.0, 5, 42), poisson(500.0, 5, 42));
        assert_ne!(poisson(500.0, 5, 42), poisson(500.0, 5, 43));
    }

    #[test]
    fn longer_schedule_starts_with_the_same_arrivals() {
        let short = poisson(500.0, 2, 1);
        assert_eq!(poisson(500.0, 4, 1)[..short.len()], short);
    }

    #[test]
    fn arrivals_stay_within_the_length_of_the_schedule() {
        for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
            assert!(at_rate(arrivals, 1e6, Duration::ZERO, 1).is_empty());
            let length = Duration::from_millis(20);
            let offsets = at_rate(arrivals, 1e5, length, 1);
            assert!(offsets.iter().all(|offset| *offset < length));
        }
    }

    #[test]
    fn a_rate_near_zero_ends_instead_of_overflowing() {
        let count = |arrivals| at_rate(arrivals, 1e-300, Duration::from_secs(10), 1).len();
        assert_eq!(count(Arrivals::Poisson), 0);
        assert_eq!(count(Arrivals::Constant), 1);
    }

    #[test]
    fn rate_change_moves_only_future_arrivals() {
        let ms = |ms: &[u64]| -> Vec<_> { ms.iter().copied().map(Duration::from_millis).collect() };
        let schedule = Schedule::new(Arrivals::Constant, Duration::from_secs(2), 1);
        // From 1,050 ms on the rate is ten times as high: of the gap of 100 ms that runs then, half
        // is left.
        let mut left = 11;
        let offsets = offsets(schedule, Rates::new(10.0), |rates| {
            if left == 0 {
                rates.change(Duration::from_millis(1_050), 100.0);
            }
            left -= 1;
        });
        let before = ms(&[0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000]);
        assert_eq!(offsets[..11], before);
        assert_eq!(offsets[11..13], ms(&[1_055, 1_065]));
        assert_eq!(offsets.len(), 11 + 95);
    }

    #[test]
    fn both_sides_have_the_same_arrivals_after_a_rate_change() {
        let schedule = || Schedule::new(Arrivals::Poisson, Duration::from_secs(20), 5);
        let twin = |heard: usize| {
            let mut count = 0;
            offsets(schedule(), Rates::new(50.0), move |rates| {
                if count == heard {
                    rates.change(Duration::from_secs(10), 5.0);
                }
                count += 1;
            })
        };
        let early = twin(0);
        assert_eq!(early, twin(200));
        let before = early.iter().filter(|it| it.as_secs() < 10).count();
        let after = early.len() - before;
        assert!(
            (400..600).contains(&before) && (20..80).contains(&after),
            "{before} {after}"
        );
        assert_ne!(early, poisson(50.0, 20, 5));
    }

    #[test]
    fn change_replaces_later_ones_and_their_number_is_bounded() {
        let mut rates = Rates::new(1.0);
        rates.change(Duration::from_secs(5), 7.0);
        rates.change(Duration::from_secs(4), 2.0);
        assert!((rates.per_second() - 2.0).abs() < 1e-9);
        // Four gaps in the first four seconds, two in each one after.
        assert!((rates.offset_ns(6.0) - 5e9).abs() < 1.0);
        for second in 0..1_000 {
            rates.change(Duration::from_secs(10 + second), 1.0);
        }
        assert_eq!(rates.0.len(), Rates::STEPS_MAX);
    }
}
