//! The options of the chore.

use crate::target::{TARGETS, Target};
use std::path::PathBuf;

/// How the chore is called.
pub(crate) const USAGE: &str = "cargo xtask release [--short [--slackwater FILE]] [--verify] [--profiles FOLDER | --untrained] [--target TRIPLE ...] [--out FOLDER]";

/// The options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only for this machine, without the builds that take long.
    pub(crate) short: bool,
    /// Whether each program is built twice and compared.
    pub(crate) verify: bool,
    /// The folder with the counts of an earlier release, in place of training.
    pub(crate) profiles: Option<PathBuf>,
    /// Whether programs are compiled without training.
    pub(crate) untrained: bool,
    pub(crate) targets: Vec<Target>,
    pub(crate) out: Option<PathBuf>,
    /// A program for `--short` that has been built already.
    pub(crate) slackwater: Option<PathBuf>,
}

/// Reads the arguments.
///
/// # Errors
///
/// An argument is unknown, or does not fit another.
pub(crate) fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options = Options {
        short: false,
        verify: false,
        profiles: None,
        untrained: false,
        targets: Vec::new(),
        out: None,
        slackwater: None,
    };
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        match argument {
            "--short" => options.short = true,
            "--verify" => options.verify = true,
            "--untrained" => options.untrained = true,
            "--profiles" => {
                let folder = rest
                    .next()
                    .ok_or("--profiles: found nothing, expected a folder")?;
                options.profiles = Some(PathBuf::from(folder));
            }
            "--target" => {
                let triple = rest
                    .next()
                    .ok_or("--target: found nothing, expected a target")?;
                let known = TARGETS.iter().find(|target| target.triple == *triple);
                let target = known.ok_or_else(|| {
                    let known: Vec<_> = TARGETS.iter().map(|target| target.triple).collect();
                    format!("--target: found {triple}, expected {}", known.join(" or "))
                })?;
                if !options.targets.contains(target) {
                    options.targets.push(*target);
                }
            }
            "--out" => {
                let folder = rest
                    .next()
                    .ok_or("--out: found nothing, expected a folder")?;
                options.out = Some(PathBuf::from(folder));
            }
            "--slackwater" => {
                let file = rest
                    .next()
                    .ok_or("--slackwater: found nothing, expected a file")?;
                options.slackwater = Some(PathBuf::from(file));
            }
            _ => return Err(format!("{USAGE}\nunknown: {argument}")),
        }
    }
    let how = options.verify || options.untrained || options.profiles.is_some();
    if options.short && (how || !options.targets.is_empty()) {
        return Err(
            "--short builds for this machine alone, untrained, and takes none of --verify, --profiles, --untrained and --target".to_owned(),
        );
    }
    if options.untrained && options.profiles.is_some() {
        return Err("--profiles and --untrained exclude each other".to_owned());
    }
    if options.slackwater.is_some() && !options.short {
        return Err("--slackwater is for --short: a release compiles its programs".to_owned());
    }
    if options.targets.is_empty() {
        options.targets = TARGETS.to_vec();
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_mistakes_named() {
        let all = parse(&[]).unwrap();
        assert_eq!(all.targets, TARGETS);
        let one = parse(&["--target", TARGETS[1].triple, "--verify", "--out", "a"]).unwrap();
        assert_eq!(one.targets, [TARGETS[1]]);
        assert!(one.verify && one.out == Some(PathBuf::from("a")));
        for (wrong, expected) in [
            (
                &["--target", "sparc"][..],
                "--target: found sparc, expected x86_64",
            ),
            (&["--target"], "--target: found nothing"),
            (&["--out"], "--out: found nothing"),
            (&["--profiles"], "--profiles: found nothing"),
            (
                &["--untrained", "--profiles", "a"],
                "--profiles and --untrained exclude",
            ),
            (
                &["--short", "--untrained"],
                "--short builds for this machine alone",
            ),
            (&["--fast"], "unknown: --fast"),
            (&["--slackwater", "a"], "--slackwater is for --short"),
            (
                &["--short", "--verify"],
                "--short builds for this machine alone",
            ),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(expected), "{wrong:?}: {error}");
        }
    }
}
