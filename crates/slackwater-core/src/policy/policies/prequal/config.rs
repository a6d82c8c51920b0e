//! Prequal's settings, with their ranges: those that the paper names, and those that it leaves
//! open.
//!
//! A [`PrequalConfig`] is always valid: [`PrequalSettings::validate`] makes it, and no later code
//! checks it again.

use crate::fixed::{Quantile, Rate};
use crate::policy::settings::{ConfigError, Settings, Valid, require, section};
use core::time::Duration;

/// Largest `reuse_max`.
const REUSE_MAX: u16 = 1024;
/// Largest rates.
const RATE_MAX: u32 = 16;

/// Settings of Prequal as a user writes them. [`PrequalSettings::validate`] turns them into a
/// [`PrequalConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrequalSettings {
    /// Probes per query (`r_probe`): 0 to 16, default 3, fractions allowed. 0 leaves only idle
    /// probes. `[A2]`
    pub probe_rate: Rate,
    /// Smallest number of probes per query while probes show an overload, of the replicas or of the
    /// client: 0 to 16, default 1, fractions allowed. The rate falls towards it step by step, and
    /// recovers when probes are answered in time again. At `probe_rate` or more, the rate is never
    /// lowered; at 0 only idle probes may be left. `shortest_expected_delay` also uses it while
    /// this client sends most of the queries. `[A2]` `[Decision 0011]` `[Decision 0020]`
    pub probe_rate_min: Rate,
    /// Reports removed from the pool after each query (`r_remove`): 0 to 16, default 1, fractions
    /// allowed. `[A10]`
    pub remove_rate: Rate,
    /// Most reports in the pool (m): 2 to 256, default 16. `[A5]`
    pub pool_capacity: u16,
    /// Age at which a report is removed: above 0 to 1 hour, default 1 s. `[A5]`
    pub report_age_max: Duration,
    /// The quantile of the RIF distribution from which a report is hot (`Q_RIF`): 0 to 1, default
    /// 0.7; the paper's is 2^−0.25 ≈ 0.840896. At 0 everything is hot (RIF alone decides), at 1
    /// nothing is (latency alone decides). `[A6]` `[A7]` `[Decision 0005]`
    pub rif_limit_quantile: Quantile,
    /// The net rate at which reports would accumulate in the pool (δ of equation 1): above 0 to 16,
    /// default 1. `[A9]`
    pub pool_drift: Rate,
    /// Most queries that one report may decide by equation (1): 1 to 1,024, default 1; the paper
    /// has no such limit. At any value, a report may decide as many as the pool needs to not run
    /// dry. `[A9]` `[Decision 0005]`
    pub reuse_max: u16,
    /// Time without a probe after which idle probes are sent: 1 ms to 1 hour, default 100 ms.
    /// `[A3]`
    pub probe_idle_max: Duration,
    /// Number of idle probes: 0 to 16, default 2. 0 turns them off. `[A3]`
    pub idle_probes: u16,
    /// Shortest time between two probes of one replica: 0 to 1 hour, default 1 ms. The paper has 0.
    /// `[A2]`
    pub probe_interval_min: Duration,
    /// Deadline of an asynchronous probe, after which it is lost: above 0 to 1 minute, default 50
    /// ms. `[A4]`
    pub probe_deadline: Duration,
    /// Most probes in flight: 1 to 4,096, default 64 (four times the default pool). `[A4]`
    pub probes_outstanding_max: u16,
    /// Most probes per second of this client, including idle ones and those of unprobed replicas: 0
    /// to 10,000,000, default 0, which is no limit. A burst may have a tenth of that, or 16. `[A4]`
    /// `[Decision 0011]`
    pub probes_per_second_max: u32,
    /// Probes per query in synchronous mode (d): 2 to 8, default 3. `[S1]`
    pub sync_probes: u8,
    /// Deadline of a synchronous choice, which then uses the answers it has: above 0 to 1 minute,
    /// default 3 ms. `[S1]`
    pub sync_deadline: Duration,
    /// Sends no probes: every replica is balanced by this client's own counts. Default `false`.
    /// `[A13]`
    pub local_only: bool,
}

