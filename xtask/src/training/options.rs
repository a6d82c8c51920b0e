//! The arguments of `cargo xtask training`.

use crate::arguments::{number, path};
use std::path::PathBuf;

/// The options.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Keep the temporary folder with configuration and logs.
    pub(super) keep: bool,
    /// The length of each stream.
    pub(super) seconds: u64,
    pub(super) slackwater: Option<PathBuf>,
    /// Another program for the agents.
    pub(super) agent: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            keep: false,
            seconds: 8,
            slackwater: None,
            agent: None,
        };
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--keep" => options.keep = true,
                "--slackwater" => options.slackwater = Some(path(argument, rest.next())?),
                "--agent" => options.agent = Some(path(argument, rest.next())?),
                "--seconds" => options.seconds = number(argument, rest.next(), 1..=3_600)?,
                _ => {
                    return Err(format!(
                        "{argument:?} is not an option of training; expected --keep, --seconds N, --slackwater FILE or \
                         --agent FILE"
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
        let options = Options::parse(&["--seconds", "9", "--agent", "a"]).expect("options");
        assert_eq!((options.seconds, options.keep), (9, false));
        assert_eq!(options.agent, Some("a".into()));
        for wrong in [&["--seconds", "0"][..], &["--agent"], &["--long"]] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
