//! `[error_aversion]`, `[latency_probation]`, `[ejection]` and `[warm_up]`: replicas that get fewer
//! requests, or none, because of the results of their requests. Active checks are in `health`.
//!
//! One key turns each mechanism on or off. `discovery.warm_up` limits both kinds of warm-up, by
//! evidence and by time, of which only one is active.

use super::idle::{idle, idle_keys};
use crate::table::rows::{Row, rows};
use crate::table::{
    self, Any, BOOLEAN, Boolean, Described, HOUR, MS, Number, Section, Share, Span, Within, field,
    keys,
};
use crate::toml_reader::values::{boolean, show_duration};
use crate::toml_reader::{Definition, Reader, Remark};
use core::time::Duration;
use slackwater_core::health::{
    ErrorSettings, HealthConfig, HealthSettings, ProbationSettings, WarmUpSettings,
};
use slackwater_core::policy::Settings;

// The core's `HealthSettings`, without the mechanisms, are what error aversion and latency
// probation have in common.
keys! { HealthSettings in "ejection" {
    /// Largest share of the replicas that may be ejected at a time, rounded down. 0: none; bad ones
    /// keep a sixteenth of their requests.
    out_max at out_max: Any(Share);
    /// Requests sent to ejected replicas as trials, as a share of all. 0: no trials.
    trials at trials: Any(Share);
    /// Trials are [copies of requests](../explanation/health.md#shadow-trials) whose responses are
    /// discarded.
    shadow_trials at shadow_trials: Boolean;
    /// Time from ejection to the first trial. Doubles with each failed trial and each return that
    /// does not last.
    back_off at back_off: Within(Span, MS..=HOUR);
    /// Upper bound of that. At least `ejection.back_off`.
    back_off_max at back_off_max: Within(Span, MS..=HOUR);
} }

keys! { ErrorSettings in "error_aversion", Settings::check {
    /// A replica that fails more often than others gets fewer requests, or is ejected until trials
    /// succeed. Pushback limits it for a moment.
    enabled: SWITCH, "`true`";
    /// Older results are forgotten. At high rates the newest 200 of each worker count.
    window at window: Any(Span);
    /// Failures in a row that eject a replica at once, unless the others fail, too.
    failures_in_a_row at failures_in_a_row: Any(Number);
    /// Cost of a failure in latencies of an idle fleet: how much slower others may get before a
    /// failing replica is chosen. 0: the time it took.
    failure_cost at failure_cost: Any(Number);
} }

keys! { ProbationSettings in "latency_probation", Settings::check {
    /// Ejects a replica that is many times as slow as the others, or no longer responds, until
    /// trials show that it is fast again.
    enabled: SWITCH, "`false`";
    /// A replica this many times as slow as the others is slow.
    factor at factor: Any(Number);
    /// A slow replica is also slower than this.
    latency_min at latency_min: Within(Span, MS..=HOUR);
} }

keys! { WarmUpSettings in "warm_up", Settings::check {
    /// A new or restarted replica gets more requests with each one that it answers about as fast as
    /// others. `false`: by time, over `discovery.warm_up`.
    by_evidence: SWITCH, "`true`";
    /// Share that a replica begins with.
    share_min at share_min: Any(Share);
} }

/// The rows of all these keys.
pub(super) fn passive_health_rows() -> Vec<Row> {
    [
        rows::<ErrorSettings>(""),
        rows::<ProbationSettings>(""),
        rows::<HealthSettings>(""),
        rows::<WarmUpSettings>(""),
    ]
    .concat()
}

/// The key that turns a mechanism on or off.
const SWITCH: Described = Described("`true`, `false`", BOOLEAN);

/// A section with a key that turns the whole mechanism on or off.
trait Mechanism: Section {
    /// The name of that key.
    const SWITCH: &'static str = "enabled";

    /// The full name of that key.
    fn switch(prefix: &str) -> String {
        field::<Self>(prefix, Self::SWITCH)
    }

    /// Returns the settings if the mechanism is on. If it is off, adds a remark for each key that
    /// is set.
    fn read(
        reader: &mut Reader<'_>,
        prefix: &str,
        by_default: bool,
        remarks: &mut Vec<Remark>,
    ) -> Option<Self> {
        let settings = table::read(reader, prefix);
        let switch = Self::switch(prefix);
        let is_on = reader.setting(&switch, by_default, "", boolean).value;
        if !is_on {
            let told = format!("only with {switch} = true");
            let is_idle = |key: &str| key != Self::SWITCH;
            remarks.extend(idle_keys::<Self>(reader, prefix, is_idle, &told));
        }
        is_on.then_some(settings)
    }

