//! The arguments of `cargo xtask troubles`.

use super::cases::{self, MakeCase};
use clap::builder::PossibleValuesParser;
use clap::value_parser;
use core::time::Duration;
use std::path::PathBuf;

/// The word for all cases.
const ALL: &str = "all";

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Cases, in order
    #[arg(value_name = "CASE", required = true, value_parser = names())]
    cases: Vec<String>,
    /// One run of a few variants for a few seconds, as in CI
    #[arg(long)]
    pub(super) short: bool,
    /// Keeps the temporary folder with configurations and logs
    #[arg(long)]
    pub(super) keep: bool,
    /// Length of a trouble in seconds: 4 to 600; 4 in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(4..=600))]
    #[arg(default_value_t = 10, default_value_if("short", "true", "4"))]
    pub(super) seconds: u64,
    /// Runs of each case: 1 to 100; once in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=100))]
    #[arg(default_value_t = 3, default_value_if("short", "true", "1"))]
    pub(super) runs: u64,
    /// The command to measure; built by default
    #[arg(long, value_name = "FILE")]
    pub(super) slackwater: Option<PathBuf>,
    /// Requests per second, of each variant: 4 to 10,000; 100 in the short form, which a debug
    /// build can serve on a busy machine
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(4..=10_000))]
    #[arg(default_value_t = 200, default_value_if("short", "true", "100"))]
    pub(super) rate: u64,
    /// A file for the page, as Markdown; beside it, a file with every number, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

fn names() -> PossibleValuesParser {
    let names = cases::ALL.map(|(name, _)| name);
    names.into_iter().chain([ALL]).into()
}

impl Options {
    /// The selected cases. Fails if one has no short form and this is it.
    pub(super) fn cases(&self) -> Result<Vec<MakeCase>, String> {
        let known = cases::known(self.short);
        let mut selected = Vec::new();
        for case in &self.cases {
            let before = selected.len();
            let is_selected = |(name, _): &&(&str, MakeCase)| case == ALL || case == name;
            selected.extend(known.iter().filter(is_selected).map(|(_, case)| *case));
            if selected.len() == before {
                let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "{case} has no short form; expected {} or {ALL}",
                    names.join(", ")
                ));
            }
        }
        Ok(selected)
    }

    /// The build profile; in the short form that of the tests, so that nothing has to be built
    /// again.
    pub(super) const fn profile(&self) -> &'static str {
        if self.short { "dev" } else { "quick" }
    }

    /// Length of a trouble.
    pub(super) const fn trouble(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    #[test]
    fn the_short_form_has_other_defaults_and_fewer_cases() {
        let options: Options = parse(&["all", "--runs", "2"]).unwrap();
        assert_eq!(options.cases().unwrap().len(), cases::ALL.len());
        assert_eq!((options.seconds, options.runs), (10, 2));
        let options: Options = parse(&["all", "stopped", "--short"]).unwrap();
        assert_eq!(options.cases().unwrap().len(), cases::known(true).len() + 1);
        assert_eq!((options.seconds, options.runs), (4, 1));
        let options: Options = parse(&["restart", "--short"]).unwrap();
        let message = options.cases().unwrap_err();
        assert_eq!(
            message,
            "restart has no short form; expected fail-fast, stopped or all"
        );
        assert!(parse::<Options>(&["--keep"]).is_err(), "which case?");
    }
}
