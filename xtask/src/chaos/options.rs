//! The arguments of `cargo xtask chaos`.

use super::fleet::CAPACITY;
use clap::value_parser;
use core::time::Duration;
use std::path::PathBuf;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// With the build of the tests, so that nothing has to be built again, and under 40 s
    #[arg(long)]
    short: bool,
    /// Keeps the temporary folder with configuration and logs
    #[arg(long)]
    pub(super) keep: bool,
    /// Length of the load in seconds: 20 to 86,400; 24 in the short form
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(20..=86_400))]
    #[arg(default_value_t = 600, default_value_if("short", "true", "24"))]
    seconds: u64,
    /// Requests started per second: 10 to 10,000, by default half of the replicas' capacity; 100 in
    /// the short form, which a debug build can serve on a busy machine
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(10..=10_000))]
    #[arg(default_value_t = CAPACITY / 2, default_value_if("short", "true", "100"))]
    pub(super) rate: u64,
    /// A file for the table, as Markdown
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

impl Options {
    /// The build profile.
    pub(super) const fn profile(&self) -> &'static str {
        if self.short { "dev" } else { "quick" }
    }

    /// Length of the load.
    pub(super) const fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    #[test]
    fn the_short_form_has_other_defaults() {
        let options: Options = parse(&["--rate", "50", "--short"]).unwrap();
        assert_eq!((options.seconds, options.rate), (24, 50));
        let options: Options = parse(&[]).unwrap();
        assert_eq!((options.seconds, options.rate), (600, CAPACITY / 2));
        let message = parse::<Options>(&["--seconds", "19"]).unwrap_err();
        assert!(
            message.contains("'--seconds <N>': 19 is not in 20"),
            "{message}"
        );
    }
}
