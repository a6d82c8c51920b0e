//! The sub-command `slackwater demo`: two policies side by side on this machine.

mod args;
mod fleet;
mod history;
mod observe;
mod picture;
mod replica;
mod summary;
mod terminal;
mod verdict;
mod words;

use crate::fault::Fault;
pub(crate) use args::Args;

/// Runs `slackwater demo`.
pub(crate) fn run(args: Args) -> Result<(), Fault> {
    let _ = args.settings()?;
    Err(Fault::runtime("not in this build"))
}
