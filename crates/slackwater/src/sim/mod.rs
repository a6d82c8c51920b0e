//! The sub-command `slackwater sim`: the testbed in virtual time, from the command line.
//!
//! | | |
//! |---|---|
//! | a user's scenario file | `file` |
//! | `sim run`: a scenario under several policies | `play` |
//! | `sim size`: how many replicas they need | `size` |
//! | `sim fig6` and the other figures, `sim all`, `sim list` | `figures` |
//! | seeds, seconds, threads | `effort` |
//! | policies by name | `policies` |
//! | how far it has come, and how it is stopped | `progress`, `stop` |

mod effort;
mod file;
mod policies;
mod progress;
mod size;
mod stop;

use crate::fault::Fault;

/// Arguments of `slackwater sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Size(size::Args),
}

/// Runs `slackwater sim`.
pub(crate) fn run(args: Args) -> Result<(), Fault> {
    match args.command {
        Command::Size(args) => size::run(args),
    }
}
