//! The sub-command `slackwater serve`.

use crate::fault::Fault;

/// Arguments of `slackwater serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs `slackwater serve`.
pub(crate) fn run(_args: Args) -> Result<(), Fault> {
    Err(Fault::runtime("not in this build"))
}
