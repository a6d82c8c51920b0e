//! The arguments of `cargo xtask siege`.

use super::{PARTS, Part};
use clap::builder::{ArgPredicate, PossibleValuesParser};
use clap::value_parser;
use std::path::PathBuf;

/// The word for all parts.
const ALL: &str = "all";

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Parts, in order; none by default with --minutes, which has its own plan
    #[arg(value_name = "PART", value_parser = names())]
    #[arg(default_value = ALL, default_value_if("minutes", ArgPredicate::IsPresent, None))]
    parts: Vec<String>,
    /// The form for CI (90 s): only Slackwater, fewer requests, and verdicts that are reliable on a
    /// busy machine
    #[arg(long)]
    pub(super) short: bool,
    /// Repeats attacks on one process with new seeds for this many minutes, while innocents keep
    /// running: 1 to 1,440
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_440))]
    pub(super) minutes: Option<u64>,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Keeps the temporary folder with configurations and logs
    #[arg(long)]
    pub(super) keep: bool,
    /// The command to attack; built by default
    #[arg(long, value_name = "FILE")]
    pub(super) slackwater: Option<PathBuf>,
    /// A file for the page, as Markdown
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

fn names() -> PossibleValuesParser {
    let names = PARTS.map(|(name, _)| name);
    names.into_iter().chain([ALL]).into()
}

impl Options {
    /// The selected parts, with their names.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, Part)> {
        let parts = self.parts.iter();
        parts.flat_map(|part| {
            let parts = PARTS.into_iter();
            parts.filter(move |(name, _)| part == ALL || part == name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    #[test]
    fn all_parts_run_by_default_and_the_long_run_excludes_them() {
        let parts = |arguments: &[&str]| parse::<Options>(arguments).unwrap().parts().count();
        assert_eq!(parts(&["--short"]), PARTS.len());
        assert_eq!(parts(&["all"]), PARTS.len());
        assert_eq!(parts(&["fuzz", "--seed", "7"]), 1);
        assert_eq!(parts(&["--minutes", "60"]), 0);
        assert_eq!(parts(&["floods", "--minutes", "60"]), 1);
    }
}
