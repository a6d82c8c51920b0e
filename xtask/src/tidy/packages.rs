//! What a crate must have before others can use it: a description, keywords, a page, its licences.

use std::path::Path;

/// Required keys of a package, each with the reason.
const KEYS: &[&str] = &[
    "description",
    "keywords",
    "categories",
    "readme",
    "license.workspace",
    "repository.workspace",
];
/// Required files beside `Cargo.toml`.
const FILES: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT"];

/// Returns what the crate in `folder` lacks; `manifest` is its `Cargo.toml`.
pub(super) fn check(folder: &str, manifest: &str, has_file: impl Fn(&Path) -> bool) -> Vec<String> {
    let has_key = |key: &&&str| {
        let mut lines = manifest.lines();
        lines.any(|line| {
            let said = line.strip_prefix(**key).map(str::trim_start);
            said.is_some_and(|said| said.starts_with('='))
        })
    };
    let keys = KEYS.iter().filter(|key| !has_key(key));
    let mut lacking: Vec<String> = keys
        .map(|key| format!("{folder}/Cargo.toml: no `{key}`"))
        .collect();
    if !manifest.contains("[package.metadata.docs.rs]") {
        lacking.push(format!(
            "{folder}/Cargo.toml: no `[package.metadata.docs.rs]`"
        ));
    }
    let files = FILES
        .iter()
        .filter(|file| !has_file(&Path::new(folder).join(file)));
    lacking.extend(files.map(|file| format!("{folder}: no {file}")));
    lacking
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_field_is_reported() {
        let whole = "[package]\ndescription = \"a\"\nkeywords = []\ncategories = []\nreadme = \"README.md\"\n\
            license.workspace = true\nrepository.workspace = true\n[package.metadata.docs.rs]\n";
        assert_eq!(check("crates/a", whole, |_| true), [""; 0]);
        let no_page = whole.replace("readme", "read");
        assert_eq!(
            check("crates/a", &no_page, |file| !file.ends_with("LICENSE-MIT")),
            [
                "crates/a/Cargo.toml: no `readme`",
                "crates/a: no LICENSE-MIT"
            ]
        );
    }
}
