//! Temporary folders of chores.

use crate::output::say;
use std::fs;
use std::io::ErrorKind;
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
        // A folder that was kept may be of an earlier process with the same number.
        let name = format!("slackwater-{name}-{}", std::process::id());
        let path = numbered(&std::env::temp_dir(), &name)?;
        Ok(Self { path, keep })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        leave(&self.path, self.keep);
    }
}

/// Creates a folder in `parent` that was not there: `name-1`, or else the next number. A port would
/// be no unique name, because the system may give it again.
///
/// # Errors
///
/// Fails if it cannot be created.
pub(crate) fn numbered(parent: &Path, name: &str) -> Result<PathBuf, String> {
    let mut number = 1_u32;
    loop {
        let path = parent.join(format!("{name}-{number}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(format!("{}: {error}", path.display())),
            Ok(()) => return Ok(path),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numbered_folder_is_never_one_that_is_there() {
        let folder = Folder::new("numbered", false).unwrap();
        let names = ["a-1", "a-2", "a-3"];
        for name in names {
            assert_eq!(numbered(&folder.path, "a"), Ok(folder.path.join(name)));
        }
        assert!(numbered(&folder.path.join("none"), "a").is_err());
    }
}
