//! The crates that a binary really contains, by the names of its functions.
//!
//! The list of crates comes from cargo, so this is a check of the list that does not use cargo.

use crate::packages::Packages;
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Fewer crates than this in the symbols of a binary mean that its symbols cannot be read.
const CRATES_MIN: usize = 20;

/// Compares the crates in the symbols of a binary with the list, and returns their number.
/// `std_crates` are those of Rust's standard library.
///
/// # Errors
///
/// The binary has a crate that the list lacks, or no symbols.
pub(crate) fn check(
    binary: &[u8],
    packages: &Packages,
    std_crates: &BTreeSet<String>,
) -> Result<usize, String> {
    let file = object::File::parse(binary).map_err(|error| format!("the binary: {error}"))?;
    let names = file
        .symbols()
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    let found = crates(names);
    if found.len() < CRATES_MIN {
        return Err(format!(
            "only {} crates are in the names of the binary's functions",
            found.len()
        ));
    }
    let missing = missing(&found, packages, std_crates);
    if missing.is_empty() {
        Ok(found.len())
    } else {
        Err(format!(
            "the binary has crates that its list lacks: {}",
            missing.join(", ")
        ))
    }
}

fn missing<'a>(
    found: &'a BTreeSet<String>,
    packages: &Packages,
    std_crates: &BTreeSet<String>,
) -> Vec<&'a str> {
    let listed: BTreeSet<_> = packages.all.values().flat_map(|it| &it.libraries).collect();
    let missing = found
        .iter()
        .filter(|name| !listed.contains(name) && !std_crates.contains(*name));
    missing.map(String::as_str).collect()
}

/// The crates in mangled names: each path begins with one. Names of the older form that end with no
/// hash are C++.
fn crates(names: impl Iterator<Item = String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in names.filter(|name| name.starts_with("_R") || name.starts_with("_ZN")) {
        let Ok(name) = rustc_demangle::try_demangle(&name) else {
            continue;
        };
        let (whole, is_older) = (name.to_string(), name.as_str().starts_with("_ZN"));
        // The form without hashes.
        let name = format!("{name:#}");
        if is_older && name == whole {
            continue;
        }
        let mut begin = 0;
        while let Some(at) = name[begin..].find("::") {
            let end = begin + at;
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let head = &name[..end];
            let start = head.rfind(|c| !is_of_name(c)).map_or(0, |at| at + 1);
            let crate_name = &head[start..];
            let is_first = !head[..start].ends_with("::");
            if is_first && crate_name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') {
                found.insert(crate_name.to_owned());
            }
            begin = end + 2;
        }
    }
    found
}

/// The crates of Rust's standard library, from its files for a target.
///
/// # Errors
///
/// The target's libraries cannot be listed.
pub(crate) fn std_crates(libraries: &Path) -> Result<BTreeSet<String>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", libraries.display());
    let mut crates = BTreeSet::new();
    for file in fs::read_dir(libraries).map_err(wrong)? {
        let name = file.map_err(wrong)?.file_name();
        let name = name.to_string_lossy();
        let library = name
            .strip_prefix("lib")
            .and_then(|name| name.strip_suffix(".rlib"));
        if let Some((library, _)) = library.and_then(|library| library.rsplit_once('-')) {
            crates.insert(library.to_owned());
        }
    }
    // The symbols that the compiler itself makes, such as those of the allocator.
    crates.insert("__rustc".to_owned());
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::tests::three;

    #[test]
    fn crates_of_symbols_are_found_and_the_unlisted_are_named() {
        let names = [
            // <clock::Face as base64::Show>::show::<core::str>
            "_RINvXCs7zYBOie0aM2_5clockNtB3_4FaceNtCs2RMEijKGcPA_6base644Show4showNtCs9abcdefghij_4core3StrE",
            "_RNvNtCs7zYBOie0aM2_9addr2line4line23has_backward_slash_root",
            "_RNvCs7zYBOie0aM2_5clock4main",
            // core::ptr::drop_in_place<tls::Stream<base64::Show>>
            "_ZN4core3ptr52drop_in_place$LT$tls..Stream$LT$base64..Show$GT$$GT$17h0232e7396ad15702E",
            "_ZN8unlisted4main17h406ec15f507602e8E",
            "aws_lc_0_47_0_AES_encrypt",
            // libunwind::UnwindCursor::isSignalFrame(), in C++
            "_ZN9libunwind12UnwindCursor13isSignalFrameEv",
            "_ZN9libunwind12UnwindCursorE",
        ];
        let found = crates(names.iter().map(|&name| name.to_owned()));
        let expected = ["addr2line", "base64", "clock", "core", "tls", "unlisted"];
        assert_eq!(found, expected.map(str::to_owned).into());
        let std_crates = BTreeSet::from(["core".to_owned()]);
        assert_eq!(
            missing(&found, &three(), &std_crates),
            ["addr2line", "unlisted"]
        );
    }

    #[test]
    fn this_test_names_its_own_crates() {
        // The program of the test itself: a binary with symbols.
        let path = std::env::current_exe().unwrap();
        let binary = fs::read(path).unwrap();
        let error = check(&binary, &three(), &BTreeSet::new()).unwrap_err();
        assert!(error.contains("serde_json"), "{error}");
    }
}
