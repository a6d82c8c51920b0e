//! `cargo xtask mutants`: small changes of the core's code, each of which a test of the core, or a
//! vector, should notice.
//!
//! cargo-mutants lists the changes; `.cargo/mutants.toml` configures it. One build contains all of
//! them, and an environment variable says which is active, so that each costs only the tests. A run
//! may take a sample: every n-th, starting at the seed. Samples of different seeds below n have no
//! mutant in common, and together they contain each once.

mod judge;
mod list;
mod outcomes;
mod page;
mod reasons;
mod record;
mod search;
mod switch;
mod tree;

use crate::command::root;
use crate::output::{progress, say};
use crate::provenance::commit;
use crate::report::Page;
use clap::value_parser;
use judge::Judge;
use list::Mutant;
use outcomes::{Outcome, Outcomes};
use record::Record;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use switch::Kind;
use tree::{Target, Tree, kinds};

/// The page's path, from the root.
const PAGE: &str = "results/core-mutants.md";
/// The page of a run against vectors.
const PAGE_OF_VECTORS: &str = "results/vectors-mutants.md";
/// Files of the core that the vectors do not reach: policies without vectors, what is only shown,
/// and what is not part of a policy, health or the tracker.
const OUTSIDE_VECTORS: [&str; 21] = [
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
    "**/subset.rs",
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
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Makes a sample of this size, from 1 up; all changes by default
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    sample: Option<u64>,
    /// Seed of the sample
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Only those of a file, by a pattern, also several times
    #[arg(long = "file", value_name = "PATTERN")]
    files: Vec<String>,
    /// Finds out which of them the vectors notice, without any other test; writes
    /// results/vectors-mutants.md (half an hour)
    #[arg(long)]
    vectors: bool,
    /// Looks among this many scenarios for some that break more of them: 1 to 1,000,000
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000))]
    #[arg(requires = "vectors")]
    search: Option<u64>,
    /// Keeps what earlier runs have found out about the same code and tests, and what was caught
    /// before vectors were added
    #[arg(long)]
    go_on: bool,
    /// Another file for the page, from the root
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Options {
    /// The mutants of the sample, by their number in the list.
    fn chosen<'l>(&self, list: &'l [Mutant]) -> BTreeMap<usize, &'l Mutant> {
        let shards = self.sample.map_or(1, |it| (list.len() as u64 / it).max(1));
        let all = list.iter().enumerate();
        let mine = all.filter(|it| it.0 as u64 % shards == self.seed % shards);
        mine.collect()
    }
}

/// Plays the mutants and writes the page.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let tool = version().ok_or_else(|| format!("cargo-mutants is not installed: {INSTALL}"))?;
    // Records the commit for the page before anything changes.
    commit();
    let all = list(options)?;
    let mutants = options.chosen(&all);
    let (outcomes, numbers) = if options.vectors {
        play(VECTORS, &mutants, options.go_on)?
    } else {
        play(CORE, &mutants, options.go_on)?
    };
    let sentence = page::sentence(&outcomes);
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
    let (missed, unexplained) = if options.vectors {
        missed_by_vectors(&mutants, &numbers, options)?
    } else {
        let text = page::list(
            "## Missed",
            Some("No test fails with these:"),
            &outcomes.missed,
        );
        (text, 0)
    };
    let about = format!(
        "This changes the core's code in one small place, such as `<` for `<=`, and {judges} It made {} of the {} mutants \
         that [cargo-mutants](https://mutants.rs) lists{}. `cargo xtask mutants` writes this page.",
        mutants.len(),
        all.len(),
        if options.files.is_empty() {
            ""
        } else {
            " for these files"
        },
    );
    let page = Page {
        title,
        about: &about,
        tools: tool,
    };
    let text = format!(
        "{}\n{}",
        page.head(&sentence),
        page::body(&outcomes, &missed)
    );
    let path = root().join(options.report.as_deref().unwrap_or(Path::new(usual)));
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    say(&format!("mutants: {sentence}; {}", path.display()));
    match unexplained {
        0 => Ok(()),
        _ => Err(format!(
            "{unexplained} mutants break a test but no vector; expected a scenario more (--search), or a reason in \
             xtask/src/mutants/reasons.txt"
        )),
    }
}

/// The part of the page about mutants that the vectors miss, and the number of those that should
/// not be missed.
fn missed_by_vectors(
    mutants: &BTreeMap<usize, &Mutant>,
    missed: &[usize],
    options: &Options,
) -> Result<(String, usize), String> {
    let missed: BTreeMap<usize, &Mutant> = missed.iter().map(|it| (*it, mutants[it])).collect();
    progress(&format!("{} missed: do tests notice?", missed.len()));
    let (outcomes, by_both) = play(CORE, &missed, options.go_on)?;
    let mut by_vectors = missed.clone();
    by_vectors.retain(|it, _| !by_both.contains(it));
    if let Some(scenarios) = options.search {
        let tree = Tree::new()?;
        let (_, built) = tree.switched(&by_vectors, SEARCH)?;
        let program = built.first().ok_or("cargo built no example")?;
        let numbers: Vec<usize> = by_vectors.keys().copied().collect();
        search::search(&program.executable, &numbers, scenarios)?;
    }
    let by_vectors: Vec<&Mutant> = by_vectors.into_values().collect();
    let (reasons, unexplained) = reasons::part(&by_vectors);
    let text = format!(
        "\n## Missed, but noticed by the core's tests\n{reasons}{}",
        page::list(
            "## Missed, also by the core's tests",
            Some("No test fails with these either:"),
            &outcomes.missed
        )
    );
    Ok((text, unexplained))
}

