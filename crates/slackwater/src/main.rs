//! The command `slackwater`: parses the command line, runs one sub-command, converts its result
//! into an exit code.

#[cfg(any(feature = "serve", feature = "top"))]
mod admin_client;
#[cfg(feature = "serve")]
mod admin_command;
mod agent;
mod check;
mod cli;
mod completions;
#[cfg(feature = "serve")]
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
#[cfg(feature = "serve")]
mod record;
#[cfg(feature = "load")]
mod seed;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "sim")]
mod sim;
mod supervisor;
#[cfg(any(feature = "serve", feature = "top"))]
mod terminal;
#[cfg(any(feature = "serve", feature = "top"))]
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
