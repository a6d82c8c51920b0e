//! Detects changed files: rewritten, replaced by a rename, or reached by a symlink that was
//! swapped.
//!
//! Each file is checked once a second (its identity, size and times; links are followed). This
//! works on every file system, including network file systems, where kernel notifications do not
//! work, and costs one system call for each file. A change counts only once the file has been
//! stable for a moment, so that a file that is being written in place is not read half written.

use core::time::Duration;
use std::path::{Path, PathBuf};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How often files are checked.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Polling interval.
    pub period: Duration,
    /// How long all files must have been unchanged. Files that belong together, such as a
    /// certificate and its key, are seldom written in one step.
    pub settled: Duration,
    /// How long after [`FileWatch::retry`] unchanged files are reported.
    pub retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(1),
            settled: Duration::from_millis(250),
            retry: Duration::from_secs(10),
        }
    }
}

/// A file's metadata. `None` in its place means that the file does not exist or cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    #[cfg(unix)]
    fn of(file: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let seen = std::fs::metadata(file).ok()?;
        Some(Self {
            file: (seen.dev(), seen.ino()),
            bytes: seen.size(),
            written: (seen.mtime(), seen.mtime_nsec()),
            changed: (seen.ctime(), seen.ctime_nsec()),
        })
    }
}

/// Polls a few files for changes.
#[derive(Debug)]
pub struct FileWatch {
    files: Vec<PathBuf>,
    seen: Stamps,
    pace: Pace,
    /// When the files are looked at next, once a caller has waited for that.
    next_at: Option<Instant>,
    /// When the files are reported even if they are unchanged.
    retry_at: Option<Instant>,
    /// The state at the last look, if it differs from `seen`.
    unsettled: Option<Stamps>,
    /// A look that is under way.
    look: Option<JoinHandle<Stamps>>,
}

type Stamps = Vec<Option<Stamp>>;

impl FileWatch {
    /// Starts with the state that the files have now. Create the watch before the files are first
    /// read, so that no change in between is missed.
    pub fn new(files: Vec<PathBuf>) -> Self {
        Self::with_pace(files, Pace::default())
    }

    /// Like [`new`](Self::new), with another polling interval.
    pub fn with_pace(files: Vec<PathBuf>, pace: Pace) -> Self {
        let seen = stamps(&files);
        Self {
            files,
            seen,
            pace,
            next_at: None,
            retry_at: None,
            unsettled: None,
            look: None,
        }
    }

    /// Waits until any of the files has changed, appeared or disappeared, and all have been stable
    /// for a moment. Changes during that moment are part of the same change. Cancel safe: the next
    /// call goes on where a cancelled one was.
    pub async fn changed(&mut self) {
        loop {
            let first_at = Instant::now() + self.pace.period;
            tokio::time::sleep_until(*self.next_at.get_or_insert(first_at)).await;
            let found = self.look().await;
            let is_settled = self.unsettled.as_ref() == Some(&found);
            self.unsettled = None;
            self.next_at = None;
            let retries = self.retry_at.is_some_and(|at| at <= Instant::now());
            if found == self.seen && !retries {
                continue;
            }
            if is_settled {
                self.seen = found;
                self.retry_at = None;
                return;
            }
            self.unsettled = Some(found);
            self.next_at = Some(Instant::now() + self.pace.settled);
        }
    }

    /// Whether the files are reported once more after a while, even if they do not change: they
    /// could not be used, and the cause may have been something else, such as a lack of
    /// descriptors.
    pub fn retry(&mut self, is_wanted: bool) {
        self.retry_at = is_wanted.then(|| Instant::now() + self.pace.retry);
    }

    /// Runs on a blocking thread: a file system that hangs must not hold up other tasks of this
    /// thread. A cancelled call leaves its look to the next one.
    async fn look(&mut self) -> Stamps {
        let files = &self.files;
        let look = self.look.get_or_insert_with(|| {
            let files = files.clone();
            tokio::task::spawn_blocking(move || stamps(&files))
        });
        let looked = look.await;
        self.look = None;
        looked.unwrap_or_else(|_| self.seen.clone())
    }
}

