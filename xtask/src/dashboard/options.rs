//! The arguments of `cargo xtask dashboard`.

use std::path::PathBuf;

/// What to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Leave the temporary folder with configuration and logs.
    pub(super) keep: bool,
    /// Without a thousand replicas, and with a build for tests.
    pub(super) short: bool,
    /// Where the pictures go; none are taken without.
    pub(super) shots: Option<PathBuf>,
    /// A built command, in place of one that is built.
    pub(super) slackwater: Option<PathBuf>,
    /// A file for what was found, as Markdown.
    pub(super) report: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            let mut file = || {
                let file = rest.next().map(PathBuf::from);
                file.ok_or_else(|| format!("{argument}: expected a path"))
            };
            match argument {
                "--keep" => options.keep = true,
                "--short" => options.short = true,
                "--shots" => options.shots = Some(file()?),
                "--slackwater" => options.slackwater = Some(file()?),
                "--report" => options.report = Some(file()?),
                _ => {
                    return Err(format!(
                        "{argument:?} is not an option of dashboard; expected --short, --keep, --shots FOLDER, \
                         --slackwater FILE or --report FILE"
                    ));
                }
            }
        }
        Ok(options)
    }

    /// How slackwater is built: as tests build it in the short form, so that nothing has to be built anew.
    pub(super) const fn profile(&self) -> &'static str {
        if self.short { "dev" } else { "quick" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_strange_ones_refused() {
        let options = Options::parse(&["--short", "--shots", "docs/dashboard"]).unwrap();
        assert_eq!((options.short, options.profile()), (true, "dev"));
        assert_eq!(options.shots, Some("docs/dashboard".into()));
        assert_eq!(Options::parse(&[]).unwrap().profile(), "quick");
        for (arguments, expected) in [
            (&["--shots"][..], "--shots: expected a path"),
            (&["--fast"], "\"--fast\" is not an option"),
        ] {
            let message = Options::parse(arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
