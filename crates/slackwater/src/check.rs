//! The sub-command `slackwater check`: shows how `serve` or `agent` would read a configuration, and
//! `sim` a scenario, without opening a socket or running anything.
//!
//! As at a start, host names are resolved and key files read. The summary of a valid file goes to
//! standard output. Mistakes and remarks go to standard error, in the form that compilers use:
//! `file:line:column: field: message`.

mod agent;
#[cfg(feature = "serve")]
mod serve;
#[cfg(not(feature = "serve"))]
mod serve {
    //! A build without `slackwater serve`.

    use super::{Mistakes, Source, Valid, of_whole};

    pub(super) fn read(source: &Source, _: bool) -> Result<Valid, Mistakes> {
        Err(of_whole(
            source.file(),
            "has no key \"to\", which an agent's file needs; this build checks no others",
        ))
    }
}

use crate::output::print;
#[cfg(feature = "sim")]
use crate::sim;
#[cfg(feature = "serve")]
use slackwater_config::json_schema;
use slackwater_config::toml_reader::{Mistakes, Remark, Source};
use slackwater_config::{AdminSettings, Fault, ListenerTls, agent_json_schema, belongs_to_agent};
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[cfg(not(feature = "serve"))]
const EXAMPLES: &str = "\
Examples:
  slackwater check agent.toml
  slackwater check --show agent.toml          every key with its value, defaults included
  slackwater check --schema agent             a JSON Schema, for editors that complete keys

As at a start, host names are resolved and key files are read. No socket is opened.
Exit codes: 0 all files are valid (notes and warnings do not count), 2 at least one has a mistake.";

#[cfg(feature = "serve")]
const EXAMPLES: &str = "\
Examples:
  slackwater check slackwater.toml
  slackwater check --show slackwater.toml     every key with its value, defaults included
  slackwater check /etc/slackwater/*.toml
  slackwater check my-fleet.sim.toml          a scenario of `slackwater sim`
  slackwater check --schema serve             a JSON Schema, for editors that complete keys

A file with the key \"to\" belongs to `slackwater agent`; one with [load], [cost] or [[fleet]], or
named *.sim.toml, is a scenario of `slackwater sim`; any other one belongs to `slackwater serve`.
As at a start, host names are resolved, and key files, fleet files, kubeconfigs and traces are read.
Names for discovery by DNS are not resolved, and no socket is opened.
Exit codes: 0 all files are valid (notes and warnings do not count), 2 at least one has a mistake.";

/// Arguments of `slackwater check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configurations and scenarios to validate
    #[arg(required_unless_present = "schema", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print each configuration in full, with every default, as a file that could be used in its
    /// place; not scenarios
    #[arg(long)]
    show: bool,
    /// Print a JSON Schema of what the command reads, for editors, and check nothing
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["files", "show"])]
    schema: Option<Described>,
}

/// The command whose configuration a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Described {
    /// `slackwater serve`.
    #[cfg(feature = "serve")]
    Serve,
    /// `slackwater agent`.
    Agent,
}

/// Runs `slackwater check`.
pub(crate) fn run(args: Args) -> Result<(), Fault> {
    let Args {
        files,
        show,
        schema,
    } = args;
    if let Some(described) = schema {
        return print(&match described {
            #[cfg(feature = "serve")]
            Described::Serve => json_schema(),
            Described::Agent => agent_json_schema(),
        });
    }
    let mut mistakes = 0;
    let mut files_bad = 0;
    for file in &files {
        match look_at(file, show) {
            Ok(text) => print(&text)?,
            Err(found) => {
                mistakes += found.count();
                files_bad += 1;
                print_error(&format!("{found}\n"));
            }
        }
    }
    if files_bad == 0 {
        return Ok(());
    }
    Err(Fault::usage(format!(
        "{mistakes} mistake{} in {files_bad} of {} file{}",
        plural(mistakes),
        files.len(),
        plural(files.len()),
    )))
}

/// A valid configuration.
#[derive(Debug)]
struct Valid {
    remarks: Vec<Remark>,
    /// The summary, or with `--show` every key with its value.
    text: String,
}

/// Returns what is printed about a valid file. Its remarks are printed meanwhile.
fn look_at(file: &Path, show: bool) -> Result<String, Mistakes> {
    let source = Source::read(file).map_err(|mistake| Mistakes::new(vec![mistake]))?;
    let summed_up = |summary: String| format!("{}: ok\n{summary}", file.display());
    #[cfg(feature = "sim")]
    if let Some(scenario) = sim::check(&source) {
        let summary = scenario?;
        return if show {
            Err(of_whole(file, "is a scenario, which --show does not show"))
        } else {
            Ok(summed_up(summary))
        };
    }
    let Valid { remarks, text } = if belongs_to_agent(&source)? {
        agent::read(&source, show)?
    } else {
        serve::read(&source, show)?
    };
    for remark in remarks {
        print_error(&format!("{remark:#}\n"));
    }
    Ok(if show { text } else { summed_up(text) })
}

const fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn print_error(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A mistake about a whole file.
#[cfg(any(feature = "sim", not(feature = "serve")))]
fn of_whole(file: &Path, message: &str) -> Mistakes {
    use slackwater_config::toml_reader::{Mistake, Place};

    Mistakes::new(vec![Mistake {
        place: Place::File(file.to_owned()),
        field: String::new(),
        message: message.to_owned(),
    }])
}

fn admin(settings: &AdminSettings) -> String {
    settings.listen.map_or_else(
        || "no status or metrics: admin.listen is \"none\"".to_owned(),
        |address| format!("status and metrics at http://{address}/"),
    )
}

fn tls(tls: &ListenerTls) -> String {
    let server = &tls.server;
    let count = server.certificates.len();
    let protocols: Vec<_> = server.protocols.iter().map(|it| it.as_str()).collect();
    let clients = match &server.clients {
        None => "",
        Some(clients) if clients.required => ", client certificates required",
        Some(_) => ", client certificates optional",
    };
    let (plural, protocols) = (plural(count), protocols.join(" and "));
    format!(" (TLS: {count} certificate{plural}, {protocols}{clients})")
}
