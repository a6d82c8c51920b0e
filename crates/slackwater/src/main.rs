//! The command `slackwater`: parses the command line, runs one sub-command, maps its end to an exit code.

mod access_log;
mod admin;
mod admin_client;
mod admin_command;
mod agent;
mod check;
mod cli;
#[cfg(test)]
#[path = "../../slackwater-core/tests/support/counting_allocator.rs"]
mod counting_allocator;
mod decisions;
mod demo;
mod descriptors;
mod discovery;
mod file_watch;
mod forward;
mod health;
mod json_output;
mod load;
mod log;
mod orca;
mod output;
mod process;
mod ready;
mod record;
mod request_record;
mod sampling;
mod seed;
mod serve;
mod sim;
mod supervisor;
mod terminal;
mod text_table;
mod tls;
mod top;
mod traces;
mod upgrade;
mod worker_threads;

use std::process::ExitCode;

#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
