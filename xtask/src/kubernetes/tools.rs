//! The programs of a control plane, and Helm: found, or built once from the Go modules in
//! `tools/kubernetes`.
//!
//! A program is taken from `--programs`, from `SLACKWATER_KUBERNETES_PROGRAMS`, or from
//! `target/tools/kubernetes`, where it is built otherwise. Those in `PATH` are not used, except
//! Helm: their versions are unknown, and a control plane needs programs that fit each other.

use crate::command::{first_line, root};
use crate::output::{progress, say};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A folder with the programs.
const VARIABLE: &str = "SLACKWATER_KUBERNETES_PROGRAMS";

/// Each program, the module that has it, and its package.
const PROGRAMS: [(&str, &str, &str); 5] = [
    ("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    ("helm", "helm", "helm.sh/helm/v4/cmd/helm"),
    ("kubectl", "cluster", "k8s.io/kubernetes/cmd/kubectl"),
    (
        "kube-controller-manager",
        "cluster",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    (
        "kube-apiserver",
        "cluster",
        "k8s.io/kubernetes/cmd/kube-apiserver",
    ),
];

/// The paths of the programs.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Finds the programs, or only Helm, and builds what is missing.
    ///
    /// # Errors
    ///
    /// Fails if one is missing in the folder that was named, or cannot be built.
    pub(super) fn find(named: Option<&Path>, only_helm: bool) -> Result<Self, String> {
        let named = named.map(Path::to_path_buf).or_else(from_environment);
        let tools = Self {
            folder: named.clone().unwrap_or_else(built),
        };
        for (name, module, package) in PROGRAMS {
            if tools.path(name).is_file() || (only_helm && name != "helm") {
                continue;
            }
            if let Some(folder) = &named {
                return Err(format!("{}: no {name}", folder.display()));
            }
            build(&tools.path(name), module, package)?;
        }
        Ok(tools)
    }

    /// The path of a program.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The versions of the modules, which are those of the programs unless others are named.
pub(super) fn versions() -> String {
    let version = |module: &str, package: &str| {
        let file = root().join(format!("tools/kubernetes/{module}/go.mod"));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let found = text.lines().find_map(|line| {
            let line = line.trim().trim_start_matches("require ");
            Some(
                line.strip_prefix(package)?
                    .split_whitespace()
                    .next()?
                    .to_owned(),
            )
        });
        found.unwrap_or_default()
    };
    format!(
        "Kubernetes {}, etcd {}, Helm {}",
        version("cluster", "k8s.io/kubernetes "),
        version("etcd", "go.etcd.io/etcd/server/v3 "),
        version("helm", "helm.sh/helm/v4 "),
    )
}

/// Helm 4, if it is there, without building it.
pub(super) fn helm() -> Option<PathBuf> {
    let folders = from_environment().into_iter().chain([built()]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.chain(std::env::split_paths(&path).collect::<Vec<_>>());
    let mut files = folders.map(|folder| folder.join("helm"));
    files
        .find(|file| file.is_file() && first_line(file, &["version", "--short"]).starts_with("v4."))
}

fn from_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

fn built() -> PathBuf {
    root().join("target/tools/kubernetes")
}

/// Builds a program.
fn build(to: &Path, module: &str, package: &str) -> Result<(), String> {
    if first_line("go", &["version"]).is_empty() {
        return Err(format!(
            "Go is not installed (https://go.dev/dl), which {package} is built with; or set {VARIABLE}"
        ));
    }
    progress(&format!(
        "building {package}, once; kube-apiserver takes 5 to 30 minutes, the others less"
    ));
    let begun = Instant::now();
    let status = Command::new("go")
        .args(["build", "-trimpath", "-ldflags=-s -w", "-o"])
        .arg(to)
        .arg(package)
        .current_dir(root().join("tools/kubernetes").join(module))
        .env("GOTOOLCHAIN", "local")
        .status()
        .map_err(|error| format!("go build {package}: {error}"))?;
    if !status.success() {
        return Err(format!("go build {package}: {status}"));
    }
    say(&format!(
        "built {package} in {} s",
        begun.elapsed().as_secs()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_a_tool_of_its_module() {
        for (name, module, package) in PROGRAMS {
            let file = root().join(format!("tools/kubernetes/{module}/go.mod"));
            let text = std::fs::read_to_string(&file).unwrap();
            let mut lines = text
                .lines()
                .map(|line| line.trim().trim_start_matches("tool "));
            assert!(lines.any(|line| line == package), "{name}: {package}");
        }
        let versions = versions();
        for name in ["Kubernetes v", "etcd v", "Helm v"] {
            assert!(versions.contains(name), "{versions}");
        }
    }
}
