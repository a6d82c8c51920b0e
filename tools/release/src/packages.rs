//! The crates that are in a binary, as cargo resolves them for its target and its features.
//!
//! Crates that only run during a build (build scripts, procedural macros, tests) are not among
//! them.

use crate::command::{output, read_text};
use crate::source::Source;
use crate::target::{Target, Variant};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// Name and version.
pub(crate) type Id = (String, String);

/// Each crate, and those that it needs.
pub(crate) type Needs = BTreeMap<Id, BTreeSet<Id>>;

/// A crate.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression.
    pub(crate) licence: String,
    pub(crate) authors: Vec<String>,
    pub(crate) repository: Option<String>,
    /// The folder of its sources.
    pub(crate) folder: PathBuf,
    /// SHA-256 of the published file; none for the crates of this workspace.
    pub(crate) checksum: Option<String>,
    /// The names of its libraries in symbols.
    pub(crate) libraries: Vec<String>,
}

/// The crates of a binary, and which needs which.
#[derive(Debug, Default)]
pub(crate) struct Packages {
    pub(crate) all: BTreeMap<Id, Package>,
    pub(crate) needs: Needs,
}

impl Packages {
    /// Determines them.
    ///
    /// # Errors
    ///
    /// Cargo cannot resolve the workspace.
    pub(crate) fn read(source: &Source, target: Target, variant: Variant) -> Result<Self, String> {
        let mut tree = Command::new(env!("CARGO"));
        tree.args(["tree", "--locked", "--package", "slackwater"])
            .args(["--edges", "normal,no-proc-macro", "--prefix", "depth"])
            .args(["--target", target.triple])
            .args(variant.features())
            .current_dir(&source.root);
        let mut metadata = Command::new(env!("CARGO"));
        metadata
            .args(["metadata", "--locked", "--format-version", "1"])
            .args(["--filter-platform", target.triple])
            .current_dir(&source.root);
        let metadata = output(&mut metadata)?;
        let metadata: Value =
            serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
        let lock = read_text(&source.root.join("Cargo.lock"))?;
        Self::from_parts(&output(&mut tree)?, &metadata, &lock)
    }

    fn from_parts(tree: &str, metadata: &Value, lock: &str) -> Result<Self, String> {
        let needs = parse_tree(tree)?;
        let checksums = checksums(lock)?;
        let mut known = BTreeMap::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let package = from_metadata(package);
            let id = (package.name.clone(), package.version.clone());
            let checksum = checksums.get(&id).cloned();
            known.insert(
                id,
                Package {
                    checksum,
                    ..package
                },
            );
        }
        let all = needs.keys().map(|id| {
            let package = known.remove(id);
            let package = package.ok_or_else(|| format!("cargo metadata has no {} {}", id.0, id.1));
            package.map(|package| (id.clone(), package))
        });
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
            needs,
        })
    }

    /// Crates from elsewhere.
    pub(crate) fn of_others(&self) -> impl Iterator<Item = &Package> {
        self.all
            .values()
            .filter(|package| package.checksum.is_some())
    }
}

/// Reads lines of `cargo tree --prefix depth`, such as `1bytes v1.12.1`. A crate that has been
/// listed before has no lines below it again.
fn parse_tree(tree: &str) -> Result<Needs, String> {
    let mut parents: Vec<Id> = Vec::new();
    let mut needs = Needs::new();
    for line in tree.lines() {
        let wrong = || format!("cargo tree printed a line that cannot be read: {line}");
        let digits = line.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let depth: usize = line[..digits].parse().map_err(|_| wrong())?;
        let mut words = line[digits..].split(' ');
        let name = words.next().ok_or_else(wrong)?;
        let version = words.next().and_then(|word| word.strip_prefix('v'));
        let id = (name.to_owned(), version.ok_or_else(wrong)?.to_owned());
        if depth > parents.len() {
            return Err(wrong());
        }
        parents.truncate(depth);
        if let Some(parent) = parents.last() {
            needs.entry(parent.clone()).or_default().insert(id.clone());
        }
        needs.entry(id.clone()).or_default();
        parents.push(id);
    }
    Ok(needs)
}

fn checksums(lock: &str) -> Result<BTreeMap<Id, String>, String> {
    let lock: toml::Table = lock
        .parse()
        .map_err(|error| format!("Cargo.lock: {error}"))?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let checksums = packages.into_iter().flatten().filter_map(|package| {
        let text = |key| Some(package.get(key)?.as_str()?.to_owned());
        Some(((text("name")?, text("version")?), text("checksum")?))
    });
    Ok(checksums.collect())
}

