//! Which threads there are: of a process, and of a cgroup with all within it.

use super::small_file::{BUFFER, SmallFile};
use crate::parse::thread_ids;
use core::mem::MaybeUninit;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, RawDir, SeekFrom, fstat, openat, seek};
use rustix::io::{Errno, pread};
use rustix::path::Arg;

/// A cgroup does not tell when threads come and go, so it is listed with each so many readings.
const GROUP_READINGS: u32 = 8;

/// At most so many cgroups within one are looked into.
const GROUPS_MAX: usize = 64;

/// More ids are not taken from a list: enough for every thread that can be watched to be found, and
/// bounded.
const LISTED_MAX: usize = 16_384;

/// What a file of ids is read into, piece by piece.
const PIECE: usize = 4_096;

/// No list is longer than this: the limit is looked at before each piece, and an id takes two bytes
/// of it at the least.
pub(super) const LISTED_MOST: usize = LISTED_MAX + PIECE / 2;

/// Where threads are listed.
#[derive(Debug)]
pub(super) enum Listing {
    /// A process: its directory `task`, and how many threads it had last.
    Process { task: OwnedFd, total: u32 },
    /// A cgroup.
    Group(GroupListing),
}

#[derive(Debug)]
pub(super) struct GroupListing {
    directory: OwnedFd,
    /// `cgroup.threads` or `tasks`.
    file: &'static str,
    /// Those yet to be looked into; kept for its room.
    waiting: Vec<OwnedFd>,
    readings: u32,
    /// How many were listed last.
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

    /// Whether there may be others than the `known` by now.
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

    /// How many threads there were when they were last counted, of which `known` are known.
    pub(super) fn total(&self, known: u32) -> u32 {
        match self {
            Self::Process { total, .. } => known.max(*total),
            Self::Group(group) => known.max(group.total),
        }
    }

    /// Adds their ids, and tells whether those are all.
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

/// The threads of a process: the links of its directory `task`, without `.` and `..`. 0: it has
/// ended.
pub(super) fn count(task: impl AsFd) -> u32 {
    let links = fstat(task).map_or(0, |stat| u128::from(stat.st_nlink));
    u32::try_from(links.saturating_sub(2)).unwrap_or(u32::MAX)
}

/// A directory to look into.
pub(super) fn directory(from: impl AsFd, path: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(from, path, flags, Mode::empty())
}

impl GroupListing {
    /// Of the group itself it is an error not to be listed. Groups within it may be gone by the
    /// time they are looked into.
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

/// Adds the ids in a file of a group, and tells whether those are all. It may be longer than any
/// buffer.
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
