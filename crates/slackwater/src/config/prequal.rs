//! The section `[prequal]`: every field of [`PrequalSettings`] under its own name.
//!
//! Ranges are the core's. A field is put into settings that are otherwise the defaults and validated there, so each
//! mistake is found, not only the first, and no range is written down twice.

use crate::toml_reader::values::{Unfit, boolean, duration, quantile, rate, whole};
use crate::toml_reader::{Reader, Said};
use core::time::Duration;
use slackwater_core::Rate;
use slackwater_core::policy::prequal::PrequalSettings;
use toml::de::DeValue;

/// The settings as read, and what was said of each field that was.
#[derive(Debug)]
pub(super) struct PrequalSection {
    pub(super) settings: PrequalSettings,
    pub(super) said: Vec<(&'static str, Said)>,
}

impl PrequalSection {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = Self {
            settings: PrequalSettings::default(),
            said: Vec::new(),
        };
        let s = &mut section;
        s.field(reader, "probe_rate", rate, Rate::MAX, |p| &mut p.probe_rate);
        s.field(reader, "remove_rate", rate, Rate::MAX, |p| {
            &mut p.remove_rate
        });
        s.field(reader, "pool_capacity", whole, u16::MAX, |p| {
            &mut p.pool_capacity
        });
        s.field(reader, "report_age_max", duration, Duration::MAX, |p| {
            &mut p.report_age_max
        });
        let quantile_max = s.settings.rif_limit_quantile;
        s.field(reader, "rif_limit_quantile", quantile, quantile_max, |p| {
            &mut p.rif_limit_quantile
        });
        s.field(reader, "pool_drift", rate, Rate::MAX, |p| &mut p.pool_drift);
        s.field(reader, "reuse_max", whole, u16::MAX, |p| &mut p.reuse_max);
        s.field(reader, "probe_idle_max", duration, Duration::MAX, |p| {
            &mut p.probe_idle_max
        });
        s.field(reader, "idle_probes", whole, u16::MAX, |p| {
            &mut p.idle_probes
        });
        s.field(reader, "probe_interval_min", duration, Duration::MAX, |p| {
            &mut p.probe_interval_min
        });
        s.field(reader, "probe_deadline", duration, Duration::MAX, |p| {
            &mut p.probe_deadline
        });
        s.field(reader, "probes_outstanding_max", whole, u16::MAX, |p| {
            &mut p.probes_outstanding_max
        });
        s.field(reader, "sync_probes", whole, u8::MAX, |p| {
            &mut p.sync_probes
        });
        s.field(reader, "sync_deadline", duration, Duration::MAX, |p| {
            &mut p.sync_deadline
        });
        s.field(reader, "local_only", boolean, false, |p| &mut p.local_only);
        section
    }

    /// Reads one field. `beyond` is a value that the core refuses, for the sake of what it says then; where every value
    /// of the type is valid, any of them.
    fn field<T: Copy>(
        &mut self,
        reader: &mut Reader<'_>,
        name: &'static str,
        parse: impl FnOnce(&DeValue<'_>) -> Result<T, Unfit>,
        beyond: T,
        place: fn(&mut PrequalSettings) -> &mut T,
    ) {
        let refusal = |value| {
            let mut settings = PrequalSettings::default();
            *place(&mut settings) = value;
            settings.validate().err()
        };
        let range = refusal(beyond).map_or("a number from 0 to 1", |error| error.expected);
        let checked = |value: &DeValue<'_>| {
            let value = parse(value)?;
            match refusal(value) {
                Some(_) => Err(Unfit::Range),
                None => Ok(value),
            }
        };
        let default = *place(&mut self.settings);
        let setting = reader.setting(&format!("prequal.{name}"), default, range, checked);
        *place(&mut self.settings) = setting.value;
        self.said.extend(setting.said.map(|said| (name, said)));
    }
}
