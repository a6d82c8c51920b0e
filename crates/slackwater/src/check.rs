//! The sub-command `slackwater check`.

use crate::fault::Fault;

/// Arguments of `slackwater check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs `slackwater check`.
pub(crate) fn run(_args: Args) -> Result<(), Fault> {
    Err(Fault::runtime("not in this build"))
}
