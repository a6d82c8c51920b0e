//! The results of a chore's checks: a line for each as it is made, and all of them as a page at the
//! end.

use crate::output::say;
use crate::provenance::{self, commit, date, machine};
use core::fmt::Write as _;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// The result of a check, in words and numbers.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed(String),
    Failed(String),
    NotRun(String),
}

/// Converts the result of a check.
impl From<Result<String, String>> for Outcome {
    fn from(found: Result<String, String>) -> Self {
        match found {
            Ok(found) => Self::Passed(found),
            Err(found) => Self::Failed(found),
        }
    }
}

impl Outcome {
    fn shown(&self) -> (&'static str, &str) {
        match self {
            Self::Passed(found) => ("passed", found),
            Self::Failed(found) => ("FAILED", found),
            Self::NotRun(why) => ("not run", why),
        }
    }
}

/// The texts of a page besides its table.
#[derive(Debug)]
pub(crate) struct Page<'p> {
    pub(crate) title: &'p str,
    /// What was done, and where it is documented.
    pub(crate) about: &'p str,
    /// Versions of the programs involved; may be empty.
    pub(crate) tools: String,
}

impl Page<'_> {
    /// The head of a page: what was done, the result, and how to repeat it.
    pub(crate) fn head(&self, outcome: &str) -> String {
        let mut text = format!(
            "# {}\n\n{}\n\n- Command: `{}`\n- Outcome: {outcome}\n- Commit: {}\n- Date: {}\n- Machine: {}\n",
            self.title,
            self.about,
            command(provenance::arguments()),
            commit(),
            date(),
            machine(),
        );
        if !self.tools.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- Tools: {}", self.tools);
        }
        text
    }
}

/// The command of a chore, to repeat it.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let mut command = String::from("cargo xtask");
    for argument in arguments {
        command.push(' ');
        command += &shown(&argument);
    }
    command
}

/// A word of a command, as a shell takes it. Where a program is on a machine says nothing to
/// readers elsewhere.
fn shown(word: &str) -> String {
    let value = match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => value,
        _ => word,
    };
    let path = Path::new(value);
    let name = path.file_name().and_then(OsStr::to_str);
    let name = name.filter(|_| path.is_absolute()).unwrap_or(value);
    let word = format!("{}{name}", &word[..word.len() - value.len()]);
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./,:=@%+".contains(it);
    if word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Checks and their results, in order.
#[derive(Debug)]
pub(crate) struct Report {
    rows: Vec<(&'static str, String, Outcome)>,
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
    /// Records a check and prints it.
    pub(crate) fn add(&mut self, step: &'static str, what: &str, outcome: impl Into<Outcome>) {
        let outcome = outcome.into();
        let (mark, found) = outcome.shown();
        say(&format!("{mark:7} {step}: {what}: {found}"));
        self.rows.push((step, what.to_owned(), outcome));
    }

    /// Writes the page to `file`, and fails if a check failed.
    pub(crate) fn finish(&self, page: &Page<'_>, file: Option<&Path>) -> Result<(), String> {
        if let Some(file) = file {
            fs::write(file, self.text(page))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        say(&self.sum());
        match self.count(|outcome| matches!(outcome, Outcome::Failed(_))) {
            0 => Ok(()),
            failed => Err(format!("{failed} of {} checks failed", self.rows.len())),
        }
    }

    fn count(&self, is: fn(&Outcome) -> bool) -> usize {
        let outcomes = self.rows.iter().map(|(.., outcome)| outcome);
        outcomes.filter(|outcome| is(outcome)).count()
    }

    fn sum(&self) -> String {
        let passed = self.count(|outcome| matches!(outcome, Outcome::Passed(_)));
        let not_run = self.count(|outcome| matches!(outcome, Outcome::NotRun(_)));
        let (all, seconds) = (self.rows.len(), self.began.elapsed().as_secs());
        format!("{passed} of {all} checks passed, {not_run} not run, in {seconds} s")
    }

    fn text(&self, page: &Page<'_>) -> String {
        let mut text = page.head(&self.sum());
        text += "\n| step | what | outcome | found |\n|---|---|---|---|\n";
        for (step, what, outcome) in &self.rows {
            let (mark, found) = outcome.shown();
            // A cell is one line, and a bar would end it.
            let found = found.replace('\n', " / ").replace('|', "\\|");
            let _ = writeln!(text, "| {step} | {what} | {mark} | {found} |");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failed_checks_fail_the_chore() {
        let page = Page {
            title: "A page",
            about: "What it is.",
            tools: String::new(),
        };
        let mut report = Report::default();
        report.add("one", "passes", Ok("7 | 8\n9".to_owned()));
        report.add("two", "is not run", Outcome::NotRun("no tool".to_owned()));
        assert_eq!(report.finish(&page, None), Ok(()));
        let text = report.text(&page);
        assert!(
            text.contains("| one | passes | passed | 7 \\| 8 / 9 |\n"),
            "{text}"
        );
        assert!(text.contains("1 of 2 checks passed, 1 not run"), "{text}");
        report.add("three", "fails", Err("6".to_owned()));
        assert_eq!(
            report.finish(&page, None),
            Err("1 of 3 checks failed".to_owned())
        );
    }

    #[test]
    fn a_command_is_shown_without_the_places_of_programs() {
        for (arguments, expected) in [
            (["--with", "/home/me/bin/tool"], "--with tool"),
            (["--much", "--with=/home/me/bin/tool"], "--much --with=tool"),
            (["--file", "**/a.rs"], "--file '**/a.rs'"),
            (["--key", "a = 'b'"], r"--key 'a = '\''b'\'''"),
        ] {
            let found = command(arguments.map(str::to_owned).into_iter());
            assert_eq!(found, format!("cargo xtask {expected}"));
        }
    }
}
