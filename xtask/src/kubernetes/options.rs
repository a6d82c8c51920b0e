//! The arguments of `cargo xtask kubernetes`.

use super::cases::{self, Case};
use crate::arguments::path;
use std::path::PathBuf;

/// The options.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// Only these cases; empty: all.
    cases: Vec<&'static str>,
    /// Leaves the API server down for a shorter time, and leaves out the old etcd.
    pub(super) short: bool,
    pub(super) extent: Extent,
    /// Keep the temporary folder with manifests and logs.
    pub(super) keep: bool,
    pub(super) slackwater: Option<PathBuf>,
    /// A folder with the programs of the control plane.
    pub(super) programs: Option<PathBuf>,
    /// The program of an etcd before 3.5.
    pub(super) old_etcd: Option<PathBuf>,
    /// A file for the events of the slices that are watched, as JSON lines.
    pub(super) record: Option<PathBuf>,
    /// A file for the page, as Markdown.
    pub(super) report: Option<PathBuf>,
}

/// How much is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Extent {
    /// The checks of the charts, and all cases.
    #[default]
    Cases,
    /// Only the checks of the charts, which need no control plane.
    Charts,
    /// Only the plain manifests, which are written from the charts.
    Manifests,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--short" => options.short = true,
                "--charts" => options.extent = Extent::Charts,
                "--write" => options.extent = Extent::Manifests,
                "--keep" => options.keep = true,
                "--slackwater" => options.slackwater = Some(path(argument, rest.next())?),
                "--programs" => options.programs = Some(path(argument, rest.next())?),
                "--old-etcd" => options.old_etcd = Some(path(argument, rest.next())?),
                "--record" => options.record = Some(path(argument, rest.next())?),
                "--report" => options.report = Some(path(argument, rest.next())?),
                "--case" => {
                    let wanted = rest.next().unwrap_or_default();
                    let known = cases::ALL.iter().find(|case| case.name == wanted);
                    let known = known.ok_or_else(|| {
                        let names: Vec<_> = cases::ALL.iter().map(|case| case.name).collect();
                        format!("--case: found {wanted:?}, expected {}", names.join(", "))
                    })?;
                    options.cases.push(known.name);
                }
                _ => {
                    return Err(format!(
                        "{argument:?} is not an option of kubernetes; expected --charts, --write, --short, --keep, --case NAME, \
                         --slackwater FILE, --programs FOLDER, --old-etcd FILE, --record FILE or --report FILE"
                    ));
                }
            }
        }
        Ok(options)
    }

    /// The selected cases in order.
    pub(super) fn cases(&self) -> impl Iterator<Item = &'static Case> {
        let selected = |case: &&Case| self.cases.is_empty() || self.cases.contains(&case.name);
        cases::ALL.iter().filter(selected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_unknown_ones_refused() {
        let options = Options::parse(&["--short", "--case", "scale"]).expect("options");
        assert!(options.short);
        let names: Vec<_> = options.cases().map(|case| case.name).collect();
        assert_eq!(names, ["scale"]);
        assert_eq!(Options::default().cases().count(), cases::ALL.len());
        let refused = Options::parse(&["--case", "scales"]).unwrap_err();
        assert!(refused.contains("scale, "), "{refused}");
        assert!(Options::parse(&["--record"]).is_err());
        assert!(Options::parse(&["--long"]).is_err());
    }
}
