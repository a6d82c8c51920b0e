//! `[retries]`: which requests are tried again on another replica, when, and how often.

use super::assemble::{count, timeout};
use super::show::{quoted, write_section};
use crate::routes::{RetryCauses, RetryChanges, RetryMethods, RetryRules};
use crate::toml_reader::values::Unfit;
use crate::toml_reader::values::{
    bytes, duration, found, one_of, quantile, show_bytes, show_duration, text, whole, within,
};
use crate::toml_reader::{Item, Mistake, Reader};
use core::fmt::{self, Display};
use core::ops::RangeInclusive;
use core::time::Duration;
use http::{HeaderName, StatusCode};
use slackwater_core::policy::Settings;
use slackwater_core::tail::{
    BackoffConfig, BackoffSettings, RetryBudgetConfig, RetryBudgetSettings,
};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_mins(1);

/// Which requests are tried again, when, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetrySettings {
    /// Which requests; a route may say otherwise.
    pub rules: RetryRules,
    /// How many may be tried again at once, for each worker.
    pub budget: RetryBudgetConfig,
    /// How long to wait before.
    pub backoff: BackoffConfig,
}

const METHODS: [(&str, RetryMethods); 4] = [
    ("none", RetryMethods::None),
    ("safe", RetryMethods::Safe),
    ("idempotent", RetryMethods::Idempotent),
    ("all", RetryMethods::All),
];

/// The name of one cause, and the cause alone.
const CAUSES: [(&str, RetryCauses); 3] = {
    const NONE: RetryCauses = RetryCauses {
        reset: false,
        timeout: false,
        grpc_unavailable: false,
    };
    [
        (
            "reset",
            RetryCauses {
                reset: true,
                ..NONE
            },
        ),
        (
            "timeout",
            RetryCauses {
                timeout: true,
                ..NONE
            },
        ),
        (
            "grpc_unavailable",
            RetryCauses {
                grpc_unavailable: true,
                ..NONE
            },
        ),
    ]
};

impl RetryChanges {
    /// Reads the keys of `[retries]` that a route may have, too; a mistake is noted and leaves nothing said.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        let key = |name: &str| format!("{prefix}retries.{name}");
        let attempts: RangeInclusive<u32> = 1..=10;
        let attempts_max = reader.setting(
            &key("attempts_max"),
            None,
            "a number from 1 to 10",
            |value| {
                whole(value)
                    .and_then(|number| within(number, &attempts))
                    .map(Some)
            },
        );
        let methods = reader.setting(&key("methods"), None, "", |value| {
            one_of(value, &METHODS).map(Some)
        });
        let mark_header = reader.setting(
            &key("mark_header"),
            None,
            "the name of a field, or \"none\"",
            |value| match text(value, "the name of a field, or \"none\"")? {
                "none" => Ok(Some(None)),
                name => HeaderName::try_from(name)
                    .map(|name| Some(Some(name)))
                    .map_err(|_| Unfit::Range),
            },
        );
        let attempt_timeout = reader.setting(
            &key("attempt_timeout"),
            None,
            "from 1ms to 24h, or \"none\"",
            |value| match value.as_str() {
                Some("none") => Ok(Some(None)),
                _ => duration(value)
                    .and_then(|span| within(span, &(MS..=Duration::from_hours(24))))
                    .map(|span| Some(Some(span))),
            },
        );
        let body_range: RangeInclusive<u32> = 0..=16 << 20;
        let body_bytes_max = reader.setting(&key("body_max"), None, "from 0 to 16MiB", |value| {
            bytes(value)
                .and_then(|size| within(size, &body_range))
                .map(Some)
        });
        Self {
            attempts_max: attempts_max.value,
            methods: methods.value,
            mark_header: mark_header.value,
            on: read_causes(reader, &key("on")),
            statuses: read_statuses(reader, &key("statuses")),
            attempt_timeout: attempt_timeout.value,
            body_bytes_max: body_bytes_max.value,
        }
    }

    /// Everything of the rules is said.
    fn all(rules: &RetryRules) -> Self {
        Self {
            attempts_max: Some(rules.attempts_max),
            methods: Some(rules.methods),
            mark_header: Some(rules.mark_header.clone()),
            on: Some(rules.on),
            statuses: Some(rules.statuses.clone()),
            attempt_timeout: Some(rules.attempt_timeout),
            body_bytes_max: Some(rules.body_bytes_max),
        }
    }

    /// The keys that are said, and their values as they are written.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let methods = |methods| quoted(name_of(&METHODS, |of| of == methods));
        let mark =
            |mark: &Option<HeaderName>| quoted(mark.as_ref().map_or("none", HeaderName::as_str));
        let span = |span: Option<_>| quoted(span.map_or_else(|| "none".to_owned(), show_duration));
        let fields = [
            ("attempts_max", self.attempts_max.map(|max| max.to_string())),
            ("methods", self.methods.map(methods)),
            ("mark_header", self.mark_header.as_ref().map(mark)),
            ("on", self.on.map(write_causes)),
            ("statuses", self.statuses.as_deref().map(write_statuses)),
            ("attempt_timeout", self.attempt_timeout.map(span)),
            (
                "body_max",
                self.body_bytes_max.map(|max| quoted(show_bytes(max))),
            ),
        ];
        let fields = fields.into_iter();
        fields
            .filter_map(|(key, said)| Some((key, said?)))
            .collect()
    }
}

