//! `cargo xtask vectors`: test vectors for implementations of the core in other languages.
//!
//! The crate slackwater-vectors plays the scenarios; this writes them to files, or compares them
//! with the committed ones.

use crate::arguments::number;
use crate::command::root;
use crate::output::say;
use slackwater_vectors::{Amount, File, files};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The committed vectors, from the root.
const FOLDER: &str = "vectors";

pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    let mut amount = Amount::COMMITTED;
    let (mut out, mut checks) = (None, false);
    let mut options = options.iter().copied();
    while let Some(option) = options.next() {
        let mut number = |most: u64| number(option, options.next(), 1..=most);
        match option {
            "--check" => checks = true,
            "--scenarios" => amount.scenarios = Some(number(1_000_000)?),
            "--events" => amount.events = Some(number(1_000_000_000)?),
            "--first-seed" => amount.first_seed = Some(number(u64::MAX / 2)?),
            "--out" => {
                let folder = options.next().ok_or("--out: expected a folder")?;
                out = Some(PathBuf::from(folder));
            }
            _ => return Err(format!("vectors: unknown option {option}")),
        }
    }
    let folder = out.unwrap_or_else(|| root().join(FOLDER));
    let mut events = 0;
    let mut scenarios = 0;
    for file in files(amount) {
        let path = folder.join(file.path());
        if checks {
            check(&file, &path)?;
        } else {
            write(&file, &path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let numbers = file.numbers();
        scenarios += numbers.len();
        events += numbers.iter().map(|&it| file.events(it)).sum::<u64>();
    }
    let verb = if checks { "same" } else { "wrote" };
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
