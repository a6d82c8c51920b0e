//! `[retries]`: which requests are tried again on another replica, when, and how often.

use super::assemble::{count, timeout};
use super::show::{quoted, write_section};
use crate::toml_reader::values::Unfit;
use crate::toml_reader::values::{
    bytes, duration, found, one_of, quantile, show_bytes, show_duration, text, whole, within,
};
use crate::toml_reader::{Item, Mistake, Reader};
use core::fmt::{self, Display};
use core::ops::RangeInclusive;
use core::time::Duration;
use http::{HeaderName, Method, StatusCode};
use slackwater_core::policy::Settings;
use slackwater_core::tail::{
    BackoffConfig, BackoffSettings, RetryBudgetConfig, RetryBudgetSettings,
};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_mins(1);

/// Which requests are tried again, when, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetrySettings {
    /// Tries of one request at most, the first one among them: 1 to 10, default 3. 1: none is tried again, whatever
    /// happened.
    pub(crate) attempts_max: u32,
    /// The methods whose requests may be tried again after a replica may have heard them; default the idempotent ones.
    pub(crate) methods: RetryMethods,
    /// A request with this field may be tried again whatever its method; default `idempotency-key`.
    pub(crate) mark_header: Option<HeaderName>,
    /// After which failures; default all of them.
    pub(crate) on: RetryCauses,
    /// After which statuses of a response, from 400 to 599; default 502, 503 and 504.
    pub(crate) statuses: Vec<StatusCode>,
    /// From a try's dispatch to its response's head, where another try may follow: 1 ms to 24 hours. Default none:
    /// a try may take all of `timeouts.first_byte`, and then there is no time for another one.
    pub(crate) attempt_timeout: Option<Duration>,
    /// Of a request's body so much is kept for another try: 0 to 16 MiB, default 64 KiB. A request with a larger body
    /// is not tried again once the replica may have had some of it. 0: only requests without a body are.
    pub(crate) body_bytes_max: u32,
    /// How many may be tried again at once, for each worker.
    pub(crate) budget: RetryBudgetConfig,
    /// How long to wait before.
    pub(crate) backoff: BackoffConfig,
}

/// The methods that may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryMethods {
    /// None.
    None,
    /// Those that only ask (RFC 9110 §9.2.1): GET, HEAD, OPTIONS, TRACE.
    Safe,
    /// Those that do the same when done twice (RFC 9110 §9.2.2): the safe ones, PUT and DELETE.
    Idempotent,
    /// All: the service says that doing twice does no harm.
    All,
}

impl RetryMethods {
    const NAMES: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("safe", Self::Safe),
        ("idempotent", Self::Idempotent),
        ("all", Self::All),
    ];

    /// Whether `method` is among them.
    pub(crate) fn contain(self, method: &Method) -> bool {
        match self {
            Self::None => false,
            Self::Safe => method.is_safe(),
            Self::Idempotent => method.is_idempotent(),
            Self::All => true,
        }
    }
}

/// What may go wrong with a replica that may have heard the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetryCauses {
    /// The connection broke before the response's head was complete.
    pub(crate) reset: bool,
    /// The head did not come within `attempt_timeout`.
    pub(crate) timeout: bool,
    /// A gRPC response that is nothing but the status `UNAVAILABLE`.
    pub(crate) grpc_unavailable: bool,
}

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

impl RetryCauses {
    const ALL: Self = Self {
        reset: true,
        timeout: true,
        grpc_unavailable: true,
    };

    const fn or(self, other: Self) -> Self {
        Self {
            reset: self.reset || other.reset,
            timeout: self.timeout || other.timeout,
            grpc_unavailable: self.grpc_unavailable || other.grpc_unavailable,
        }
    }
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            attempts_max: 3,
            methods: RetryMethods::Idempotent,
            mark_header: Some(HeaderName::from_static("idempotency-key")),
            on: RetryCauses::ALL,
            statuses: vec![
                StatusCode::BAD_GATEWAY,
                StatusCode::SERVICE_UNAVAILABLE,
                StatusCode::GATEWAY_TIMEOUT,
            ],
            attempt_timeout: None,
            body_bytes_max: 64 << 10,
            budget: RetryBudgetConfig::default(),
            backoff: BackoffConfig::default(),
        }
    }
}

