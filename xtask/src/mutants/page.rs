//! The page of a run: for each file the number of mutants that the tests noticed, and lists of
//! missed ones.

use crate::mutants::list::PREFIX;
use crate::mutants::outcomes::{Counts, Outcomes};
use crate::table::markdown;

/// The page without its head; `missed` describes the missed mutants.
pub(super) fn body(outcomes: &Outcomes, missed: &str) -> String {
    let titles = ["file", "caught", "missed", "timed out", "unviable"].map(str::to_owned);
    let mut rows = vec![titles.to_vec()];
    rows.extend(outcomes.files.iter().map(|(file, counts)| {
        let file = file.strip_prefix(PREFIX).unwrap_or(file);
        row(&format!("`{file}`"), counts)
    }));
    rows.push(row("together", &outcomes.total()));
    format!(
        "## By file\n\nFiles are those of `{PREFIX}`.\n\n{}{missed}{}",
        markdown(&rows),
        list(
            "## Timed out",
            Some("With these a test does not end, which counts as noticed:"),
            &outcomes.timed_out
        ),
    )
}

fn row(name: &str, counts: &Counts) -> Vec<String> {
    let numbers = [
        counts.caught,
        counts.missed,
        counts.timed_out,
        counts.unviable,
    ];
    let mut row = vec![name.to_owned()];
    row.extend(numbers.map(|number| number.to_string()));
    row
}

/// A list of mutants with its title, or nothing if there are none.
pub(super) fn list(title: &str, about: Option<&str>, mutants: &[String]) -> String {
    if mutants.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = mutants
        .iter()
        .map(|mutant| format!("- `{}`\n", mutant.strip_prefix(PREFIX).unwrap_or(mutant)))
        .collect();
    let about = about.map_or_else(String::new, |about| format!("{about}\n\n"));
    format!("\n{title}\n\n{about}{}", lines.concat())
}

/// The result in a sentence.
pub(super) fn sentence(outcomes: &Outcomes) -> String {
    let total = outcomes.total();
    format!(
        "{} of {} viable mutants were noticed, {} missed; {} did not compile",
        total.noticed(),
        total.viable(),
        total.missed,
        total.unviable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_counts_by_file_and_lists_mutants() {
        let mut outcomes = Outcomes::default();
        let counts = Counts {
            caught: 3,
            missed: 1,
            timed_out: 0,
            unviable: 2,
        };
        outcomes.files.insert(format!("{PREFIX}draw.rs"), counts);
        let missed = [format!("{PREFIX}draw.rs:1:2: a change")];
        let page = body(&outcomes, &list("## Missed", None, &missed));
        assert!(
            page.contains("| `draw.rs` | 3      | 1      | 0         | 2        |"),
            "{page}"
        );
        assert!(page.contains("- `draw.rs:1:2: a change`"));
        assert!(!page.contains("Timed out\n"));
        assert_eq!(
            sentence(&outcomes),
            "3 of 4 viable mutants were noticed, 1 missed; 2 did not compile"
        );
    }
}
