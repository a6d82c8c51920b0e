//! The arguments of `cargo xtask outage`.

use crate::arguments::path;
use std::path::PathBuf;

/// The options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Keep the temporary folder with configuration and logs.
    pub(super) keep: bool,
    pub(super) slackwater: Option<PathBuf>,
    /// A folder for pictures of the dashboard; without it no browser is needed.
    pub(super) shots: Option<PathBuf>,
    /// A file for the page, as Markdown.
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
                "--shots" => options.shots = Some(path(argument, rest.next())?),
                "--report" => options.report = Some(path(argument, rest.next())?),
                _ => {
                    return Err(format!(
                        "{argument:?} is not an option of outage; expected --keep, --slackwater FILE, --shots FOLDER or \
                         --report FILE"
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
    fn options_are_read_and_unknown_ones_refused() {
        let options = Options::parse(&["--keep", "--shots", "pictures"]).expect("options");
        assert!(options.keep);
        assert_eq!(options.shots, Some("pictures".into()));
        assert!(Options::parse(&["--shots"]).is_err());
        assert!(Options::parse(&["--long"]).is_err());
    }
}
