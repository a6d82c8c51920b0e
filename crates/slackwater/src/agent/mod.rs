//! The sub-command `slackwater agent`.

use crate::fault::Fault;

/// Arguments of `slackwater agent`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs `slackwater agent`.
pub(crate) fn run(_args: Args) -> Result<(), Fault> {
    Err(Fault::runtime("not in this build"))
}
