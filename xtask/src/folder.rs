//! Temporary folders of chores.

use crate::output::say;
use std::fs;
use std::path::{Path, PathBuf};

/// A temporary folder that is removed when this is dropped, unless it is to be kept.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    keep: bool,
}

impl Folder {
    /// Creates a folder with `name` in its name.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be created.
    pub(crate) fn new(name: &str, keep: bool) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("slackwater-{name}-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path, keep })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        leave(&self.path, self.keep);
    }
}

/// Removes a folder, or prints where it is.
pub(crate) fn leave(folder: &Path, keep: bool) {
    if keep {
        say(&format!("kept {}", folder.display()));
    } else {
        // Errors do not matter: the folder is among the system's temporary files.
        let _ = fs::remove_dir_all(folder);
    }
}
