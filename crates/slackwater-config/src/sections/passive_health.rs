//! `[error_aversion]`, `[latency_probation]`, `[ejection]` and `[warm_up]`: who is chosen less, or not at all, by how requests
//! to it went. What asks replicas is `health`.
//!
//! Each mechanism is on or off by one key. How long a warm-up lasts at most is `discovery.warm_up`, be it by evidence or by the
//! clock; never both of them act.

use super::assemble::{count, timeout};
use super::show::{quoted, write_section};
use crate::toml_reader::values::{Unfit, boolean, quantile, show_duration};
use crate::toml_reader::{Mistake, Reader, Remark, Severity};
use core::fmt::{self, Display};
use core::time::Duration;
use slackwater_core::Quantile;
use slackwater_core::health::{
    ErrorSettings, HealthConfig, HealthSettings, ProbationSettings, WarmUpSettings,
};
use slackwater_core::policy::{PolicyEntry, Settings};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_hours(1);

/// The section that says whether failures count, the key in it, and its settings.
const ERRORS: Mechanism = Mechanism {
    section: "error_aversion",
    switch: "enabled",
    settings: &["window", "failures_in_a_row", "failure_cost"],
};
const PROBATION: Mechanism = Mechanism {
    section: "latency_probation",
    switch: "enabled",
    settings: &["factor", "latency_min"],
};
const WARM_UP: Mechanism = Mechanism {
    section: "warm_up",
    switch: "by_evidence",
    settings: &["share_min"],
};
/// What error aversion and latency probation have in common.
const EJECTION: &str = "ejection";
const EJECTION_SETTINGS: [&str; 5] = [
    "out_max",
    "trials",
    "shadow_trials",
    "back_off",
    "back_off_max",
];

/// A section with a key that turns all of it on or off.
struct Mechanism {
    section: &'static str,
    switch: &'static str,
    settings: &'static [&'static str],
}

impl Mechanism {
    fn is_on(&self, reader: &mut Reader<'_>, prefix: &str, default: bool) -> bool {
        let field = format!("{prefix}{}.{}", self.section, self.switch);
        reader.setting(&field, default, "", boolean).value
    }

    /// Said of settings while the mechanism is off.
    fn idle(&self, reader: &Reader<'_>, prefix: &str) -> Vec<Remark> {
        let told = format!("only with {} = true", self.name(prefix));
        idle(reader, prefix, (self.section, self.settings), &told)
    }

    fn name(&self, prefix: &str) -> String {
        format!("{prefix}{}.{}", self.section, self.switch)
    }
}

/// Of these settings of a section, those that are said do nothing.
fn idle(
    reader: &Reader<'_>,
    prefix: &str,
    (section, settings): (&str, &[&str]),
    told: &str,
) -> Vec<Remark> {
    let fields = settings.iter();
    let fields = fields.map(|name| format!("{prefix}{section}.{name}"));
    let said = fields.filter(|field| reader.has(field));
    said.map(|field| Remark {
        severity: Severity::Warning,
        about: Mistake {
            place: reader.place_near(&field),
            field,
            message: format!("does nothing here, {told}"),
        },
    })
    .collect()
}

/// Which mechanisms are on where nothing is said of them.
struct ByDefault {
    errors: bool,
    probation: bool,
    warm_up: bool,
}

const SERVED: ByDefault = ByDefault {
    errors: true,
    probation: false,
    warm_up: true,
};
/// A scenario shows a policy as it is, unless it says what is to be around it.
const PLAYED: ByDefault = ByDefault {
    errors: false,
    probation: false,
    warm_up: false,
};

