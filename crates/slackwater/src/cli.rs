//! The command line: the sub-commands, the help that belongs to all of them, and the way from a sub-command's end to an
//! exit code. Each sub-command's own arguments live in its module.

use crate::output::print;
use crate::{admin_command, agent, check, demo, load, ready, serve, sim, top};
use clap::{CommandFactory, Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slackwater demo                                    two policies side by side, on this machine
  slackwater serve --listen 127.0.0.1:8080 --replicas 10.0.0.1:80,10.0.0.2:80
  slackwater serve --config slackwater.toml
  slackwater agent --listen 10.0.0.1:8000 --to 127.0.0.1:80
  slackwater load http://127.0.0.1:8080/ --rate 500 --seconds 10
  slackwater sim fig6                                a figure of the paper, in virtual time
  slackwater sim run my-fleet.toml --policy prequal --versus peak_ewma
  slackwater top                                     the fleet of a running serve or demo, in this terminal
  slackwater admin drain 10.0.0.1:80 --wait 30s      no new requests for a replica of a running serve
  slackwater check slackwater.toml

Exit codes: 0 all went well, 1 failed while running, 2 bad arguments or configuration.";

/// Sends each request to the replica that has room for it.
#[derive(Debug, Parser)]
#[command(name = "slackwater", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Balance HTTP requests over replicas
    Serve(serve::Args),
    /// Stand before one replica: count its requests and answer probes for it
    Agent(agent::Args),
    /// Generate load at a fixed rate and measure latency from the intended start
    Load(load::Args),
    /// See two policies balance the same load, side by side
    Demo(demo::Args),
    /// See the fleet of a running serve, agent or demo in this terminal
    Top(top::Args),
    /// Change a running serve at its admin address, or ask it: drain, weights, policy, settings, reload
    Admin(admin_command::Args),
    /// Play policies in virtual time: the papers' figures, or your own fleet
    Sim(sim::Args),
    /// Validate configuration and scenario files
    Check(check::Args),
    /// Ask a running serve or agent whether it takes requests
    Ready(ready::Args),
    /// Print a completion script for a shell
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
}

/// Parses the process's arguments and runs what they ask for.
pub(crate) fn run() -> ExitCode {
    let end = match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Load(args) => load::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Top(args) => top::run(args),
        Command::Admin(args) => admin_command::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Check(args) => check::run(args),
        Command::Ready(args) => ready::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "slackwater", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    };
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            let _ = writeln!(std::io::stderr(), "slackwater: {fault}");
            fault.exit_code()
        }
    }
}
