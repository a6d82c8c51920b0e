//! `docs/research/hostile-requests.md`, made from the table.

use crate::rows::{Group, Row, groups};
use core::fmt::Write;
use std::path::Path;

const INTRODUCTION: &str = "\
# Hostile and malformed requests

The responses of `slackwater serve` to broken or hostile input. This page is generated from the
table that the tests run against the real process (`cargo test -p slackwater --test hostile`;
`BLESS=1` rewrites the page). After each row the tests also check that

- a client that was connected before, and one that connects afterwards, get their own responses,
  over the connections to the replica that the row may have used;
- the replica saw exactly the last column: nothing of a refused request, and never two requests for
  one;
- no request counts as in flight any more;
- the process's memory grew by at most 24 MiB at its peak.

`closed` is the end of the connection. Over HTTP/2 a good request follows on the same connection. It
gets 200 unless the connection was closed. `limits.head_bytes_max` is 64 KiB and
`limits.head_fields_max` 100, the defaults.
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for Group { title, about, rows } in groups() {
        let _ = write!(page, "\n## {title}\n\n");
        if !about.is_empty() {
            let _ = write!(page, "{about}\n\n");
        }
        page += "| what comes | what is answered | what the replica sees |\n|---|---|---|\n";
        for row in rows {
            let Row {
                name, answer, seen, ..
            } = row;
            let _ = writeln!(page, "| {name} | {answer} | {} |", told(seen));
        }
    }
    page
}

fn told(seen: &[&str]) -> String {
    let Some(first) = seen.first() else {
        return "nothing".to_owned();
    };
    if seen.len() > 2 && seen.iter().all(|request| request == first) {
        return format!("`{first}`, {} times", seen.len());
    }
    let seen: Vec<_> = seen.iter().map(|request| format!("`{request}`")).collect();
    seen.join(", ")
}

#[test]
fn page_matches_the_table() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/research/hostile-requests.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == page,
        "BLESS=1 rewrites docs/research/hostile-requests.md"
    );
}

/// All Rust files below `directory`, one after the other.
fn sources(directory: &Path, all: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|it| it == "rs") {
            all.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn tests_named_in_the_threat_model_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/explanation/threat-model.md")).unwrap();
    let mut all = String::new();
    sources(&root.join("crates"), &mut all);
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let kept_by = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let quoted = kept_by.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let named: Vec<_> = quoted.filter(|it| !it.contains('/')).collect();
    assert!(named.len() >= 40, "{named:?}");
    for name in named {
        assert!(all.contains(&format!("fn {name}(")), "there is no {name}");
    }
}
