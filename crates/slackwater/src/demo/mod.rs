//! The sub-command `slackwater demo`.

use crate::fault::Fault;

/// Arguments of `slackwater demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs `slackwater demo`.
pub(crate) fn run(_args: Args) -> Result<(), Fault> {
    Err(Fault::runtime("not in this build"))
}
