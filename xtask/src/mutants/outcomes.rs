//! The results of cargo-mutants, from its `outcomes.json`.

use serde_json::Value;
use std::collections::BTreeMap;

/// The result of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Caught,
    Missed,
    Unviable,
    TimedOut,
}

/// A file's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// A test failed.
    pub(super) caught: usize,
    /// No test failed.
    pub(super) missed: usize,
    /// The tests did not end.
    pub(super) timed_out: usize,
    /// It does not compile, and does not count.
    pub(super) unviable: usize,
}

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Caught => &mut self.caught,
            Outcome::Missed => &mut self.missed,
            Outcome::Unviable => &mut self.unviable,
            Outcome::TimedOut => &mut self.timed_out,
        } += 1;
    }

    /// Number of mutants that compile.
    pub(super) const fn viable(&self) -> usize {
        self.caught + self.missed + self.timed_out
    }

    /// Number of mutants that the tests noticed: failed or timed out.
    pub(super) const fn noticed(&self) -> usize {
        self.caught + self.timed_out
    }
}

/// The results of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    pub(super) files: BTreeMap<String, Counts>,
    /// Mutants that no test noticed, as `file:line:column: what was changed`.
    pub(super) missed: Vec<String>,
    /// Mutants with which the tests did not end.
    pub(super) timed_out: Vec<String>,
}

impl Outcomes {
    /// Reads the file's text.
    pub(super) fn parse(json: &str) -> Result<Self, String> {
        let wrong = |error: &dyn core::fmt::Display| format!("outcomes.json: {error}");
        let all: Value = serde_json::from_str(json).map_err(|error| wrong(&error))?;
        let mut outcomes = Self::default();
        for one in all["outcomes"].as_array().into_iter().flatten() {
            let mutant = &one["scenario"]["Mutant"];
            let (Some(file), Some(name)) = (mutant["file"].as_str(), mutant["name"].as_str())
            else {
                // The tests without a mutant.
                continue;
            };
            let outcome = match one["summary"].as_str() {
                Some("CaughtMutant") => Outcome::Caught,
                Some("MissedMutant") => Outcome::Missed,
                Some("Unviable") => Outcome::Unviable,
                Some("Timeout") => Outcome::TimedOut,
                other => return Err(wrong(&format!("{name}: unknown outcome {other:?}"))),
            };
            outcomes
                .files
                .entry(file.to_owned())
                .or_default()
                .add(outcome);
            match outcome {
                Outcome::Missed => outcomes.missed.push(name.to_owned()),
                Outcome::TimedOut => outcomes.timed_out.push(name.to_owned()),
                Outcome::Caught | Outcome::Unviable => {}
            }
        }
        if outcomes.files.is_empty() {
            return Err(wrong(&"it names no mutants"));
        }
        outcomes.missed.sort();
        outcomes.timed_out.sort();
        Ok(outcomes)
    }

    /// The sum over all files.
    pub(super) fn total(&self) -> Counts {
        self.files
            .values()
            .fold(Counts::default(), |sum, file| Counts {
                caught: sum.caught + file.caught,
                missed: sum.missed + file.missed,
                timed_out: sum.timed_out + file.timed_out,
                unviable: sum.unviable + file.unviable,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(file: &str, name: &str, summary: &str) -> String {
        format!(
            r#"{{"scenario": {{"Mutant": {{"file": "{file}", "name": "{name}"}}}}, "summary": "{summary}"}}"#
        )
    }

    #[test]
    fn outcomes_are_counted_by_file_and_missed_ones_named() {
        let json = format!(
            r#"{{"outcomes": [{{"scenario": "Baseline", "summary": "Success"}}, {}, {}, {}, {}]}}"#,
            one("a.rs", "a.rs:1:2: caught", "CaughtMutant"),
            one("a.rs", "a.rs:3:4: missed", "MissedMutant"),
            one("b.rs", "b.rs:1:2: stuck", "Timeout"),
            one("b.rs", "b.rs:3:4: no Rust", "Unviable"),
        );
        let outcomes = Outcomes::parse(&json).unwrap();
        let total = outcomes.total();
        assert_eq!((total.viable(), total.noticed()), (3, 2));
        assert_eq!(outcomes.files["a.rs"].missed, 1);
        assert_eq!(outcomes.missed, ["a.rs:3:4: missed"]);
        assert_eq!(outcomes.timed_out, ["b.rs:1:2: stuck"]);
    }

    #[test]
    fn unreadable_outcomes_are_an_error() {
        assert!(Outcomes::parse("{}").is_err());
        assert!(Outcomes::parse("no JSON").is_err());
        let json = format!(r#"{{"outcomes": [{}]}}"#, one("a.rs", "a", "Perhaps"));
        assert!(Outcomes::parse(&json).unwrap_err().contains("Perhaps"));
    }
}
