//! The log and the access log: what is logged, in which format, and where.

use super::files::file_name;
use crate::table::{
    Any, Boolean, Choice, DAY, Judge, Kind, Meaning, SECOND, Share, Span, Within, named, settings,
};
use crate::toml_reader::Reader;
use crate::toml_reader::values::{Unfit, quote, text};
use core::fmt::{self, Display};
use core::time::Duration;
use serde_json::json;
use slackwater_core::Quantile;
use std::path::PathBuf;

settings! {
    /// The process's own log, on standard error.
    pub struct LogSettings in "log" {
        /// The least severe level that is logged. `"debug"` has each failed request with its cause.
        level: LogLevel = LogLevel::Info, Choice(LogLevel::NAMES), fixed;
        /// Lines for people, or one JSON object a line.
        format: LogFormat = LogFormat::Text, Choice(LogFormat::NAMES), fixed;
    }
}

named! {
    /// The least severe level that is logged.
    pub enum LogLevel {
        /// Failures.
        Error = "error",
        /// Problems that need attention, too.
        Warn = "warn",
        /// Starts, stops and changes, too.
        Info = "info",
        /// Each failed request with its cause, too.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

named! {
    /// The format of a log line.
    pub enum LogFormat {
        /// Text for people.
        Text = "text",
        /// A JSON object per line.
        Json = "json",
    }
}

settings! {
    /// The access log: one line per request.
    pub struct AccessLogSettings in "access_log" {
        /// Where lines go. A file has a `/` in its name. It is reopened on SIGUSR1 and after it was
        /// moved.
        to: AccessLogTarget = AccessLogTarget::None, Target, fixed;
        /// The common web server format with extra fields, or one JSON object a line.
        format: AccessLogFormat = AccessLogFormat::Text, Choice(AccessLogFormat::NAMES), fixed;
        /// Share of requests that are logged, drawn at random. Failed and slow ones always are.
        sample: Quantile = Quantile::ONE, Any(Share), fixed;
        /// Requests that take this long are slow. 0: all.
        always_slower_than: Duration = SECOND,
            Within(Span, Duration::ZERO..=DAY), fixed;
        /// Logs query strings, also of `Referer`. They often contain secrets.
        query: bool = false, Boolean, fixed;
    }
}

/// Where the access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// Nowhere.
    None,
    /// Standard output.
    Stdout,
    /// Standard error, between the lines of the log.
    Stderr,
    /// A file that lines are appended to.
    File(PathBuf),
}

impl Display for AccessLogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Stdout => f.write_str("stdout"),
            Self::Stderr => f.write_str("stderr"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

named! {
    /// The format of an access log line.
    pub enum AccessLogFormat {
        /// The common web server format with extra fields.
        Text = "text",
        /// A JSON object per line.
        Json = "json",
    }
}

/// The kind of [`AccessLogTarget`].
struct Target;

impl Kind<AccessLogTarget> for Target {
    fn take(
        &self,
        reader: &mut Reader<'_>,
        field: &str,
        judge: &Judge<'_, AccessLogTarget>,
    ) -> Option<AccessLogTarget> {
        let expected = self.meaning(judge).expected;
        let item = reader.take(field)?;
        let target = item.read(
            |value| match text(value, &expected)? {
                "none" => Ok(AccessLogTarget::None),
                "stdout" => Ok(AccessLogTarget::Stdout),
                "stderr" => Ok(AccessLogTarget::Stderr),
                // A word without a slash is more often a mistyped stream than a file.
                name if !name.contains('/') => Err(Unfit::Range),
                name => Ok(AccessLogTarget::File(reader.path_of(&item, name))),
            },
            &expected,
        );
        reader.note(target)
    }

    fn show(&self, value: &AccessLogTarget) -> Option<String> {
        Some(match value {
            AccessLogTarget::File(path) => file_name(path),
            stream => quote(stream),
        })
    }

    fn meaning(&self, _: &Judge<'_, AccessLogTarget>) -> Meaning {
        let file = "a file such as \"/var/log/slackwater/access.log\"";
        Meaning::of(
            "`\"none\"`, `\"stdout\"`, `\"stderr\"`, a file",
            json!({"type": "string"}),
        )
        .expected(format!("\"none\", \"stdout\", \"stderr\", or {file}"))
    }
}
