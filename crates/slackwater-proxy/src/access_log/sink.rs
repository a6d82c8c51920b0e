//! Destination of the log: a standard stream, or a file that may be moved away at any time.
//!
//! A file is opened in append mode, so several processes may write to it, as they do during an
//! upgrade. It is opened again at its path when it has been moved or removed, or on demand.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Readable by its owner and group only: the log contains client addresses.
const MODE: u32 = 0o640;

/// An open destination.
#[derive(Debug)]
pub(super) struct Sink {
    file: File,
    /// Path of a file; `None` for a standard stream.
    path: Option<PathBuf>,
    /// Whether the last line in the file is incomplete.
    is_torn: bool,
}

/// Why lines were not written.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) error: io::Error,
    /// Bytes that were written before the error.
    pub(super) written: usize,
}

impl Sink {
    pub(super) fn stdout() -> io::Result<Self> {
        Self::stream(&io::stdout())
    }

    pub(super) fn stderr() -> io::Result<Self> {
        Self::stream(&io::stderr())
    }

    /// Bypasses the buffers of the standard library, so that many lines are one write.
    fn stream(stream: &impl AsFd) -> io::Result<Self> {
        Ok(Self {
            file: stream.as_fd().try_clone_to_owned()?.into(),
            path: None,
            is_torn: false,
        })
    }

    pub(super) fn file(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: open(path)?,
            path: Some(path.to_owned()),
            is_torn: false,
        })
    }

    /// Opens the file again. If that fails, the old one stays open.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            self.file = open(path)?;
            let is_empty = self.file.metadata().is_ok_and(|file| file.len() == 0);
            self.is_torn &= !is_empty;
        }
        Ok(())
    }

    /// Whether the file's path now leads to another file, or to none.
    pub(super) fn has_moved(&self) -> bool {
        let (Some(path), Ok(ours)) = (&self.path, self.file.metadata()) else {
            return false;
        };
        let identity = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
        std::fs::metadata(path).map_or(true, |there| identity(&there) != identity(&ours))
    }

    /// Writes whole lines. A torn line is ended first, so that it does not spoil the next one.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), Unwritten> {
        write_lines(&mut self.file, lines, &mut self.is_torn)
    }
}

fn write_lines(to: &mut impl Write, lines: &[u8], is_torn: &mut bool) -> Result<(), Unwritten> {
    let mut written = 0;
    while *is_torn || written < lines.len() {
        let rest = if *is_torn { b"\n" } else { &lines[written..] };
        let outcome = match to.write(rest) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            outcome => outcome,
        };
        match outcome {
            Ok(0) => (),
            Ok(_) if *is_torn => *is_torn = false,
            Ok(more) => written += more,
            Err(error) => {
                *is_torn |= written > 0 && lines.get(written - 1) != Some(&b'\n');
                return Err(Unwritten { error, written });
            }
        }
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(MODE).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with this many bytes of space.
    struct Disk(Vec<u8>, usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.1 - self.0.len());
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn next_line_starts_after_a_partial_one() {
        let (mut disk, mut is_torn) = (Disk(Vec::new(), 6), false);
        let unwritten = write_lines(&mut disk, b"one\ntwo\n", &mut is_torn);
        let unwritten = unwritten.expect_err("the disk is full");
        assert_eq!((unwritten.written, is_torn), (6, true));
        let unwritten = write_lines(&mut disk, b"three\n", &mut is_torn);
        assert_eq!(unwritten.expect_err("still").written, 0);
        disk.1 = 100;
        write_lines(&mut disk, b"four\n", &mut is_torn).expect("there is room");
        write_lines(&mut disk, b"five\n", &mut is_torn).expect("there is room");
        assert_eq!(disk.0, b"one\ntw\nfour\nfive\n");
    }

    #[test]
    fn full_disk_at_the_end_of_a_line_leaves_no_partial_line() {
        let (mut disk, mut is_torn) = (Disk(Vec::new(), 4), false);
        let unwritten = write_lines(&mut disk, b"one\ntwo\n", &mut is_torn);
        assert_eq!(unwritten.expect_err("full").written, 4);
        disk.1 = 100;
        write_lines(&mut disk, b"three\n", &mut is_torn).expect("there is room");
        assert_eq!(disk.0, b"one\nthree\n");
    }
}
