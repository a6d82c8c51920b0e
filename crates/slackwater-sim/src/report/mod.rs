//! What came out, written down: CSV with fixed columns, pictures, and an HTML page that needs
//! nothing else.
//!
//! [`write()`] and [`write_comparison`] put files into a folder, [`summary`] and [`comparison`] are
//! for a terminal. All of them are functions of their arguments: the same runs give the same bytes,
//! but for what says how fast the simulation was.

mod compared;
mod csv;
mod html;
mod markup;
mod quantity;
mod svg;
mod tables;
mod text;

#[cfg(test)]
mod example;
#[cfg(test)]
mod tests;

pub use crate::number::with_thousands;
pub use csv::{COLUMNS, csv};
pub use svg::svg_document;
pub use text::{comparison, summary};

use crate::figure::{Figure, Findings, Played};
use core::time::Duration;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a page says of the run besides its results. Seeds and spans it reads off what was played.
#[derive(Clone, Debug)]
pub struct RunInfo {
    /// The command line that makes the same files.
    pub command: String,
    /// Program and version, with the commit if it is known.
    pub version: String,
    /// Threads that played.
    pub threads: usize,
    /// How long all of it took in real time.
    pub wall: Duration,
}

/// A file or folder that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be written: {source}", path.display())]
pub struct WriteError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Writes a figure's `NAME.csv`, `NAME.html` and one `NAME-N.svg` for each chart (N from 1) into
/// `dir`, which is made if it is not there. Files of those names are replaced. Returns what was
/// written.
pub fn write(
    dir: &Path,
    figure: &dyn Figure,
    played: &[Played],
    findings: &Findings,
    about: &RunInfo,
) -> Result<Vec<PathBuf>, WriteError> {
    let name = figure.name();
    let mut files = Files::into(dir)?;
    files.write(&format!("{name}.csv"), &csv(name, played))?;
    let styles = svg::Styles::of(&findings.charts);
    for (index, chart) in findings.charts.iter().enumerate() {
        let picture = svg::document(chart, &styles);
        files.write(&format!("{name}-{}.svg", index + 1), &picture)?;
    }
    let page = html::figure_page(figure, played, findings, about);
    files.write(&format!("{name}.html"), &page)?;
    Ok(files.written)
}

/// Writes `index.html` into `dir`: links to the figures' pages, with how many of their claims were
/// reproduced.
pub fn write_index(
    dir: &Path,
    figures: &[(&dyn Figure, &Findings)],
    about: &RunInfo,
) -> Result<PathBuf, WriteError> {
    let mut files = Files::into(dir)?;
    files.write("index.html", &html::index_page(figures, about))?;
    Ok(dir.join("index.html"))
}

/// Writes what several policies came to on one scenario: `NAME.csv` and `NAME.html` in `dir`, which
/// is made if it is not there. `name` is also the CSV's `figure`. Policies are compared with the
/// first. Returns what was written.
pub fn write_comparison(
    dir: &Path,
    name: &str,
    title: &str,
    played: &[Played],
    about: &RunInfo,
) -> Result<Vec<PathBuf>, WriteError> {
    let mut files = Files::into(dir)?;
    files.write(&format!("{name}.csv"), &csv(name, played))?;
    let page = html::comparison_page(name, title, played, about);
    files.write(&format!("{name}.html"), &page)?;
    Ok(files.written)
}

/// Files being written into a folder.
struct Files<'a> {
    dir: &'a Path,
    written: Vec<PathBuf>,
}

impl<'a> Files<'a> {
    fn into(dir: &'a Path) -> Result<Self, WriteError> {
        fs::create_dir_all(dir).map_err(|source| WriteError {
            path: dir.to_owned(),
            source,
        })?;
        Ok(Self {
            dir,
            written: Vec::new(),
        })
    }

    fn write(&mut self, name: &str, text: &str) -> Result<(), WriteError> {
        let path = self.dir.join(name);
        match fs::write(&path, text) {
            Ok(()) => {
                self.written.push(path);
                Ok(())
            }
            Err(source) => Err(WriteError { path, source }),
        }
    }
}
