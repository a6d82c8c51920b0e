//! A learned limit: as many queries at a time as the application can process without making them
//! wait for each other.
//!
//! Beyond that number, more queries at a time do not finish sooner; they only take longer. So the
//! limit follows the latency. Each window compares its own latency with the least so far:
//!
//! > limit' = limit · gradient + √limit, gradient = least · (1 + tolerance) / recent, from 1/2 to 1
//!
//! The gradient lowers the limit when queries take longer than the tolerance. The root leaves room
//! to try more, which is small beside a large limit (Netflix's concurrency-limits, "Gradient";
//! Envoy's `adaptive_concurrency`). Three things differ from those:
//!
//! - A window counts only queries that were *started in it*. It ends when about as many of them
//!   have ended as the limit admits. So a change of the limit shows its effect before the next
//!   change, however slow queries are.
//! - The least latency expires. Envoy admits three queries at a time to measure it again. Here the
//!   limit is halved for one window, which begins when enough queries have ended, and is then
//!   restored. Only the very first window runs at the least limit.
//! - A query that failed or was given up can lower the limit if it took long, and never raises it.
//!   `[E5]`
//!
//! The latency of a window is the mean of the middle half of its samples. Single stragglers do not
//! move it, and with two kinds of queries it moves smoothly with their shares.

use crate::fixed::{ONE, Rate};
use crate::policy::{ConfigError, Settings, Valid, require};
use crate::time::{Instant, span_ns};
use crate::tracker::End;
use alloc::vec::Vec;
use core::time::Duration;

/// Samples of a window that are kept: the newest ones.
const SAMPLES_MAX: u32 = 128;
/// The limit is kept in 1,024ths.
const UNIT: u64 = 1024;

/// The settings of a learned limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GradientSettings {
    /// The limit after the first measurement, which runs at `limit_min`. From `limit_min` to
    /// `limit_max`, default 20.
    pub limit_start: u32,
    /// The least limit: 1 to 65,536, default 4.
    pub limit_min: u32,
    /// The greatest limit: `limit_min` to 65,536, default 1,024.
    pub limit_max: u32,
    /// How much longer than the least a latency may be without lowering the limit, as a share of
    /// the least: 0 to 1, default 0.5. At 0 any wait is too long. It is at most 1 because the least
    /// is measured at half of the limit: if the latency of a queue twice as long were tolerated,
    /// the limit would rise with each measurement.
    pub tolerance: Rate,
    /// The shortest window: 1 ms to 1 hour, default 100 ms.
    pub window: Duration,
    /// The fewest samples of a window: 1 to 128, default 16.
    pub samples_min: u32,
    /// Age at which the least latency is measured again: 100 ms to 1 hour, default 30 s.
    pub least_age_max: Duration,
}

/// Settings that make sense.
pub type GradientConfig = Valid<GradientSettings>;

impl Default for GradientSettings {
    fn default() -> Self {
        Self {
            limit_start: 20,
            limit_min: 4,
            limit_max: 1024,
            tolerance: Rate::from_millionths(ONE / 2).unwrap_or(Rate::ZERO),
            window: Duration::from_millis(100),
            samples_min: 16,
            least_age_max: Duration::from_secs(30),
        }
    }
}

impl Settings for GradientSettings {
    fn check(&self) -> Result<(), ConfigError> {
        const MOST: u32 = 1 << 16;
        const HOUR: Duration = Duration::from_hours(1);
        let within = |least, span, most| least <= span && span <= most;
        require(
            within(1, self.limit_min, MOST),
            "limit_min",
            "from 1 to 65536",
        )?;
        require(
            within(self.limit_min, self.limit_max, MOST),
            "limit_max",
            "from limit_min to 65536",
        )?;
        require(
            within(self.limit_min, self.limit_start, self.limit_max),
            "limit_start",
            "from limit_min to limit_max",
        )?;
        require(self.tolerance.millionths() <= ONE, "tolerance", "at most 1")?;
        let is_window = Duration::from_millis(1) <= self.window && self.window <= HOUR;
        require(is_window, "window", "from 1 ms to 1 hour")?;
        require(
            within(1, self.samples_min, SAMPLES_MAX),
            "samples_min",
            "from 1 to 128",
        )?;
        let is_age = Duration::from_millis(100) <= self.least_age_max && self.least_age_max <= HOUR;
        require(is_age, "least_age_max", "from 100 ms to 1 hour")
    }
}

