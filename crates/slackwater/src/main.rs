//! The command `slackwater`: parses the command line, runs one sub-command, maps its end to an exit code.

mod admin_client;
mod admin_command;
mod agent;
mod check;
mod cli;
mod decisions_path;
mod demo;
mod descriptors;
mod json_output;
mod load;
mod log;
#[cfg(test)]
mod openapi;
mod output;
mod process;
mod ready;
mod record;
mod seed;
mod serve;
mod sim;
mod supervisor;
mod terminal;
mod text_table;
mod top;
mod upgrade;

use std::process::ExitCode;

#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
