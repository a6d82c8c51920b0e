//! Rules of the house that no other tool checks. Each says what it found and where; `cargo xtask tidy` lists them all.

mod policies;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words for which the core has one of its own (CONTRIBUTING.md, "One word for each idea").
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

/// What the core must not name outside comments, even by way of `extern crate std`.
const FOREIGN_CODE: &[&str] = &[
    "extern crate std",
    "std::",
    "Instant::now",
    "SystemTime",
    "async fn",
    "tokio",
];

/// Nothing that Prequal decides by is a float, so that two implementations agree bit for bit.
const FLOATS: &[&str] = &["f32", "f64"];

/// The rules of choice whose sources define them by floating-point formulas, and what they share, with their tests. Prequal
/// uses none of these files.
const MAY_FLOAT: &[&str] = &[
    "crates/slackwater-core/src/policy/policies/c3",
    "crates/slackwater-core/src/policy/decay",
    "crates/slackwater-core/src/policy/policies/els",
    "crates/slackwater-core/src/policy/policies/peak_ewma",
    "crates/slackwater-core/src/policy/policies/weighted_round_robin",
];

/// Longest file, in lines, tests included.
const CORE_LINES_MAX: usize = 500;
const LINES_MAX: usize = 600;

const RULES: &[(&str, u32)] = &[("A", 13), ("S", 4), ("T", 6)];

/// Checks everything; the error lists each finding on a line of its own.
pub(crate) fn check() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = sources(&root, "rs")?;
    let mut findings = Vec::new();
    for (path, text) in &files {
        lines_of(path, text, &mut findings);
        unfinished(path, text, &mut findings);
        if path.starts_with("crates/slackwater-core/src") {
            core_purity(path, text, &mut findings);
        }
    }
    for (path, text) in files.iter().chain(&sources(&root, "js")?) {
        policies::named(path, text, &mut findings);
    }
    rules_cited(&files, &mut findings);
    code_map(&root, &mut findings)?;
    lint_settings(&root, &mut findings)?;
    core_dependencies(&root, &mut findings)?;
    if findings.is_empty() {
        Ok(())
    } else {
        Err(findings.join("\n"))
    }
}

/// Every file of the tree with this extension, with its path from the root.
fn sources(root: &Path, extension: &str) -> Result<Vec<(PathBuf, String)>, String> {
    let mut files = Vec::new();
    let mut folders = ["crates", "tools", "xtask", "fuzz"]
        .map(|folder| root.join(folder))
        .to_vec();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                if path
                    .file_name()
                    .is_some_and(|name| name != "target" && name != "corpus")
                {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|it| it == extension) {
                let text = read(&path)?;
                let path = path.strip_prefix(root).unwrap_or(&path).to_owned();
                files.push((path, text));
            }
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn lines_of(path: &Path, text: &str, findings: &mut Vec<String>) {
    let core = path.starts_with("crates/slackwater-core/src");
    let (lines, most) = (
        text.lines().count(),
        if core { CORE_LINES_MAX } else { LINES_MAX },
    );
    if lines > most {
        findings.push(format!(
            "{}: {lines} lines; at most {most}, by subject",
            path.display()
        ));
    }
    if !text.starts_with("//!") {
        findings.push(format!(
            "{}:1: no `//!` that says what lives here",
            path.display()
        ));
    }
}

/// Marks of unfinished work, put together here so that this file does not find itself.
fn unfinished(path: &Path, text: &str, findings: &mut Vec<String>) {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("un", "implemented!"),
        concat!("#[", "ignore"),
    ];
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(mark) = marks.into_iter().find(|mark| line.contains(mark)) {
            findings.push(format!("{}:{number}: {mark}", path.display()));
        }
    }
}

/// The core decides and does not look; and it speaks the field's language.
fn core_purity(path: &Path, text: &str, findings: &mut Vec<String>) {
    let subject = path.with_extension("");
    let floats = if MAY_FLOAT.iter().any(|file| subject.starts_with(file)) {
        &[]
    } else {
        FLOATS
    };
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split("//").next().unwrap_or_default();
        let mut banned = FOREIGN_CODE.iter().chain(floats);
        if let Some(foreign) = banned.find(|foreign| code.contains(**foreign)) {
            findings.push(format!(
                "{}:{number}: `{foreign}` in the core",
                path.display()
            ));
        }

        for (word, ours) in FOREIGN_WORDS {
            if line.contains(word) {
                findings.push(format!(
                    "{}:{number}: \"{word}\" is \"{ours}\" here",
                    path.display()
                ));
            }
        }
    }
}

/// Every rule of the algorithm is cited where it is obeyed.
fn rules_cited(files: &[(PathBuf, String)], findings: &mut Vec<String>) {
    let cited = |rule: &str| {
        files
            .iter()
            .any(|(path, text)| path.starts_with("crates") && text.contains(rule))
    };
    for &(letter, last) in RULES {
        for number in 1..=last {
            let rule = format!("[{letter}{number}]");
            if !cited(&rule) {
                findings.push(format!("rule {rule} is cited nowhere in crates/"));
            }
        }
    }
}

/// The code map of ARCHITECTURE.md names what is there, and everything that is there.
fn code_map(root: &Path, findings: &mut Vec<String>) -> Result<(), String> {
    let text = read(&root.join("ARCHITECTURE.md"))?;
    let named: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split('`').next())
        .filter(|path| path.contains('/'))
        .collect();
    for path in &named {
        if !root.join(path).exists() {
            findings.push(format!("ARCHITECTURE.md: `{path}` is not there"));
        }
    }
    for package in names(root, "crates")? {
        let folder = format!("crates/{package}/src");
        if named.contains(&format!("{folder}/").as_str()) {
            continue;
        }
        for name in names(root, &folder)? {
            let path = format!("{folder}/{name}");
            let is_named = named.iter().any(|it| it.trim_end_matches('/') == path);
            if !is_named && name != "lib.rs" {
                findings.push(format!("ARCHITECTURE.md: the code map lacks `{path}`"));
            }
        }
    }
    Ok(())
}

/// What a folder holds.
fn names(root: &Path, folder: &str) -> Result<Vec<String>, String> {
    let wrong = |error| format!("{folder}: {error}");
    let entries = fs::read_dir(root.join(folder)).map_err(wrong)?;
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> = entries
        .map(|entry| entry.map(name).map_err(wrong))
        .collect::<Result<_, _>>()?;
    names.sort();
    Ok(names)
}

/// The core's clippy.toml replaces the workspace's, so it repeats it.
fn lint_settings(root: &Path, findings: &mut Vec<String>) -> Result<(), String> {
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

/// `cargo tree` shows the core alone.
fn core_dependencies(root: &Path, findings: &mut Vec<String>) -> Result<(), String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "slackwater-core",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo tree did not start: {error}"))?;
    let tree = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || tree.lines().count() != 1 {
        findings.push(format!("slackwater-core has dependencies:\n{tree}"));
    }
    Ok(())
}
