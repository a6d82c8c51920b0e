//! Small files that are opened once and read often: one system call for each reading, and no
//! allocation.

use core::mem::MaybeUninit;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, pread};
use rustix::path::Arg;
use std::path::Path;

/// Bytes of the buffer. It is longer than any file that is read here: the longest, `cpu.stat`, has
/// about 400 bytes.
const LONGEST: usize = 2048;

pub(super) type Buffer = [MaybeUninit<u8>; LONGEST];

pub(super) const BUFFER: Buffer = [MaybeUninit::uninit(); LONGEST];

/// A file that stays open.
#[derive(Debug)]
pub(super) struct SmallFile(OwnedFd);

impl AsFd for SmallFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl SmallFile {
    /// Opens the file at a path from a directory.
    pub(super) fn at(directory: impl AsFd, path: impl Arg) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        openat(directory, path, flags, Mode::empty()).map(Self)
    }

    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        Self::at(CWD, path)
    }

    /// Parses the current content. A file that does not fit into the buffer is an error: its last
    /// number may be cut.
    pub(super) fn read<T>(&self, parse: impl FnOnce(&[u8]) -> Option<T>) -> Result<T, Errno> {
        let mut buffer = BUFFER;
        let (text, room) = pread(&self.0, &mut buffer, 0)?;
        if room.is_empty() {
            return Err(Errno::FBIG);
        }
        parse(text).ok_or(Errno::INVAL)
    }
}

/// Opens a file and keeps it open if `parse` accepts its current content. Otherwise returns the
/// reason as a sentence.
pub(super) fn kept<T>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<(SmallFile, T), String> {
    let opened = SmallFile::open(path).and_then(|file| {
        let value = file.read(parse)?;
        Ok((file, value))
    });
    opened.map_err(|error| reason(path, error))
}

/// Returns why a file gives no value.
pub(super) fn reason(path: &Path, error: Errno) -> String {
    let path = path.display();
    match error {
        Errno::NOENT => format!("{path} is not there"),
        Errno::INVAL => format!("{path} is not of the form that is known"),
        error => format!("{path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last number of such a file may be cut in the middle.
    #[test]
    fn file_larger_than_the_buffer_is_an_error() {
        let length = |text: &[u8]| Some(text.len());
        let long = SmallFile::open("/proc/self/smaps".as_ref()).unwrap();
        assert_eq!(long.read(length), Err(Errno::FBIG));
        let short = SmallFile::open("/proc/self/schedstat".as_ref()).unwrap();
        assert!(short.read(length).is_ok());
    }
}