impl Default for PrequalSettings {
    fn default() -> Self {
        const ONE: u32 = 1_000_000;
        let rate = |millionths| Rate::from_millionths(millionths).unwrap_or(Rate::ZERO);
        Self {
            probe_rate: rate(3 * ONE),
            probe_rate_min: rate(ONE),
            remove_rate: rate(ONE),
            pool_capacity: 16,
            report_age_max: Duration::from_secs(1),
            rif_limit_quantile: Quantile::from_millionths(700_000).unwrap_or(Quantile::ONE),
            pool_drift: rate(ONE),
            reuse_max: 1,
            probe_idle_max: Duration::from_millis(100),
            idle_probes: 2,
            probe_interval_min: Duration::from_millis(1),
            probe_deadline: Duration::from_millis(50),
            probes_outstanding_max: 64,
            probes_per_second_max: 0,
            sync_probes: 3,
            sync_deadline: Duration::from_millis(3),
            local_only: false,
        }
    }
}

/// Valid settings of Prequal.
pub type PrequalConfig = Valid<PrequalSettings>;

impl PrequalSettings {
    /// The paper's own settings where the defaults differ: reports are used as often as equation
    /// (1) allows, the RIF limit is the 2^−0.25 quantile, a replica may be probed again at once,
    /// and the probe rate is constant. `[Prequal §4, §5 "Baseline"]`
    ///
    /// Three rules have no setting, and differ from the paper here, too:
    /// - Removal by rate leaves at least four reports, and the paper names no such floor. `[A10]`
    ///   `[Decision 0001]`
    /// - At most one probe of this client to a replica is in flight.
    /// - A replica that stops answering probes while others go on is not picked. `[Decision 0007]`
    #[must_use]
    pub fn paper() -> Self {
        Self {
            rif_limit_quantile: Quantile::from_millionths(840_896).unwrap_or(Quantile::ONE),
            reuse_max: REUSE_MAX,
            probe_interval_min: Duration::ZERO,
            probe_rate_min: Rate::per_query(RATE_MAX).unwrap_or(Rate::MAX),
            ..Self::default()
        }
    }

    /// Like [`Settings::validate`], for callers that use no other policy's settings.
    ///
    /// # Errors
    ///
    /// Names the field that is out of its range.
    pub fn validate(self) -> Result<PrequalConfig, ConfigError> {
        Settings::validate(self)
    }
}

impl Settings for PrequalSettings {
    fn check(&self) -> Result<(), ConfigError> {
        const HOUR: Duration = Duration::from_hours(1);
        const MINUTE: Duration = Duration::from_mins(1);
        let most = Rate::per_query(RATE_MAX).unwrap_or(Rate::MAX);
        let positive = |span: Duration, max| span > Duration::ZERO && span <= max;
        let checks = [
            (
                self.probe_rate <= most,
                "probe_rate",
                "from 0 to 16 a query",
            ),
            (
                self.probe_rate_min <= most,
                "probe_rate_min",
                "from 0 to 16 a query",
            ),
            (
                self.remove_rate <= most,
                "remove_rate",
                "from 0 to 16 a query",
            ),
            (
                (2..=256).contains(&self.pool_capacity),
                "pool_capacity",
                "from 2 to 256",
            ),
            (
                positive(self.report_age_max, HOUR),
                "report_age_max",
                "above 0 and at most 1 hour",
            ),
            (
                self.pool_drift > Rate::ZERO && self.pool_drift <= most,
                "pool_drift",
                "above 0 and at most 16",
            ),
            (
                (1..=REUSE_MAX).contains(&self.reuse_max),
                "reuse_max",
                "from 1 to 1,024",
            ),
            (
                (Duration::from_millis(1)..=HOUR).contains(&self.probe_idle_max),
                "probe_idle_max",
                "from 1 ms to 1 hour",
            ),
            (self.idle_probes <= 16, "idle_probes", "from 0 to 16"),
            (
                self.probe_interval_min <= HOUR,
                "probe_interval_min",
                "at most 1 hour",
            ),
            (
                positive(self.probe_deadline, MINUTE),
                "probe_deadline",
                "above 0 and at most 1 minute",
            ),
            (
                (1..=4096).contains(&self.probes_outstanding_max),
                "probes_outstanding_max",
                "from 1 to 4,096",
            ),
            (
                self.probes_per_second_max <= 10_000_000,
                "probes_per_second_max",
                "from 0 to 10,000,000",
            ),
            (
                (2..=8).contains(&self.sync_probes),
                "sync_probes",
                "from 2 to 8",
            ),
            (
                positive(self.sync_deadline, MINUTE),
                "sync_deadline",
                "above 0 and at most 1 minute",
            ),
        ];
        for (valid, field, expected) in checks {
            require(valid, field, expected)?;
        }
        Ok(())
    }
}

