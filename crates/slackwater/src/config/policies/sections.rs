//! What each policy's section has: its keys, by the names of the core's fields.

use super::field::{Field, Place, Refusal, Section};
use slackwater_core::policy::prequal::{PrequalConfig, PrequalSettings};
use slackwater_core::policy::{
    ConfigError, LinearConfig, LinearSettings, PowerOfDConfig, PowerOfDSettings, Settings,
};

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        Self {
            field: error.field,
            expected: error.expected,
        }
    }
}

impl Section for PrequalSettings {
    const NAME: &'static str = "prequal";
    const FIELDS: &'static [Field<Self>] = &[
        ("probe_rate", Place::Rate(|s| &mut s.probe_rate)),
        ("remove_rate", Place::Rate(|s| &mut s.remove_rate)),
        ("pool_capacity", Place::U16(|s| &mut s.pool_capacity)),
        ("report_age_max", Place::Duration(|s| &mut s.report_age_max)),
        (
            "rif_limit_quantile",
            Place::Quantile(|s| &mut s.rif_limit_quantile),
        ),
        ("pool_drift", Place::Rate(|s| &mut s.pool_drift)),
        ("reuse_max", Place::U16(|s| &mut s.reuse_max)),
        ("probe_idle_max", Place::Duration(|s| &mut s.probe_idle_max)),
        ("idle_probes", Place::U16(|s| &mut s.idle_probes)),
        (
            "probe_interval_min",
            Place::Duration(|s| &mut s.probe_interval_min),
        ),
        ("probe_deadline", Place::Duration(|s| &mut s.probe_deadline)),
        (
            "probes_outstanding_max",
            Place::U16(|s| &mut s.probes_outstanding_max),
        ),
        ("sync_probes", Place::U8(|s| &mut s.sync_probes)),
        ("sync_deadline", Place::Duration(|s| &mut s.sync_deadline)),
        ("local_only", Place::Boolean(|s| &mut s.local_only)),
    ];
    type Valid = PrequalConfig;

    fn valid(self) -> Result<PrequalConfig, Refusal> {
        self.validate().map_err(|error| Refusal {
            field: error.field,
            expected: error.expected,
        })
    }
}

impl Section for LinearSettings {
    const NAME: &'static str = "linear";
    const FIELDS: &'static [Field<Self>] = &[
        ("rif_weight", Place::Quantile(|s| &mut s.rif_weight)),
        ("rif_scale", Place::Duration(|s| &mut s.rif_scale)),
    ];
    type Valid = LinearConfig;

    fn valid(self) -> Result<LinearConfig, Refusal> {
        Ok(self.validate()?)
    }
}

impl Section for PowerOfDSettings {
    const NAME: &'static str = "power_of_d";
    const FIELDS: &'static [Field<Self>] = &[("choices", Place::U8(|s| &mut s.choices))];
    type Valid = PowerOfDConfig;

    fn valid(self) -> Result<PowerOfDConfig, Refusal> {
        Ok(self.validate()?)
    }
}