impl RetrySettings {
    /// Reads `[retries]`, or `[services.NAME.retries]` where `prefix` says so.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        let default = Self::default();
        let key = |name: &str| format!("{prefix}retries.{name}");
        let methods = reader.setting(&key("methods"), default.methods, "", |value| {
            one_of(value, &RetryMethods::NAMES)
        });
        let mark_header = reader.setting(
            &key("mark_header"),
            default.mark_header,
            "the name of a field, or \"none\"",
            |value| match text(value, "the name of a field, or \"none\"")? {
                "none" => Ok(None),
                name => HeaderName::try_from(name)
                    .map(Some)
                    .map_err(|_| Unfit::Range),
            },
        );
        let attempt_timeout = reader.setting(
            &key("attempt_timeout"),
            None,
            "from 1ms to 24h, or \"none\"",
            |value| match value.as_str() {
                Some("none") => Ok(None),
                _ => duration(value)
                    .and_then(|span| within(span, &(MS..=Duration::from_hours(24))))
                    .map(Some),
            },
        );
        let body_range: RangeInclusive<u32> = 0..=16 << 20;
        let body_bytes_max = reader.setting(
            &key("body_max"),
            default.body_bytes_max,
            "from 0 to 16MiB",
            |value| bytes(value).and_then(|size| within(size, &body_range)),
        );
        Self {
            attempts_max: count(reader, &key("attempts_max"), default.attempts_max, 1..=10),
            methods: methods.value,
            mark_header: mark_header.value,
            on: read_causes(reader, &key("on")),
            statuses: read_statuses(reader, &key("statuses"), default.statuses),
            attempt_timeout: attempt_timeout.value,
            body_bytes_max: body_bytes_max.value,
            budget: read_budget(reader, &key),
            backoff: read_backoff(reader, &key),
        }
    }

    /// Writes the section as it is in force.
    pub(super) fn write(&self, to: &mut String, prefix: &str) -> fmt::Result {
        let span = |span| quoted(show_duration(span));
        let methods = name_of(&RetryMethods::NAMES, |of| of == self.methods);
        let mark_header = self.mark_header.as_ref().map_or("none", HeaderName::as_str);
        let causes = CAUSES
            .iter()
            .filter(|(_, cause)| self.on.or(*cause) == self.on);
        let causes: Vec<_> = causes.map(|(name, _)| quoted(name)).collect();
        let statuses: Vec<_> = self.statuses.iter().map(StatusCode::as_str).collect();
        let fields: [(&str, &dyn Display); 12] = [
            ("attempts_max", &self.attempts_max),
            ("methods", &quoted(methods)),
            ("mark_header", &quoted(mark_header)),
            ("on", &format!("[{}]", causes.join(", "))),
            ("statuses", &format!("[{}]", statuses.join(", "))),
            (
                "attempt_timeout",
                &self.attempt_timeout.map_or_else(|| quoted("none"), span),
            ),
            ("body_max", &quoted(show_bytes(self.body_bytes_max))),
            ("budget_share", &self.budget.share),
            ("budget_min", &self.budget.retries_min),
            ("backoff_base", &span(self.backoff.base)),
            ("backoff_max", &span(self.backoff.max)),
            ("retry_after_max", &span(self.backoff.hint_max)),
        ];
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

fn read_causes(reader: &mut Reader<'_>, field: &str) -> RetryCauses {
    let Some(items) = reader.take_list(field) else {
        return RetryCauses::ALL;
    };
    let causes = items
        .iter()
        .map(|item| item.read(|value| one_of(value, &CAUSES), ""));
    let causes: Vec<_> = causes.collect();
    causes
        .into_iter()
        .fold(RetryCauses::default(), |all, cause| {
            reader.note(cause).map_or(all, |cause| all.or(cause))
        })
}

fn read_statuses(
    reader: &mut Reader<'_>,
    field: &str,
    default: Vec<StatusCode>,
) -> Vec<StatusCode> {
    let Some(items) = reader.take_list(field) else {
        return default;
    };
    let mut statuses = Vec::new();
    for item in &items {
        if let Some(status) = reader.note(read_status(item)) {
            statuses.push(status);
        }
    }
    statuses.sort_unstable();
    statuses.dedup();
    statuses
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