/// The state of the measurement of the least latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is known: the limit is at its least, and the window is the first measurement.
    Beginning,
    /// The limit follows the latency.
    Following,
    /// The limit is halved, and the window gives the new least latency.
    Measuring,
}

/// A limit that is learned from latencies.
#[derive(Clone, Debug)]
pub(super) struct Gradient {
    config: GradientConfig,
    /// In 1,024ths.
    limit: u64,
    phase: Phase,
    least_ns: Option<u64>,
    least_at: Instant,
    window_began: Option<Instant>,
    /// A ring: the newest replaces the oldest.
    samples: Vec<u64>,
    /// All samples of the window, including those that are not kept.
    seen: u32,
    /// How many of them are not of a success.
    failures: u32,
    /// The most queries in flight at a time in the window.
    rif_max: u32,
}

impl Gradient {
    pub(super) fn new(config: GradientConfig) -> Self {
        Self {
            limit: u64::from(config.limit_start) * UNIT,
            phase: Phase::Beginning,
            least_ns: None,
            least_at: Instant::EPOCH,
            window_began: None,
            samples: Vec::with_capacity(SAMPLES_MAX as usize),
            seen: 0,
            failures: 0,
            rif_max: 0,
            config,
        }
    }

    /// How many may be in flight.
    pub(super) fn limit(&self) -> u32 {
        match self.phase {
            Phase::Beginning => self.config.limit_min,
            Phase::Following => self.whole(),
            Phase::Measuring => (self.whole() / 2).max(self.config.limit_min),
        }
    }

    /// The limit without a measurement.
    fn whole(&self) -> u32 {
        u32::try_from(self.limit / UNIT).unwrap_or(u32::MAX)
    }

    /// Whether one more may start. Streams may hold their permits for hours, but a measurement ends
    /// only by queries that start in it. So it leaves room for `limit_min` queries that wait for
    /// their heads.
    pub(super) fn has_room(&self, rif: u32, unanswered: u32) -> bool {
        rif < self.limit() || rif < self.whole() && unanswered < self.config.limit_min
    }

    /// The least latency, while it is valid.
    pub(super) fn least(&self) -> Option<Duration> {
        self.least_ns.map(Duration::from_nanos)
    }

    /// Notes that a query has been started. It is included in `rif`.
    pub(super) fn start(&mut self, now: Instant, rif: u32) {
        self.window_began.get_or_insert(now);
        self.rif_max = self.rif_max.max(rif);
    }

    /// Notes that a query has been answered, or has ended without an answer.
    pub(super) fn finish(&mut self, now: Instant, started_at: Instant, end: End) {
        let Some(began) = self.window_began.filter(|began| *began <= started_at) else {
            return;
        };
        let latency_ns = now.ns_since(started_at);
        let is_sample = match end {
            End::Success => true,
            // It would have taken at least this long. While the least latency is being measured,
            // that shows nothing about it.
            End::Failed | End::Cancelled => {
                self.phase == Phase::Following
                    && self.tolerated_ns().is_some_and(|most| latency_ns > most)
            }
        };
        if !is_sample {
            return;
        }
        let oldest = self.samples.get_mut((self.seen % SAMPLES_MAX) as usize);
        match oldest {
            Some(oldest) => *oldest = latency_ns,
            None => self.samples.push(latency_ns),
        }
        self.seen = self.seen.saturating_add(1);
        self.failures += u32::from(end != End::Success);
        let enough = self.limit().min(SAMPLES_MAX);
        if self.seen >= self.config.samples_min.max(enough)
            && now.ns_since(began) >= span_ns(self.config.window)
        {
            self.end_window(now);
        }
    }

