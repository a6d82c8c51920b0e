//! Existing violations that a check still allows: counts that may only fall.

use core::fmt::Write;
use std::collections::BTreeMap;

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// The key by which uses are counted, such as a file.
    pub(super) key: String,
    /// The place, and what is wrong.
    pub(super) finding: String,
}

/// The number of uses allowed for each key.
pub(super) type Counts = BTreeMap<String, usize>;

/// Parses a list: a line for each count, with the count before the key.
pub(super) fn parse(list: &str) -> Counts {
    list.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(count, key)| Some((key.trim().to_owned(), count.parse().ok()?)))
        .collect()
}

/// Counts uses by key.
pub(super) fn count(uses: &[Use]) -> Counts {
    let mut counts = Counts::new();
    for one in uses {
        *counts.entry(one.key.clone()).or_default() += 1;
    }
    counts
}

/// Writes a list that allows exactly these counts.
pub(super) fn list(about: &str, counts: &Counts) -> String {
    let mut text = format!(
        "# {about}\n# It may only become shorter. `cargo xtask tidy --ratchet` updates it.\n"
    );
    for (key, count) in counts {
        let _ = writeln!(text, "{count} {key}");
    }
    text
}

/// Compares uses with the list in the file `name`. More uses than allowed are findings, and so are
/// fewer, so that the list shrinks.
pub(super) fn hold(name: &str, allowed: &Counts, uses: &[Use]) -> Vec<String> {
    let found = count(uses);
    let mut findings = Vec::new();
    for (key, &count) in &found {
        let allowed = allowed.get(key).copied().unwrap_or(0);
        if count > allowed {
            let these = uses.iter().filter(|one| one.key == *key);
            findings.extend(these.map(|one| {
                if allowed == 0 {
                    one.finding.clone()
                } else {
                    format!(
                        "{} ({count} of these, {name} allows {allowed})",
                        one.finding
                    )
                }
            }));
        }
    }
    for (key, &allowed) in allowed {
        let found = found.get(key).copied().unwrap_or(0);
        if found < allowed {
            findings.push(format!(
                "{name}: allows {allowed} of `{key}`, and there are {found}: `cargo xtask tidy --ratchet` updates it"
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(keys: &[&str]) -> Vec<Use> {
        keys.iter()
            .map(|key| Use {
                key: (*key).to_owned(),
                finding: format!("{key} is wrong"),
            })
            .collect()
    }

    #[test]
    fn listed_entries_are_allowed() {
        let now = uses(&["a b", "a b", "c"]);
        let list = list("About.", &count(&now));
        assert!(hold("list.txt", &parse(&list), &now).is_empty());
    }

    #[test]
    fn more_or_fewer_than_listed_is_a_finding() {
        let allowed = parse("# a comment\n1 a\n1 b\n");
        let findings = hold("list.txt", &allowed, &uses(&["a", "a", "new"]));
        assert_eq!(findings.len(), 4, "{findings:?}");
        assert_eq!(findings[0], "a is wrong (2 of these, list.txt allows 1)");
        assert_eq!(findings[2], "new is wrong");
        assert!(findings[3].starts_with("list.txt: allows 1 of `b`, and there are 0"));
    }
}
