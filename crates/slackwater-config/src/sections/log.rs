//! The log and the access log: what is said, how, and where to.

use super::assemble::timeout;
use super::show::quoted;
use crate::toml_reader::values::{boolean, one_of, quantile, show_duration, show_millionths, text};
use crate::toml_reader::{Item, Mistake, Place, Reader};
use core::fmt::{self, Display, Write};
use core::time::Duration;
use slackwater_core::Quantile;
use std::path::PathBuf;

/// The process's own log, on standard error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// What is logged; default from `info` on. `RUST_LOG` goes before it.
    pub level: LogLevel,
    /// What a line looks like; default text.
    pub format: LogFormat,
}

/// From which level on something is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// What failed.
    Error,
    /// And what is strange.
    Warn,
    /// And starts, ends, changes.
    #[default]
    Info,
    /// And each request that failed, with its reason.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    const NAMES: [(&'static str, Self); 5] = [
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];

    /// Its name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// What a line of the log looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object a line.
    Json,
}

impl LogFormat {
    const NAMES: [(&'static str, Self); 2] = [("text", Self::Text), ("json", Self::Json)];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// A line for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogSettings {
    /// Where lines go; default nowhere, and then a request costs nothing more.
    pub to: AccessLogTarget,
    /// What a line looks like; default text.
    pub format: AccessLogFormat,
    /// The share of requests that are logged: 0 to 1, default 1. Failed and slow ones always are.
    pub sample: Quantile,
    /// From this on a request is slow: 0 to 24 hours, default 1 s. 0: all are. Of no effect while `sample` is 1.
    pub always_slower_than: Duration,
    /// Whether query strings are logged, those of `Referer`, too; default no, for they often hold secrets.
    pub query: bool,
}

impl Default for AccessLogSettings {
    fn default() -> Self {
        Self {
            to: AccessLogTarget::None,
            format: AccessLogFormat::Text,
            sample: Quantile::ONE,
            always_slower_than: Duration::from_secs(1),
            query: false,
        }
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
    /// A file, at whose end lines are added.
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

/// What a line of the access log looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// As web servers write it, and more behind that.
    Text,
    /// An object a line.
    Json,
}

impl AccessLogFormat {
    const NAMES: [(&'static str, Self); 2] = [("text", Self::Text), ("json", Self::Json)];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Reads `[log]`.
pub(super) fn read_log(reader: &mut Reader<'_>) -> LogSettings {
    let level = reader.setting("log.level", LogLevel::default(), "", |value| {
        one_of(value, &LogLevel::NAMES)
    });
    let format = reader.setting("log.format", LogFormat::default(), "", |value| {
        one_of(value, &LogFormat::NAMES)
    });
    LogSettings {
        level: level.value,
        format: format.value,
    }
}

/// Reads `[access_log]`. A relative name of a file starts from the configuration file's own directory.
pub(super) fn read_access_log(reader: &mut Reader<'_>) -> AccessLogSettings {
    let default = AccessLogSettings::default();
    let to = reader.take("access_log.to");
    let to = to.and_then(|item| {
        let target = read_target(reader, &item);
        reader.note(target)
    });
    let format = reader.setting("access_log.format", default.format, "", |value| {
        one_of(value, &AccessLogFormat::NAMES)
    });
    let sample = reader.setting(
        "access_log.sample",
        default.sample,
        "a number from 0 to 1",
        quantile,
    );
    let always_slower_than = timeout(
        reader,
        "access_log.always_slower_than",
        default.always_slower_than,
        &(Duration::ZERO..=Duration::from_hours(24)),
    );
    let query = reader.setting("access_log.query", default.query, "", boolean);
    AccessLogSettings {
        to: to.unwrap_or(default.to),
        format: format.value,
        sample: sample.value,
        always_slower_than,
        query: query.value,
    }
}

fn read_target(reader: &Reader<'_>, item: &Item<'_>) -> Result<AccessLogTarget, Mistake> {
    const EXPECTED: &str =
        "\"none\", \"stdout\", \"stderr\", or a file such as \"/var/log/slackwater/access.log\"";
    let written = item.read(|value| text(value, EXPECTED), "")?;
    Ok(match written {
        "none" => AccessLogTarget::None,
        "stdout" => AccessLogTarget::Stdout,
        "stderr" => AccessLogTarget::Stderr,
        // A word alone is more often a mistyped stream than a file.
        name if !name.contains('/') => {
            return Err(item.mistake(format!("found {name:?}, expected {EXPECTED}")));
        }
        name => {
            let is_in_file = matches!(item.said.place, Place::Line { .. });
            let source = reader.source().filter(|_| is_in_file);
            let base = source.and_then(|source| source.file().parent());
            AccessLogTarget::File(base.map_or_else(|| name.into(), |base| base.join(name)))
        }
    })
}

/// `[log]` as a file has it.
pub(super) fn write_log(to: &mut String, log: &LogSettings) -> fmt::Result {
    writeln!(to, "[log]\nlevel = {}", quoted(log.level.as_str()))?;
    writeln!(to, "format = {}\n", quoted(log.format.as_str()))
}

/// `[access_log]` likewise.
pub(super) fn write_access_log(to: &mut String, access: &AccessLogSettings) -> fmt::Result {
    let target = match &access.to {
        // What is shown may be saved anywhere, and a relative name starts from there.
        AccessLogTarget::File(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            quoted(path.display())
        }
        stream => quoted(stream),
    };
    writeln!(to, "[access_log]\nto = {target}")?;
    writeln!(to, "format = {}", quoted(access.format.as_str()))?;
    writeln!(
        to,
        "sample = {}",
        show_millionths(access.sample.millionths())
    )?;
    let slow = quoted(show_duration(access.always_slower_than));
    writeln!(to, "always_slower_than = {slow}")?;
    writeln!(to, "query = {}", access.query)?;
    writeln!(to)
}
