//! Third-party test suites and clients, and how to install them.

use crate::command::{first_line, installed};
use std::path::{Path, PathBuf};

/// Each tool, how to install it, and its version argument; empty if it has none.
const TOOLS: [(&str, &str, &str); 10] = [
    ("curl", "Debian: apt-get install curl", "--version"),
    ("openssl", "Debian: apt-get install openssl", "version"),
    (
        "h2spec",
        "go install github.com/summerwind/h2spec/cmd/h2spec@latest",
        "--version",
    ),
    (
        "interop-client",
        "go build -o interop-client google.golang.org/grpc/interop/client",
        "",
    ),
    (
        "interop-server",
        "go build -o interop-server google.golang.org/grpc/interop/server",
        "",
    ),
    (
        "grpcurl",
        "go install github.com/fullstorydev/grpcurl/cmd/grpcurl@latest",
        "-version",
    ),
    (
        "testserver",
        "go install github.com/fullstorydev/grpcurl/internal/testing/cmd/testserver@latest",
        "",
    ),
    ("chromium", "Debian: apt-get install chromium", "--version"),
    ("nginx", "Debian: apt-get install nginx", "-v"),
    ("haproxy", "Debian: apt-get install haproxy", "-v"),
];

/// The tools that are installed. Only `curl` and `openssl` are required.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) curl: PathBuf,
    pub(super) openssl: PathBuf,
    found: Vec<(&'static str, PathBuf)>,
}

impl Tools {
    /// Looks for all tools in `PATH`.
    pub(super) fn find() -> Result<Self, String> {
        // Debian installs servers there, which is not in every user's PATH.
        let also = ["/usr/sbin"];
        let found: Vec<_> = TOOLS
            .iter()
            .filter_map(|(name, ..)| Some((*name, installed(name, &also)?)))
            .collect();
        let required = |name| {
            let tool = found.iter().find(|tool| tool.0 == name);
            tool.map(|tool| tool.1.clone()).ok_or_else(|| missing(name))
        };
        Ok(Self {
            curl: required("curl")?,
            openssl: required("openssl")?,
            found,
        })
    }

    /// Returns a tool that may be missing; the error says how to install it.
    pub(super) fn get(&self, name: &'static str) -> Result<&Path, String> {
        let tool = self.found.iter().find(|tool| tool.0 == name);
        tool.map(|tool| tool.1.as_path())
            .ok_or_else(|| missing(name))
    }

    /// The tools' versions, as they print them.
    pub(super) fn versions(&self) -> String {
        let versions: Vec<_> = TOOLS
            .iter()
            .map(|(name, _, argument)| {
                let Ok(file) = self.get(name) else {
                    return format!("{name}: missing");
                };
                if argument.is_empty() {
                    return (*name).to_owned();
                }
                let line = first_line(file, &[argument]);
                let version = line.split(" (").next().unwrap_or_default();
                if version.to_lowercase().contains(name) {
                    version.to_owned()
                } else {
                    format!("{name} {version}")
                }
            })
            .collect();
        versions.join("; ")
    }
}

fn missing(name: &str) -> String {
    let tool = TOOLS.iter().find(|tool| tool.0 == name);
    let how = tool.map_or("", |tool| tool.1);
    format!("{name} is not here ({how})")
}
