//! The layers of crates: a crate may depend only on crates below it, as the table in
//! ARCHITECTURE.md allows.

use crate::command::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The table's heading.
const HEADING: &str = "## Layers";

/// A row of the table.
#[derive(Debug)]
struct Layer {
    number: u32,
    may: BTreeSet<String>,
}

/// A package, and the packages of this workspace that it depends on, without development
/// dependencies.
pub(super) type Packages = BTreeMap<String, BTreeSet<String>>;

/// The packages as cargo reports them.
pub(super) fn packages() -> Result<Packages, String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo metadata did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    from_metadata(&String::from_utf8_lossy(&output.stdout))
}

fn from_metadata(json: &str) -> Result<Packages, String> {
    let metadata: Value =
        serde_json::from_str(json).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages
        .filter_map(|package| {
            let dependencies = package["dependencies"].as_array()?.iter();
            let built_with = dependencies
                .filter(|dependency| dependency["kind"] != "dev" && dependency["path"].is_string())
                .filter_map(|dependency| dependency["name"].as_str())
                .map(str::to_owned)
                .collect();
            Some((package["name"].as_str()?.to_owned(), built_with))
        })
        .collect())
}

/// Checks the packages against the table.
pub(super) fn check(architecture: &str, packages: &Packages) -> Vec<String> {
    let layers = parse(architecture);
    if layers.is_empty() {
        return vec![format!("ARCHITECTURE.md: no table under `{HEADING}`")];
    }
    let mut findings = Vec::new();
    for (package, built_with) in packages {
        let Some(layer) = layers.get(package) else {
            findings.push(format!(
                "ARCHITECTURE.md: the table of layers lacks `{package}`: add a row with what it may depend on"
            ));
            continue;
        };
        for other in built_with {
            if !layer.may.contains(other) {
                findings.push(format!(
                    "{package} depends on {other}, against the table of layers in ARCHITECTURE.md"
                ));
            }
        }
    }
    for (package, layer) in &layers {
        if !packages.contains_key(package) {
            findings.push(format!(
                "ARCHITECTURE.md: `{package}` in the table of layers is no crate of this workspace"
            ));
        }
        for other in &layer.may {
            if layers
                .get(other)
                .is_none_or(|other| other.number >= layer.number)
            {
                findings.push(format!(
                    "ARCHITECTURE.md: `{package}` may depend on `{other}`, which is in no layer below it"
                ));
            }
        }
    }
    findings
}

/// Parses rows of the form: | 2 | `crate` | `other`, `another` |
fn parse(architecture: &str) -> BTreeMap<String, Layer> {
    architecture
        .lines()
        .skip_while(|line| *line != HEADING)
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            let number = cells.next()?.trim().parse().ok()?;
            let package = in_backticks(cells.next()?).next()?.to_owned();
            let may = in_backticks(cells.next()?).map(str::to_owned).collect();
            Some((package, Layer { number, may }))
        })
        .collect()
}

/// The texts in backticks.
pub(super) fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
## Layers

| layer | crate | may depend on |
|---|---|---|
| 0 | `low` | |
| 1 | `mid` | `low` |
| 2 | `high` | `low`, `mid` |

## More
";

    fn packages(of: &[(&str, &[&str])]) -> Packages {
        let owned = |name: &&str| (*name).to_owned();
        of.iter()
            .map(|(name, others)| (owned(name), others.iter().map(owned).collect()))
            .collect()
    }

    #[test]
    fn dependencies_on_lower_layers_are_accepted() {
        let packages = packages(&[("low", &[]), ("mid", &["low"]), ("high", &["mid"])]);
        assert_eq!(check(TABLE, &packages), [""; 0]);
    }

    #[test]
    fn dependencies_on_higher_layers_and_unknown_crates_are_found() {
        let packages = packages(&[("low", &["mid"]), ("mid", &[]), ("high", &[]), ("new", &[])]);
        let findings = check(TABLE, &packages);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("low depends on mid"));
        assert!(findings[1].contains("lacks `new`: add a row"));
    }

    #[test]
    fn table_allows_only_lower_layers_and_existing_crates() {
        let table = TABLE.replace("| 0 | `low` | |", "| 0 | `low` | `mid` |");
        let packages = packages(&[("low", &[]), ("mid", &[])]);
        let findings = check(&table, &packages);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("`high` in the table of layers is no crate"));
        assert!(findings[1].contains("`low` may depend on `mid`, which is in no layer below it"));
        assert_eq!(check("no table", &packages).len(), 1);
    }

    #[test]
    fn dev_dependencies_are_ignored() {
        let json = r#"{"packages": [{"name": "a", "dependencies": [
            {"name": "b", "kind": null, "path": "/b"}, {"name": "c", "kind": "dev", "path": "/c"},
            {"name": "d", "kind": "build", "path": "/d"}, {"name": "serde", "kind": null}]}]}"#;
        assert_eq!(
            from_metadata(json).unwrap(),
            packages(&[("a", &["b", "d"])])
        );
    }
}
