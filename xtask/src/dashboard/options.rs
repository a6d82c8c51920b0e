//! The arguments of `cargo xtask dashboard`.

use crate::arguments::path;
use std::path::PathBuf;

/// The options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Keep the temporary folder with configuration and logs.
    pub(super) keep: bool,
    /// Without the thousand replicas.
    pub(super) short: bool,
    /// A debug build, with proportionally less load; also in the short form.
    pub(super) debug: bool,
    /// A folder for pictures; without it none are taken.
    pub(super) shots: Option<PathBuf>,
    /// A built command, instead of building one.
    pub(super) slackwater: Option<PathBuf>,
    /// A file for the results, as Markdown.
    pub(super) report: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--keep" => options.keep = true,
                "--short" => options.short = true,
                "--debug" => options.debug = true,
                "--shots" => options.shots = Some(path(argument, rest.next())?),
                "--slackwater" => options.slackwater = Some(path(argument, rest.next())?),
                "--report" => options.report = Some(path(argument, rest.next())?),
                _ => {
                    return Err(format!(
                        "{argument:?} is not an option of dashboard; expected --short, --debug, --keep, \
                         --shots FOLDER, --slackwater FILE or --report FILE"
                    ));
                }
            }
        }
        // So that nothing has to be built again.
        options.debug |= options.short;
        Ok(options)
    }

    /// The build profile.
    pub(super) const fn profile(&self) -> &'static str {
        if self.debug { "dev" } else { "quick" }
    }

    /// Share of an optimized build's request rate, in tenths.
    pub(super) const fn rate_tenths(&self) -> u32 {
        if self.debug { 3 } else { 10 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_unknown_ones_refused() {
        let options = Options::parse(&["--short", "--shots", "docs/dashboard"]).unwrap();
        assert_eq!((options.short, options.profile()), (true, "dev"));
        assert_eq!(options.shots, Some("docs/dashboard".into()));
        let whole = Options::parse(&[]).unwrap();
        assert_eq!((whole.profile(), whole.rate_tenths()), ("quick", 10));
        let whole = Options::parse(&["--debug"]).unwrap();
        assert_eq!((whole.short, whole.profile()), (false, "dev"));
        assert_eq!(whole.rate_tenths(), 3);
        for (arguments, expected) in [
            (&["--shots"][..], "--shots: expected a path"),
            (&["--fast"], "\"--fast\" is not an option"),
        ] {
            let message = Options::parse(arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
