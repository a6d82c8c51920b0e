//! The settings of health: what is watched, and with which limits.

use crate::fixed::Quantile;
use crate::policy::{ConfigError, Settings, Valid, require, require_span};
use core::time::Duration;

/// Settings that make sense.
pub type HealthConfig = Valid<HealthSettings>;

/// What is watched, and what happens to replicas that fail it. By default all of it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthSettings {
    /// Error aversion and pushback. `None`: failures do not lower any share.
    pub errors: Option<ErrorSettings>,
    /// Latency probation. `None`: slowness does not lower any share.
    pub probation: Option<ProbationSettings>,
    /// Warm-up by evidence. `None`: a replica that joins or restarts has its whole share at once.
    pub warm_up: Option<WarmUpSettings>,
    /// Largest part of the replicas that may be out at a time, of those that the driver offers: 0
    /// to 1, default 0.5, rounded down (one of three). At 0 no replica is ever out, and bad ones
    /// have a sixteenth of their share.
    pub out_max: Quantile,
    /// Queries sent as trials to replicas that are out, as a part of all first attempts: 0 to 1,
    /// default 0.003. The two that follow a passed trial are extra. At 0 a replica comes back only
    /// when the others get as bad, or too few are left.
    pub trials: Quantile,
    /// Trials are copies of queries that the driver [requests](crate::policy::Query::trial), so
    /// that no client waits for a replica that is out. If the driver has had no copy for as long as
    /// `back_off_max`, a query is a trial anyway. Default false: trials are queries. `[H4]`
    pub shadow_trials: bool,
    /// How long a replica is out before its first trial: above 0 to 1 hour, default 1 s. It doubles
    /// with each trial that fails, and with each return that does not last.
    pub back_off: Duration,
    /// Largest back-off: above 0 to 1 hour, default 4 s. If less than `back_off`, the back-off does
    /// not double.
    pub back_off_max: Duration,
}

/// Error aversion. `[E1]` to `[E5]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorSettings {
    /// Older results are forgotten: 1 s to 1 hour, default 10 s. Where there are many queries, the
    /// newest 200 decide.
    pub window: Duration,
    /// Failures in a row that eject at once, unless the others fail, too: 1 to 1,000, default 5.
    /// More are needed where a run of this length would occur by chance.
    pub failures_in_a_row: u32,
    /// Cost of a failure, in latencies of a fleet that is not busy: 0 to 1,000, default 20. A
    /// replica that fails every other query gets queries on purpose only if the others are this
    /// many times slower than at best. At 0 a failure costs the time that it took.
    pub failure_cost: u32,
}

/// Latency probation. `[H4]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbationSettings {
    /// A replica is slow if it is this many times slower than the others: 2 to 1,000, default 4.
    /// Different hardware may be up to twice as slow without harm.
    pub factor: u32,
    /// A replica is slow only above this latency, too: above 0 to 1 hour, default 100 ms.
    pub latency_min: Duration,
}

/// Warm-up by evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarmUpSettings {
    /// The initial share: above 0 to 1, default 0.1.
    pub share_min: Quantile,
    /// When a replica has its whole share at the latest: above 0 to 1 hour, default 1 minute.
    pub span_max: Duration,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            errors: Some(ErrorSettings::default()),
            probation: Some(ProbationSettings::default()),
            warm_up: Some(WarmUpSettings::default()),
            out_max: millionths(500_000),
            trials: millionths(3_000),
            shadow_trials: false,
            back_off: Duration::from_secs(1),
            back_off_max: Duration::from_secs(4),
        }
    }
}

impl Default for ErrorSettings {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(10),
            failures_in_a_row: 5,
            failure_cost: 20,
        }
    }
}

impl Default for ProbationSettings {
    fn default() -> Self {
        Self {
            factor: 4,
            latency_min: Duration::from_millis(100),
        }
    }
}

impl Default for WarmUpSettings {
    fn default() -> Self {
        Self {
            share_min: millionths(100_000),
            span_max: Duration::from_mins(1),
        }
    }
}

fn millionths(share: u32) -> Quantile {
    Quantile::from_millionths(share).unwrap_or(Quantile::ONE)
}

impl HealthSettings {
    /// The longest warm-up of a replica by [`HealthSettings::standard`].
    pub const WARM_UP_STANDARD: Duration = Duration::from_secs(10);

    /// The settings of `slackwater serve` where its file has none: error aversion, and warm-up for
    /// [at most 10 s](Self::WARM_UP_STANDARD), without latency probation.
    pub fn standard() -> Self {
        Self {
            probation: None,
            warm_up: Some(WarmUpSettings {
                span_max: Self::WARM_UP_STANDARD,
                ..WarmUpSettings::default()
            }),
            ..Self::default()
        }
    }

