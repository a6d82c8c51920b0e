//! What was found: a line for each check as it is made, and all of them as a table in the end.

use super::tools::Tools;
use crate::provenance::{commit, date, machine};
use core::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
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
             - Commit: {}\n- Date: {}\n- Machine: {}\n- Peers: {}\n",
            ["peers"]
                .iter()
                .chain(arguments)
                .copied()
                .collect::<Vec<_>>()
                .join(" "),
            self.rows.len(),
            self.began.elapsed().as_secs(),
            commit(),
            date(),
            machine(),
            tools.versions(),
        )
    }
}

/// Prints a line.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
