//! What the serving sub-commands share as processes: the signals that end them, and their log.

use crate::descriptors;
use crate::log::log_to_stderr;
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_config::LogSettings;
use slackwater_config::toml_reader::{Remark, Severity};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long the end of the process waits for work that blocks a thread.
const BLOCKED_MAX: Duration = Duration::from_secs(1);

/// The signals that request shutdown.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches these signals from now on.
    pub(crate) fn new() -> Result<Self, Fault> {
        Ok(Self {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }
}

/// Other requests to a process by signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessSignal {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGUSR1: reopen the log files.
    Reopen,
    /// SIGUSR2: replace this process with a new one.
    Upgrade,
}

/// The signals for these requests.
#[derive(Debug)]
pub(crate) struct ProcessSignals {
    reload: Signal,
    reopen: Signal,
    upgrade: Signal,
}

impl ProcessSignals {
    /// Catches these signals from now on.
    pub(crate) fn new() -> Result<Self, Fault> {
        Ok(Self {
            reload: catch(SignalKind::hangup())?,
            reopen: catch(SignalKind::user_defined1())?,
            upgrade: catch(SignalKind::user_defined2())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> ProcessSignal {
        tokio::select! {
            _ = self.reload.recv() => ProcessSignal::Reload,
            _ = self.reopen.recv() => ProcessSignal::Reopen,
            _ = self.upgrade.recv() => ProcessSignal::Upgrade,
        }
    }
}

fn catch(kind: SignalKind) -> Result<Signal, Fault> {
    signal(kind).map_err(|error| Fault::runtime(format!("cannot catch signals: {error}")))
}

/// Raises the limit of open files as far as allowed, and logs a warning if `connections_max` needs
/// more.
fn allow_connections(connections_max: u32) {
    let limit = descriptors::raise_limit();
    if let Some(remark) = descriptors::remark(limit, connections_max) {
        tracing::warn!("{remark}");
    }
}

/// Logs a remark on the configuration.
pub(crate) fn log_remark(remark: &Remark) {
    match remark.severity {
        Severity::Note => tracing::info!("{}", remark.about),
        Severity::Warning => tracing::warn!("{}", remark.about),
    }
}

/// Runs `serve` or `agent` after it is configured: starts the log, logs the remarks, raises the
/// limit of open files, and then runs `work` to its end, on this thread.
pub(crate) fn run_configured(
    log: &LogSettings,
    remarks: &[Remark],
    connections_max: u32,
    work: impl Future<Output = Result<(), Fault>>,
) -> Result<(), Fault> {
    // The log starts first, so that it ends last.
    let _logging = log_to_stderr(log)?;
    remarks.iter().for_each(log_remark);
    allow_connections(connections_max);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::runtime(format!("cannot start: {error}")))?;
    let ended = runtime.block_on(work);
    // A file system or a resolver that hangs is not waited for.
    runtime.shutdown_timeout(BLOCKED_MAX);
    ended
}
