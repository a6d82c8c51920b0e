//! The code map of ARCHITECTURE.md names what is there, and everything that is there.

use crate::tidy::tree::names;
use std::path::Path;

/// Holds the map against the tree.
pub(super) fn check(root: &Path, architecture: &str) -> Result<Vec<String>, String> {
    let mut there = Vec::new();
    for package in names(root, "crates")? {
        let folder = format!("crates/{package}/src");
        there.push((folder.clone(), names(root, &folder)?));
    }
    Ok(hold(architecture, &there, |path| root.join(path).exists()))
}

/// `there` has each package's folder of sources with what it holds.
fn hold(
    architecture: &str,
    there: &[(String, Vec<String>)],
    exists: impl Fn(&str) -> bool,
) -> Vec<String> {
    let named: Vec<&str> = architecture
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split('`').next())
        .filter(|path| path.contains('/') && !path.contains(".rs:"))
        .collect();
    let mut findings: Vec<String> = named
        .iter()
        .filter(|path| !exists(path))
        .map(|path| format!("ARCHITECTURE.md: `{path}` is not there"))
        .collect();
    for (folder, files) in there {
        if named.contains(&format!("{folder}/").as_str()) {
            continue;
        }
        for name in files {
            let path = format!("{folder}/{name}");
            let is_named = named.iter().any(|it| it.trim_end_matches('/') == path);
            if !is_named && name != "lib.rs" {
                findings.push(format!("ARCHITECTURE.md: the code map lacks `{path}`"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_there_and_what_is_there_is_named() {
        let there = [(
            "crates/a/src".to_owned(),
            vec!["b".to_owned(), "lib.rs".to_owned()],
        )];
        let is_there = |path: &str| path == "crates/a/src/b/";
        assert_eq!(hold("| `crates/a/src/b/` | b |", &there, is_there), [""; 0]);
        let findings = hold("| `crates/a/src/c/` | c |", &there, is_there);
        let expected = [
            "ARCHITECTURE.md: `crates/a/src/c/` is not there",
            "ARCHITECTURE.md: the code map lacks `crates/a/src/b`",
        ];
        assert_eq!(findings, expected);
    }
}
