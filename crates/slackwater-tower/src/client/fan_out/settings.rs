//! The settings of a fan-out.

use core::time::Duration;
use slackwater_core::Quantile;
use slackwater_core::policy::{ConfigError, Settings, Valid};

const HOUR: Duration = Duration::from_hours(1);
const CONCURRENCY_MAX: usize = 100_000;

/// The settings of [`FanOut`](super::FanOut).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FanOutSettings {
    /// Leaves that get the request first; the others get it when one of these has succeeded.
    /// Default 2, so that one shard that is down does not stop all. 0: all get it at once, as they
    /// do if there are no more leaves than canaries. [The Tail at Scale, "Canary requests"]
    pub canaries: usize,
    /// Time within which one canary must succeed: above 0 to 1 hour, default 1 s.
    pub canary_timeout: Duration,
    /// The share of leaves whose answers are good enough: 0 to 1, default 1, which is all of them.
    /// Rounded up to whole leaves. At 0, the answers that have arrived at `enough_after` are
    /// enough. [The Tail at Scale, "Good enough"]
    pub enough: Quantile,
    /// The earliest time at which `enough` may end a fan-out, from its start: 0 to 1 hour, default
    /// 0. Incomplete results should be rare. If this is the time that most fan-outs take, only the
    /// slower ones are cut short.
    pub enough_after: Duration,
    /// The time at which a fan-out ends with the answers that it has, from its start: above 0 to 1
    /// hour. `None`, the default: it ends when all leaves have.
    pub deadline: Option<Duration>,
    /// The most leaves in flight at once: 1 to 100,000, default 1000. The others follow as these
    /// end. Hedges do not count.
    pub concurrency_max: usize,
}

/// Validated settings.
pub type FanOutConfig = Valid<FanOutSettings>;

impl Default for FanOutSettings {
    fn default() -> Self {
        Self {
            canaries: 2,
            canary_timeout: Duration::from_secs(1),
            enough: Quantile::ONE,
            enough_after: Duration::ZERO,
            deadline: None,
            concurrency_max: 1000,
        }
    }
}

impl Settings for FanOutSettings {
    fn check(&self) -> Result<(), ConfigError> {
        let is_wait = |span: Duration| !span.is_zero() && span <= HOUR;
        let wrong = if !is_wait(self.canary_timeout) {
            ("canary_timeout", "above 0, at most 1 hour")
        } else if self.enough_after > HOUR {
            ("enough_after", "at most 1 hour")
        } else if self.deadline.is_some_and(|deadline| !is_wait(deadline)) {
            ("deadline", "above 0, at most 1 hour")
        } else if !(1..=CONCURRENCY_MAX).contains(&self.concurrency_max) {
            ("concurrency_max", "from 1 to 100000")
        } else {
            return Ok(());
        };
        let (field, expected) = wrong;
        Err(ConfigError { field, expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_rejected() {
        let wrong = |change: fn(&mut FanOutSettings)| {
            let mut settings = FanOutSettings::default();
            change(&mut settings);
            settings.validate().err().map(|error| error.field)
        };
        assert_eq!(wrong(|_| ()), None);
        assert_eq!(
            wrong(|it| it.canary_timeout = Duration::ZERO),
            Some("canary_timeout")
        );
        assert_eq!(
            wrong(|it| it.canary_timeout = HOUR + Duration::from_nanos(1)),
            Some("canary_timeout")
        );
        assert_eq!(wrong(|it| it.canary_timeout = HOUR), None);
        assert_eq!(
            wrong(|it| it.enough_after = HOUR + Duration::from_nanos(1)),
            Some("enough_after")
        );
        assert_eq!(wrong(|it| it.enough_after = HOUR), None);
        assert_eq!(
            wrong(|it| it.deadline = Some(Duration::ZERO)),
            Some("deadline")
        );
        assert_eq!(
            wrong(|it| it.deadline = Some(HOUR + Duration::from_nanos(1))),
            Some("deadline")
        );
        assert_eq!(wrong(|it| it.deadline = Some(HOUR)), None);
        assert_eq!(wrong(|it| it.concurrency_max = 0), Some("concurrency_max"));
        assert_eq!(
            wrong(|it| it.concurrency_max = CONCURRENCY_MAX + 1),
            Some("concurrency_max")
        );
        assert_eq!(wrong(|it| it.canaries = 0), None);
    }
}