fn from_metadata(package: &Value) -> Package {
    let text = |key: &str| package[key].as_str().map(str::to_owned);
    let targets = package["targets"].as_array().into_iter().flatten();
    let kinds = |target: &Value| target["kind"].as_array().cloned().unwrap_or_default();
    let is_built = |target: &&Value| {
        let mut kinds = kinds(target).into_iter();
        kinds.any(|kind| {
            ["lib", "rlib", "cdylib", "staticlib", "bin"]
                .iter()
                .any(|it| kind == *it)
        })
    };
    let names = targets
        .filter(is_built)
        .filter_map(|target| target["name"].as_str());
    Package {
        name: text("name").unwrap_or_default(),
        version: text("version").unwrap_or_default(),
        // Before SPDX's expressions, a slash stood for "or".
        licence: text("license")
            .unwrap_or_default()
            .replace(" / ", "/")
            .replace('/', " OR "),
        authors: (package["authors"].as_array().into_iter().flatten())
            .filter_map(|author| author.as_str().map(str::to_owned))
            .collect(),
        repository: text("repository"),
        folder: text("manifest_path")
            .and_then(|path| PathBuf::from(path).parent().map(PathBuf::from))
            .unwrap_or_default(),
        checksum: None,
        libraries: names.map(|name| name.replace('-', "_")).collect(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A binary `slackwater` of three crates, one of them in two versions.
    pub(crate) fn three() -> Packages {
        let tree = "0slackwater v0.1.0 (/src/crates/slackwater)\n\
                    1base64 v0.22.1\n\
                    1tls v2.0.0\n\
                    2base64 v0.23.1\n\
                    2clock v1.0.0\n\
                    1clock v1.0.0 (*)\n";
        let package = |name: &str, version: &str, licence: &str| {
            json!({
                "name": name, "version": version, "license": licence, "authors": ["A. Author"],
                "repository": format!("https://example.org/{name}"),
                "manifest_path": format!("/registry/{name}-{version}/Cargo.toml"),
                "targets": [
                    { "kind": ["lib"], "name": name },
                    { "kind": ["test"], "name": "a-test" },
                ],
            })
        };
        let metadata = json!({ "packages": [
            package("slackwater", "0.1.0", "Apache-2.0 OR MIT"),
            package("base64", "0.22.1", "MIT/Apache-2.0"),
            package("base64", "0.23.1", "MIT OR Apache-2.0"),
            package("tls", "2.0.0", "ISC"),
            package("clock", "1.0.0", "MIT"),
            package("only-in-tests", "1.0.0", "MIT"),
        ] });
        let mut lock = "version = 4\n".to_owned();
        for (name, version, digit) in [
            ("base64", "0.22.1", "a"),
            ("base64", "0.23.1", "b"),
            ("tls", "2.0.0", "c"),
            ("clock", "1.0.0", "d"),
        ] {
            lock += "[[package]]\n";
            for (key, value) in [
                ("name", name),
                ("version", version),
                ("checksum", &digit.repeat(64)),
            ] {
                lock.extend([key, " = \"", value, "\"\n"]);
            }
        }
        lock += "[[package]]\nname = \"slackwater\"\nversion = \"0.1.0\"\n";
        Packages::from_parts(tree, &metadata, &lock).unwrap()
    }

    fn id(name: &str, version: &str) -> Id {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn crates_are_those_of_the_tree_with_the_facts_of_the_registry() {
        let packages = three();
        let found: Vec<_> = packages.all.keys().cloned().collect();
        let expected = [
            id("base64", "0.22.1"),
            id("base64", "0.23.1"),
            id("clock", "1.0.0"),
            id("slackwater", "0.1.0"),
            id("tls", "2.0.0"),
        ];
        assert_eq!(found, expected);
        let base64 = &packages.all[&expected[0]];
        assert_eq!(base64.licence, "MIT OR Apache-2.0");
        assert_eq!(base64.checksum, Some("a".repeat(64)));
        assert_eq!(base64.libraries, ["base64"]);
        assert_eq!(packages.of_others().count(), 4);
        let needs = |of: &Id| packages.needs[of].iter().cloned().collect::<Vec<_>>();
        assert_eq!(
            needs(&expected[4]),
            [id("base64", "0.23.1"), id("clock", "1.0.0")]
        );
        assert_eq!(
            needs(&expected[3]),
            [
                id("base64", "0.22.1"),
                id("clock", "1.0.0"),
                id("tls", "2.0.0")
            ]
        );
    }

    #[test]
    fn strange_lines_are_errors() {
        for line in ["slackwater v0.1.0", "0slackwater", "1slackwater v1", ""] {
            assert!(parse_tree(&format!("{line}\n")).is_err(), "{line}");
        }
    }
}
