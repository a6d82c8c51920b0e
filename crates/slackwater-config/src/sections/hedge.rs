//! `[hedge]`: whether and when a late request is sent a second time.

use super::assemble::{count, timeout};
use super::show::{quoted, write_section};
use crate::toml_reader::Reader;
use crate::toml_reader::values::{boolean, quantile, show_duration};
use core::fmt::{self, Display};
use core::time::Duration;
use slackwater_core::policy::Settings;
use slackwater_core::tail::{HedgeConfig, HedgeSettings};

/// Whether and when a late request is sent a second time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HedgingSettings {
    /// Whether any is; default none.
    pub enabled: bool,
    /// When, and how many, for each worker.
    pub rules: HedgeConfig,
    /// Kinds of requests that are told apart, for each worker: 1 to 1,024, default 64. At 1 all are of one kind.
    pub classes_max: u32,
}

impl Default for HedgingSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            rules: HedgeConfig::default(),
            classes_max: 64,
        }
    }
}

impl HedgingSettings {
    /// Reads `[hedge]`, or `[services.NAME.hedge]` where `prefix` says so.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        const HOUR: Duration = Duration::from_hours(1);
        let key = |name: &str| format!("{prefix}hedge.{name}");
        let default = Self::default();
        let enabled = reader.setting(&key("enabled"), default.enabled, "", boolean);
        let mut rules = HedgeSettings::default();
        let share = "a number from 0 to 1";
        rules.quantile = reader
            .setting(&key("quantile"), rules.quantile, share, quantile)
            .value;
        rules.budget = reader
            .setting(&key("budget"), rules.budget, share, quantile)
            .value;
        rules.burst = count(reader, &key("burst"), rules.burst, 1..=10_000);
        let delays = Duration::ZERO..=HOUR;
        rules.delay_min = timeout(reader, &key("delay_min"), rules.delay_min, &delays);
        let windows = Duration::from_millis(3)..=HOUR;
        rules.window = timeout(reader, &key("window"), rules.window, &windows);
        let samples = 1..=1_000_000;
        rules.samples_min = count(reader, &key("samples_min"), rules.samples_min, samples);
        rules.slow_share = reader
            .setting(&key("slow_share"), rules.slow_share, share, quantile)
            .value;
        Self {
            enabled: enabled.value,
            // Each is in its range by now.
            rules: rules.validate().unwrap_or_default(),
            classes_max: count(reader, &key("classes_max"), default.classes_max, 1..=1024),
        }
    }

    /// Writes the section as it is in force.
    pub(super) fn write(&self, to: &mut String, prefix: &str) -> fmt::Result {
        let rules = &self.rules;
        let fields: [(&str, &dyn Display); 9] = [
            ("enabled", &self.enabled),
            ("quantile", &rules.quantile),
            ("budget", &rules.budget),
            ("burst", &rules.burst),
            ("delay_min", &quoted(show_duration(rules.delay_min))),
            ("window", &quoted(show_duration(rules.window))),
            ("samples_min", &rules.samples_min),
            ("slow_share", &rules.slow_share),
            ("classes_max", &self.classes_max),
        ];
        write_section(to, &format!("{prefix}hedge"), &fields)
    }
}