    /// Settings that watch nothing: a guard with these changes nothing.
    pub fn off() -> Self {
        Self {
            errors: None,
            probation: None,
            warm_up: None,
            ..Self::default()
        }
    }

    /// Whether nothing is watched.
    pub const fn is_off(&self) -> bool {
        self.errors.is_none() && self.probation.is_none() && self.warm_up.is_none()
    }
}

impl Settings for HealthSettings {
    fn check(&self) -> Result<(), ConfigError> {
        require_span(self.back_off, "back_off")?;
        require_span(self.back_off_max, "back_off_max")?;
        self.errors.as_ref().map_or(Ok(()), ErrorSettings::check)?;
        (self.probation.as_ref()).map_or(Ok(()), ProbationSettings::check)?;
        self.warm_up.as_ref().map_or(Ok(()), WarmUpSettings::check)
    }
}

impl Settings for ErrorSettings {
    fn check(&self) -> Result<(), ConfigError> {
        let window = Duration::from_secs(1)..=Duration::from_hours(1);
        let is_valid = window.contains(&self.window);
        require(is_valid, "window", "from 1 s to 1 hour")?;
        let in_a_row = (1..=1_000).contains(&self.failures_in_a_row);
        require(in_a_row, "failures_in_a_row", "from 1 to 1,000")?;
        require(self.failure_cost <= 1_000, "failure_cost", "at most 1,000")
    }
}

impl Settings for ProbationSettings {
    fn check(&self) -> Result<(), ConfigError> {
        let is_valid = (2..=1_000).contains(&self.factor);
        require(is_valid, "factor", "from 2 to 1,000")?;
        require_span(self.latency_min, "latency_min")
    }
}

impl Settings for WarmUpSettings {
    fn check(&self) -> Result<(), ConfigError> {
        let is_valid = self.share_min > Quantile::ZERO;
        require(is_valid, "share_min", "above 0 and at most 1")?;
        require_span(self.span_max, "span_max")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::check_ranges;

    #[test]
    fn settings_out_of_range_are_rejected_by_name() {
        check_ranges::<ErrorSettings>(&[
            ("window", |s| s.window = Duration::from_millis(999)),
            ("window", |s| s.window = Duration::MAX),
            ("failures_in_a_row", |s| s.failures_in_a_row = 0),
            ("failure_cost", |s| s.failure_cost = 1_001),
        ]);
        check_ranges::<ProbationSettings>(&[
            ("factor", |s| s.factor = 1),
            ("latency_min", |s| s.latency_min = Duration::ZERO),
        ]);
        check_ranges::<WarmUpSettings>(&[
            ("share_min", |s| s.share_min = Quantile::ZERO),
            ("span_max", |s| s.span_max = Duration::ZERO),
        ]);
        check_ranges::<HealthSettings>(&[
            ("back_off", |s| s.back_off = Duration::ZERO),
            ("back_off_max", |s| s.back_off_max = Duration::MAX),
            ("factor", |s| {
                s.probation = Some(ProbationSettings {
                    factor: 1,
                    ..ProbationSettings::default()
                });
            }),
        ]);
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let settings = HealthSettings::default();
        let errors = ErrorSettings {
            window: Duration::from_secs(10),
            failures_in_a_row: 5,
            failure_cost: 20,
        };
        assert_eq!(settings.errors, Some(errors));
        let probation = ProbationSettings {
            factor: 4,
            latency_min: Duration::from_millis(100),
        };
        assert_eq!(settings.probation, Some(probation));
        let warm_up = settings.warm_up.expect("on");
        assert_eq!(warm_up.share_min.millionths(), 100_000);
        assert_eq!(warm_up.span_max, Duration::from_mins(1));
        assert_eq!(settings.out_max.millionths(), 500_000);
        assert_eq!(settings.trials.millionths(), 3_000);
        assert!(!settings.shadow_trials);
        assert_eq!(settings.back_off, Duration::from_secs(1));
        assert_eq!(settings.back_off_max, Duration::from_secs(4));
        let standard = HealthSettings::standard();
        assert_eq!(standard.probation, None);
        let warm_up = standard.warm_up.expect("on");
        assert_eq!(warm_up.span_max, Duration::from_secs(10));
    }

    #[test]
    fn settings_off_disable_health() {
        assert!(HealthSettings::off().is_off());
        assert!(!HealthSettings::default().is_off());
    }
}
