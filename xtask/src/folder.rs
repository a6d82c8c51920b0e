//! Temporary folders of chores.

use crate::output::say;
use std::fs;
use std::path::{Path, PathBuf};

/// A temporary folder that goes when this is dropped, unless it is to be kept.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    keep: bool,
}

impl Folder {
    /// `name` is part of its name.
    ///
    /// # Errors
    ///
    /// It cannot be made.
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

/// Removes a folder, or says where it is.
pub(crate) fn leave(folder: &Path, keep: bool) {
    if keep {
        say(&format!("kept {}", folder.display()));
    } else {
        // Nothing depends on it: the folder is in the system's place for what may be lost.
        let _ = fs::remove_dir_all(folder);
    }
}
