//! The command line: the sub-commands, the help that belongs to all of them, and the conversion of
//! a sub-command's result into an exit code. Each sub-command's own arguments are in its module.

#[cfg(all(test, feature = "demo", feature = "sim", feature = "top"))]
mod docs;

#[cfg(feature = "demo")]
use crate::demo;
#[cfg(feature = "load")]
use crate::load;
use crate::output::print;
#[cfg(feature = "sim")]
use crate::sim;
#[cfg(feature = "top")]
use crate::top;
#[cfg(feature = "serve")]
use crate::{admin_command, serve};
use crate::{agent, check, completions, man, ready};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// The examples in the help, and whether this build has each of them.
const EXAMPLES: &[(bool, &str, &str)] = &[
    (
        cfg!(feature = "demo"),
        "demo",
        "two policies side by side, on this machine",
    ),
    (
        cfg!(feature = "serve"),
        "serve --listen 127.0.0.1:8080 --replicas 10.0.0.1:80,10.0.0.2:80",
        "",
    ),
    (
        cfg!(feature = "serve"),
        "serve --config slackwater.toml",
        "",
    ),
    (true, "agent --listen 10.0.0.1:8000 --to 127.0.0.1:80", ""),
    (
        cfg!(feature = "load"),
        "load http://127.0.0.1:8080/ --rate 500 --seconds 10",
        "",
    ),
    (
        cfg!(feature = "sim"),
        "sim fig6",
        "a figure of the paper, in virtual time",
    ),
    (
        cfg!(feature = "sim"),
        "sim run my-fleet.toml --policy prequal --versus peak_ewma",
        "",
    ),
    (
        cfg!(feature = "top"),
        "top",
        "the fleet of a running serve, in this terminal",
    ),
    (
        cfg!(feature = "serve"),
        "admin drain 10.0.0.1:80 --wait 30s",
        "no new requests for a replica of a serve",
    ),
    (cfg!(feature = "serve"), "check slackwater.toml", ""),
    (!cfg!(feature = "serve"), "check agent.toml", ""),
];

/// Returns the last part of the help.
fn after_help() -> String {
    let mut text = String::from("Examples:\n");
    for (_, arguments, about) in EXAMPLES.iter().filter(|(is_here, ..)| *is_here) {
        let line = format!("  slackwater {arguments:<40}{about}");
        text += line.trim_end();
        text.push('\n');
    }
    text + "\nExit codes: 0 all went well, 1 failed while running, 2 bad arguments or configuration."
}

/// Sends each request to the replica that can answer it soonest.
#[derive(Debug, Parser)]
#[command(name = "slackwater", version, after_help = after_help(), max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "serve")]
    /// Balance HTTP requests over replicas
    Serve(serve::Args),
    /// Run beside one replica: count its requests and answer probes for it
    Agent(Box<agent::Args>),
    #[cfg(feature = "load")]
    /// Generate load at a fixed rate and measure latency from the intended start
    Load(load::Args),
    #[cfg(feature = "demo")]
    /// See two policies balance the same load, side by side
    Demo(demo::Args),
    #[cfg(feature = "top")]
    /// See the fleet of a running serve, agent or demo in this terminal
    Top(top::Args),
    #[cfg(feature = "serve")]
    /// Inspect or change a running serve: status, drain, weights, policy, settings, reload
    Admin(admin_command::Args),
    #[cfg(feature = "sim")]
    /// Simulate policies in virtual time: the papers' figures, or your own fleet
    Sim(sim::Args),
    /// Validate configuration and scenario files
    Check(check::Args),
    /// Check whether a running serve or agent accepts requests
    Ready(ready::Args),
    /// Print a completion script for a shell
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of all commands into a folder
    Man(man::Args),
}

/// The sub-commands that a build can leave out, and whether this one has them.
const OPTIONAL: [(&str, bool); 6] = [
    ("serve", cfg!(feature = "serve")),
    ("admin", cfg!(feature = "serve")),
    ("demo", cfg!(feature = "demo")),
    ("load", cfg!(feature = "load")),
    ("sim", cfg!(feature = "sim")),
    ("top", cfg!(feature = "top")),
];

/// Adds to an error about a sub-command that other builds have where it is.
fn with_whereabouts(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(asked)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    if OPTIONAL.contains(&(asked, false)) {
        let tip = format!(
            "this build leaves `slackwater {asked}` out; the program with everything has it"
        );
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
    error
}

/// Adds the remedy to an error about an argument if a configuration file was given without its
/// flag, as other servers take it.
fn with_hint(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    // An argument may be no text.
    let command = std::env::args_os().nth(1).unwrap_or_default();
    let command = command.to_string_lossy();
    let takes_config = matches!(&*command, "serve" | "agent");
    let is_file = [".toml", ".yaml", ".yml", ".json", ".conf", ".cfg"]
        .iter()
        .any(|end| found.ends_with(end));
    if takes_config && is_file && error.kind() == ErrorKind::UnknownArgument {
        let tip = format!("a configuration needs its flag: slackwater {command} --config {found}");
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

/// Parses the process's arguments and runs the sub-command.
pub(crate) fn run() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| with_hint(with_whereabouts(error)).exit());
    let end = match cli.command {
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(args),
        Command::Agent(args) => agent::run(*args),
        #[cfg(feature = "load")]
        Command::Load(args) => load::run(args),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::run(args),
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(args),
        #[cfg(feature = "serve")]
        Command::Admin(args) => admin_command::run(args),
        #[cfg(feature = "sim")]
        Command::Sim(args) => sim::run(args),
        Command::Check(args) => check::run(args),
        Command::Ready(args) => ready::run(&args),
        Command::Completions { shell } => {
            let script = completions::script(Cli::command(), shell);
            print(&String::from_utf8_lossy(&script))
        }
        Command::Man(args) => man::run(&args, Cli::command()),
    };
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            let _ = writeln!(std::io::stderr(), "slackwater: {fault}");
            fault.exit_code()
        }
    }
}