section! { PrequalSettings in "prequal" {
    /// Probes for each request (r_probe). Fractions are exact in the long run. 0: only idle probes.
    probe_rate in Rate: probe_rate;
    /// Overload lowers the probe rate towards this, and `remove_rate` with it ([Decision
    /// 0011](../decisions/0011-fewer-probes-in-an-overload.md)). The default policy also uses it,
    /// from 0.5 on, for a worker that sends two thirds of all requests. Equal to `probe_rate`: it
    /// is never lowered, as in the paper.
    probe_rate_min in Rate: probe_rate_min;
    /// Reports removed from the pool after each request (r_remove). 0: none.
    remove_rate in Rate: remove_rate;
    /// Reports in the pool (m).
    pool_capacity in U16: pool_capacity;
    /// Reports this old are removed.
    report_age_max in Duration: report_age_max;
    /// Reports at or above this quantile of requests in flight are hot (Q_RIF). 0: all, so RIF
    /// decides. 1: none, so latency decides.
    rif_limit_quantile in Quantile: rif_limit_quantile, "0.7 (the paper: 0.840896, 2^-0.25)";
    /// Net rate at which reports accumulate in the pool (δ of equation 1).
    pool_drift in Rate: pool_drift;
    /// Requests that one report may decide by equation (1). The paper has no limit. Up to 16 are
    /// allowed where the pool would run dry.
    reuse_max in U16: reuse_max;
    /// Without a probe for this long, idle probes are sent.
    probe_idle_max in Duration: probe_idle_max;
    /// How many idle probes are sent. 0: none.
    idle_probes in U16: idle_probes;
    /// Shortest time between two probes of one replica. 0: no limit, as in the paper.
    probe_interval_min in Duration: probe_interval_min;
    /// A probe unanswered by then is lost. No request waits for it.
    probe_deadline in Duration: probe_deadline;
    /// Outstanding probes of each worker.
    probes_outstanding_max in U16: probes_outstanding_max;
    /// Probes a second of each worker, idle ones included; bursts of a tenth of it, at least 16.
    probes_per_second_max in U32: probes_per_second_max, "0: no limit";
    /// Probes for each request in synchronous mode (d).
    sync_probes in U8: sync_probes;
    /// A synchronous choice uses the answers that came by then.
    sync_deadline in Duration: sync_deadline;
    /// Sends no probes: each worker uses its local measurements.
    local_only in Boolean: local_only;
} }

