//! The command `slackwater`: parses the command line, runs one sub-command, converts its result
//! into an exit code.

mod admin_client;
mod admin_command;
mod agent;
mod check;
mod cli;
mod completions;
mod decisions_path;
#[cfg(feature = "demo")]
mod demo;
mod descriptors;
#[cfg(any(feature = "load", feature = "sim"))]
mod json_output;
#[cfg(feature = "load")]
mod load;
mod log;
mod man;
#[cfg(test)]
#[cfg(feature = "demo")]
mod openapi;
mod output;
mod process;
mod ready;
mod record;
#[cfg(feature = "load")]
mod seed;
mod serve;
#[cfg(feature = "sim")]
mod sim;
mod supervisor;
mod terminal;
mod text_table;
#[cfg(feature = "top")]
mod top;
mod upgrade;

use std::process::ExitCode;

#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
