//! `cargo xtask results`: the simulator's figures for publication, each with the information to
//! make it again.
//!
//! The tree must be committed, so that the commit identifies the code; except for `results/sim/`
//! itself, which this writes. The command writes a figure's pages and CSV. `NAME.md` beside them
//! has command, commit, date, machine, and the command's verdict on each claim.

use crate::command::{build_slackwater, root};
use crate::output::say;
use crate::provenance::{date, head, machine};
use clap::value_parser;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The folder of results, from the root.
const FOLDER: &str = "results/sim";
/// The figure whose numbers are shown first, with more seeds than the others.
const MAIN_FIGURE: &str = "fig6";
const MAIN_SEEDS: u64 = 3;
/// Read when the command is built, so that its pages name the commit.
const COMMIT: &str = "SLACKWATER_COMMIT";

/// The figures to play.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Names of figures; none: all
    #[arg(value_name = "FIGURE")]
    figures: Vec<String>,
    /// Seeds of each figure: 1 to 10,000; by default 3 of fig6, and 1 of each other
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,
    /// The first seed: 1 to 1,000,000,000; by default 1
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    first_seed: Option<u64>,
    /// Threads of the simulator: 1 to 1,024; by default one for each core
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_024))]
    threads: Option<u64>,
}

impl Options {
    /// The command's arguments for a figure.
    fn arguments(&self, figure: &str) -> Vec<String> {
        let seeds = self
            .seeds
            .unwrap_or(if figure == MAIN_FIGURE { MAIN_SEEDS } else { 1 });
        let mut arguments = ["sim", figure, "--seeds"].map(str::to_owned).to_vec();
        arguments.push(seeds.to_string());
        for (name, value) in [
            ("--first-seed", self.first_seed),
            ("--threads", self.threads),
        ] {
            if let Some(value) = value {
                arguments.extend([name.to_owned(), value.to_string()]);
            }
        }
        arguments.extend(["--out", FOLDER].map(str::to_owned));
        arguments
    }
}

