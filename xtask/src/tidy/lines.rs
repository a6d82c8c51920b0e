//! Counts the lines of production code of each crate, in the same way for every number.
//!
//! A line counts if a token begins or ends on it: blank lines, comments and tests do not.

use super::tree::{Language, Source};
use core::fmt::Write as _;
use proc_macro2::TokenTree;
use std::collections::{BTreeMap, BTreeSet};

/// The largest share of all production lines that one crate may have, in percent. The simulator's
/// engines for language models took the last one.
const SHARE_MAX: usize = 21;

/// Lines by package, such as `crates/slackwater-core`, and by its top-level modules.
type Counted = BTreeMap<String, BTreeMap<String, usize>>;

fn mark(tokens: impl IntoIterator<Item = TokenTree>, lines: &mut BTreeSet<usize>) {
    for token in tokens {
        let span = token.span();
        lines.extend([span.start().line, span.end().line]);
        if let TokenTree::Group(group) = token {
            mark(group.stream(), lines);
        }
    }
}

fn count(sources: &[Source]) -> Counted {
    let mut counted = Counted::new();
    for source in sources
        .iter()
        .filter(|source| source.language == Language::Rust)
    {
        let Some(package) = source.package().filter(|name| name.starts_with("crates/")) else {
            continue;
        };
        let mut lines = BTreeSet::new();
        mark(source.tokens.iter().cloned(), &mut lines);
        let modules = counted.entry(package.to_owned()).or_default();
        let module = source.module().into_iter().next().unwrap_or_default();
        *modules.entry(module).or_default() += lines.len();
    }
    counted
}

/// Packages with their lines, the largest first.
fn totals(counted: &Counted) -> Vec<(&str, usize)> {
    let mut totals: Vec<(&str, usize)> = (counted.iter())
        .map(|(package, modules)| (package.as_str(), modules.values().sum()))
        .collect();
    totals.sort_by_key(|&(_, lines)| core::cmp::Reverse(lines));
    totals
}

/// A table of the crates, with the largest module of each.
pub(super) fn table(sources: &[Source]) -> String {
    let counted = count(sources);
    let totals = totals(&counted);
    let all: usize = totals.iter().map(|(_, lines)| lines).sum();
    let mut text = "| crate | lines | share | largest module |\n|---|--:|--:|---|\n".to_owned();
    for (package, lines) in totals {
        let largest = counted.get(package).and_then(|modules| {
            let named = modules.iter().filter(|(module, _)| !module.is_empty());
            named.max_by_key(|&(_, lines)| lines)
        });
        let name = package.trim_start_matches("crates/");
        let tenths = lines * 1000 / all.max(1);
        let _ = write!(
            text,
            "| `{name}` | {lines} | {}.{} % | ",
            tenths / 10,
            tenths % 10
        );
        let _ = match largest {
            Some((module, lines)) => writeln!(text, "`{module}`, {lines} |"),
            None => writeln!(text, "|"),
        };
    }
    let _ = writeln!(text, "| all | {all} | | |");
    text
}

/// Finds a crate that has more than its share.
pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let counted = count(sources);
    let totals = totals(&counted);
    let all: usize = totals.iter().map(|(_, lines)| lines).sum();
    totals
        .into_iter()
        .filter(|(_, lines)| lines * 100 > all * SHARE_MAX)
        .map(|(package, lines)| {
            format!("{package}: {lines} of {all} production lines; at most {SHARE_MAX} %")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "//! Head.\n\n// Why.\nfn a() {\n    b();\n}\n#[cfg(test)]\nmod tests {}\n";

    #[test]
    fn comments_blank_lines_and_tests_are_not_counted() {
        let source = Source::test("crates/a/src/b/c.rs", FILE);
        assert!(table(&[source]).contains("| `a` | 3 | 100.0 % | `b`, 3 |"));
    }

    #[test]
    fn a_crate_with_more_than_its_share_is_found() {
        let crates = |count: usize| -> Vec<Source> {
            (0..count)
                .map(|n| Source::test(&format!("crates/a{n}/src/b.rs"), FILE))
                .collect()
        };
        assert_eq!(check(&crates(5)), [""; 0]);
        assert_eq!(check(&crates(4)).len(), 4);
    }
}
