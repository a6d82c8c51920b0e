//! The folder of `--out`, checked before anything is played: a run of an hour must not end with a
//! file that cannot be written.

use slackwater_config::Fault;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Checks that files can be written into `out`, and leaves nothing behind: the folder itself is
/// created after the run.
pub(super) fn check(out: &Path) -> Result<(), Fault> {
    let existing = out.ancestors().find(|path| is_there(path));
    // A relative path has an empty ancestor, which is the current directory.
    let existing = existing.filter(|path| !path.as_os_str().is_empty());
    try_writing(existing.unwrap_or(Path::new("."))).map_err(|error| {
        Fault::runtime(format!(
            "--out {}: cannot be written: {error}",
            out.display()
        ))
    })
}

fn is_there(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.symlink_metadata().is_ok()
}

fn try_writing(folder: &Path) -> io::Result<()> {
    if !fs::metadata(folder)?.is_dir() {
        return Err(io::Error::other(format!(
            "{} is no directory",
            folder.display()
        )));
    }
    let trial = folder.join(format!(".slackwater-{}", std::process::id()));
    File::create(&trial)?;
    fs::remove_file(&trial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a directory for the test");
        folder
    }

    #[test]
    fn check_of_a_writable_folder_changes_nothing() {
        let folder = scratch("slackwater-out-good");
        for out in ["", "new", "new/and/deep", "new/../other"] {
            assert!(check(&folder.join(out)).is_ok(), "{out:?}");
        }
        assert!(check(Path::new("not-there")).is_ok(), "beside");
        let left = fs::read_dir(&folder).expect("it is there").count();
        assert_eq!(left, 0, "nothing is left behind");
        fs::remove_dir_all(folder).expect("the test's own");
    }

    #[test]
    fn a_file_and_paths_below_it_are_rejected() {
        let folder = scratch("slackwater-out-bad");
        let taken = folder.join("taken");
        File::create(&taken).expect("a file for the test");
        for out in [taken.clone(), taken.join("below")] {
            let told = check(&out).expect_err("it is a file").to_string();
            let expected = format!("--out {}: cannot be written: ", out.display());
            assert!(told.starts_with(&expected), "{told}");
        }
        fs::remove_dir_all(folder).expect("the test's own");
    }
}
