//! The arguments of `cargo xtask peers`.

use crate::arguments::{number, path};
use std::path::PathBuf;

/// The options.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Keep the temporary folder with configuration and logs.
    pub(super) keep: bool,
    /// Size of downloads and uploads: 1 to 16,384, default 1,024.
    pub(super) size_mib: u64,
    /// Length of each run of `slackwater load`: 5 to 600, default 10.
    pub(super) seconds: u64,
    /// A file for the table, as Markdown.
    pub(super) report: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            keep: false,
            size_mib: 1024,
            seconds: 10,
            report: None,
        };
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--keep" => options.keep = true,
                "--size-mib" => options.size_mib = number(argument, rest.next(), 1..=16_384)?,
                "--seconds" => options.seconds = number(argument, rest.next(), 5..=600)?,
                "--report" => options.report = Some(path(argument, rest.next())?),
                _ => {
                    return Err(format!(
                        "{argument:?} is not an option of peers; expected --keep, --size-mib N, \
                         --seconds N or --report FILE"
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
    fn options_have_defaults_and_ranges() {
        let options = Options::parse(&["--size-mib", "8", "--keep"]).unwrap();
        assert_eq!(
            (options.size_mib, options.seconds, options.keep),
            (8, 10, true)
        );
        for (arguments, expected) in [
            (&["--seconds", "4"][..], "found 4, expected a number from 5"),
            (&["--size-mib"], "found nothing"),
            (&["--sise"], "\"--sise\" is not an option"),
        ] {
            let message = Options::parse(arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
