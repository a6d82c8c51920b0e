//! Rules for every file in Rust or Go: it is short and finished, and a Rust file has a module doc.

use crate::tidy::core;
use crate::tidy::tree::{Language, Source};

/// The most lines of a file, including tests.
const CORE_LINES_MAX: usize = 520;
const LINES_MAX: usize = 600;

/// Longest line of a comment, in characters; `rustfmt.toml` has the same for code.
const COMMENT_COLUMNS_MAX: usize = 100;

/// Checks a file.
pub(super) fn check(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    if source.language == Language::JavaScript {
        return findings;
    }
    lines_of(&source.path, &source.text, &mut findings);
    if source.language == Language::Rust && !source.text.starts_with("//!") {
        findings.push(format!(
            "{}:1: no `//!` that describes the module",
            source.path
        ));
    }
    unfinished(&source.path, &source.text, &mut findings);
    long_comments(&source.path, &source.text, &mut findings);
    findings
}

/// Rows of tables and code in fences cannot be wrapped.
fn long_comments(path: &str, text: &str, findings: &mut Vec<String>) {
    let mut is_fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_fenced = false;
            continue;
        };
        // A command of `go generate` is one line.
        if comment.starts_with("go:") {
            continue;
        }
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        is_fenced ^= comment.starts_with("```");
        let columns = line.chars().count();
        if columns > COMMENT_COLUMNS_MAX && !is_fenced && !comment.starts_with('|') {
            findings.push(format!(
                "{path}:{number}: a comment of {columns} columns; wrap it at {COMMENT_COLUMNS_MAX}"
            ));
        }
    }
}

fn lines_of(path: &str, text: &str, findings: &mut Vec<String>) {
    let core = path.starts_with(core::SOURCES);
    let (lines, most) = (
        text.lines().count(),
        if core { CORE_LINES_MAX } else { LINES_MAX },
    );
    if lines > most {
        findings.push(format!("{path}: {lines} lines; at most {most}, by subject"));
    }
}

/// Markers of unfinished work, assembled here so that this file does not contain them.
fn unfinished(path: &str, text: &str, findings: &mut Vec<String>) {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("un", "implemented!"),
        concat!("#[", "ignore"),
    ];
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(mark) = marks.into_iter().find(|mark| line.contains(mark)) {
            findings.push(format!("{path}:{number}: {mark}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Source::test(path, text))
    }

    #[test]
    fn short_file_with_a_head_is_accepted() {
        assert_eq!(
            findings("crates/a/src/b.rs", "//! Head.\nfn a() {}\n"),
            [""; 0]
        );
    }

    #[test]
    fn too_wide_comments_are_found_except_tables_and_code() {
        let long = "x".repeat(100);
        let found = format!("//! Head.\n/// {long}");
        assert_eq!(findings("crates/a/src/b.rs", &found).len(), 1);
        let fine = format!("//! Head.\n//! | {long} |\n//! ```\n//! {long}\n//! ```\nlet {long};");
        assert_eq!(findings("crates/a/src/b.rs", &fine), [""; 0]);
    }

    #[test]
    fn long_headless_and_unfinished_files_are_found() {
        let long = format!("//! Head.\n{}", "//\n".repeat(520));
        assert_eq!(findings("crates/a/src/b.rs", &long), [""; 0]);
        assert_eq!(findings("crates/slackwater-core/src/b.rs", &long).len(), 1);
        assert_eq!(findings("crates/a/src/b.rs", "fn a() {}").len(), 1);
        let text = concat!("//! Head.\n// TO", "DO later");
        assert_eq!(findings("crates/a/src/b.rs", text).len(), 1);
        let go = concat!("package b\n// TO", "DO later\n");
        assert_eq!(findings("go/a/b.go", go).len(), 1);
        assert_eq!(findings("go/a/b.go", "package b\n"), [""; 0]);
    }
}
