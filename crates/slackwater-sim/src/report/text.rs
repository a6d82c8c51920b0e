//! Results as plain text, for a terminal.
//!
//! The tables are those of the pages. Columns are aligned, and lines are as long as necessary.

use super::{compared, tables};
use crate::figure::{Claim, Figure, Findings, Played, Table, Verdict};
use core::fmt::Write;

/// Returns the results of a figure: its claims with verdicts, its own tables, and latencies and
/// errors of every cell.
pub fn summary(figure: &dyn Figure, played: &[Played], findings: &Findings) -> String {
    let mut text = format!("{}: {}\n", figure.name(), figure.title());
    if !findings.claims.is_empty() {
        text.push_str(&count(&findings.claims));
        text.push_str("\n\n");
    }
    for claim in &findings.claims {
        let (verdict, says, found) = (verdict(claim.verdict), &claim.says, &claim.found);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {verdict:<14}  {says}\n  {:<14}  found: {found}",
            ""
        );
    }
    for own in &findings.tables {
        text.push('\n');
        text.push_str(&table(own));
    }
    text.push('\n');
    text.push_str(&table(&tables::latencies(
        "Latencies and errors".to_owned(),
        played,
    )));
    text
}

/// Returns the results of several policies on one scenario: latencies and errors with intervals
/// over seeds, and each policy compared with the first, in numbers and in words.
pub fn comparison(title: &str, played: &[Played]) -> String {
    let mut text = table(&tables::latencies(title.to_owned(), played));
    if let Some(against) = tables::against_first(played) {
        text.push('\n');
        text.push_str(&table(&against));
        text.push('\n');
        for sentence in compared::sentences(played) {
            text.push_str(&sentence);
            text.push('\n');
        }
    }
    text
}

/// Returns a verdict in words.
pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::NotReproduced => "not reproduced",
    }
}

/// Returns how many of the claims were reproduced, as text.
pub(super) fn count(claims: &[Claim]) -> String {
    let reproduced = reproduced(claims);
    match claims.len() {
        1 if reproduced == 1 => "the claim is reproduced".to_owned(),
        1 => "the claim is not reproduced".to_owned(),
        all if reproduced == all => format!("all {all} claims are reproduced"),
        all => format!(
            "{reproduced} of {all} claims are reproduced, {} not",
            all - reproduced
        ),
    }
}

/// Returns how many claims were reproduced.
pub(super) fn reproduced(claims: &[Claim]) -> usize {
    let reproduced = claims
        .iter()
        .filter(|claim| claim.verdict == Verdict::Reproduced);
    reproduced.count()
}

/// Formats a table with its columns aligned: numbers at the right, words at the left.
fn table(table: &Table) -> String {
    let numeric = tables::numeric_columns(table);
    let lines = || core::iter::once(&table.columns).chain(&table.rows);
    let width = |column: usize| {
        let cells = lines().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let mut text = format!("{}\n", table.title);
    for line in lines() {
        let mut row = String::new();
        for ((cell, &width), &numeric) in line.iter().zip(&widths).zip(&numeric) {
            // Writing to a string cannot fail.
            let _ = if numeric {
                write!(row, "  {cell:>width$}")
            } else {
                write!(row, "  {cell:<width$}")
            };
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example::{Example, findings, played, run};
    use core::slice;

    #[test]
    fn summary_starts_with_verdicts() {
        let cells = [played("1.03", 1.03, "prequal", vec![run(1, 1)])];
        let expected = "\
made-up: A <made-up> figure
1 of 2 claims are reproduced, 1 not

  reproduced      p99 < 1 & \"more\"
                  found: 0.5
  not reproduced  <b>p50</b> is 80
                  found: 90

Extra
  what   much
  tea   1,000

Latencies and errors
  step  policy   p50 ms  p90 ms  p99 ms  p99.9 ms  errors %
  1.03  prequal     1.0     1.0     1.0       1.0     0.200
";
        assert_eq!(summary(&Example, &cells, &findings()), expected);
    }

    #[test]
    fn comparison_has_both_tables() {
        let cells = [
            played("", 1.0, "prequal", vec![run(1, 100)]),
            played("", 1.0, "random", vec![run(1, 200)]),
        ];
        let text = comparison("my fleet", &cells);
        assert!(text.starts_with("my fleet\n"), "{text}");
        assert!(text.contains("\nAgainst prequal, seed by seed\n"), "{text}");
        assert!(
            text.contains("\nrandom against prequal: one seed "),
            "{text}"
        );
        assert!(!comparison("alone", &cells[..1]).contains("Against"));
    }

    #[test]
    fn verdicts_are_counted_in_words() {
        let claim = |verdict| Claim {
            says: String::new(),
            found: String::new(),
            verdict,
        };
        let (yes, no) = (claim(Verdict::Reproduced), claim(Verdict::NotReproduced));
        assert_eq!(count(slice::from_ref(&yes)), "the claim is reproduced");
        assert_eq!(count(slice::from_ref(&no)), "the claim is not reproduced");
        assert_eq!(
            count(&[yes.clone(), yes.clone()]),
            "all 2 claims are reproduced"
        );
        assert_eq!(count(&[yes, no]), "1 of 2 claims are reproduced, 1 not");
    }
}
