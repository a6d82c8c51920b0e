//! The code map of ARCHITECTURE.md: a table for each crate, generated from the first sentence of
//! each of its modules.
//!
//! A table is between `<!-- modules of FOLDER -->` and `<!-- end -->`; `cargo xtask tidy --map`
//! writes all of them again. Other rows name a path in their first column, which must exist.

use crate::tidy::tree::{names, read};
use core::fmt::Write as _;
use std::path::Path;

const BEGIN: &str = "<!-- modules of ";
const END: &str = "<!-- end -->";
/// Folders of packages, and packages.
const GROUPS: [&str; 2] = ["crates", "tools"];
const ALONE: &[&str] = &["xtask"];

/// Returns what is wrong with the map.
pub(super) fn check(root: &Path, architecture: &str) -> Result<Vec<String>, String> {
    let mut findings = missing_paths(architecture, |path| root.join(path).exists());
    for folder in folders(root)? {
        if !architecture.contains(&format!("{BEGIN}{folder} -->\n")) {
            findings.push(format!(
                "ARCHITECTURE.md: lacks `{BEGIN}{folder} -->` and `{END}`, which `cargo xtask tidy --map` fills"
            ));
        }
    }
    let fresh = filled(architecture, |folder| rows(root, folder))?;
    let differing = fresh
        .lines()
        .zip(architecture.lines())
        .find(|(new, old)| new != old);
    if let Some((new, old)) = differing {
        findings.push(format!(
            "ARCHITECTURE.md: the code map says {old:?} where the module says {new:?}: `cargo xtask tidy --map` updates it"
        ));
    } else if fresh != architecture {
        findings
            .push("ARCHITECTURE.md: the code map is stale: `cargo xtask tidy --map`".to_owned());
    }
    Ok(findings)
}

/// Writes the tables again.
pub(super) fn write(root: &Path) -> Result<(), String> {
    let path = root.join("ARCHITECTURE.md");
    let fresh = filled(&read(&path)?, |folder| rows(root, folder))?;
    std::fs::write(&path, fresh).map_err(|error| format!("{}: {error}", path.display()))
}

/// The sources of every package.
fn folders(root: &Path) -> Result<Vec<String>, String> {
    let mut folders = Vec::new();
    for group in GROUPS {
        for package in names(root, group)? {
            // A folder without it has Go modules.
            if root.join(group).join(&package).join("Cargo.toml").is_file() {
                folders.push(format!("{group}/{package}/src"));
            }
        }
    }
    folders.extend(ALONE.iter().map(|package| format!("{package}/src")));
    Ok(folders)
}

/// The table of a package's modules.
fn rows(root: &Path, folder: &str) -> Result<String, String> {
    let mut table = String::new();
    for name in names(root, folder)? {
        let is_folder = root.join(folder).join(&name).is_dir();
        let beside = root.join(folder).join(format!("{name}.rs"));
        if ["lib.rs", "main.rs", "tests.rs"].contains(&name.as_str())
            || (is_folder && beside.exists())
        {
            continue;
        }
        let file = match (is_folder, name.strip_suffix(".rs")) {
            (true, _) => root.join(folder).join(&name).join("mod.rs"),
            (false, Some(_)) => root.join(folder).join(&name),
            // Other files of a module, such as a page.
            (false, None) => continue,
        };
        let said = sentence(&read(&file)?);
        let module = name.strip_suffix(".rs").unwrap_or(&name);
        let _ = writeln!(table, "| `{module}` | {said} |");
    }
    Ok(table)
}

/// The first sentence of a module's documentation, without links.
fn sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let lines: Vec<_> = lines
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let text = lines.join(" ");
    let end = text
        .match_indices(". ")
        .map(|(at, _)| at)
        .find(|at| !text[..*at].ends_with("e.g"));
    let first = end.map_or(text.as_str(), |end| &text[..end]);
    let mut plain = String::new();
    let mut rest = first.trim_end_matches('.');
    // `[`name`](target)` becomes `name`; a citation such as `[E1]` stays.
    while let Some((before, after)) = rest.split_once("[`") {
        plain += before;
        let Some((name, after)) = after.split_once("`]") else {
            plain += "[`";
            rest = after;
            continue;
        };
        let _ = write!(plain, "`{name}`");
        rest = match after.strip_prefix('(').and_then(|it| it.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    (plain + rest).replace('|', "\\|")
}

/// The document with all tables filled.
fn filled(document: &str, rows: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = document;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let broken = || format!("ARCHITECTURE.md: `{BEGIN}` without `-->` or `{END}`");
        let (folder, after) = after.split_once(" -->\n").ok_or_else(broken)?;
        let (_, after) = after.split_once(END).ok_or_else(broken)?;
        let table = rows(folder)?;
        let _ = write!(
            out,
            "{before}{BEGIN}{folder} -->\n| module | what lives there |\n|---|---|\n{table}{END}"
        );
        rest = after;
    }
    Ok(out + rest)
}

/// Paths in the first column of tables that do not exist.
fn missing_paths(architecture: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let rows = architecture
        .lines()
        .filter_map(|line| line.strip_prefix("| `"));
    let paths = rows
        .filter_map(|line| line.split('`').next())
        .filter(|path| path.contains('/') && !path.contains(".rs:"));
    paths
        .filter(|path| !exists(path))
        .map(|path| format!("ARCHITECTURE.md: `{path}` is not there"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sentence_is_cut_at_its_full_stop_without_links() {
        let text = "//! What [`A`](b) says, by [E1], of\n//! `c`. And more.\n//!\n//! Else.\n";
        assert_eq!(sentence(text), "What `A` says, by [E1], of `c`");
        assert_eq!(sentence("//! Alone\n\nuse a;"), "Alone");
    }

    #[test]
    fn table_is_replaced_between_its_marks_only() {
        let rows = |folder: &str| Ok(format!("| `a` | of {folder} |\n"));
        let stale = "before\n<!-- modules of x/src -->\nold\n<!-- end -->\nafter\n";
        let fresh = filled(stale, rows).expect("it is whole");
        assert!(fresh.starts_with("before\n") && fresh.ends_with("<!-- end -->\nafter\n"));
        assert!(
            fresh.contains("| `a` | of x/src |\n<!-- end -->"),
            "{fresh}"
        );
        assert_eq!(filled(&fresh, rows).expect("it is whole"), fresh);
        assert!(filled("<!-- modules of x/src -->\n", rows).is_err());
    }

    #[test]
    fn missing_paths_are_reported() {
        let table = "| `docs/a.md` | a |\n| `a/b.rs:c` | a function |\n";
        assert_eq!(missing_paths(table, |_| true), [""; 0]);
        let findings = missing_paths(table, |_| false);
        assert_eq!(findings, ["ARCHITECTURE.md: `docs/a.md` is not there"]);
    }
}
