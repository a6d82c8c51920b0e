//! `cargo xtask vectors`: test vectors for implementations of the core in other languages.
//!
//! The crate slackwater-vectors plays the scenarios; this writes them to files, or compares them
//! with the committed ones.

use crate::command::root;
use crate::output::say;
use clap::value_parser;
use slackwater_vectors::{Amount, File, files};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The committed vectors, from the root.
const FOLDER: &str = "vectors";

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Compares them with the core, and writes nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// Scenarios of policies in all files together, about: 1 to 1,000,000; by default as many as
    /// are committed
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) scenarios: Option<u64>,
    /// Events of each scenario, in the mean: 1 to 1,000,000,000; by default as in the committed
    /// vectors
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) events: Option<u64>,
    /// Number of each file's first scenario, from 1 up; by default 1, or, without --scenarios, the
    /// committed one
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=u64::MAX / 2))]
    pub(crate) first_seed: Option<u64>,
    /// Another folder than vectors/
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
}

/// Writes the vectors, or compares them.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let amount = Amount {
        scenarios: options.scenarios,
        events: options.events,
        first_seed: options.first_seed,
    };
    let committed = || root().join(FOLDER);
    let folder = options.out.clone().unwrap_or_else(committed);
    let mut events = 0;
    let mut scenarios = 0;
    for file in files(amount) {
        let path = folder.join(file.path());
        if options.check {
            check(&file, &path)?;
        } else {
            write(&file, &path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let numbers = file.numbers();
        scenarios += numbers.len();
        events += numbers.iter().map(|&it| file.events(it)).sum::<u64>();
    }
    let verb = if options.check { "same" } else { "wrote" };
    say(&format!(
        "{verb}: {scenarios} scenarios with at least {events} events"
    ));
    Ok(())
}

fn check(file: &File, path: &Path) -> Result<(), String> {
    let committed =
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    match file.difference(&committed) {
        Some(difference) => Err(format!("{}: {difference}", path.display())),
        None => Ok(()),
    }
}

fn write(file: &File, path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut writer = BufWriter::new(fs::File::create(path)?);
    for text in file.texts() {
        writer.write_all(text.as_bytes())?;
    }
    writer.flush()
}