impl PrequalConfig {
    /// Whether probing refills the pool faster than removal by rate drains it, in a fleet of
    /// `replicas`: (1 − m/n) · `r_probe` > `r_remove`. If not, removal often finds too few reports,
    /// and users should get a warning. `[A10]`
    pub fn refills(&self, replicas: u32) -> bool {
        let capacity = u64::from(self.pool_capacity);
        let replicas = u64::from(replicas);
        let probed = replicas.saturating_sub(capacity) * u64::from(self.probe_rate.millionths());
        probed > replicas * u64::from(self.remove_rate.millionths())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_differ_from_the_paper_only_where_documented() {
        let default = PrequalSettings::default();
        let config = default.clone().validate().expect("the defaults are valid");
        assert_eq!(config, PrequalConfig::default());
        assert_eq!(config.rif_limit_quantile.millionths(), 700_000);
        assert_eq!(config.reuse_max, 1);
        let departing = PrequalSettings {
            rif_limit_quantile: default.rif_limit_quantile,
            reuse_max: default.reuse_max,
            probe_interval_min: default.probe_interval_min,
            probe_rate_min: default.probe_rate_min,
            ..PrequalSettings::paper()
        };
        assert_eq!(departing, default, "and nowhere else");
    }

    #[test]
    fn paper_settings_are_valid_and_match_the_paper() {
        let config = PrequalSettings::paper().validate().expect("valid");
        assert_eq!(config.probe_rate.millionths(), 3_000_000);
        assert_eq!(config.remove_rate.millionths(), 1_000_000);
        assert_eq!(config.pool_drift.millionths(), 1_000_000);
        assert_eq!(config.pool_capacity, 16);
        assert_eq!(config.report_age_max, Duration::from_secs(1));
        assert_eq!(config.probe_interval_min, Duration::ZERO);
        assert!(
            config.probe_rate_min >= config.probe_rate,
            "whatever happens"
        );
        // 2^-0.25 to six digits: its fourth power is one half.
        let q = u128::from(config.rif_limit_quantile.millionths());
        assert!(q.pow(4) < 10_u128.pow(24) / 2 + 10_u128.pow(18) * 3);
        assert!(q.pow(4) > 10_u128.pow(24) / 2 - 10_u128.pow(18) * 3);
        // The paper's largest worked value is for half a probe per query at 100 replicas.
        assert!(config.reuse_max >= 12, "equation (1) is not capped");
    }

    #[test]
    fn out_of_range_field_is_named() {
        type Spoil = fn(&mut PrequalSettings);
        let spoils: [(&str, Spoil); 19] = [
            ("probe_rate", |s| {
                s.probe_rate = Rate::per_query(17).expect("a rate");
            }),
            ("remove_rate", |s| {
                s.remove_rate = Rate::per_query(17).expect("a rate");
            }),
            ("probe_rate_min", |s| {
                s.probe_rate_min = Rate::per_query(17).expect("a rate");
            }),
            ("probes_per_second_max", |s| {
                s.probes_per_second_max = 10_000_001;
            }),
            ("pool_capacity", |s| s.pool_capacity = 1),
            ("pool_capacity", |s| s.pool_capacity = 257),
            ("report_age_max", |s| s.report_age_max = Duration::ZERO),
            ("pool_drift", |s| s.pool_drift = Rate::ZERO),
            ("reuse_max", |s| s.reuse_max = 0),
            ("reuse_max", |s| s.reuse_max = 1025),
            ("probe_idle_max", |s| {
                s.probe_idle_max = Duration::from_micros(999);
            }),
            ("idle_probes", |s| s.idle_probes = 17),
            ("probe_interval_min", |s| {
                s.probe_interval_min = Duration::from_secs(3601);
            }),
            ("probe_deadline", |s| s.probe_deadline = Duration::ZERO),
            ("probes_outstanding_max", |s| s.probes_outstanding_max = 0),
            ("sync_probes", |s| s.sync_probes = 1),
            ("sync_probes", |s| s.sync_probes = 9),
            ("sync_deadline", |s| s.sync_deadline = Duration::ZERO),
            ("report_age_max", |s| s.report_age_max = Duration::MAX),
        ];
        for (field, spoil) in spoils {
            let mut settings = PrequalSettings::default();
            spoil(&mut settings);
            let error = settings.validate().expect_err(field);
            assert_eq!(error.field, field);
        }
    }

    #[test]
    fn zero_is_a_valid_setting() {
        let settings = PrequalSettings {
            rif_limit_quantile: Quantile::ZERO,
            probe_rate: Rate::ZERO,
            probe_rate_min: Rate::ZERO,
            remove_rate: Rate::ZERO,
            probe_interval_min: Duration::ZERO,
            idle_probes: 0,
            ..PrequalSettings::default()
        };
        let config = settings
            .clone()
            .validate()
            .expect("all of these may be zero");
        assert_eq!(*config, settings);
    }

    #[test]
    fn pool_refills_only_in_a_fleet_larger_than_the_pool() {
        let config = PrequalConfig::default();
        assert!(!config.refills(5));
        assert!(!config.refills(24), "exactly as much as is removed");
        assert!(config.refills(25));
        assert!(config.refills(100));
    }
}
