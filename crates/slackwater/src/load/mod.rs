//! The sub-command `slackwater load`.

use crate::fault::Fault;

/// Arguments of `slackwater load`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs `slackwater load`.
pub(crate) fn run(_args: Args) -> Result<(), Fault> {
    Err(Fault::runtime("not in this build"))
}
