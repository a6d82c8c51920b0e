//! The tree's files as values, so that a check is a function from text to findings.

use crate::tidy::rust::{self, Tokens};
use proc_macro2::TokenTree;
use std::fs;
use std::path::Path;

/// What a file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Go,
    JavaScript,
}

impl Language {
    /// The language of files with this ending.
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "rs" => Some(Self::Rust),
            "go" => Some(Self::Go),
            "js" => Some(Self::JavaScript),
            _ => None,
        }
    }
}

/// A file of source code.
#[derive(Debug)]
pub(super) struct Source {
    /// The path from the root, with `/` on every system.
    pub(super) path: String,
    pub(super) text: String,
    /// Tokens of Rust production code; empty for tests and for other languages.
    pub(super) tokens: Vec<TokenTree>,
    pub(super) language: Language,
    /// Whether it is a test, a benchmark or an example.
    pub(super) is_test: bool,
    /// Its modules that are files of their own and compiled only for tests.
    test_modules: Vec<String>,
}

impl Source {
    /// Reads a file's text; files in other languages have no tokens.
    pub(super) fn new(path: &str, text: &str) -> Result<Self, String> {
        let is_test = is_test(path);
        let language = Language::of(Path::new(path)).unwrap_or(Language::JavaScript);
        let is_rust = language == Language::Rust;
        let Tokens {
            production,
            test_modules,
        } = if is_rust && !is_test {
            rust::tokens(text).map_err(|error| format!("{path}: {error}"))?
        } else {
            Tokens::default()
        };
        Ok(Self {
            path: path.to_owned(),
            text: text.to_owned(),
            tokens: production,
            language,
            is_test,
            test_modules,
        })
    }

    /// The package's folder, such as `crates/slackwater`, if the file is in its `src/`.
    pub(super) fn package(&self) -> Option<&str> {
        self.path.split_once("/src/").map(|(package, _)| package)
    }

    /// The path of its module from the crate's root: `src/a/mod.rs` and `src/a.rs` are both `a`.
    pub(super) fn module(&self) -> Vec<String> {
        let inside = self.path.split_once("/src/").map_or("", |(_, path)| path);
        let mut names: Vec<String> = inside.split('/').map(str::to_owned).collect();
        let file = names.pop().unwrap_or_default();
        match file.trim_end_matches(".rs") {
            "mod" => {}
            "lib" | "main" if names.is_empty() => {}
            name => names.push(name.to_owned()),
        }
        names
    }

    #[cfg(test)]
    pub(super) fn test(path: &str, text: &str) -> Self {
        Self::new(path, text).unwrap()
    }
}

fn is_test(path: &str) -> bool {
    path.ends_with("_test.go")
        || path
            .split('/')
            .any(|part| matches!(part, "tests" | "benches" | "examples" | "tests.rs"))
}

/// Reads all files of source code, without those that a program has written.
pub(super) fn sources(root: &Path) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    let mut folders = ["crates", "tools", "xtask", "fuzz", "go"]
        .map(|folder| root.join(folder))
        .to_vec();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                if !["target", "corpus", "corpora", "mutants.out"]
                    .iter()
                    .any(|it| name == *it)
                {
                    folders.push(path);
                }
            } else if Language::of(&path).is_some() && !is_generated(&name.to_string_lossy()) {
                let text = read(&path)?;
                let path = path.strip_prefix(root).unwrap_or(&path);
                sources.push(Source::new(
                    &path.to_string_lossy().replace('\\', "/"),
                    &text,
                )?);
            }
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    mark_test_modules(&mut sources);
    Ok(sources)
}

/// Whether a program has written it, from a description of messages.
fn is_generated(name: &str) -> bool {
    name.ends_with(".pb.go")
}

/// Every page of documentation with its text: those at the root, in `docs/`, and of each crate.
pub(super) fn pages(root: &Path) -> Result<Vec<(String, String)>, String> {
    let mut folders = vec![String::new()];
    for parent in ["docs", "crates"] {
        folders.push(format!("{parent}/"));
        let inside = names(root, parent)?.into_iter();
        let inside = inside.filter(|name| root.join(parent).join(name).is_dir());
        folders.extend(inside.map(|name| format!("{parent}/{name}/")));
    }
    let mut pages = Vec::new();
    for folder in folders {
        for name in names(root, &folder)? {
            if Path::new(&name).extension().is_some_and(|end| end == "md") {
                let path = format!("{folder}{name}");
                let text = read(&root.join(&path))?;
                pages.push((path, text));
            }
        }
    }
    Ok(pages)
}

/// Marks files as tests whose module is declared only for tests, whatever their name.
pub(super) fn mark_test_modules(sources: &mut [Source]) {
    let mut tests = Vec::new();
    for source in &*sources {
        let Some(package) = source.package() else {
            continue;
        };
        for name in &source.test_modules {
            let mut module = source.module();
            module.push(name.clone());
            tests.push(format!("{package}/src/{}", module.join("/")));
        }
    }
    for source in sources {
        let is_below = |test: &String| {
            let rest = source.path.strip_prefix(test.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        if tests.iter().any(is_below) {
            source.is_test = true;
            source.tokens.clear();
        }
    }
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The names in a folder.
pub(super) fn names(root: &Path, folder: &str) -> Result<Vec<String>, String> {
    let wrong = |error| format!("{folder}: {error}");
    let entries = fs::read_dir(root.join(folder)).map_err(wrong)?;
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> = entries
        .map(|entry| entry.map(name).map_err(wrong))
        .collect::<Result<_, _>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_path_follows_from_the_file_path() {
        let module = |path| Source::test(path, "").module();
        assert_eq!(module("crates/a/src/lib.rs"), [""; 0]);
        assert_eq!(module("crates/a/src/b.rs"), ["b"]);
        assert_eq!(module("crates/a/src/b/mod.rs"), ["b"]);
        assert_eq!(module("crates/a/src/b/main.rs"), ["b", "main"]);
        assert_eq!(
            Source::test("crates/a/src/b.rs", "").package(),
            Some("crates/a")
        );
    }

    #[test]
    fn modules_declared_for_tests_only_count_as_tests() {
        let mut sources = [
            Source::test(
                "crates/a/src/b/mod.rs",
                "#[cfg(test)] mod support; mod supported;",
            ),
            Source::test("crates/a/src/b/support.rs", "fn a() {}"),
            Source::test("crates/a/src/b/support/more.rs", "fn a() {}"),
            Source::test("crates/a/src/b/supported.rs", "fn a() {}"),
        ];
        mark_test_modules(&mut sources);
        let tests: Vec<bool> = sources.iter().map(|source| source.is_test).collect();
        assert_eq!(tests, [false, true, true, false]);
    }
}
