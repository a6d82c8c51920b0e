//! The sub-command `slackwater demo`.

#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the demo's own page, which uses it, comes next")
)]
mod replica;

use crate::fault::Fault;

/// Arguments of `slackwater demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs `slackwater demo`.
pub(crate) fn run(_args: Args) -> Result<(), Fault> {
    Err(Fault::runtime("not in this build"))
}
