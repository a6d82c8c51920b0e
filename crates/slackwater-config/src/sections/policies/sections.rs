//! What each policy's section has: its keys, by the names of the core's fields.

use super::field::{Field, Place, Refusal, Section};
use slackwater_core::policy::prequal::{PrequalConfig, PrequalSettings};
use slackwater_core::policy::{
    C3Config, C3Settings, CapacityConfig, CapacitySettings, ConfigError, ElsConfig, ElsSettings,
    LinearConfig, LinearSettings, PeakEwmaConfig, PeakEwmaSettings, PolledPowerOfDConfig,
    PolledPowerOfDSettings, PowerOfDConfig, PowerOfDSettings, RifThenLatencyConfig,
    RifThenLatencySettings, Settings, ShortestExpectedDelayConfig, ShortestExpectedDelaySettings,
    WeightedRoundRobinConfig, WeightedRoundRobinSettings,
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
        ("probe_rate_min", Place::Rate(|s| &mut s.probe_rate_min)),
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
        (
            "probes_per_second_max",
            Place::U32(|s| &mut s.probes_per_second_max),
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

impl Section for C3Settings {
    const NAME: &'static str = "c3";
    const FIELDS: &'static [Field<Self>] = &[
        ("clients", Place::U32(|s| &mut s.clients)),
        ("newest_weight", Place::Quantile(|s| &mut s.newest_weight)),
    ];
    type Valid = C3Config;

    fn valid(self) -> Result<C3Config, Refusal> {
        Ok(self.validate()?)
    }
}

impl Section for RifThenLatencySettings {
    const NAME: &'static str = "rif_then_latency";
    const FIELDS: &'static [Field<Self>] = &[(
        "rif_slack",
        Place::Factor(|s| &mut s.rif_slack_millionths, "from 1 to 1,000"),
    )];
    type Valid = RifThenLatencyConfig;

    fn valid(self) -> Result<RifThenLatencyConfig, Refusal> {
        Ok(self.validate()?)
    }
}

impl Section for ShortestExpectedDelaySettings {
    const NAME: &'static str = "shortest_expected_delay";
    const FIELDS: &'static [Field<Self>] = &[(
        "latency_band",
        Place::Factor(|s| &mut s.latency_band_millionths, "from 0 to 10"),
    )];
    type Valid = ShortestExpectedDelayConfig;

    fn valid(self) -> Result<ShortestExpectedDelayConfig, Refusal> {
        Ok(self.validate()?)
    }
}

impl Section for CapacitySettings {
    const NAME: &'static str = "capacity";
    const FIELDS: &'static [Field<Self>] = &[
        ("probe_rate", Place::Rate(|s| &mut s.probe_rate)),
        (
            "cost_band",
            Place::Factor(|s| &mut s.cost_band_millionths, "from 0 to 10"),
        ),
    ];
    type Valid = CapacityConfig;

    fn valid(self) -> Result<CapacityConfig, Refusal> {
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

impl Section for PeakEwmaSettings {
    const NAME: &'static str = "peak_ewma";
    const FIELDS: &'static [Field<Self>] = &[
        ("decay", Place::Duration(|s| &mut s.decay)),
        (
            "initial_latency",
            Place::Duration(|s| &mut s.initial_latency),
        ),
        (
            "failure_penalty",
            Place::Duration(|s| &mut s.failure_penalty),
        ),
        ("choices", Place::U8(|s| &mut s.choices)),
    ];
    type Valid = PeakEwmaConfig;

    fn valid(self) -> Result<PeakEwmaConfig, Refusal> {
        Ok(self.validate()?)
    }
}

impl Section for ElsSettings {
    const NAME: &'static str = "els";
    const FIELDS: &'static [Field<Self>] = &[
        ("time_bias", Place::Duration(|s| &mut s.time_bias)),
        ("exclude_below", Place::Quantile(|s| &mut s.exclude_below)),
        (
            "exclude_samples_min",
            Place::U32(|s| &mut s.exclude_samples_min),
        ),
    ];
    type Valid = ElsConfig;

    fn valid(self) -> Result<ElsConfig, Refusal> {
        Ok(self.validate()?)
    }
}

impl Section for PolledPowerOfDSettings {
    const NAME: &'static str = "polled_power_of_d";
    const FIELDS: &'static [Field<Self>] = &[
        ("interval", Place::Duration(|s| &mut s.interval)),
        ("choices", Place::U8(|s| &mut s.choices)),
    ];
    type Valid = PolledPowerOfDConfig;

    fn valid(self) -> Result<PolledPowerOfDConfig, Refusal> {
        Ok(self.validate()?)
    }
}

impl Section for WeightedRoundRobinSettings {
    const NAME: &'static str = "weighted_round_robin";
    const FIELDS: &'static [Field<Self>] = &[
        ("interval", Place::Duration(|s| &mut s.interval)),
        ("smoothing", Place::Duration(|s| &mut s.smoothing)),
        ("update_period", Place::Duration(|s| &mut s.update_period)),
        ("blackout", Place::Duration(|s| &mut s.blackout)),
        ("expiration", Place::Duration(|s| &mut s.expiration)),
        ("error_penalty", Place::Rate(|s| &mut s.error_penalty)),
    ];
    type Valid = WeightedRoundRobinConfig;

    fn valid(self) -> Result<WeightedRoundRobinConfig, Refusal> {
        Ok(self.validate()?)
    }
}
