//! How long to wait before a retry.
//!
//! Immediate retries meet the same problem, and retries after equal waits meet each other. So the
//! wait is drawn from 0 to a ceiling that doubles with each retry ("full jitter": M. Brooker,
//! "Exponential Backoff And Jitter", 2015; Envoy and gRPC do the same). A replica may name a
//! minimum wait (`Retry-After`, RFC 9110 §10.2.3; `grpc-retry-pushback-ms`, gRPC A6). The draw is
//! then added to it, so that clients that received the same value do not return together. If the
//! wait would be too long, there is no retry.

use crate::draw::Draw;
use crate::policy::{ConfigError, Settings, Valid};
use core::time::Duration;

/// The settings of [`Backoff`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackoffSettings {
    /// Ceiling of the wait before the first retry: 0 to 1 minute, default 25 ms. It doubles with
    /// each further retry. At 0 there is no wait unless a replica requests one.
    pub base: Duration,
    /// Ceiling of the wait before any retry: 0 to 1 minute, default 250 ms.
    pub max: Duration,
    /// Longest wait that a replica may request: 0 to 1 hour, default 1 s. If it requests more,
    /// there is no retry.
    pub hint_max: Duration,
}

/// Settings that make sense.
pub type BackoffConfig = Valid<BackoffSettings>;

impl Default for BackoffSettings {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(25),
            max: Duration::from_millis(250),
            hint_max: Duration::from_secs(1),
        }
    }
}

impl Settings for BackoffSettings {
    fn check(&self) -> Result<(), ConfigError> {
        const MINUTE: Duration = Duration::from_mins(1);
        const HOUR: Duration = Duration::from_hours(1);
        let require = crate::policy::require;
        require(self.base <= MINUTE, "base", "at most 1 minute")?;
        require(self.max <= MINUTE, "max", "at most 1 minute")?;
        require(self.hint_max <= HOUR, "hint_max", "at most 1 hour")
    }
}

/// Decides how long to wait before a retry.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    config: BackoffConfig,
}

impl Backoff {
    /// A backoff with these settings.
    pub const fn new(config: BackoffConfig) -> Self {
        Self { config }
    }

    /// The wait before retry number `retry`, counted from 0. It is drawn uniformly from 0 to
    /// min(`base` · 2^`retry`, `max`) and added to the replica's `hint`. `None` means no retry: the
    /// hint is longer than `hint_max`, or the wait would use up `left`, the remaining time of the
    /// query.
    pub fn wait(
        &self,
        retry: u32,
        hint: Option<Duration>,
        left: Duration,
        draw: &mut (impl Draw + ?Sized),
    ) -> Option<Duration> {
        let hint = hint.unwrap_or_default();
        if hint > self.config.hint_max {
            return None;
        }
        let doubled = 1_u32.checked_shl(retry).unwrap_or(u32::MAX);
        let longest = self
            .config
            .base
            .saturating_mul(doubled)
            .min(self.config.max);
        let wait = hint + share(longest, draw.draw());
        (wait < left).then_some(wait)
    }
}

/// ⌊draw · (span + 1 ns) / 2^64⌋: a whole number of nanoseconds from 0 to `span`, which is at most
/// a minute.
fn share(span: Duration, draw: u64) -> Duration {
    let nanos = (u128::from(draw) * (span.as_nanos() + 1)) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::SplitMix64;
    use crate::policy::check_ranges;

    const LONG: Duration = Duration::from_hours(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn longest_wait_doubles_up_to_its_maximum() {
        let backoff = Backoff::default();
        for (retry, longest_ms) in [
            (0, 25),
            (1, 50),
            (2, 100),
            (3, 200),
            (4, 250),
            (31, 250),
            (32, 250),
            (u32::MAX, 250),
        ] {
            let longest = backoff.wait(retry, None, LONG, &mut || u64::MAX);
            assert_eq!(longest, Some(ms(longest_ms)), "retry {retry}");
            let shortest = backoff.wait(retry, None, LONG, &mut || 0);
            assert_eq!(shortest, Some(Duration::ZERO), "retry {retry}");
        }
    }

    #[test]
    fn waits_are_uniformly_distributed() {
        let mut draw = SplitMix64::new(3);
        let mut quarters = [0_i32; 4];
        for _ in 0..10_000 {
            let wait = Backoff::default().wait(1, None, LONG, &mut draw);
            let quarter = wait.expect("time is left").as_nanos() * 4 / (ms(50).as_nanos() + 1);
            quarters[usize::try_from(quarter).expect("below 4")] += 1;
        }
        // Binomial: mean 2,500, standard deviation 43; the limit is six of them.
        assert!(
            quarters.iter().all(|count| (count - 2_500).abs() < 260),
            "{quarters:?}"
        );
    }

    #[test]
    fn requested_wait_is_the_minimum_and_jitter_is_added() {
        let backoff = Backoff::default();
        let asked = Some(ms(400));
        assert_eq!(backoff.wait(0, asked, LONG, &mut || 0), Some(ms(400)));
        assert_eq!(
            backoff.wait(0, asked, LONG, &mut || u64::MAX),
            Some(ms(425))
        );
    }

    #[test]
    fn too_long_requested_wait_prevents_the_retry() {
        let backoff = Backoff::default();
        let most = backoff.wait(0, Some(ms(1000)), LONG, &mut || 0);
        assert_eq!(most, Some(ms(1000)));
        let more = Some(ms(1000) + Duration::from_nanos(1));
        assert_eq!(backoff.wait(0, more, LONG, &mut || 0), None);
        assert_eq!(backoff.wait(0, Some(Duration::MAX), LONG, &mut || 0), None);
    }

    #[test]
    fn no_retry_without_time_left() {
        let backoff = Backoff::default();
        let just_over = ms(25) + Duration::from_nanos(1);
        assert_eq!(
            backoff.wait(0, None, just_over, &mut || u64::MAX),
            Some(ms(25))
        );
        assert_eq!(backoff.wait(0, None, ms(25), &mut || u64::MAX), None);
        assert_eq!(backoff.wait(0, Some(ms(25)), ms(25), &mut || 0), None);
        assert_eq!(backoff.wait(0, None, Duration::ZERO, &mut || 0), None);
    }

    #[test]
    fn zero_base_leaves_only_the_requested_wait() {
        let settings = BackoffSettings {
            base: Duration::ZERO,
            ..BackoffSettings::default()
        };
        let backoff = Backoff::new(settings.validate().expect("in range"));
        assert_eq!(
            backoff.wait(5, None, LONG, &mut || u64::MAX),
            Some(Duration::ZERO)
        );
        assert_eq!(
            backoff.wait(5, Some(ms(7)), LONG, &mut || u64::MAX),
            Some(ms(7))
        );
    }

    #[test]
    fn settings_out_of_range_are_rejected() {
        check_ranges::<BackoffSettings>(&[
            ("base", |s| s.base = ms(60_001)),
            ("max", |s| s.max = ms(60_001)),
            ("hint_max", |s| s.hint_max = ms(3_600_001)),
        ]);
    }
}
