//! What was found: a line for each check as it is made, and all of them as a table in the end.

use super::tools::{Tools, root};
use core::fmt::Write as _;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

#[derive(Debug)]
struct Row {
    step: &'static str,
    what: String,
    /// With the numbers, either way.
    outcome: Result<String, String>,
}

/// Checks and their outcomes, in the order in which they were made.
#[derive(Debug)]
pub(super) struct Report {
    rows: Vec<Row>,
    began: Instant,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            began: Instant::now(),
        }
    }
}

impl Report {
    /// Notes a check and prints it. Both sides of the outcome say the numbers.
    pub(super) fn add(&mut self, step: &'static str, what: &str, outcome: Result<String, String>) {
        let (mark, numbers) = match &outcome {
            Ok(numbers) => ("passed", numbers),
            Err(numbers) => ("FAILED", numbers),
        };
        say(&format!("{mark}  {step}: {what}: {numbers}"));
        self.rows.push(Row {
            step,
            what: what.to_owned(),
            outcome,
        });
    }

    /// Prints the table, writes it to `file`, and fails if a check did.
    pub(super) fn finish(
        &self,
        tools: &Tools,
        arguments: &[&str],
        file: Option<&Path>,
    ) -> Result<(), String> {
        let table = self.table();
        say(&table);
        if let Some(file) = file {
            let text = format!("{}\n{table}", self.heading(tools, arguments));
            fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let failed = self.rows.iter().filter(|row| row.outcome.is_err()).count();
        if failed == 0 {
            Ok(())
        } else {
            Err(format!("{failed} of {} checks failed", self.rows.len()))
        }
    }

    fn table(&self) -> String {
        let mut text = "| step | what | outcome | numbers |\n|---|---|---|---|\n".to_owned();
        for Row {
            step,
            what,
            outcome,
        } in &self.rows
        {
            let (mark, numbers) = match outcome {
                Ok(numbers) => ("passed", numbers),
                Err(numbers) => ("**failed**", numbers),
            };
            // A cell is one line, and a bar would end it.
            let numbers = numbers.replace('\n', " / ").replace('|', "\\|");
            let _ = writeln!(text, "| {step} | {what} | {mark} | {numbers} |");
        }
        text
    }

    fn heading(&self, tools: &Tools, arguments: &[&str]) -> String {
        let passed = self.rows.iter().filter(|row| row.outcome.is_ok()).count();
        format!(
            "# Between real peers\n\n\
             Three nginx servers, a `slackwater agent` before each, one `slackwater serve` before them; configuration in\n\
             `deploy/examples/`. What each number means is said in `xtask/src/peers/steps/`.\n\n\
             - Command: `cargo xtask {}`\n\
             - Outcome: {passed} of {} checks passed, in {} s\n\
             - Commit: {}\n- Date: {}\n- Machine: {}, {} cores, Linux {}\n- Peers: {}\n",
            ["peers"]
                .iter()
                .chain(arguments)
                .copied()
                .collect::<Vec<_>>()
                .join(" "),
            self.rows.len(),
            self.began.elapsed().as_secs(),
            commit(),
            first_line("date", &["-u", "+%Y-%m-%d"]),
            processor(),
            std::thread::available_parallelism().map_or(1, usize::from),
            fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim(),
            tools.versions(),
        )
    }
}

fn commit() -> String {
    let commit = first_line("git", &["rev-parse", "--short=12", "HEAD"]);
    let changed = first_line("git", &["status", "--porcelain", "--untracked-files=no"]);
    let note = if changed.is_empty() {
        ""
    } else {
        ", with changes"
    };
    format!("{commit}{note}")
}

fn processor() -> String {
    let facts = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = facts
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    model.and_then(|model| model.split_once(':')).map_or_else(
        || std::env::consts::ARCH.to_owned(),
        |(_, name)| name.trim().to_owned(),
    )
}

/// The first line that a command writes, wherever to; nothing if it cannot be run.
pub(super) fn first_line(command: impl AsRef<OsStr>, arguments: &[&str]) -> String {
    let output = Command::new(command)
        .args(arguments)
        .current_dir(root())
        .output();
    output.map_or_else(
        |_| String::new(),
        |output| {
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            text.lines().next().unwrap_or_default().to_owned()
        },
    )
}

/// Prints a line.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
