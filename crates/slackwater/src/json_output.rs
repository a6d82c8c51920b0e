//! The output of `--json`: a file, or standard output for `-`. All sub-commands that end with
//! figures share it.
//!
//! The file is opened before the run, so that a bad path is reported at once and not after ten
//! minutes, and written once after it.

use serde::Serialize;
use slackwater_config::Fault;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where the output of `--json` goes.
#[derive(Debug)]
pub(crate) enum JsonOutput {
    Stdout,
    File { path: PathBuf, file: File },
}

impl JsonOutput {
    /// Opens or creates the file. Its content stays until there are new figures.
    pub(crate) fn open(path: PathBuf) -> Result<Self, Fault> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        match file {
            Ok(file) => Ok(Self::File { path, file }),
            Err(error) => Err(Fault::usage(format!(
                "--json {}: cannot be written: {error}",
                path.display()
            ))),
        }
    }

    /// Returns whether it is standard output, which then carries nothing else.
    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// Replaces the content with the figures.
    pub(crate) fn write(self, figures: &impl Serialize) -> Result<(), Fault> {
        let mut text = serde_json::to_vec_pretty(figures)
            .map_err(|error| Fault::runtime(format!("--json: {error}")))?;
        text.push(b'\n');
        match self {
            Self::Stdout => io::stdout()
                .write_all(&text)
                .map_err(|error| Fault::runtime(format!("--json -: {error}"))),
            Self::File { path, file } => write_anew(file, &text).map_err(|error| {
                Fault::runtime(format!(
                    "--json {}: cannot be written: {error}",
                    path.display()
                ))
            }),
        }
    }
}

fn write_anew(mut file: File, text: &[u8]) -> io::Result<()> {
    // A pipe or terminal cannot be truncated.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(text)
}