/// Plays the figures and writes them. The first failure ends it; earlier figures stay written.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    refuse_changes(&changes()?)?;
    let commit = head();
    say(&format!("building slackwater at {commit} for release"));
    let slackwater = build_slackwater("release", &[(COMMIT, &commit)])?;
    let known = known_figures(&slackwater)?;
    let unknown = options.figures.iter().find(|name| !known.contains(name));
    if let Some(unknown) = unknown {
        return Err(format!(
            "{unknown:?} is not a figure; expected {}",
            known.join(", ")
        ));
    }
    let figures = if options.figures.is_empty() {
        &known
    } else {
        &options.figures
    };
    for figure in figures {
        let arguments = options.arguments(figure);
        let command = format!("slackwater {}", arguments.join(" "));
        say(&command);
        let said = play(&slackwater, &arguments)?;
        let file = root().join(FOLDER).join(format!("{figure}.md"));
        fs::write(&file, note(&command, &commit, &said))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// Uncommitted files, one per line.
fn changes() -> Result<String, String> {
    let exclude = format!(":(exclude){FOLDER}");
    let output = Command::new("git")
        .args(["status", "--porcelain", "--", ".", &exclude])
        .current_dir(root())
        .output()
        .map_err(|error| format!("git did not start: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git status: {}", why.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn refuse_changes(changes: &str) -> Result<(), String> {
    if changes.is_empty() {
        return Ok(());
    }
    Err(format!(
        "there are uncommitted changes; commit or stash them first:\n{}",
        changes.trim_end()
    ))
}

/// The names of all figures, in order.
fn known_figures(slackwater: &Path) -> Result<Vec<String>, String> {
    let list = play(slackwater, &["sim", "list"].map(str::to_owned))?;
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

/// Runs the command at the root; returns its output. Its progress goes to the terminal.
fn play(slackwater: &Path, arguments: &[String]) -> Result<String, String> {
    let output = Command::new(slackwater)
        .args(arguments)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{} did not start: {error}", slackwater.display()))?;
    if !output.status.success() {
        return Err(format!(
            "slackwater {}: {}",
            arguments.join(" "),
            output.status
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The file beside a figure's pages: their origin, and the command's output without tables, because
/// the page and the CSV have them in full.
fn note(command: &str, commit: &str, said: &str) -> String {
    let (title, rest) = said.split_once('\n').unwrap_or((said, ""));
    // The output has the number of claims that hold, an empty line, and the claims. Tables follow,
    // each after an empty line and not indented. A figure without claims begins with its tables.
    let mut blocks = rest.split("\n\n");
    let count = blocks.next().filter(|count| !count.starts_with('\n'));
    let claims = blocks.next().filter(|claims| claims.starts_with("  "));
    let claims: Vec<&str> = count.into_iter().chain(claims).collect();
    // The output ends with the time it took, and the files that it wrote.
    let took = rest
        .lines()
        .find(|line| line.contains(" run") && line.contains(" million events, "));
    format!(
        "# {title}\n\n- Command: `{command}`\n- Commit: {commit}\n- Date: {}\n- Machine: {}\n- Took: {}\n\n```text\n{}\n```\n",
        date(),
        machine(),
        took.unwrap_or("not said"),
        claims.join("\n\n").trim_matches('\n'),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    #[test]
    fn figures_have_their_own_seeds_by_default() {
        let all: Options = parse(&[]).unwrap();
        assert_eq!(
            all.arguments("fig6").join(" "),
            "sim fig6 --seeds 3 --out results/sim"
        );
        assert_eq!(
            all.arguments("fig7").join(" "),
            "sim fig7 --seeds 1 --out results/sim"
        );
        let told = [
            "fig6",
            "--seeds",
            "2",
            "--first-seed",
            "4",
            "--threads",
            "2",
        ];
        let told: Options = parse(&told).unwrap();
        assert_eq!(told.figures, ["fig6"]);
        assert_eq!(
            told.arguments("fig6").join(" "),
            "sim fig6 --seeds 2 --first-seed 4 --threads 2 --out results/sim"
        );
    }

    #[test]
    fn uncommitted_files_are_refused_by_name() {
        assert_eq!(refuse_changes(""), Ok(()));
        let message = refuse_changes(" M Cargo.toml\n?? new.rs\n").unwrap_err();
        assert!(message.ends_with(" M Cargo.toml\n?? new.rs"), "{message}");
    }

    #[test]
    fn note_has_the_origin_of_the_figure_and_no_tables() {
        let said = "fig6: Load ramp\nall 2 claims are reproduced\n\n  reproduced  so\n              found: 2 runs, 1.0\n\n\
                    What the silent get\n  fleet  times\n  4x1    1.02\n\nLatencies and errors\n  step  p50\n  0.75  80\n\n\
                    18 runs, 9.1 s; 1.0 million events, 6.40 million a second of CPU time\nwrote results/sim/fig6.csv\n";
        let note = note("slackwater sim fig6", "abc", said);
        assert!(
            note.starts_with(
                "# fig6: Load ramp\n\n- Command: `slackwater sim fig6`\n- Commit: abc\n"
            ),
            "{note}"
        );
        assert!(note.contains("- Took: 18 runs, 9.1 s; "), "{note}");
        assert!(
            note.ends_with("```text\nall 2 claims are reproduced\n\n  reproduced  so\n              found: 2 runs, 1.0\n```\n"),
            "{note}"
        );
        let bare = "fig3: CPU\n\nOwn table\n  a\n\nLatencies and errors\n  p50\n\n1 run, 0.1 s; 1.0 million events, 2.0 million a second\n";
        let note = super::note("slackwater sim fig3", "abc", bare);
        assert!(note.contains("- Took: 1 run, 0.1 s; "), "{note}");
        assert!(note.ends_with("```text\n\n```\n"), "{note}");
    }
}
