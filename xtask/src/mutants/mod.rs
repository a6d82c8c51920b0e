//! `cargo xtask mutants`: small changes of the core's code, each of which a test of the core should
//! notice.
//!
//! cargo-mutants makes the changes and runs the tests; `.cargo/mutants.toml` configures it. There
//! are more than four thousand changes, a day of work for one machine, so a run may take a sample:
//! every n-th, starting at the seed. Samples of different seeds below n have no mutant in common,
//! and together they contain each once.

mod outcomes;
mod page;

use crate::arguments::number;
use crate::command::root;
use crate::folder::Folder;
use crate::output::say;
use crate::provenance::commit;
use crate::report::Page;
use outcomes::Outcomes;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The page's path, from the root.
const PAGE: &str = "results/core-mutants.md";
/// The page of a run against vectors. Why mutants are missed stands in results/vectors-mutants.md.
const PAGE_OF_VECTORS: &str = "results/vectors-mutants-sample.md";
/// Files of the core that the vectors do not reach: policies without vectors, what is only shown,
/// and what is not part of a policy, health or the tracker.
const OUTSIDE_VECTORS: [&str; 20] = [
    "**/policies/c3.rs",
    "**/policies/els.rs",
    "**/policies/linear.rs",
    "**/policies/peak_ewma.rs",
    "**/policies/polled_power_of_d.rs",
    "**/policies/power_of_d.rs",
    "**/policies/rif_then_latency.rs",
    "**/policies/round_robin.rs",
    "**/policies/weighted_round_robin.rs",
    "**/policies/mod.rs",
    "**/policy/comparison.rs",
    "**/policy/decay.rs",
    "**/policy/entry.rs",
    "**/policy/explanation.rs",
    "**/policy/polled.rs",
    "**/policy/polling.rs",
    "**/policy/settings.rs",
    "**/policy/stride.rs",
    "**/overload/**",
    "**/tail/**",
];
/// Size of the sample in `cargo xtask test`. It is always the same sample, so that it fails only
/// because of changes.
const SAMPLE: u64 = 12;
const SAMPLE_SEED: u64 = 0;
/// A sample in which tests notice a smaller share of mutants fails.
const NOTICED_MIN_PERCENT: usize = 75;

/// How to install the tool.
const INSTALL: &str = "cargo install cargo-mutants --locked";

/// The changes to make.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Size of the sample; none: all mutants.
    sample: Option<u64>,
    seed: u64,
    /// Patterns of files; none: the whole core.
    files: Vec<String>,
    /// Whether the vectors alone have to notice, in place of the core's tests.
    vectors: bool,
    report: Option<String>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            let mut text = || {
                let value = rest.next().map(str::to_owned);
                value.ok_or_else(|| format!("{argument}: found nothing, expected a value"))
            };
            match argument {
                "--sample" => options.sample = Some(number(argument, rest.next(), 1..=u64::MAX)?),
                "--seed" => options.seed = number(argument, rest.next(), 0..=u64::MAX)?,
                "--file" => options.files.push(text()?),
                "--vectors" => options.vectors = true,
                "--report" => options.report = Some(text()?),
                _ => {
                    return Err(format!(
                        "{argument:?} is not an option of mutants; expected --sample N, --seed N, --file PATTERN, --vectors or --report FILE"
                    ));
                }
            }
        }
        Ok(options)
    }

    /// Returns the shard to run and the number of shards, for this number of mutants.
    fn shard(&self, mutants: u64) -> Option<(u64, u64)> {
        let shards = (mutants / self.sample?).max(1);
        Some((self.seed % shards, shards))
    }
}

/// Runs the tool and writes the page.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let tool = version().ok_or_else(|| format!("cargo-mutants is not installed: {INSTALL}"))?;
    // Records the commit for the page before anything changes.
    commit();
    let (outcomes, all) = play(&options)?;
    let sentence = page::sentence(&outcomes);
    let total = outcomes.total();
    let (title, usual, judges) = if options.vectors {
        (
            "Mutants of the core against the test vectors",
            PAGE_OF_VECTORS,
            "compares the core with `vectors/`. A mutant is caught if a line differs. Mutants of policies without vectors, and \
             of what is only shown, are left out.",
        )
    } else {
        (
            "Mutants of the core",
            PAGE,
            "runs the core's unit and integration tests. A mutant is caught if one of them fails.",
        )
    };
    let about = format!(
        "[cargo-mutants](https://mutants.rs) changes the core's code in one small place, such as `<` for `<=`, and {judges} This \
         run made {} of the {all} mutants that there are{}. `cargo xtask mutants` writes this page.",
        total.viable() + total.unviable,
        if options.files.is_empty() {
            ""
        } else {
            " of these files"
        },
    );
    let page = Page {
        title,
        about: &about,
        chore: "mutants",
        arguments,
        tools: tool,
    };
    let text = format!("{}\n{}", page.head(&sentence), page::body(&outcomes));
    let path = root().join(options.report.as_deref().unwrap_or(usual));
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    say(&format!("mutants: {sentence}; {}", path.display()));
    Ok(())
}

