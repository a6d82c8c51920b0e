//! The arguments of `cargo xtask conformance`.

use crate::arguments::path;
use std::path::PathBuf;

/// The options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Keep the temporary folder with configuration and logs.
    pub(super) keep: bool,
    /// The command to test; built by default.
    pub(super) slackwater: Option<PathBuf>,
    /// A file for the table, as Markdown.
    pub(super) report: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--keep" => options.keep = true,
                "--slackwater" => options.slackwater = Some(path(argument, rest.next())?),
                "--report" => options.report = Some(path(argument, rest.next())?),
                _ => {
                    return Err(format!(
                        "{argument:?} is not an option of conformance; expected --keep, \
                         --slackwater FILE or --report FILE"
                    ));
                }
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse(&["--keep", "--slackwater", "a"]).unwrap();
        assert_eq!(options.slackwater, Some("a".into()));
        assert!(options.keep && options.report.is_none());
        for (arguments, expected) in [
            (&["--report"][..], "--report: expected a path"),
            (&["--sise"], "\"--sise\" is not an option"),
        ] {
            let message = Options::parse(arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