/// Plays a sample of fixed size, if the tool is installed; fails if the tests miss too many.
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
    let all = list(&options)?;
    let (outcomes, _) = play(CORE, &options.chosen(&all), true)?;
    let missed = outcomes.missed.iter();
    let missed: Vec<String> = missed.map(|it| format!("\n  missed: {it}")).collect();
    let total = outcomes.total();
    let text = format!("mutants: {}{}", page::sentence(&outcomes), missed.concat());
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

/// The tests of a run.
#[derive(Clone, Copy, Debug)]
struct Tests {
    target: Target,
    /// The only test; none: all.
    test: Option<&'static str>,
    /// What the tests depend on.
    code: &'static [&'static str],
    /// The part of it that is the vectors.
    vectors: &'static [&'static str],
}

const CORE: Tests = Tests {
    target: Target {
        package: "slackwater-core",
        arguments: &["test", "--no-run", "--tests"],
    },
    test: None,
    code: &["crates/slackwater-core"],
    vectors: &[],
};
const VECTORS: Tests = Tests {
    target: Target {
        package: "slackwater-vectors",
        arguments: &["test", "--no-run", "--test", "committed"],
    },
    test: Some("committed_vectors_are_what_the_core_does"),
    code: &["crates/slackwater-core/src", "tools/vectors", "vectors"],
    vectors: &["tools/vectors/src/numbers.rs", "vectors"],
};
/// Plays scenarios for a search.
const SEARCH: Target = Target {
    package: "slackwater-vectors",
    arguments: &["build", "--example", "hashes"],
};

/// Plays the mutants to the tests. Also returns the numbers of those that were missed.
fn play(
    tests: Tests,
    mutants: &BTreeMap<usize, &Mutant>,
    goes_on: bool,
) -> Result<(Outcomes, Vec<usize>), String> {
    let tree = Tree::new()?;
    let record = tree.beside(&format!("{}.outcomes", tests.target.package));
    let record = Record::open(&record, goes_on, tests.code, tests.vectors)?;
    let known = |(&number, mutant): (&usize, &&Mutant)| Some((number, record.known(&mutant.name)?));
    let mut all: BTreeMap<usize, Outcome> = mutants.iter().filter_map(known).collect();
    if all.len() < mutants.len() {
        let mut rest = mutants.clone();
        rest.retain(|number, _| !all.contains_key(number));
        all.extend(play_unknown(&tree, tests, &rest, &record)?);
    }
    let mut outcomes = Outcomes::default();
    for (number, outcome) in &all {
        outcomes.add(mutants[number], *outcome);
    }
    all.retain(|_, outcome| *outcome == Outcome::Missed);
    Ok((outcomes, all.into_keys().collect()))
}

/// Plays mutants that no earlier run has played.
fn play_unknown(
    tree: &Tree,
    tests: Tests,
    mutants: &BTreeMap<usize, &Mutant>,
    record: &Record,
) -> Result<BTreeMap<usize, Outcome>, String> {
    let began = Instant::now();
    let (unviable, built) = tree.switched(mutants, tests.target)?;
    progress(&format!("built in {} s", began.elapsed().as_secs()));
    for number in &unviable {
        record.add(&mutants[number].name, Outcome::Unviable)?;
    }
    let judge = Judge::new(built, tests.test)?;
    progress(&format!("the tests take {:.1?}", judge.takes()));
    let kinds = kinds(mutants)?;
    let viable = kinds.iter().map(|(number, kind)| (*number, *kind));
    let viable = viable.filter(|it| !unviable.contains(&it.0));
    let (mut apart, switched): (Vec<_>, Vec<_>) = viable.partition(|it| it.1 == Kind::Apart);
    let numbers: Vec<usize> = switched.iter().map(|it| it.0).collect();
    // The compiler computes constants without a mutant.
    let is_open = |number: &usize, outcome| {
        kinds.get(number) == Some(&Kind::InConstFunction) && outcome == Outcome::Missed
    };
    let mut all = judge.play(&numbers, &|number, outcome| {
        if is_open(&number, outcome) {
            return Ok(());
        }
        record.add(&mutants[&number].name, outcome)
    })?;
    let rest = switched.into_iter();
    apart.extend(rest.filter(|(number, _)| is_open(number, all[number])));
    tree.restore(mutants)?;
    for (played, (number, _)) in apart.iter().enumerate() {
        progress(&format!(
            "{played} of {} in builds of their own",
            apart.len()
        ));
        let outcome = if tree.apart(mutants[number], tests.target)? {
            judge.one(None)?
        } else {
            Outcome::Unviable
        };
        record.add(&mutants[number].name, outcome)?;
        all.insert(*number, outcome);
    }
    all.extend(unviable.into_iter().map(|it| (it, Outcome::Unviable)));
    Ok(all)
}

/// The mutants of these files.
fn list(options: &Options) -> Result<Vec<Mutant>, String> {
    let output = tool(options)
        .args(["--list", "--json"])
        .output()
        .map_err(|error| format!("cargo mutants: {error}"))?;
    list::parse(&output.stdout)
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
    fn sample_is_every_nth_and_seeds_wrap_around() {
        let list = vec![Mutant::default(); 100];
        let chosen = |sample, seed| {
            let options = Options {
                sample,
                seed,
                ..Options::default()
            };
            options.chosen(&list).into_keys().collect::<Vec<_>>()
        };
        assert_eq!(chosen(None, 3).len(), 100);
        assert_eq!(chosen(Some(20), 3)[..3], [3, 8, 13]);
        assert_eq!(chosen(Some(20), 8).len(), 20);
        assert_eq!(chosen(Some(20), 8)[0], 3);
        assert_eq!(chosen(Some(200), 8).len(), 100);
    }
}
