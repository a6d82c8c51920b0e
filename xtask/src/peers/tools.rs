//! The third-party tools that must be installed.

use crate::command::{first_line, installed};
use std::path::{Path, PathBuf};

/// Each tool, and its Debian package.
const TOOLS: [(&str, &str); 5] = [
    ("nginx", "nginx"),
    ("curl", "curl"),
    ("wrk", "wrk"),
    ("h2load", "nghttp2-client"),
    ("sha256sum", "coreutils"),
];

/// The tools' paths.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) nginx: PathBuf,
    pub(super) curl: PathBuf,
    pub(super) wrk: PathBuf,
    pub(super) h2load: PathBuf,
    pub(super) sha256sum: PathBuf,
}

impl Tools {
    /// Looks for all tools; the error names each missing one and how to install it.
    pub(super) fn find() -> Result<Self, String> {
        // Debian installs servers there, which is not in every user's PATH.
        let also = ["/usr/local/sbin", "/usr/sbin"];
        let [nginx, curl, wrk, h2load, sha256sum] = TOOLS.map(|(name, _)| installed(name, &also));
        let missing: Vec<_> = [&nginx, &curl, &wrk, &h2load, &sha256sum]
            .into_iter()
            .zip(TOOLS)
            .filter(|(found, _)| found.is_none())
            .map(|(_, (name, package))| format!("  {name} (Debian: apt-get install {package})"))
            .collect();
        match (nginx, curl, wrk, h2load, sha256sum) {
            (Some(nginx), Some(curl), Some(wrk), Some(h2load), Some(sha256sum)) => Ok(Self {
                nginx,
                curl,
                wrk,
                h2load,
                sha256sum,
            }),
            _ => Err(format!(
                "peers needs tools that are not here:\n{}",
                missing.join("\n")
            )),
        }
    }
}

impl Tools {
    /// The tools' versions, as they print them.
    pub(super) fn versions(&self) -> String {
        let version = |tool: &Path, argument: &str| {
            let line = first_line(tool, &[argument]);
            let line = line.trim_start_matches("nginx version: ");
            line.split(' ').take(2).collect::<Vec<_>>().join(" ")
        };
        [
            version(&self.nginx, "-v"),
            version(&self.curl, "--version"),
            version(&self.wrk, "-v"),
            version(&self.h2load, "--version"),
        ]
        .join(", ")
    }
}
