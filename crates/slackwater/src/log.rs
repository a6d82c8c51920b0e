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
use slackwater_config::{LogFormat, LogSettings};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

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
    let asked = std::env::var_os(EnvFilter::DEFAULT_ENV).filter(|asked| !asked.is_empty());
    // The HTTP/2 library warns about single frames of clients, which could flood the log with them.
    let level = || EnvFilter::new(format!("{},h2=error", settings.level.as_str()));
    let (filter, wrong) = match EnvFilter::try_from_default_env() {
        Ok(filter) if asked.is_some() => (filter, None),
        Ok(_) => (level(), None),
        Err(error) => (level(), asked.map(|_| error)),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| writer::ToLines);
    // An error means that a logger is installed already, which is fine.
    let _ = match settings.format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text if is_journal() => builder.event_format(ForJournal::new()).try_init(),
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).try_init(),
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
