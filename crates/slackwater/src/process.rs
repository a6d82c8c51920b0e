//! What the sub-commands that serve have in common as processes: the signals that end them, and their log.

use crate::descriptors;
use crate::fault::Fault;
use crate::toml_reader::{Remark, Severity};
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask for an end.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches them from now on.
    pub(crate) fn new() -> Result<Self, Fault> {
        let catch = |kind| {
            signal(kind).map_err(|error| Fault::runtime(format!("cannot catch signals: {error}")))
        };
        Ok(Self {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }
}

/// The signal that asks to read the configuration again, SIGHUP. Whoever does not catch it is ended by it.
#[derive(Debug)]
pub(crate) struct Hangups(Signal);

impl Hangups {
    /// Catches them from now on.
    pub(crate) fn new() -> Result<Self, Fault> {
        let caught = signal(SignalKind::hangup());
        let caught =
            caught.map_err(|error| Fault::runtime(format!("cannot catch signals: {error}")));
        caught.map(Self)
    }

    /// Waits for the next one; several that come together are one.
    pub(crate) async fn next(&mut self) {
        self.0.recv().await;
    }
}

/// Writes the log to standard error: what `RUST_LOG` says, else from `info` on.
fn log_to_stderr() {
    use tracing_subscriber::EnvFilter;
    let asked = std::env::var_os(EnvFilter::DEFAULT_ENV);
    let (filter, wrong) = match EnvFilter::try_from_default_env() {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), asked.map(|_| error)),
    };
    // An error means that a logger is there already, which is as good.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .try_init();
    if let Some(error) = wrong {
        tracing::warn!(
            "RUST_LOG is not understood ({error}), so everything from info on is logged; \
             expected a level such as debug, or slackwater=debug,info"
        );
    }
}

/// Lets the process open as many files as it may, and logs if `connections_max` needs more.
fn allow_connections(connections_max: u32) {
    let limit = descriptors::raise_limit();
    if let Some(remark) = descriptors::remark(limit, connections_max) {
        tracing::warn!("{remark}");
    }
}

/// Logs what was remarked on the configuration.
pub(crate) fn log_remark(remark: &Remark) {
    match remark.severity {
        Severity::Note => tracing::info!("{}", remark.about),
        Severity::Warning => tracing::warn!("{}", remark.about),
    }
}

/// What to do where a port cannot be had, to be added to the message; `flag` is what chooses another one.
pub(crate) fn advice_on_port(error: &io::Error, flag: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("; free the port, or choose another with {flag}"),
        _ => String::new(),
    }
}

/// How `serve` and `agent` begin once they are configured: the log, what was remarked, the limit of open files; then
/// `work` to its end, on this thread.
pub(crate) fn run_configured(
    remarks: &[Remark],
    connections_max: u32,
    work: impl Future<Output = Result<(), Fault>>,
) -> Result<(), Fault> {
    log_to_stderr();
    remarks.iter().for_each(log_remark);
    allow_connections(connections_max);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::runtime(format!("cannot start: {error}")))?;
    runtime.block_on(work)
}
