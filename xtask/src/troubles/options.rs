//! The arguments of `cargo xtask troubles`.

use super::cases::{MakeCase, known};
use crate::arguments::{number, path};
use core::time::Duration;
use std::path::PathBuf;

/// The options.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) cases: Vec<MakeCase>,
    /// One run of a few variants for a few seconds, as in CI.
    pub(super) short: bool,
    /// Keep the temporary folder with configurations and logs.
    pub(super) keep: bool,
    /// Length of a trouble in seconds: 4 to 600, default 10; 4 in the short form.
    pub(super) seconds: u64,
    /// Runs of each case: 1 to 100, default 3; once in the short form.
    pub(super) runs: u64,
    /// The command to measure; built by default.
    pub(super) slackwater: Option<PathBuf>,
    /// Requests per second, of each variant: 4 to 10,000, default 200; 100 in the short form, which
    /// a debug build can serve on a busy machine.
    pub(super) rate: u64,
    /// A file for the page, as Markdown; beside it, a file with every number, as JSON.
    pub(super) report: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let short = arguments.contains(&"--short");
        let known = known(short);
        let mut options = Self {
            cases: Vec::new(),
            short,
            keep: false,
            seconds: if short { 4 } else { 10 },
            runs: if short { 1 } else { 3 },
            rate: if short { 100 } else { 200 },
            slackwater: None,
            report: None,
        };
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--short" => (),
                "--keep" => options.keep = true,
                "--seconds" => options.seconds = number(argument, rest.next(), 4..=600)?,
                "--runs" => options.runs = number(argument, rest.next(), 1..=100)?,
                "--rate" => options.rate = number(argument, rest.next(), 4..=10_000)?,
                "--slackwater" => options.slackwater = Some(path(argument, rest.next())?),
                "--report" => options.report = Some(path(argument, rest.next())?),
                "all" => options.cases.extend(known.iter().map(|(_, case)| *case)),
                _ if argument.starts_with('-') => {
                    return Err(format!(
                        "{argument:?} is not an option of troubles; expected --short, --keep, --seconds N, --runs N, --rate N, \
                         --slackwater FILE or --report FILE"
                    ));
                }
                name => {
                    let case = known.iter().find(|(known, _)| *known == name);
                    let (_, case) = case.ok_or_else(|| {
                        let form = if short { " in the short form" } else { "" };
                        format!(
                            "{name:?} is no case of troubles{form}; expected {}",
                            names(known)
                        )
                    })?;
                    options.cases.push(*case);
                }
            }
        }
        if options.cases.is_empty() {
            return Err(format!("which case? expected {}", names(known)));
        }
        Ok(options)
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

fn names(known: &[(&str, MakeCase)]) -> String {
    let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
    format!("{} or all", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_defaults_and_ranges() {
        let options = Options::parse(&["all", "--runs", "2"]).unwrap();
        assert_eq!(options.cases.len(), known(false).len());
        assert_eq!((options.seconds, options.runs), (10, 2));
        let options = Options::parse(&["stopped", "--short"]).unwrap();
        assert_eq!(
            (options.cases.len(), options.seconds, options.runs),
            (1, 4, 1)
        );
        for (arguments, expected) in [
            (&["--seconds", "3"][..], "found 3, expected a number from 4"),
            (&["--report"], "--report: expected a path"),
            (&["--shorter"], "\"--shorter\" is not an option"),
            (
                &["stop"],
                "\"stop\" is no case of troubles; expected fail-fast, ",
            ),
            (&["--keep"], "which case? expected fail-fast, "),
            (
                &["restart", "--short"],
                "no case of troubles in the short form; expected fail-fast, stopped or all",
            ),
        ] {
            let message = Options::parse(arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