    /// The latency up to which the limit is not lowered.
    fn tolerated_ns(&self) -> Option<u64> {
        let whole = u128::from(ONE) + u128::from(self.config.tolerance.millionths());
        let tolerated = u128::from(self.least_ns?) * whole / u128::from(ONE);
        Some(u64::try_from(tolerated).unwrap_or(u64::MAX))
    }

    fn end_window(&mut self, now: Instant) {
        let recent_ns = middle_mean(&mut self.samples).max(1);
        match self.phase {
            Phase::Beginning | Phase::Measuring => {
                self.phase = Phase::Following;
                self.learn_least(now, recent_ns);
            }
            Phase::Following => {
                if self.least_ns.is_none_or(|least| recent_ns <= least) {
                    self.learn_least(now, recent_ns);
                }
                self.follow(recent_ns);
                if now.saturating_since(self.least_at) >= self.config.least_age_max {
                    self.phase = Phase::Measuring;
                }
            }
        }
        self.window_began = None;
        self.samples.clear();
        self.seen = 0;
        self.failures = 0;
        self.rif_max = 0;
    }

    const fn learn_least(&mut self, now: Instant, least_ns: u64) {
        self.least_ns = Some(least_ns);
        self.least_at = now;
    }

    fn follow(&mut self, recent_ns: u64) {
        let one = u128::from(ONE);
        let tolerated_ns = u128::from(self.tolerated_ns().unwrap_or(recent_ns));
        let gradient = (tolerated_ns * one / u128::from(recent_ns)).clamp(one / 2, one);
        let lowered = u128::from(self.limit) * gradient / one;
        let lowered = u64::try_from(lowered).unwrap_or(u64::MAX);
        let followed = lowered + (self.limit * UNIT).isqrt();
        // Latencies at a fraction of the limit show nothing about a higher limit.
        let is_used = u64::from(self.rif_max) * UNIT >= self.limit / 2;
        // Slow failures that are more than the outer quarter have a part in the latency.
        let succeeds = self.failures <= self.seen / 4;
        if followed < self.limit || is_used && succeeds {
            let (least, most) = (self.config.limit_min, self.config.limit_max);
            self.limit = followed.clamp(u64::from(least) * UNIT, u64::from(most) * UNIT);
        }
    }
}

/// The mean of the middle half of the samples, at least one of them. 0 for no samples.
fn middle_mean(samples: &mut [u64]) -> u64 {
    samples.sort_unstable();
    let quarter = samples.len() / 4;
    let middle = &samples[quarter..samples.len() - quarter];
    let sum: u128 = middle.iter().copied().map(u128::from).sum();
    u64::try_from(sum / (middle.len() as u128).max(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::check_ranges;

    #[test]
    fn middle_mean_ignores_outer_quarters() {
        assert_eq!(middle_mean(&mut []), 0);
        assert_eq!(middle_mean(&mut [7]), 7);
        assert_eq!(middle_mean(&mut [3, 1, 2]), 2);
        assert_eq!(
            middle_mean(&mut [1_000_000, 5, 3, 0]),
            4,
            "the outer ones do not"
        );
    }

    #[test]
    fn settings_out_of_range_are_rejected() {
        let ms = Duration::from_millis;
        check_ranges::<GradientSettings>(&[
            ("limit_min", |s| s.limit_min = 0),
            ("limit_max", |s| s.limit_max = 3),
            ("limit_max", |s| s.limit_max = 65_537),
            ("limit_start", |s| s.limit_start = 3),
            ("limit_start", |s| s.limit_start = 1_025),
            ("tolerance", |s| {
                s.tolerance = Rate::from_millionths(ONE + 1).expect("a rate");
            }),
            ("window", |s| s.window = Duration::from_micros(999)),
            ("samples_min", |s| s.samples_min = 0),
            ("samples_min", |s| s.samples_min = 129),
            ("least_age_max", |s| {
                s.least_age_max = Duration::from_millis(99);
            }),
        ]);
        let least = GradientSettings {
            limit_start: 1,
            limit_min: 1,
            limit_max: 1,
            tolerance: Rate::ZERO,
            window: ms(1),
            samples_min: 1,
            least_age_max: ms(100),
        };
        assert_eq!(least.check(), Ok(()));
    }
}
