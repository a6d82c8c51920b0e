//! The arguments of `cargo xtask kubernetes`.

use super::cases::{self, Case};
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;

/// The options.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct Options {
    /// Only checks the charts, which needs no control plane (seconds)
    #[arg(long, conflicts_with = "write")]
    pub(super) charts: bool,
    /// Only writes deploy/kubernetes from the charts (seconds)
    #[arg(long)]
    pub(super) write: bool,
    /// Leaves the API server down for a shorter time, and leaves out the old etcd
    #[arg(long)]
    pub(super) short: bool,
    /// Only this case, also several times; all by default
    #[arg(long = "case", value_name = "NAME")]
    #[arg(value_parser = PossibleValuesParser::new(cases::ALL.iter().map(|case| case.name)))]
    cases: Vec<String>,
    /// Keeps the temporary folder with manifests and logs
    #[arg(long)]
    pub(super) keep: bool,
    /// The command to test; built by default
    #[arg(long, value_name = "FILE")]
    pub(super) slackwater: Option<PathBuf>,
    /// A folder with the programs of the control plane
    #[arg(long, value_name = "FOLDER")]
    pub(super) programs: Option<PathBuf>,
    /// The program of an etcd before 3.5
    #[arg(long, value_name = "FILE")]
    pub(super) old_etcd: Option<PathBuf>,
    /// A file for the events of the slices that are watched, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// A file for the page, as Markdown
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

impl Options {
    /// The selected cases in order.
    pub(super) fn cases(&self) -> impl Iterator<Item = &'static Case> {
        let is_selected =
            |case: &&Case| self.cases.is_empty() || self.cases.iter().any(|name| name == case.name);
        cases::ALL.iter().filter(is_selected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    #[test]
    fn only_selected_cases_are_played_in_order() {
        let names = |arguments: &[&str]| {
            let options: Options = parse(arguments).unwrap();
            options.cases().map(|case| case.name).collect::<Vec<_>>()
        };
        let [first, second] = [cases::ALL[0].name, cases::ALL[1].name];
        assert_eq!(names(&["--case", second, "--case", first]), [first, second]);
        assert_eq!(names(&[]).len(), cases::ALL.len());
    }
}
