//! The arguments of `cargo xtask dashboard`.

use std::path::PathBuf;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Keeps the temporary folder with configuration and logs
    #[arg(long)]
    pub(super) keep: bool,
    /// Without the thousand replicas, and as with --debug (one minute)
    #[arg(long)]
    pub(super) short: bool,
    /// With a build for tests, and proportionally less load
    #[arg(long)]
    debug: bool,
    /// A folder for pictures; without it none are taken
    #[arg(long, value_name = "FOLDER")]
    pub(super) shots: Option<PathBuf>,
    /// The command to test; built by default
    #[arg(long, value_name = "FILE")]
    pub(super) slackwater: Option<PathBuf>,
    /// A file for the results, as Markdown
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

impl Options {
    /// Whether the build is that of the tests; in the short form, so that nothing has to be built
    /// again.
    const fn is_debug(&self) -> bool {
        self.debug || self.short
    }

    /// The build profile.
    pub(super) const fn profile(&self) -> &'static str {
        if self.is_debug() { "dev" } else { "quick" }
    }

    /// Share of an optimized build's request rate, in tenths.
    pub(super) const fn rate_tenths(&self) -> u32 {
        if self.is_debug() { 3 } else { 10 }
    }
}
