//! Checks that each rule of the algorithm is cited in the code that obeys it.

use crate::tidy::tree::Source;

/// The letters of CONTRIBUTING.md's table, and the last number of each.
const RULES: &[(&str, u32)] = &[("A", 13), ("S", 4), ("E", 5), ("H", 4), ("T", 6)];

/// Returns the rules that no file in crates/ cites as `[A1]`.
pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let is_cited = |rule: &str| {
        sources
            .iter()
            .any(|source| source.path.starts_with("crates/") && source.text.contains(rule))
    };
    let rules = RULES
        .iter()
        .flat_map(|(letter, last)| (1..=*last).map(move |number| format!("[{letter}{number}]")));
    rules
        .filter(|rule| !is_cited(rule))
        .map(|rule| format!("rule {rule} is cited nowhere in crates/"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_must_be_cited() {
        let rules: Vec<String> = RULES
            .iter()
            .flat_map(|(letter, last)| {
                (1..=*last).map(move |number| format!("`[{letter}{number}]`"))
            })
            .collect();
        let all = format!("//! {}", rules.join(" "));
        assert_eq!(check(&[Source::test("crates/a/src/b.rs", &all)]), [""; 0]);
        let all_but_one = all.replace("[E2]", "");
        assert_eq!(
            check(&[Source::test("crates/a/src/b.rs", &all_but_one)]),
            ["rule [E2] is cited nowhere in crates/"]
        );
    }
}
