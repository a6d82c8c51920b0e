//! What was found: a line for each check as it is made, and all of them as a table in the end.

use crate::provenance::{commit, date, machine};
use crate::run::say;
use core::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Checks and their outcomes.
#[derive(Debug)]
pub(super) struct Report {
    /// With the numbers, either way.
    rows: Vec<(&'static str, Result<String, String>)>,
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
    /// Notes a check and prints it.
    pub(super) fn add(&mut self, what: &'static str, outcome: Result<String, String>) {
        match &outcome {
            Ok(numbers) => say(&format!("passed  {what}: {numbers}")),
            Err(numbers) => say(&format!("FAILED  {what}: {numbers}")),
        }
        self.rows.push((what, outcome));
    }

    /// Writes the table to `file`, and fails if a check did.
    pub(super) fn finish(&self, arguments: &[&str], file: Option<&Path>) -> Result<(), String> {
        if let Some(file) = file {
            fs::write(file, self.text(arguments))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let failed = self
            .rows
            .iter()
            .filter(|(_, outcome)| outcome.is_err())
            .count();
        match failed {
            0 => Ok(()),
            _ => Err(format!("{failed} of {} checks failed", self.rows.len())),
        }
    }

    fn text(&self, arguments: &[&str]) -> String {
        let mut text = format!(
            "# Chaos\n\nWhat `cargo xtask chaos` saw. A request may be lost only where it was in flight on a replica that was \
             killed or stopped, and could not be sent again: all others have to be answered.\n\n- Command: `cargo xtask chaos \
             {}`\n- Commit: {}\n- Date: {}; {} s\n- Machine: {}\n\n| what | outcome | numbers |\n|---|---|---|\n",
            arguments.join(" "),
            commit(),
            date(),
            self.began.elapsed().as_secs(),
            machine(),
        );
        for (what, outcome) in &self.rows {
            let (mark, numbers) = match outcome {
                Ok(numbers) => ("passed", numbers),
                Err(numbers) => ("**failed**", numbers),
            };
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "| {what} | {mark} | {} |",
                numbers.replace('|', "\\|")
            );
        }
        text
    }
}
