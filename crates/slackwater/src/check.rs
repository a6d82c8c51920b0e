//! The sub-command `slackwater check`: shows how `serve` or `agent` would read a configuration, and
//! `sim` a scenario, without opening a socket or running anything.
//!
//! As at a start, host names are resolved and key files read. The summary of a valid file goes to
//! standard output. Mistakes and remarks go to standard error, in the form that compilers use:
//! `file:line:column: field: message`.

mod summary;

use crate::output::print;
#[cfg(feature = "sim")]
use crate::sim;
use slackwater_config::Fault;
#[cfg(feature = "sim")]
use slackwater_config::toml_reader::{Mistake, Place};
use slackwater_config::toml_reader::{Mistakes, Source};
use slackwater_config::{
    ClusterAccess, Config, FleetSource, LoadedFile, ServiceConfig, Variables, agent_json_schema,
    json_schema, read_fleet_file,
};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use summary::summary;

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
            Described::Serve => json_schema(),
            Described::Agent => agent_json_schema(),
        });
    }
    let mut mistakes = 0;
    let mut files_bad = 0;
    for file in &files {
        match summary_of(file, show) {
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

/// Returns the summary of a valid file. Its remarks are printed meanwhile.
fn summary_of(file: &Path, show: bool) -> Result<String, Mistakes> {
    let source = Source::read(file).map_err(|mistake| Mistakes::new(vec![mistake]))?;
    let summed_up = |summary: String| format!("{}: ok\n{summary}", file.display());
    #[cfg(feature = "sim")]
    if let Some(scenario) = sim::check(&source) {
        let summary = scenario?;
        return if show {
            Err(Mistakes::new(vec![Mistake {
                place: Place::File(file.to_owned()),
                field: String::new(),
                message: "is a scenario, which --show does not show".to_owned(),
            }]))
        } else {
            Ok(summed_up(summary))
        };
    }
    let loaded = LoadedFile::of(&source, Variables::of_process())?;
    let fleets = read_fleets(&loaded)?;
    for remark in loaded.remarks() {
        print_error(&format!("{remark:#}\n"));
    }
    Ok(if show {
        loaded.to_toml()
    } else {
        summed_up(summary(&loaded, &fleets))
    })
}

const fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn print_error(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Reads the kubeconfig of a configuration whose services follow a cluster. Without one, the access
/// is that of the pod in which `serve` will run.
fn read_kubeconfig(config: &Config) -> Result<(), Mistakes> {
    let file = config.kubernetes.kubeconfig.as_deref();
    let file = file.filter(|_| config.follows_cluster());
    file.map_or(Ok(()), |file| ClusterAccess::read(Some(file)).map(drop))
}

/// Reads the number of replicas in each service's fleet file; `None` for a service without one.
fn read_fleets(loaded: &LoadedFile) -> Result<Vec<Option<usize>>, Mistakes> {
    let LoadedFile::Serve(loaded) = loaded else {
        return Ok(Vec::new());
    };
    read_kubeconfig(&loaded.config)?;
    let own = loaded.config.own_addresses();
    let read = |service: &ServiceConfig| match &service.discovery.source {
        FleetSource::File(file) => {
            read_fleet_file(file, service.probe.port, service.replica.tls.as_ref(), &own)
                .map(|it| Some(it.len()))
        }
        FleetSource::List
        | FleetSource::Dns(_)
        | FleetSource::Kubernetes(_)
        | FleetSource::Xds(_) => Ok(None),
    };
    loaded.config.services.iter().map(read).collect()
}