/// Runs a sample of fixed size, if the tool is installed; fails if the tests miss too many.
pub(crate) fn sample() -> Result<(), String> {
    if version().is_none() {
        say(&format!(
            "skipped: a sample of the core's mutants; cargo-mutants is not installed: {INSTALL}"
        ));
        return Ok(());
    }
    let options = Options {
        sample: Some(SAMPLE),
        seed: SAMPLE_SEED,
        ..Options::default()
    };
    let (outcomes, _) = play(&options)?;
    let sentence = page::sentence(&outcomes);
    let missed: Vec<String> = outcomes
        .missed
        .iter()
        .map(|mutant| format!("\n  missed: {mutant}"))
        .collect();
    let total = outcomes.total();
    let text = format!("mutants: {sentence}{}", missed.concat());
    if total.noticed() * 100 < total.viable() * NOTICED_MIN_PERCENT {
        return Err(format!(
            "{text}\nat least {NOTICED_MIN_PERCENT} % have to be noticed"
        ));
    }
    say(&text);
    Ok(())
}

/// The tool's version; `None` if it is not installed.
fn version() -> Option<String> {
    let output = Command::new(env!("CARGO"))
        .args(["mutants", "--version"])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

/// Makes and tests the mutants; also returns their total number.
fn play(options: &Options) -> Result<(Outcomes, u64), String> {
    let listed = tool(options)
        .args(["--list", "--json"])
        .output()
        .map_err(|error| format!("cargo mutants: {error}"))?;
    let list: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout)
        .map_err(|error| format!("cargo mutants --list: {error}"))?;
    let all = list.len() as u64;
    let folder = Folder::new("mutants", false)?;
    let mut run = tool(options);
    run.args(["--no-times", "--colors", "never", "--output"])
        .arg(&folder.path);
    if let Some((shard, shards)) = options.shard(all) {
        run.args(["--sharding", "round-robin", "--shard"])
            .arg(format!("{shard}/{shards}"));
        say(&format!("mutants: part {shard} of {shards} of {all}"));
    }
    if options.vectors {
        run.args(["--test-package", "slackwater-vectors"]);
        run.args(["--cargo-test-arg", "--test=committed"]);
    }
    let status = run
        .stdout(Stdio::inherit())
        .status()
        .map_err(|error| format!("cargo mutants: {error}"))?;
    match status.code() {
        // All caught, some missed, some timed out.
        Some(0 | 2 | 3) => {}
        Some(4) => return Err("the core's tests fail without any mutant".to_owned()),
        _ => return Err(format!("cargo mutants: {status}")),
    }
    let path = folder.path.join(Path::new("mutants.out/outcomes.json"));
    let json = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((Outcomes::parse(&json)?, all))
}

/// The tool's command, with its arguments.
fn tool(options: &Options) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["mutants", "--package", "slackwater-core"])
        .current_dir(root());
    for file in &options.files {
        command.args(["--file", file]);
    }
    if options.vectors {
        for file in OUTSIDE_VECTORS {
            command.args(["--exclude", file]);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse(&["--sample", "40", "--seed", "7", "--file", "a.rs"]);
        let expected = Options {
            sample: Some(40),
            seed: 7,
            files: vec!["a.rs".to_owned()],
            vectors: false,
            report: None,
        };
        assert_eq!(options, Ok(expected));
        assert!(Options::parse(&["--sample", "0"]).is_err());
        assert!(Options::parse(&["--file"]).is_err());
        assert!(Options::parse(&["40"]).is_err());
    }

    #[test]
    fn sample_is_one_shard_and_seeds_wrap_around() {
        let options = |sample, seed| Options {
            sample,
            seed,
            ..Options::default()
        };
        assert_eq!(options(None, 3).shard(100), None);
        assert_eq!(options(Some(20), 3).shard(100), Some((3, 5)));
        assert_eq!(options(Some(20), 8).shard(100), Some((3, 5)));
        assert_eq!(options(Some(200), 8).shard(100), Some((0, 1)));
    }
}
