//! Manual pages and completion scripts, made by the command itself.

use crate::command::{output, read};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A shell: its name, the name of the file in an archive, and Debian's path for it.
pub(crate) const SHELLS: [(&str, &str, &str); 3] = [
    (
        "bash",
        "slackwater.bash",
        "usr/share/bash-completion/completions/slackwater",
    ),
    (
        "zsh",
        "_slackwater",
        "usr/share/zsh/vendor-completions/_slackwater",
    ),
    (
        "fish",
        "slackwater.fish",
        "usr/share/fish/vendor_completions.d/slackwater.fish",
    ),
];

/// Texts of a command.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Manual pages by file name.
    pub(crate) manual: BTreeMap<String, Vec<u8>>,
    /// Scripts in the order of [`SHELLS`].
    pub(crate) completions: Vec<String>,
}

impl Pages {
    /// Lets a program that runs on this machine write them; `folder` is for its use.
    ///
    /// # Errors
    ///
    /// The program fails.
    pub(crate) fn of(program: &Path, folder: &Path) -> Result<Self, String> {
        let man = folder.join("man1");
        output(Command::new(program).arg("man").arg(&man))?;
        let wrong = |error: std::io::Error| format!("{}: {error}", man.display());
        let mut manual = BTreeMap::new();
        for file in fs::read_dir(&man).map_err(wrong)? {
            let file = file.map_err(wrong)?;
            let name = file.file_name().to_string_lossy().into_owned();
            manual.insert(name, read(&file.path())?);
        }
        fs::remove_dir_all(&man).map_err(wrong)?;
        let mut completions = Vec::new();
        for (shell, ..) in SHELLS {
            completions.push(output(Command::new(program).args(["completions", shell]))?);
        }
        Ok(Self {
            manual,
            completions,
        })
    }
}
