//! The command `slackwater`: parses the command line, runs one sub-command, maps its end to an exit code.

mod access_log;
mod admin;
mod admin_client;
mod admin_command;
mod agent;
mod check;
mod cli;
mod config;
#[cfg(test)]
#[path = "../../slackwater-core/tests/support/counting_allocator.rs"]
mod counting_allocator;
mod date;
mod decisions;
mod demo;
mod descriptors;
mod discovery;
mod exemplars;
mod facts;
mod fault;
mod file_watch;
mod forward;
mod health;
mod json_output;
mod latency_histogram;
mod load;
mod log;
mod orca;
mod output;
mod process;
mod proxy_protocol;
mod ready;
mod record;
mod request_record;
mod routes;
mod sampling;
mod seed;
mod serve;
mod sim;
mod supervisor;
mod terminal;
mod text_table;
mod tls;
mod toml_reader;
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
