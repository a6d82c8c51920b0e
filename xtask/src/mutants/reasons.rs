//! Why the vectors miss mutants that tests of the core notice: `reasons.txt` says so for each.

use crate::mutants::list::{Mutant, PREFIX};
use crate::mutants::page::list;

/// Each reason, after `# `, is above its mutants, which have their names without line and column.
/// A `…` stands for any text.
const REASONS: &str = include_str!("reasons.txt");

/// The part of the page about mutants that only tests notice, and the number of those without a
/// reason.
pub(super) fn part(mutants: &[&Mutant]) -> (String, usize) {
    let mut rest = mutants.to_vec();
    let mut text = String::new();
    for section in REASONS.split("\n# ") {
        let mut lines = section.trim_start_matches("# ").lines();
        let reason = lines.next().unwrap_or_default();
        let patterns: Vec<&str> = lines.filter(|it| !it.is_empty()).collect();
        let is_mine = |it: &&Mutant| patterns.iter().any(|pattern| matches(pattern, it));
        let mine: Vec<&Mutant> = rest.extract_if(.., |it| is_mine(it)).collect();
        text += &list(&format!("### {reason}"), None, &names(&mine));
    }
    text += &list("### No reason is known", None, &names(&rest));
    (text, rest.len())
}

fn names(mutants: &[&Mutant]) -> Vec<String> {
    mutants.iter().map(|it| it.name.clone()).collect()
}

fn matches(pattern: &str, mutant: &Mutant) -> bool {
    let file = mutant.file.strip_prefix(PREFIX).unwrap_or(&mutant.file);
    let change = mutant.name.splitn(4, ':').nth(3).unwrap_or_default();
    let name = format!("{file}:{change}");
    match pattern.split_once('…') {
        Some((begin, end)) => name.starts_with(begin) && name.ends_with(end),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_are_named_without_their_line() {
        let mutant = Mutant {
            name: format!("{PREFIX}health/flow.rs:113:36: replace += with *= in A::b"),
            file: format!("{PREFIX}health/flow.rs"),
            ..Mutant::default()
        };
        assert!(matches(
            "health/flow.rs: replace += with *= in A::b",
            &mutant
        ));
        assert!(matches("health/flow.rs: replace +…", &mutant));
        assert!(matches("health/flow.rs…in A::b", &mutant));
        assert!(!matches("health/flow.rs…in A::c", &mutant));
        assert!(!matches("health/flow.rs: replace += with *=", &mutant));
    }
}