/// Reads the sections of the service that `prefix` names, and what is to be remarked on them. `warm_up` is when a replica that
/// joins has its whole share at the latest; zero: at once.
pub(super) fn read_passive_health(
    reader: &mut Reader<'_>,
    prefix: &str,
    policy: &PolicyEntry,
    warm_up: Duration,
) -> (HealthConfig, Vec<Remark>) {
    let (settings, mut remarks) = read_mechanisms(reader, prefix, &SERVED, warm_up);
    if settings.errors.is_some()
        && let Some((section, key)) = policy.failure_penalty
    {
        let told = format!("only with {} = false", ERRORS.name(prefix));
        remarks.extend(idle(reader, prefix, (section, &[key]), &told));
    }
    // Each is in its range by now, or has been noted as a mistake.
    (settings.validate().unwrap_or_default(), remarks)
}

/// Reads the same sections of a scenario that is to be played, where all is off unless it is turned on, and what does nothing is a
/// mistake; `None` if nothing is on.
pub fn read_played_health(reader: &mut Reader<'_>) -> Option<HealthConfig> {
    let span_max = WarmUpSettings::default().span_max;
    let (settings, remarks) = read_mechanisms(reader, "", &PLAYED, span_max);
    for remark in remarks {
        reader.add_mistake(remark.about);
    }
    if settings.shadow_trials {
        let told = "cannot be played, expected false: simulated clients send no copies".to_owned();
        reader.add_mistake_near("ejection.shadow_trials", told);
    }
    (!settings.is_off()).then(|| settings.validate().ok())?
}

fn read_mechanisms(
    reader: &mut Reader<'_>,
    prefix: &str,
    by_default: &ByDefault,
    warm_up: Duration,
) -> (HealthSettings, Vec<Remark>) {
    let mut remarks = Vec::new();
    let mut settings = HealthSettings::default();
    let errors = read_errors(reader, prefix);
    let is_on = ERRORS.is_on(reader, prefix, by_default.errors);
    settings.errors = is_on.then_some(errors);
    if settings.errors.is_none() {
        remarks.extend(ERRORS.idle(reader, prefix));
    }
    let probation = read_probation(reader, prefix);
    let is_on = PROBATION.is_on(reader, prefix, by_default.probation);
    settings.probation = is_on.then_some(probation);
    if settings.probation.is_none() {
        remarks.extend(PROBATION.idle(reader, prefix));
    }
    read_ejection(reader, prefix, &mut settings);
    if settings.errors.is_none() && settings.probation.is_none() {
        let (errors, probation) = (ERRORS.name(prefix), PROBATION.name(prefix));
        let told = format!("only with {errors} = true or {probation} = true");
        let section = (EJECTION, EJECTION_SETTINGS.as_slice());
        remarks.extend(idle(reader, prefix, section, &told));
        // What does nothing makes no difference to a service either.
        settings = HealthSettings::off();
    }
    let evidence = read_warm_up(reader, prefix, warm_up);
    let by_evidence = WARM_UP.is_on(reader, prefix, by_default.warm_up);
    settings.warm_up = (by_evidence && !warm_up.is_zero()).then_some(evidence);
    if !by_evidence {
        remarks.extend(WARM_UP.idle(reader, prefix));
    }
    (settings, remarks)
}

fn read_errors(reader: &mut Reader<'_>, prefix: &str) -> ErrorSettings {
    let key = |name: &str| format!("{prefix}{}.{name}", ERRORS.section);
    let mut settings = ErrorSettings::default();
    let window = Duration::from_secs(1)..=HOUR;
    settings.window = timeout(reader, &key("window"), settings.window, &window);
    let (in_a_row, cost) = (settings.failures_in_a_row, settings.failure_cost);
    settings.failures_in_a_row = count(reader, &key("failures_in_a_row"), in_a_row, 1..=1_000);
    settings.failure_cost = count(reader, &key("failure_cost"), cost, 0..=1_000);
    settings
}

fn read_probation(reader: &mut Reader<'_>, prefix: &str) -> ProbationSettings {
    let key = |name: &str| format!("{prefix}{}.{name}", PROBATION.section);
    let mut settings = ProbationSettings::default();
    settings.factor = count(reader, &key("factor"), settings.factor, 2..=1_000);
    let (field, latency_min) = (key("latency_min"), settings.latency_min);
    settings.latency_min = timeout(reader, &field, latency_min, &(MS..=HOUR));
    settings
}

