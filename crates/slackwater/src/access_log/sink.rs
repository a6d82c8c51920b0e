//! Where lines go: a standard stream, or a file that may be moved away at any time.
//!
//! A file is opened to append, so several processes may write to it, as they do during an upgrade. When it has been moved
//! or removed, or somebody asks for it, it is opened anew at its path.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Readable for its owner and group: the log names clients.
const MODE: u32 = 0o640;

/// An open place for lines.
#[derive(Debug)]
pub(super) struct Sink {
    file: File,
    /// Of a file; standard streams have none.
    path: Option<PathBuf>,
}

impl Sink {
    pub(super) fn stdout() -> io::Result<Self> {
        Self::stream(&io::stdout())
    }

    pub(super) fn stderr() -> io::Result<Self> {
        Self::stream(&io::stderr())
    }

    /// Past the buffers of the standard library, so that many lines are one write.
    fn stream(stream: &impl AsFd) -> io::Result<Self> {
        Ok(Self {
            file: stream.as_fd().try_clone_to_owned()?.into(),
            path: None,
        })
    }

    pub(super) fn file(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: open(path)?,
            path: Some(path.to_owned()),
        })
    }

    /// Opens the file anew; when that fails, the old one stays.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            self.file = open(path)?;
        }
        Ok(())
    }

    /// Whether something else, or nothing, is at the file's path.
    pub(super) fn has_moved(&self) -> bool {
        let (Some(path), Ok(ours)) = (&self.path, self.file.metadata()) else {
            return false;
        };
        let identity = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
        std::fs::metadata(path).map_or(true, |there| identity(&there) != identity(&ours))
    }

    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(MODE).open(path)
}
