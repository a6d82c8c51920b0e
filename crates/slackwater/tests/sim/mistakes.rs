//! Scenario files with mistakes: each mistake is found, and reported with its position.
//!
//! Each fixture in `fixtures/sim/bad` states in comments what is expected of it: each `#: ` line is
//! the first line of one mistake, in order. `BLESS=1` writes what is found into the fixtures; read
//! it before you commit it.

use crate::rig::{fixtures, scenarios, sim, stderr, stdout};
use std::fs;

const MARK: &str = "#: ";

#[test]
fn every_mistake_is_found_and_reported_with_its_position() {
    let files = scenarios(&fixtures().join("bad"));
    assert!(files.len() >= 12, "the fixtures are there");
    for file in files {
        let name = format!(
            "bad/{}",
            file.file_name().expect("a name").to_string_lossy()
        );
        let output = sim(&["run", &name]);
        let told = stderr(&output);
        let found: Vec<_> = told
            .lines()
            .filter(|line| line.starts_with("bad/"))
            .collect();
        let text = fs::read_to_string(&file).expect("a fixture");
        if std::env::var_os("BLESS").is_some() {
            let kept = text.lines().filter(|line| !line.starts_with(MARK));
            let lines: Vec<_> = kept
                .map(str::to_owned)
                .chain(found.iter().map(|line| format!("{MARK}{line}")))
                .collect();
            fs::write(&file, lines.join("\n") + "\n").expect("a fixture");
            continue;
        }
        let expected: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix(MARK))
            .collect();
        assert_eq!(found, expected, "{name}");
        assert!(!found.is_empty(), "{name}: {told}");
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert_eq!(stdout(&output), "", "{name}");
    }
}