fn stamps(files: &[PathBuf]) -> Stamps {
    files.iter().map(|file| Stamp::of(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;
    use futures_util::FutureExt;
    use std::fs;
    use std::os::unix::fs::symlink;
    use tokio::time::timeout;

    const PATIENCE: Duration = Duration::from_mins(1);

    async fn noticed(watch: &mut FileWatch) -> bool {
        timeout(PATIENCE, watch.changed()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn every_kind_of_change_is_detected_once() {
        let folder = Folder::new("watch");
        let file = folder.write("a", "1");
        let mut watch = FileWatch::new(vec![file.clone()]);
        assert!(!noticed(&mut watch).await, "nothing has happened");

        fs::write(&file, "22").expect("written in place");
        assert!(noticed(&mut watch).await, "in place");

        fs::rename(folder.write("b", "33"), &file).expect("renamed");
        assert!(
            noticed(&mut watch).await,
            "replaced by one of the same size"
        );

        fs::remove_file(&file).expect("removed");
        assert!(noticed(&mut watch).await, "gone");
        folder.write("a", "33");
        assert!(noticed(&mut watch).await, "back");
        assert!(!noticed(&mut watch).await, "each change is reported once");
    }

    #[tokio::test(start_paused = true)]
    async fn unchanged_files_are_reported_once_after_a_retry() {
        let folder = Folder::new("retry");
        let mut watch = FileWatch::new(vec![folder.write("a", "1")]);
        watch.retry(true);
        let began = Instant::now();
        assert!(noticed(&mut watch).await);
        assert!(began.elapsed() >= Pace::default().retry);
        assert!(!noticed(&mut watch).await);

        watch.retry(true);
        folder.write("a", "22");
        assert!(noticed(&mut watch).await);
        assert!(!noticed(&mut watch).await, "the change came first");
    }

    #[tokio::test(start_paused = true)]
    async fn replaced_link_of_a_mounted_config_map_is_a_change() {
        let folder = Folder::new("links");
        for version in ["v1", "v2"] {
            fs::create_dir(folder.path(version)).expect("made");
            fs::write(folder.path(version).join("fleet.json"), "[]").expect("written");
        }
        symlink("v1", folder.path("data")).expect("linked");
        symlink("data/fleet.json", folder.path("fleet.json")).expect("linked");
        let mut watch = FileWatch::new(vec![folder.path("fleet.json")]);
        assert!(!noticed(&mut watch).await);
        symlink("v2", folder.path("data.new")).expect("linked");
        fs::rename(folder.path("data.new"), folder.path("data")).expect("swapped");
        assert!(noticed(&mut watch).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_reported_though_calls_are_cancelled_again_and_again() {
        let folder = Folder::new("cancelled");
        let file = folder.write("a", "1");
        let mut watch = FileWatch::new(vec![file.clone()]);
        fs::write(&file, "22").expect("written");
        let calls = async {
            while timeout(Duration::from_millis(100), watch.changed())
                .await
                .is_err()
            {}
        };
        assert!(timeout(PATIENCE, calls).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_being_written_is_not_reported_yet() {
        let folder = Folder::new("slow");
        let file = folder.write("a", "1");
        let mut watch = FileWatch::new(vec![file.clone()]);
        fs::write(&file, "12").expect("written");
        let began = Instant::now();
        let Pace {
            period, settled, ..
        } = Pace::default();
        let mut changed = Box::pin(watch.changed());
        let mut text = "12".to_owned();
        // 50 writes, each before the last one has settled.
        for _ in 0..50 {
            text.push('x');
            fs::write(&file, &text).expect("written");
            tokio::select! {
                biased;
                () = tokio::time::sleep(period.min(settled / 2)) => (),
                () = &mut changed => panic!("reported while it was written: {text}"),
            }
        }
        changed.await;
        assert!(began.elapsed() >= settled * 25);
        assert!(watch.changed().now_or_never().is_none());
    }
}
