//! The arguments of `cargo xtask chaos`.

use crate::arguments::{number, path};
use core::time::Duration;
use std::path::PathBuf;

/// The options.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Keep the temporary folder with configuration and logs.
    pub(super) keep: bool,
    /// Length of the load: 20 to 86,400 s, default 600.
    pub(super) seconds: u64,
    /// Requests started per second: 10 to 10,000, default half of the replicas' capacity; 100 in
    /// the short form.
    pub(super) rate: u64,
    /// The build profile; in the short form that of the tests, so that nothing has to be built
    /// again.
    pub(super) profile: &'static str,
    /// A file for the table, as Markdown.
    pub(super) report: Option<PathBuf>,
}

/// Length of the short form: with its start and its end it stays under 40 s.
const SHORT_SECONDS: u64 = 24;

/// Rate of the short form: what a debug build can serve on a busy machine.
const SHORT_RATE: u64 = 100;

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            keep: false,
            seconds: 600,
            rate: super::fleet::CAPACITY / 2,
            profile: "quick",
            report: None,
        };
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--keep" => options.keep = true,
                "--short" => {
                    options.seconds = SHORT_SECONDS;
                    options.profile = "dev";
                    options.rate = SHORT_RATE;
                }
                "--seconds" => options.seconds = number(argument, rest.next(), 20..=86_400)?,
                "--rate" => options.rate = number(argument, rest.next(), 10..=10_000)?,
                "--report" => options.report = Some(path(argument, rest.next())?),
                _ => {
                    return Err(format!(
                        "{argument:?} is not an option of chaos; expected --short, --keep, --seconds N, --rate N or \
                         --report FILE"
                    ));
                }
            }
        }
        Ok(options)
    }

    /// Length of the load.
    pub(super) const fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_defaults_and_ranges() {
        let options = Options::parse(&["--short", "--rate", "50"]).unwrap();
        assert_eq!((options.seconds, options.rate), (SHORT_SECONDS, 50));
        assert_eq!(
            Options::parse(&[]).unwrap().length(),
            Duration::from_mins(10)
        );
        for (arguments, expected) in [
            (
                &["--seconds", "19"][..],
                "found 19, expected a number from 20",
            ),
            (&["--report"], "expected a path"),
            (&["--shorter"], "\"--shorter\" is not an option"),
        ] {
            let message = Options::parse(arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
