//! The arguments of `cargo xtask siege`.

use super::PARTS;
use crate::arguments::{number, path};
use std::path::PathBuf;

/// The options.
#[derive(Debug)]
pub(super) struct Options {
    /// Names of parts, in order.
    pub(super) parts: Vec<&'static str>,
    /// The form for CI: fewer requests, and verdicts that are reliable on a busy machine.
    pub(super) short: bool,
    /// How long attacks are repeated with new seeds while innocents keep running: 1 to 1,440; none
    /// by default.
    pub(super) minutes: Option<u64>,
    /// Seed of all random draws. Default 1.
    pub(super) seed: u64,
    /// Keep the temporary folder with configurations and logs.
    pub(super) keep: bool,
    /// The command to attack; built by default.
    pub(super) slackwater: Option<PathBuf>,
    /// A file for the page, as Markdown.
    pub(super) report: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            parts: Vec::new(),
            short: false,
            minutes: None,
            seed: 1,
            keep: false,
            slackwater: None,
            report: None,
        };
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--short" => options.short = true,
                "--keep" => options.keep = true,
                "--minutes" => {
                    options.minutes = Some(number(argument, rest.next(), 1..=1_440)?);
                }
                "--seed" => options.seed = number(argument, rest.next(), 0..=u64::MAX)?,
                "--slackwater" => options.slackwater = Some(path(argument, rest.next())?),
                "--report" => options.report = Some(path(argument, rest.next())?),
                "all" => options.parts.extend(names()),
                _ if argument.starts_with('-') => {
                    return Err(format!(
                        "{argument:?} is not an option of siege; expected --short, --minutes N, --seed N, --keep, \
                         --slackwater FILE or --report FILE"
                    ));
                }
                name => {
                    let part = names().find(|part| *part == name).ok_or_else(|| {
                        let known: Vec<_> = names().collect();
                        format!(
                            "{name:?} is no part of siege; expected all, {}",
                            known.join(", ")
                        )
                    })?;
                    options.parts.push(part);
                }
            }
        }
        // The long form has its own plan.
        if options.parts.is_empty() && options.minutes.is_none() {
            options.parts.extend(names());
        }
        Ok(options)
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_run_by_default_and_the_long_run_excludes_them() {
        let parts = |arguments: &[&str]| Options::parse(arguments).unwrap().parts.len();
        assert_eq!(parts(&["--short"]), PARTS.len());
        assert_eq!(parts(&["all"]), PARTS.len());
        assert_eq!(parts(&["fuzz", "--seed", "7"]), 1);
        assert_eq!(parts(&["--minutes", "60"]), 0);
    }

    #[test]
    fn unknown_options_and_parts_are_refused() {
        for (arguments, expected) in [
            (&["--minutes", "0"][..], "found 0, expected a number from 1"),
            (&["--report"], "expected a path"),
            (&["--shorter"], "\"--shorter\" is not an option"),
            (
                &["fuzzz"],
                "\"fuzzz\" is no part of siege; expected all, isolation",
            ),
        ] {
            let message = Options::parse(arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
