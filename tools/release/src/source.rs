//! What a release is made from: the version, the commit, and its date.

use crate::command::output;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The facts of the source.
#[derive(Debug)]
pub(crate) struct Source {
    /// The root of the workspace.
    pub(crate) root: PathBuf,
    /// Cargo's folder for builds.
    pub(crate) target_folder: PathBuf,
    /// The version of the command, such as `0.1.0`.
    pub(crate) version: String,
    /// Twelve digits of the commit.
    pub(crate) commit: String,
    /// Whether files differ from the commit.
    pub(crate) is_changed: bool,
    /// The commit's time, in seconds since 1970; it is the time of every file.
    pub(crate) time: u64,
    /// The commit's time in UTC, as in `2026-01-31T12:00:00Z`.
    pub(crate) timestamp: String,
    /// The commit's time as in an e-mail, for Debian's changelog.
    pub(crate) mail_date: String,
    /// Crates that are published, those that others need first.
    pub(crate) public_crates: Vec<String>,
}

impl Source {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// There is no commit, or cargo cannot read the workspace.
    pub(crate) fn read(root: PathBuf) -> Result<Self, String> {
        let metadata = output(
            Command::new(env!("CARGO"))
                .args(["metadata", "--no-deps", "--format-version", "1"])
                .current_dir(&root),
        )?;
        let metadata: Value =
            serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let mut public_crates = Vec::new();
        let mut version = None;
        for package in packages {
            let name = package["name"].as_str().unwrap_or_default();
            if name == "slackwater" {
                version = package["version"].as_str().map(str::to_owned);
            }
            if package["publish"].is_null() {
                public_crates.push(name.to_owned());
            }
        }
        let time = git(&root, &["log", "-1", "--format=%ct"])?;
        let changes = ["status", "--porcelain", "--untracked-files=no"];
        let timestamp = [
            "log",
            "-1",
            "--format=%cd",
            "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
        ];
        Ok(Self {
            target_folder: metadata["target_directory"]
                .as_str()
                .map(PathBuf::from)
                .ok_or("cargo metadata names no target folder")?,
            version: version.ok_or("the workspace has no package slackwater")?,
            commit: git(&root, &["rev-parse", "--short=12", "HEAD"])?,
            is_changed: !git(&root, &changes)?.is_empty(),
            time: (time.parse()).map_err(|_| format!("git: the time of the commit is {time}"))?,
            timestamp: git(&root, &timestamp)?,
            mail_date: git(&root, &["log", "-1", "--format=%cd", "--date=rfc-local"])?,
            public_crates,
            root,
        })
    }
}

/// Runs git in UTC, and returns what it prints.
pub(crate) fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    let text = output(git.args(arguments).current_dir(root).env("TZ", "UTC"))?;
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A source for tests.
    pub(crate) fn source() -> Source {
        Source {
            root: PathBuf::from("/src"),
            target_folder: PathBuf::from("/src/target"),
            version: "0.1.0".to_owned(),
            commit: "0123456789ab".to_owned(),
            is_changed: false,
            time: 1_700_000_000,
            timestamp: "2023-11-14T22:13:20Z".to_owned(),
            mail_date: "Tue, 14 Nov 2023 22:13:20 +0000".to_owned(),
            public_crates: vec!["slackwater".to_owned()],
        }
    }

    #[test]
    fn facts_are_those_of_this_repository() {
        let source = Source::read(crate::command::root().unwrap()).unwrap();
        assert_eq!(source.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(source.commit.len(), 12);
        assert!(source.timestamp.ends_with('Z'), "{}", source.timestamp);
        assert!(source.mail_date.ends_with(" +0000"), "{}", source.mail_date);
        assert!(source.public_crates.contains(&"slackwater-core".to_owned()));
        let own = env!("CARGO_PKG_NAME").to_owned();
        assert!(!source.public_crates.contains(&own));
    }
}