fn write_causes(on: RetryCauses) -> String {
    let causes = CAUSES.iter().filter(|(_, cause)| on.or(*cause) == on);
    let causes: Vec<_> = causes.map(|(name, _)| quoted(name)).collect();
    format!("[{}]", causes.join(", "))
}

fn write_statuses(statuses: &[StatusCode]) -> String {
    let statuses: Vec<_> = statuses.iter().map(StatusCode::as_str).collect();
    format!("[{}]", statuses.join(", "))
}

impl RetrySettings {
    /// Reads `[retries]`, or `[services.NAME.retries]` where `prefix` says so.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        let key = |name: &str| format!("{prefix}retries.{name}");
        Self {
            rules: RetryChanges::read(reader, prefix).over(&RetryRules::default()),
            budget: read_budget(reader, &key),
            backoff: read_backoff(reader, &key),
        }
    }

    /// Writes the section as it is in force.
    pub(super) fn write(&self, to: &mut String, prefix: &str) -> fmt::Result {
        let span = |span| quoted(show_duration(span));
        let mut fields = RetryChanges::all(&self.rules).fields();
        fields.extend([
            ("budget_share", self.budget.share.to_string()),
            ("budget_min", self.budget.retries_min.to_string()),
            ("backoff_base", span(self.backoff.base)),
            ("backoff_max", span(self.backoff.max)),
            ("retry_after_max", span(self.backoff.hint_max)),
        ]);
        let fields: Vec<(&str, &dyn Display)> = (fields.iter())
            .map(|(key, value)| (*key, value as &dyn Display))
            .collect();
        write_section(to, &format!("{prefix}retries"), &fields)
    }
}

/// What the configuration calls a value.
pub(super) fn name_of<T: Copy>(
    names: &[(&'static str, T)],
    is_it: impl Fn(T) -> bool,
) -> &'static str {
    let found = names.iter().find(|(_, value)| is_it(*value));
    found.map_or("", |(name, _)| name)
}

fn read_causes(reader: &mut Reader<'_>, field: &str) -> Option<RetryCauses> {
    let items = reader.take_list(field)?;
    let causes = items
        .iter()
        .map(|item| item.read(|value| one_of(value, &CAUSES), ""));
    let causes: Vec<_> = causes.collect();
    let noted = |all: RetryCauses, cause| reader.note(cause).map_or(all, |cause| all.or(cause));
    Some(causes.into_iter().fold(RetryCauses::default(), noted))
}

fn read_statuses(reader: &mut Reader<'_>, field: &str) -> Option<Vec<StatusCode>> {
    let items = reader.take_list(field)?;
    let mut statuses = Vec::new();
    for item in &items {
        if let Some(status) = reader.note(read_status(item)) {
            statuses.push(status);
        }
    }
    statuses.sort_unstable();
    statuses.dedup();
    Some(statuses)
}

fn read_status(item: &Item<'_>) -> Result<StatusCode, Mistake> {
    let status: u16 = item.read(whole, "a status from 400 to 599")?;
    match StatusCode::from_u16(status) {
        Ok(status) if status.is_client_error() || status.is_server_error() => Ok(status),
        _ => Err(item.mistake(format!(
            "found {}, expected a status from 400 to 599",
            found(&item.value)
        ))),
    }
}

fn read_budget(reader: &mut Reader<'_>, key: &impl Fn(&str) -> String) -> RetryBudgetConfig {
    let mut settings = RetryBudgetSettings::default();
    settings.share = reader
        .setting(
            &key("budget_share"),
            settings.share,
            "a number from 0 to 1",
            quantile,
        )
        .value;
    settings.retries_min = count(reader, &key("budget_min"), settings.retries_min, 0..=1024);
    // Each is in its range by now.
    settings.validate().unwrap_or_default()
}

fn read_backoff(reader: &mut Reader<'_>, key: &impl Fn(&str) -> String) -> BackoffConfig {
    let mut settings = BackoffSettings::default();
    let to_minute = Duration::ZERO..=MINUTE;
    let to_hour = Duration::ZERO..=Duration::from_hours(1);
    settings.base = timeout(reader, &key("backoff_base"), settings.base, &to_minute);
    settings.max = timeout(reader, &key("backoff_max"), settings.max, &to_minute);
    settings.hint_max = timeout(reader, &key("retry_after_max"), settings.hint_max, &to_hour);
    // Each is in its range by now.
    settings.validate().unwrap_or_default()
}
