//! Reports of results: CSV with fixed columns, pictures, and a self-contained HTML page.
//!
//! [`write()`] and [`write_comparison`] put files into a folder, [`summary`] and [`comparison`] are
//! for a terminal. All of them depend only on their arguments: the same runs give the same bytes,
//! except for the speed of the simulation.

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

/// Details of the run for a page, besides its results. Seeds and spans come from the plays.
#[derive(Clone, Debug)]
pub struct RunInfo {
    /// The command line that makes the same files.
    pub command: String,
    /// Program and version, with the commit if it is known.
    pub version: String,
    /// Number of threads that played.
    pub threads: usize,
    /// The real time of the whole study.
    pub wall: Duration,
}

/// A file or folder that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be written: {source}", path.display())]
pub struct WriteError {
    /// The file or folder.
    pub path: PathBuf,
    /// The error.
    pub source: io::Error,
}

/// Writes a figure's `NAME.csv`, `NAME.html` and one `NAME-N.svg` for each chart (N from 1) into
/// `dir`, which is made if it does not exist. Files of those names are replaced. Returns the paths
/// of the files.
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

/// Writes the results of several policies on one scenario: `NAME.csv` and `NAME.html` in `dir`,
/// which is made if it does not exist. `name` is also the CSV's `figure`. Policies are compared
/// with the first. Returns the paths of the files.
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
