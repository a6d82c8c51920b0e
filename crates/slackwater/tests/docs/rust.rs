//! Blocks of Rust: each must be a part of an example, or of the front page of a crate. Both are
//! compiled with the tests.

use crate::pages::code;
use std::fs;
use std::path::Path;

/// A text in the form that is compared: without the blanks before and after each line.
fn lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    format!("\n{}\n", lines.join("\n").trim())
}

/// The examples and the front pages of all crates.
fn compiled() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for krate in fs::read_dir(crates).expect("the crates") {
        let krate = krate.expect("a crate").path();
        if let Ok(front) = fs::read_to_string(krate.join("src/lib.rs")) {
            let docs = front.lines().filter_map(|line| line.strip_prefix("//!"));
            found.push(lines(&docs.collect::<Vec<_>>().join("\n")));
        }
        let examples = krate.join("examples");
        let files = fs::read_dir(examples).into_iter().flatten();
        for file in files.map(|file| file.expect("an example").path()) {
            if file.extension().is_some_and(|end| end == "rs") {
                found.push(lines(&fs::read_to_string(file).expect("an example")));
            }
        }
    }
    found
}

#[test]
fn rust_examples_in_the_docs_are_compiled() {
    let compiled = compiled();
    let mut count = 0;
    for block in code().iter().filter(|block| block.info == "rust") {
        count += 1;
        let text = lines(&block.text);
        let is_there = compiled.iter().any(|example| example.contains(&text));
        assert!(
            is_there,
            "{}: in no example and on no crate's front page:\n{}",
            block.place, block.text
        );
    }
    assert!(count >= 4, "{count} blocks of Rust were found");
}