fn read_ejection(reader: &mut Reader<'_>, prefix: &str, settings: &mut HealthSettings) {
    let key = |name: &str| format!("{prefix}{EJECTION}.{name}");
    let mut share = |name, default| {
        let setting = reader.setting(&key(name), default, "a number from 0 to 1", quantile);
        setting.value
    };
    settings.out_max = share("out_max", settings.out_max);
    settings.trials = share("trials", settings.trials);
    let (field, default) = (key("shadow_trials"), settings.shadow_trials);
    settings.shadow_trials = reader.setting(&field, default, "", boolean).value;
    settings.back_off = timeout(reader, &key("back_off"), settings.back_off, &(MS..=HOUR));
    let (field, default) = (key("back_off_max"), settings.back_off_max);
    settings.back_off_max = timeout(reader, &field, default, &(MS..=HOUR));
    if settings.back_off_max < settings.back_off {
        let near = if reader.has(&field) {
            field
        } else {
            key("back_off")
        };
        let expected = format!(
            "{EJECTION}.back_off_max ({}) is less than {EJECTION}.back_off ({}), expected no less",
            show_duration(settings.back_off_max),
            show_duration(settings.back_off)
        );
        reader.add_mistake_near(&near, expected);
    }
}

fn read_warm_up(reader: &mut Reader<'_>, prefix: &str, span_max: Duration) -> WarmUpSettings {
    let mut settings = WarmUpSettings::default();
    let field = format!("{prefix}{}.share_min", WARM_UP.section);
    let range = "a number above 0 and at most 1";
    let share = reader.setting(&field, settings.share_min, range, |value| {
        match quantile(value)? {
            Quantile::ZERO => Err(Unfit::Range),
            share => Ok(share),
        }
    });
    settings.share_min = share.value;
    settings.span_max = span_max;
    settings
}

/// Writes those keys that do something.
pub(super) fn write_passive_health(
    to: &mut String,
    prefix: &str,
    config: &HealthConfig,
) -> fmt::Result {
    let span = |span| quoted(show_duration(span));
    let section = |name: &str| format!("{prefix}{name}");
    let has_errors = config.errors.is_some();
    let mut fields: Vec<(&str, &dyn Display)> = vec![(ERRORS.switch, &has_errors)];
    let window = config.errors.as_ref().map(|errors| span(errors.window));
    if let (Some(errors), Some(window)) = (&config.errors, &window) {
        fields.push(("window", window));
        fields.push(("failures_in_a_row", &errors.failures_in_a_row));
        fields.push(("failure_cost", &errors.failure_cost));
    }
    write_section(to, &section(ERRORS.section), &fields)?;

    let has_probation = config.probation.is_some();
    let mut fields: Vec<(&str, &dyn Display)> = vec![(PROBATION.switch, &has_probation)];
    let latency_min = (config.probation.as_ref()).map(|probation| span(probation.latency_min));
    if let (Some(probation), Some(latency_min)) = (&config.probation, &latency_min) {
        fields.push(("factor", &probation.factor));
        fields.push(("latency_min", latency_min));
    }
    write_section(to, &section(PROBATION.section), &fields)?;

    if has_errors || has_probation {
        let fields: [(&str, &dyn Display); 5] = [
            ("out_max", &config.out_max),
            ("trials", &config.trials),
            ("shadow_trials", &config.shadow_trials),
            ("back_off", &span(config.back_off)),
            ("back_off_max", &span(config.back_off_max)),
        ];
        write_section(to, &section(EJECTION), &fields)?;
    }

    let by_evidence = config.warm_up.is_some();
    let mut fields: Vec<(&str, &dyn Display)> = vec![(WARM_UP.switch, &by_evidence)];
    if let Some(warm_up) = &config.warm_up {
        fields.push(("share_min", &warm_up.share_min));
    }
    write_section(to, &section(WARM_UP.section), &fields)
}