    /// Writes the keys that have an effect.
    fn write(to: &mut String, prefix: &str, settings: Option<&Self>) {
        let off = vec![(Self::SWITCH, "false".to_owned())];
        let on = |settings| table::shown_with(settings, &[(Self::SWITCH, Some("true".to_owned()))]);
        let keys = settings.map_or(off, on);
        table::write_keys(to, &format!("{prefix}{}", Self::NAME), keys);
    }
}

impl Mechanism for ErrorSettings {}
impl Mechanism for ProbationSettings {}
impl Mechanism for WarmUpSettings {
    const SWITCH: &'static str = "by_evidence";
}

/// Reads the sections of the service that `prefix` names, with remarks. `failure_penalty` is where
/// the policy's own cost of failures was set. `warm_up` is the longest time until a new replica has
/// its whole share; zero: at once.
pub(super) fn read_passive_health(
    reader: &mut Reader<'_>,
    prefix: &str,
    failure_penalty: Option<&Definition>,
    warm_up: Duration,
) -> (HealthConfig, Vec<Remark>) {
    let (settings, mut remarks) =
        read_mechanisms(reader, prefix, &HealthSettings::standard(), warm_up);
    if settings.errors.is_some() {
        let told = format!("only with {} = false", ErrorSettings::switch(prefix));
        remarks.extend(failure_penalty.map(|it| idle(it, &told)));
    }
    // Each value is in its range, or a mistake has been recorded.
    (settings.validate().unwrap_or_default(), remarks)
}

/// Reads the same sections of a scenario. All mechanisms are off by default, and a key without
/// effect is a mistake. `None` if no mechanism is on.
pub fn read_played_health(reader: &mut Reader<'_>) -> Option<HealthConfig> {
    let span_max = WarmUpSettings::default().span_max;
    let (settings, remarks) = read_mechanisms(reader, "", &HealthSettings::off(), span_max);
    for remark in remarks {
        reader.add_mistake(remark.about);
    }
    if settings.shadow_trials {
        let told = "cannot be played, expected false: simulated clients send no copies".to_owned();
        reader.add_mistake_near("ejection.shadow_trials", told);
    }
    (!settings.is_off()).then(|| settings.validate().ok())?
}

/// Without a key of its own, a mechanism is on if `by_default` has it.
fn read_mechanisms(
    reader: &mut Reader<'_>,
    prefix: &str,
    by_default: &HealthSettings,
    warm_up: Duration,
) -> (HealthSettings, Vec<Remark>) {
    let mut remarks = Vec::new();
    let mut settings: HealthSettings = table::read(reader, prefix);
    note_back_off(reader, prefix, &settings);
    settings.errors = Mechanism::read(reader, prefix, by_default.errors.is_some(), &mut remarks);
    settings.probation =
        Mechanism::read(reader, prefix, by_default.probation.is_some(), &mut remarks);
    if settings.errors.is_none() && settings.probation.is_none() {
        let errors = ErrorSettings::switch(prefix);
        let probation = ProbationSettings::switch(prefix);
        let told = format!("only with {errors} = true or {probation} = true");
        remarks.extend(idle_keys::<HealthSettings>(reader, prefix, |_| true, &told));
        // The remaining settings have no effect, so they must not make two services differ.
        settings = HealthSettings::off();
    }
    settings.warm_up = Mechanism::read(reader, prefix, by_default.warm_up.is_some(), &mut remarks);
    settings.warm_up = settings.warm_up.filter(|_| !warm_up.is_zero());
    if let Some(evidence) = &mut settings.warm_up {
        evidence.span_max = warm_up;
    }
    (settings, remarks)
}

/// Records a mistake if the bounds of the back-off contradict each other.
fn note_back_off(reader: &mut Reader<'_>, prefix: &str, settings: &HealthSettings) {
    if settings.back_off_max < settings.back_off {
        let [max, least] =
            ["back_off_max", "back_off"].map(|name| field::<HealthSettings>(prefix, name));
        let near = if reader.has(&max) { max } else { least };
        let expected = format!(
            "ejection.back_off_max ({}) is less than ejection.back_off ({}), expected no less",
            show_duration(settings.back_off_max),
            show_duration(settings.back_off)
        );
        reader.add_mistake_near(&near, expected);
    }
}

/// Writes the keys that have an effect.
pub(super) fn write_passive_health(to: &mut String, prefix: &str, config: &HealthConfig) {
    Mechanism::write(to, prefix, config.errors.as_ref());
    Mechanism::write(to, prefix, config.probation.as_ref());
    if config.errors.is_some() || config.probation.is_some() {
        table::write::<HealthSettings>(to, prefix, config);
    }
    Mechanism::write(to, prefix, config.warm_up.as_ref());
}
