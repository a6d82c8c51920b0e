//! The results: a section for each case on the terminal, all of them as a page, and every number as
//! JSON.

use super::columns::Column;
use super::plan::{Case, Claim};
use super::results::{Results, Row};
use crate::output::say;
use crate::provenance::{self, commit, date, machine};
use crate::report::Page;
use crate::table::markdown;
use core::fmt::Write as _;
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

/// All results so far.
#[derive(Debug)]
pub(super) struct Report {
    began: Instant,
    sections: Vec<String>,
    raw: Vec<Value>,
    claims: usize,
    /// Claims that do not hold.
    broken: Vec<String>,
    /// Runs that failed.
    missed: Vec<String>,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            sections: Vec::new(),
            raw: Vec::new(),
            claims: 0,
            broken: Vec::new(),
            missed: Vec::new(),
        }
    }
}

impl Report {
    /// Adds a case and prints its section.
    pub(super) fn add(&mut self, case: &Case, results: &Results) {
        let claims = (case.claims)(results);
        let section = section(case, results, &claims);
        // Errors do not matter: the results are also in the file.
        let _ = writeln!(std::io::stdout(), "{section}");
        self.claims += claims.len();
        let broken = claims.iter().filter(|claim| !claim.holds);
        let broken = broken.map(|claim| format!("{}: {}: {}", case.name, claim.says, claim.found));
        self.broken.extend(broken);
        self.raw.push(raw(case, results, &claims));
        self.sections.push(section);
        say(&self.sum());
    }

    /// Records a run that failed; the others count.
    pub(super) fn miss(&mut self, what: &str, trouble: &str) {
        let missed = format!("{what}: {trouble}");
        say(&missed);
        self.missed.push(missed);
    }

    /// Fails if a run failed, or, if `claims_hold`, if a claim does not hold.
    pub(super) fn finish(&self, claims_hold: bool) -> Result<(), String> {
        let broken: &[String] = if claims_hold { &self.broken } else { &[] };
        let wrong: Vec<_> = self.missed.iter().chain(broken).cloned().collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(wrong.join("\n"))
        }
    }

    /// Writes the page to `file`, and the numbers beside it.
    pub(super) fn write(&self, file: &Path) -> Result<(), String> {
        let page = Page {
            title: "Troubles",
            about: "What `slackwater serve` has against replicas that fail, hang, restart and stall, off and on, between real processes. Each\n\
                    variant of a case has replicas, agents, `serve` and load of its own; all variants of a round suffer at the same\n\
                    time, side by side. A cell is the middle of the runs, with the least and the most of them in brackets.",
            tools: String::new(),
        };
        let mut text = page.head(&self.sum()) + "\n" + &self.sections.join("\n");
        for missed in &self.missed {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\nNot played: {missed}");
        }
        let raw = json!({
            "arguments": provenance::arguments().skip(1).collect::<Vec<_>>(),
            "commit": commit(),
            "date": date(),
            "machine": machine(),
            "cases": self.raw,
            "missed": self.missed,
        });
        let write = |file: &Path, text: String| {
            fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
        };
        write(file, text)?;
        write(&file.with_extension("json"), format!("{raw}\n"))
    }

    fn sum(&self) -> String {
        let holding = self.claims - self.broken.len();
        let seconds = self.began.elapsed().as_secs();
        let missed = self.missed.len();
        format!(
            "{holding} of {} claims hold, {missed} runs could not be played, in {seconds} s",
            self.claims
        )
    }
}

fn section(case: &Case, results: &Results, claims: &[Claim]) -> String {
    // Writing to a string cannot fail.
    let mut text = format!("## {}: {}\n\n{}\n", case.name, case.title, case.about);
    for round in &case.rounds {
        let rows: Vec<_> = (results.rows.iter())
            .filter(|row| row.round == round.name)
            .collect();
        let _ = write!(text, "\n{}:\n\n{}", round.name, table(&rows, case.columns));
    }
    text += "\n";
    for claim in claims {
        let mark = if claim.holds {
            "holds"
        } else {
            "does not hold"
        };
        let _ = writeln!(text, "- {mark}: {}. Found: {}", claim.says, claim.found);
    }
    text
}

fn table(rows: &[&Row], columns: &[Column]) -> String {
    let titles = ["policy", "with"].into_iter();
    let titles = titles.chain(columns.iter().map(|column| column.title()));
    let titles: Vec<_> = titles.map(str::to_owned).collect();
    let mut cells = vec![titles];
    for row in rows {
        let names = [row.variant.policy, row.variant.means].into_iter();
        let values = columns.iter().map(|column| cell(row, *column));
        cells.push(names.map(str::to_owned).chain(values).collect());
    }
    markdown(&cells)
}

fn cell(row: &Row, column: Column) -> String {
    let Some(spread) = row.spread(column) else {
        return "-".to_owned();
    };
    let [median, least, most] =
        [spread.median, spread.least, spread.most].map(|value| column.written(value));
    if least == most {
        median
    } else {
        format!("{median} ({least}–{most})")
    }
}

fn raw(case: &Case, results: &Results, claims: &[Claim]) -> Value {
    let rows = results.rows.iter().map(|row| {
        let runs = row.found.iter();
        let runs = runs.map(|(run, found)| json!({"run": run, "found": found.raw}));
        json!({
            "round": row.round,
            "policy": row.variant.policy,
            "with": row.variant.means,
            "serve": row.variant.serve,
            "agent": row.variant.agent,
            "runs": runs.collect::<Vec<_>>(),
        })
    });
    let claims = claims
        .iter()
        .map(|claim| json!({"claim": claim.says, "holds": claim.holds, "found": claim.found}));
    json!({
        "case": case.name,
        "rows": rows.collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;
    use crate::troubles::measure::Found;
    use crate::troubles::options::Options;

    /// The case with one measurement for its first variant, in two runs.
    fn played(values: [f64; 2]) -> (Case, Results) {
        let options: Options = parse(&["hedged"]).unwrap();
        let case = options.cases().unwrap()[0](&options);
        let mut results = Results::default();
        for (run, value) in (1..).zip(values) {
            let found = vec![Found::with(Column::P50, value)];
            results.add(&case.rounds[0], run, found);
        }
        (case, results)
    }

    #[test]
    fn a_table_has_median_and_quartiles_and_marks_missing_values() {
        let (case, results) = played([1.25, 3.0]);
        let text = section(&case, &results, &[]);
        assert!(
            text.contains("| prequal | nothing | -        | 3.0 (1.2–3.0) | -      |"),
            "{text}"
        );
        assert!(
            !text.contains("hedging, budget"),
            "nothing was found of it: {text}"
        );
    }

    #[test]
    fn failed_claims_fail_the_run_only_if_all_must_hold() {
        let mut report = Report::default();
        let (case, results) = played([1.0, 1.0]);
        report.add(&case, &results);
        assert_eq!(report.finish(false), Ok(()));
        let message = report.finish(true).unwrap_err();
        assert!(
            message.contains("hedged: with hedging, p99.9 falls"),
            "{message}"
        );
        report.miss("hedged, run 2", "no port");
        let message = report.finish(false).unwrap_err();
        assert_eq!(message, "hedged, run 2: no port");
    }
}
