//! The process's own log: lines on standard error, as text or JSON, or in the journal's format if
//! standard error is the journal.
//!
//! A separate thread writes the lines (`writer`). If `RUST_LOG` is set, it determines what is
//! logged, also by module; otherwise the configuration's level does.

mod rounded;
mod writer;

pub(crate) use rounded::Rounded;
pub(crate) use writer::lost_lines;

use core::fmt;
use slackwater_config::Fault;
use slackwater_config::{LogFormat, LogLevel, LogSettings};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The running log. Dropping it waits for the last lines, at most for a second.
#[derive(Debug)]
pub(crate) struct Logging(());

impl Drop for Logging {
    fn drop(&mut self) {
        writer::flush();
    }
}

/// Starts the log.
///
/// # Errors
///
/// The system has no thread left.
pub(crate) fn log_to_stderr(settings: &LogSettings) -> Result<Logging, Fault> {
    writer::start().map_err(|error| Fault::runtime(format!("no thread for the log: {error}")))?;
    let asked = std::env::var_os("RUST_LOG").filter(|asked| !asked.is_empty());
    let asked = asked.map(|asked| asked_for(&asked));
    let (filter, wrong) = match asked.transpose() {
        Ok(asked) => (asked.unwrap_or_else(|| of_level(settings.level)), None),
        Err(error) => (of_level(settings.level), Some(error)),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(|| writer::ToLines);
    let registry = tracing_subscriber::registry().with(filter);
    // An error means that a logger is installed already, which is fine.
    let _ = match settings.format {
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
        LogFormat::Text if is_journal() => registry
            .with(lines.event_format(ForJournal::new()))
            .try_init(),
        LogFormat::Text => registry
            .with(lines.with_ansi(io::stderr().is_terminal()))
            .try_init(),
    };
    if let Some(error) = wrong {
        tracing::warn!(
            level = settings.level.as_str(),
            remedy = "write a level such as debug, or slackwater=debug,info",
            "RUST_LOG ignored: {error}"
        );
    }
    Ok(Logging(()))
}

/// What the value of `RUST_LOG` logs: levels, and modules with or without a level.
fn asked_for(text: &OsStr) -> Result<Targets, String> {
    let text = text.to_str().ok_or("it is not UTF-8")?;
    let items = text.split(',').map(str::trim);
    let items: Vec<_> = items.filter(|item| !item.is_empty()).collect();
    // The library takes anything else for the name of a module, which then nothing has.
    let is_known = |c: char| c.is_ascii_alphanumeric() || "_:-=".contains(c);
    match items.iter().find(|item| !item.chars().all(is_known)) {
        Some(item) => Err(format!("{item:?} is neither a level nor a module")),
        None if items.is_empty() => Err("it names nothing".to_owned()),
        None => (items.join(",").parse()).map_err(|error: ParseError| error.to_string()),
    }
}

/// What the configuration's level logs.
fn of_level(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // The HTTP/2 library warns about single frames of clients, which could flood the log with them.
    Targets::new()
        .with_default(level)
        .with_target("h2", LevelFilter::ERROR)
}

/// Returns whether standard error is a stream of systemd's journal.
fn is_journal() -> bool {
    let ours = || {
        let stderr: File = io::stderr().as_fd().try_clone_to_owned().ok()?.into();
        let metadata = stderr.metadata().ok()?;
        Some(format!("{}:{}", metadata.dev(), metadata.ino()))
    };
    std::env::var("JOURNAL_STREAM").is_ok_and(|stream| ours() == Some(stream))
}

/// Lines without time and level, which the journal records itself. The level is prepended as `<6>`.
struct ForJournal {
    rest: Format<Full, ()>,
}

impl ForJournal {
    fn new() -> Self {
        let rest = tracing_subscriber::fmt::format();
        Self {
            rest: rest.without_time().with_level(false).with_ansi(false),
        }
    }
}

impl<S, N> FormatEvent<S, N> for ForJournal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(to, "<{}>", priority(*event.metadata().level()))?;
        self.rest.format_event(context, to, event)
    }
}

/// The level as a number of syslog, as in `sd-daemon(3)`.
const fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_level_is_for_all_modules_but_http2() {
        let filter = of_level(LogLevel::Info);
        assert!(filter.would_enable("slackwater::serve", &Level::INFO));
        assert!(!filter.would_enable("slackwater::serve", &Level::DEBUG));
        assert!(filter.would_enable("h2::proto", &Level::ERROR));
        assert!(!filter.would_enable("h2::proto", &Level::WARN));
    }

    #[test]
    fn the_variable_names_levels_and_modules() {
        for text in ["warn,slackwater=debug", " warn , slackwater=debug,,"] {
            let filter = asked_for(OsStr::new(text)).expect(text);
            assert!(filter.would_enable("slackwater::serve", &Level::DEBUG));
            assert!(!filter.would_enable("slackwater::serve", &Level::TRACE));
            assert!(filter.would_enable("rustls", &Level::WARN));
            assert!(!filter.would_enable("rustls", &Level::INFO));
        }
    }

    #[test]
    fn a_variable_that_would_log_nothing_is_a_mistake() {
        let not_text = OsStr::from_bytes(b"debug\xff");
        for (text, why) in [
            (not_text, "it is not UTF-8"),
            (OsStr::new(" , "), "it names nothing"),
            (
                OsStr::new("slack water=debug"),
                "is neither a level nor a module",
            ),
            (OsStr::new("slackwater=loud"), "expected one of"),
        ] {
            let error = asked_for(text).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }
}
