//! The arguments of `cargo xtask peers`.

use clap::value_parser;
use std::path::PathBuf;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Keeps the temporary folder with configuration and logs
    #[arg(long)]
    pub(super) keep: bool,
    /// Size of downloads and uploads, in MiB: 1 to 16,384
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=16_384))]
    #[arg(default_value_t = 1_024)]
    pub(super) size_mib: u64,
    /// Length of each run of `slackwater load` in seconds: 5 to 600
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(5..=600))]
    #[arg(default_value_t = 10)]
    pub(super) seconds: u64,
    /// A file for the table, as Markdown
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}
