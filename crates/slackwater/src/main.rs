//! The command `slackwater`: parses the command line, runs one sub-command, maps its end to an exit code.

mod access_log;
mod admin;
mod agent;
mod check;
mod cli;
mod config;
mod content_length;
mod decisions;
mod demo;
mod descriptors;
mod discovery;
mod fault;
mod file_watch;
mod forward;
mod health;
mod http1;
mod http2;
mod json_output;
mod latency_histogram;
mod load;
mod log;
mod orca;
mod output;
mod process;
mod proxy_protocol;
mod ready;
mod request_record;
mod routes;
mod sampling;
mod seed;
mod serve;
mod sim;
mod supervisor;
mod tls;
mod toml_reader;
mod top;
mod upgrade;
mod worker_threads;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
