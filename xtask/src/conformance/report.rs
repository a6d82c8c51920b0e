//! What was found: a line for each check as it is made, and all of them as a table in the end.

use super::tools::Tools;
use crate::provenance::{commit, date, machine};
use crate::run::say;
use core::fmt::Write as _;
use std::fs;
use std::path::Path;

/// How a check ended, in words.
#[derive(Debug)]
pub(super) enum Outcome {
    Passed(String),
    Failed(String),
    NotRun(String),
}

/// What a check found, either way.
impl From<Result<String, String>> for Outcome {
    fn from(found: Result<String, String>) -> Self {
        match found {
            Ok(found) => Self::Passed(found),
            Err(found) => Self::Failed(found),
        }
    }
}

/// Checks and their outcomes, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<(&'static str, String, Outcome)>,
}

impl Report {
    /// Notes a check and prints it.
    pub(super) fn add(&mut self, step: &'static str, what: &str, outcome: impl Into<Outcome>) {
        let outcome = outcome.into();
        let (mark, found) = told(&outcome);
        say(&format!("{mark:7} {step}: {what}: {found}"));
        self.rows.push((step, what.to_owned(), outcome));
    }

    /// Writes the table to `file`, and fails if a check did.
    pub(super) fn finish(
        &self,
        tools: &Tools,
        arguments: &[&str],
        file: Option<&Path>,
    ) -> Result<(), String> {
        if let Some(file) = file {
            fs::write(file, self.page(tools, arguments))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let count = |is: fn(&Outcome) -> bool| self.rows.iter().filter(|row| is(&row.2)).count();
        let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
        let not_run = count(|outcome| matches!(outcome, Outcome::NotRun(_)));
        let all = self.rows.len();
        say(&format!("{all} checks, {failed} failed, {not_run} not run"));
        if failed == 0 {
            Ok(())
        } else {
            Err(format!("{failed} of {all} checks failed"))
        }
    }

    fn page(&self, tools: &Tools, arguments: &[&str]) -> String {
        let command = [&["cargo", "xtask", "conformance"], arguments]
            .concat()
            .join(" ");
        let mut text = format!(
            "# Conformance\n\nWhat each line means is in `docs/conformance.md`.\n\n\
             - Command: `{command}`\n- Commit: {}\n- Date: {}\n- Machine: {}\n- Tools: {}\n\n\
             | judge | what | outcome | found |\n|---|---|---|---|\n",
            commit(),
            date(),
            machine(),
            tools.versions(),
        );
        for (step, what, outcome) in &self.rows {
            let (mark, found) = told(outcome);
            // A cell is one line, and a bar would end it.
            let found = found.replace('\n', " / ").replace('|', "\\|");
            let _ = writeln!(text, "| {step} | {what} | {mark} | {found} |");
        }
        text
    }
}

fn told(outcome: &Outcome) -> (&'static str, &str) {
    match outcome {
        Outcome::Passed(found) => ("passed", found),
        Outcome::Failed(found) => ("FAILED", found),
        Outcome::NotRun(why) => ("not run", why),
    }
}
