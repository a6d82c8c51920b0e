//! The licences of the crates in a binary, as one text file: a static program contains them all.

use crate::packages::{Package, Packages};
use core::fmt::Write as _;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Beginnings of names of files with licences, in capitals.
const NAMES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];
/// Ends of names that look alike and are something else.
const OTHERS: [&str; 4] = [".rs", ".py", ".json", ".toml"];
/// Folders below a package's own that are searched: sources in C are two or three below.
const DEPTH_MAX: usize = 3;
/// Longer files are no licences.
const BYTES_MAX: u64 = 256 << 10;
/// The licence of musl, which is in every program for it.
const MUSL: &str = include_str!("../musl-licence.txt");

/// Returns the text. Each licence stands once, after the crates that have it.
///
/// # Errors
///
/// A file cannot be read.
pub(crate) fn text(packages: &Packages) -> Result<String, String> {
    let mut list = String::new();
    let mut texts: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for package in packages.of_others() {
        let Package {
            name,
            version,
            licence,
            ..
        } = package;
        let _ = writeln!(list, "- {name} {version}: {licence}");
        let found = licence_files(&package.folder, DEPTH_MAX)?;
        if found.is_empty() {
            let mut authors = package.authors.join(", ");
            if authors.is_empty() {
                "its authors".clone_into(&mut authors);
            }
            let _ = writeln!(list, "  (has no file with its licence; by {authors})");
        }
        for text in found {
            let entry = texts.entry(words_of(&text));
            let (_, users) = entry.or_insert_with(|| (text, BTreeSet::new()));
            users.insert(format!("{name} {version}"));
        }
    }
    let mut page = format!(
        "Slackwater contains these libraries. Their licences follow.\n\n{list}\
         - Rust's standard library: MIT OR Apache-2.0\n\
         - musl, in programs for musl: MIT\n\
         - LLVM's libunwind, in programs for musl: Apache-2.0 WITH LLVM-exception, which asks for\n  \
           no text beside a program\n"
    );
    // By the first user, so that a new crate moves little.
    let mut texts: Vec<_> = texts.into_values().collect();
    texts.sort_by(|(_, one), (_, other)| one.cmp(other));
    let musl = BTreeSet::from(["musl".to_owned()]);
    texts.push((MUSL.to_owned(), musl));
    for (text, users) in texts {
        let users: Vec<_> = users.into_iter().collect();
        let _ = write!(
            page,
            "\n{}\n{}\n\n{}\n",
            "=".repeat(80),
            users.join(", "),
            text.trim_matches('\n')
        );
    }
    Ok(page)
}

/// Licences differ in their lines and spaces.
fn words_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The texts in a folder and in those below it, in the order of their paths.
fn licence_files(folder: &Path, depth: usize) -> Result<Vec<String>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        paths.push(entry.map_err(wrong)?.path());
    }
    paths.sort();
    let mut texts = Vec::new();
    for path in paths {
        let Ok(facts) = fs::symlink_metadata(&path) else {
            continue;
        };
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if facts.is_dir() {
            if depth > 0 && name != "tests" && name != "target" {
                texts.extend(licence_files(&path, depth - 1)?);
            }
        } else if is_licence(&name) && facts.len() <= BYTES_MAX {
            let bytes = fs::read(&path).map_err(wrong)?;
            texts.push(String::from_utf8_lossy(&bytes).replace('\r', ""));
        }
    }
    Ok(texts)
}

fn is_licence(name: &str) -> bool {
    let capitals = name.to_ascii_uppercase();
    NAMES.iter().any(|begin| capitals.starts_with(begin))
        && !OTHERS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::tests::three;

    #[test]
    fn each_licence_stands_once_with_all_its_crates() {
        let folder =
            std::env::temp_dir().join(format!("slackwater-licences-{}", std::process::id()));
        let mut packages = three();
        for package in packages.all.values_mut() {
            package.folder = folder.join(format!("{}-{}", package.name, package.version));
            fs::create_dir_all(package.folder.join("c/deep")).unwrap();
        }
        let write = |path: &str, text: &str| fs::write(folder.join(path), text).unwrap();
        write("base64-0.22.1/LICENSE-MIT", "Do what\nyou want.\n");
        write("base64-0.23.1/license", "Do what you want.\r\n");
        write("base64-0.23.1/license.rs", "fn not_a_licence() {}");
        write("tls-2.0.0/c/deep/COPYING", "In the code in C.\n");
        write("slackwater-0.1.0/LICENSE-MIT", "Our own.\n");
        let text = text(&packages);
        fs::remove_dir_all(&folder).unwrap();
        let text = text.unwrap();
        assert_eq!(text.matches("Do what\nyou want.").count(), 1, "{text}");
        assert!(
            text.contains("\nbase64 0.22.1, base64 0.23.1\n\nDo what"),
            "{text}"
        );
        assert!(
            text.contains("\ntls 2.0.0\n\nIn the code in C.\n"),
            "{text}"
        );
        assert!(
            text.contains("- clock 1.0.0: MIT\n  (has no file"),
            "{text}"
        );
        assert!(text.contains("Rich Felker"), "{text}");
        for absent in ["Our own", "not_a_licence"] {
            assert!(!text.contains(absent), "{text}");
        }
    }
}
