//! Lists the threads of a process, or of a cgroup and the groups within it.

use super::small_file::{BUFFER, SmallFile};
use crate::parse::thread_ids;
use core::mem::MaybeUninit;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, RawDir, SeekFrom, fstat, openat, seek};
use rustix::io::{Errno, pread};
use rustix::path::Arg;

/// A cgroup does not report when threads come and go, so it is listed again after this many
/// readings.
const GROUP_READINGS: u32 = 8;

/// At most this many cgroups within one are searched.
const GROUPS_MAX: usize = 64;

/// The most ids that are taken from a list. The bound is high enough to find every thread that can
/// be watched.
const LISTED_MAX: usize = 16_384;

/// Bytes of the pieces in which a file of ids is read.
const PIECE: usize = 4_096;

/// The longest possible list: the limit is checked before each piece, and an id takes at least two
/// bytes of it.
pub(super) const LISTED_MOST: usize = LISTED_MAX + PIECE / 2;

/// Where threads are listed.
#[derive(Debug)]
pub(super) enum Listing {
    /// A process: its directory `task`, and the number of threads at the last count.
    Process { task: OwnedFd, total: u32 },
    /// A cgroup.
    Group(GroupListing),
}

#[derive(Debug)]
pub(super) struct GroupListing {
    directory: OwnedFd,
    /// `cgroup.threads` or `tasks`.
    file: &'static str,
    /// Groups that are still to be searched. The vector is kept for its capacity.
    waiting: Vec<OwnedFd>,
    readings: u32,
    /// Number of threads in the last list.
    total: u32,
}

impl GroupListing {
    pub(super) fn new(directory: OwnedFd, file: &'static str) -> Self {
        Self {
            directory,
            file,
            waiting: Vec::with_capacity(GROUPS_MAX),
            readings: 0,
            total: 0,
        }
    }
}

impl Listing {
    pub(super) fn is_of_process(&self) -> bool {
        matches!(self, Self::Process { .. })
    }

    /// Returns whether there may be other threads than the `known` ones by now.
    pub(super) fn may_have_changed(&mut self, known: usize) -> bool {
        match self {
            Self::Process { task, total } => {
                *total = count(&*task);
                *total as usize != known
            }
            Self::Group(group) => {
                group.readings = (group.readings + 1) % GROUP_READINGS;
                group.readings == 0
            }
        }
    }

    /// Returns the number of threads at the last count, at least `known`.
    pub(super) fn total(&self, known: u32) -> u32 {
        match self {
            Self::Process { total, .. } => known.max(*total),
            Self::Group(group) => known.max(group.total),
        }
    }

    /// Adds the ids of the threads. Returns whether the list is complete.
    pub(super) fn list(&mut self, ids: &mut Vec<u32>) -> Result<bool, Errno> {
        match self {
            Self::Process { task, total } => {
                *total = count(&*task);
                seek(&*task, SeekFrom::Start(0))?;
                let mut buffer = BUFFER;
                let mut entries = RawDir::new(&*task, &mut buffer);
                while let Some(entry) = entries.next() {
                    if ids.len() >= LISTED_MAX {
                        return Ok(false);
                    }
                    let entry = entry?;
                    let name = entry.file_name().to_str().ok();
                    ids.extend(name.and_then(|name| name.parse::<u32>().ok()));
                }
                Ok(true)
            }
            Self::Group(group) => {
                let whole = group.list(ids);
                group.total = u32::try_from(ids.len()).unwrap_or(u32::MAX);
                whole
            }
        }
    }
}

/// Counts the threads of a process: the links of its directory `task`, without `.` and `..`. 0: it
/// has ended.
pub(super) fn count(task: impl AsFd) -> u32 {
    let links = fstat(task).map_or(0, |stat| u128::from(stat.st_nlink));
    u32::try_from(links.saturating_sub(2)).unwrap_or(u32::MAX)
}

/// Opens a directory that will be listed.
pub(super) fn directory(from: impl AsFd, path: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(from, path, flags, Mode::empty())
}

impl GroupListing {
    /// Fails if the group itself cannot be listed. Groups within it may have been removed
    /// meanwhile, which is not an error.
    fn list(&mut self, ids: &mut Vec<u32>) -> Result<bool, Errno> {
        let mut whole = ids_in(&self.directory, self.file, ids)?;
        let mut groups = 1;
        self.waiting.clear();
        self.waiting.push(directory(&self.directory, ".")?);
        while let Some(group) = self.waiting.pop() {
            let mut buffer = BUFFER;
            let mut entries = RawDir::new(&group, &mut buffer);
            while let Some(entry) = entries.next() {
                let entry = entry?;
                let name = entry.file_name();
                if entry.file_type() != FileType::Directory || name == c"." || name == c".." {
                    continue;
                }
                if groups >= GROUPS_MAX {
                    return Ok(false);
                }
                groups += 1;
                if let Ok(child) = directory(&group, name) {
                    whole &= ids_in(&child, self.file, ids).unwrap_or(true);
                    self.waiting.push(child);
                }
            }
        }
        Ok(whole)
    }
}

/// Adds the ids in a file of a group. Returns whether these are all. The file may be longer than
/// any buffer.
fn ids_in(group: impl AsFd, file: &str, ids: &mut Vec<u32>) -> Result<bool, Errno> {
    let file = SmallFile::at(group, file)?;
    let (mut offset, mut partial) = (0, None);
    let mut buffer = [MaybeUninit::uninit(); PIECE];
    while ids.len() < LISTED_MAX {
        let (piece, _) = pread(&file, &mut buffer, offset)?;
        if piece.is_empty() {
            return Ok(true);
        }
        thread_ids(piece, &mut partial, ids);
        offset += piece.len() as u64;
    }
    Ok(false)
}
