//! Rules for the core alone: it decides and does no I/O, has no dependencies, and uses the terms of
//! the field.

use crate::command::root;
use crate::tidy::tree::{Source, read};
use std::path::Path;
use std::process::Command;

/// The core's folder.
pub(super) const SOURCES: &str = "crates/slackwater-core/src/";

/// Words for which the core has its own (CONTRIBUTING.md, "One word for each idea").
const FOREIGN_WORDS: &[(&str, &str)] = &[
    ("backend", "replica"),
    ("upstream", "replica"),
    ("endpoint", "replica"),
    ("inflight", "in flight, rif"),
    ("threshold", "limit"),
    ("cutoff", "limit"),
    ("fanout", "probe_rate"),
    ("health check", "probe"),
];

/// Names that the core must not use outside comments, even through `extern crate std`.
const FOREIGN_CODE: &[&str] = &[
    "extern crate std",
    "std::",
    "Instant::now",
    "SystemTime",
    "async fn",
    "tokio",
];

/// Prequal's decisions use no floats, so that two implementations agree bit for bit.
const FLOATS: &[&str] = &["f32", "f64"];

/// Policies whose sources define them by floating-point formulas, and their shared code, with their
/// tests. Prequal uses none of these.
const MAY_FLOAT: &[&str] = &["c3", "decay", "els", "peak_ewma", "weighted_round_robin"];

/// Whether a file belongs to a policy that may use floats.
fn may_float(path: &str) -> bool {
    let subject = path
        .strip_prefix(SOURCES)
        .and_then(|path| path.strip_prefix("policy/"));
    let subject = subject.map(|path| path.strip_prefix("policies/").unwrap_or(path));
    let name = subject.and_then(|path| path.split(['/', '.']).next());
    name.is_some_and(|name| MAY_FLOAT.contains(&name))
}

/// Returns what the core must not contain, in one of its files.
pub(super) fn purity(source: &Source) -> Vec<String> {
    let path = &source.path;
    let floats = if may_float(path) { &[] } else { FLOATS };
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        let code = line.split("//").next().unwrap_or_default();
        let mut banned = FOREIGN_CODE.iter().chain(floats);
        if let Some(foreign) = banned.find(|foreign| code.contains(**foreign)) {
            findings.push(format!("{path}:{number}: `{foreign}` in the core"));
        }
        for (word, ours) in FOREIGN_WORDS {
            if line.contains(word) {
                findings.push(format!("{path}:{number}: \"{word}\" is \"{ours}\" here"));
            }
        }
    }
    findings
}

/// Checks that the core's clippy.toml, which replaces the workspace's, repeats it.
pub(super) fn lint_settings(root: &Path, findings: &mut Vec<String>) -> Result<(), String> {
    let core = read(&root.join("crates/slackwater-core/clippy.toml"))?;
    for line in read(&root.join("clippy.toml"))?.lines() {
        if !core.lines().any(|other| other == line) {
            findings.push(format!("crates/slackwater-core/clippy.toml lacks `{line}`"));
        }
    }
    let core = read(&root.join("crates/slackwater-core/src/lib.rs"))?;
    for line in ["#![no_std]", "#![forbid(unsafe_code)]"] {
        if !core.lines().any(|other| other == line) {
            findings.push(format!("crates/slackwater-core/src/lib.rs lacks `{line}`"));
        }
    }
    Ok(())
}

/// Checks that `cargo tree` shows only the core.
pub(super) fn dependencies(findings: &mut Vec<String>) -> Result<(), String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "slackwater-core"])
        .args(["--edges", "normal,build", "--prefix", "none"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo tree did not start: {error}"))?;
    let tree = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || tree.lines().count() != 1 {
        findings.push(format!("slackwater-core has dependencies:\n{tree}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(file: &str, text: &str) -> Vec<String> {
        purity(&Source::test(&format!("{SOURCES}{file}"), text))
    }

    #[test]
    fn clocks_floats_and_foreign_words_are_found() {
        assert_eq!(findings("a.rs", "fn a() { Instant::now() }").len(), 1);
        for file in [
            "a.rs",
            "c3.rs",
            "policy/c3_like.rs",
            "policy/prequal/els.rs",
        ] {
            assert_eq!(findings(file, "fn a() -> f64 { 0.0 }").len(), 1, "{file}");
        }
        assert_eq!(findings("a.rs", "/// A backend.\nfn a() {}").len(), 1);
    }

    #[test]
    fn integers_and_rules_defined_by_floats_are_accepted() {
        assert_eq!(findings("a.rs", "fn a() -> u64 { 0 } // no f64"), [""; 0]);
        for file in [
            "policy/c3.rs",
            "policy/policies/c3.rs",
            "policy/policies/els/tests.rs",
        ] {
            assert_eq!(findings(file, "fn a() -> f64 { 0.0 }"), [""; 0], "{file}");
        }
    }
}
