//! The watched threads: what all of them together have used and waited for.
//!
//! Sums never go back: the share of a thread stays when it ends. What it did after its last reading
//! is lost. Threads that begin and end between two readings are never seen.

use super::listing::{LISTED_MOST, Listing};
use super::small_file::SmallFile;
use crate::parse::{Run, schedstat};
use crate::reading::Threads;
use core::fmt::Write;
use core::time::Duration;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, Pid, sched_getaffinity};

/// The most threads that are watched: about a millisecond for each reading.
pub(super) const WATCHED_MAX: usize = 1024;

/// The share of the process's file limit that is kept open for threads: one file in eight. The
/// files of further threads are opened for each reading.
const FILES_SHARE: u64 = 8;

/// The threads of a process or of a cgroup.
#[derive(Debug)]
pub(super) struct Watched {
    listing: Listing,
    /// The directory that has a directory for each thread, by its id.
    base: OwnedFd,
    /// Threads by id, ascending. Like the next field it has capacity for all threads from the
    /// start: memory that is not used costs nothing.
    threads: Vec<Thread>,
    /// The ids of the last list. Kept for its capacity.
    listed: Vec<u32>,
    /// The last list was complete.
    complete: bool,
    /// The sum of everything that was seen.
    sum: Run,
    files_max: usize,
    files: usize,
    has_read: bool,
}

#[derive(Debug)]
struct Thread {
    id: u32,
    /// `None`: there were too few descriptors, so the file is opened for each reading.
    file: Option<SmallFile>,
    last: Run,
}

/// What threads have used and waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub(super) used: Duration,
    pub(super) waited: Duration,
    /// The most CPU time that a single thread has used since the reading before.
    pub(super) busiest: Option<Duration>,
    pub(super) threads: Threads,
}

impl Watched {
    /// `base` has a directory for each thread, by its id.
    pub(super) fn new(listing: Listing, base: OwnedFd) -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / FILES_SHARE;
        let mut watched = Self {
            listing,
            base,
            threads: Vec::with_capacity(WATCHED_MAX),
            listed: Vec::with_capacity(LISTED_MOST),
            complete: true,
            sum: Run::default(),
            files_max: usize::try_from(files)
                .unwrap_or(WATCHED_MAX)
                .min(WATCHED_MAX),
            files: 0,
            has_read: false,
        };
        watched.list();
        watched
    }

    /// Returns whether there is a thread that cannot be seen.
    pub(super) fn hidden(&self) -> bool {
        self.listed.contains(&0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Reads all threads. Threads that have ended are removed, and new threads are read for the
    /// first time.
    pub(super) fn read(&mut self) -> Sum {
        let mut busiest = 0;
        let Self {
            threads,
            base,
            sum,
            files,
            ..
        } = self;
        threads.retain_mut(|thread| match thread.read(&*base) {
            Ok(run) => {
                busiest = busiest.max(thread.advance(run, sum));
                true
            }
            Err(Errno::SRCH | Errno::NOENT) => {
                *files -= usize::from(thread.file.is_some());
                false
            }
            // The file may be readable again the next time, with what the thread did meanwhile.
            Err(_) => true,
        });
        let changed = self.listing.may_have_changed(self.threads.len());
        let full = self.threads.len() >= WATCHED_MAX;
        if changed && !full {
            self.list();
        }
        let watched = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        let sum = Sum {
            used: Duration::from_nanos(self.sum.used),
            waited: Duration::from_nanos(self.sum.waited),
            busiest: self.has_read.then(|| Duration::from_nanos(busiest)),
            threads: Threads {
                watched,
                total: self.listing.total(watched),
            },
        };
        self.has_read = true;
        sum
    }

    /// Returns the number of CPUs on which at least one of them may run; `None`: no thread could be
    /// read.
    pub(super) fn allowed_cpus(&self) -> Option<u32> {
        let mut union: Option<CpuSet> = None;
        for thread in &self.threads {
            let Some(cpus) = affinity(thread.id) else {
                continue;
            };
            let union = union.get_or_insert(cpus);
            if cpus != *union {
                for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)) {
                    union.set(cpu);
                }
            }
        }
        union.map(|cpus| cpus.count()).filter(|count| *count > 0)
    }

    /// Adds new threads, and removes threads that are no longer in the list.
    fn list(&mut self) {
        self.listed.clear();
        let Ok(whole) = self.listing.list(&mut self.listed) else {
            return;
        };
        self.listed.sort_unstable();
        self.listed.dedup();
        // Threads can leave a cgroup without ending. They do not leave a process, and its list may
        // lack some threads while others end.
        if whole && !self.listing.is_of_process() {
            let Self { files, listed, .. } = self;
            self.threads.retain(|thread| {
                let stays = listed.binary_search(&thread.id).is_ok();
                *files -= usize::from(!stays && thread.file.is_some());
                stays
            });
        }
        // A thread that was not in the list before is new, so everything that it did counts. This
        // holds only if the last list was complete, and only in a process: threads with a past can
        // join a cgroup.
        let from_birth = self.complete && self.listing.is_of_process();
        let known = self.threads.len();
        self.complete = whole;
        for index in 0..self.listed.len() {
            let id = self.listed[index];
            if self.threads[..known]
                .binary_search_by_key(&id, |thread| thread.id)
                .is_ok()
            {
                continue;
            }
            if self.threads.len() >= WATCHED_MAX {
                self.complete = false;
                break;
            }
            self.take_in(id, from_birth);
        }
        self.threads.sort_unstable_by_key(|thread| thread.id);
    }

    /// Adds a thread, unless it has ended meanwhile or cannot be seen.
    fn take_in(&mut self, id: u32, from_birth: bool) {
        let Some(file) = schedstat_of(&self.base, id).ok().filter(|_| id > 0) else {
            return;
        };
        let Ok(run) = file.read(schedstat) else {
            return;
        };
        if from_birth {
            self.sum.used = self.sum.used.saturating_add(run.used);
            self.sum.waited = self.sum.waited.saturating_add(run.waited);
        }
        let keep = self.files < self.files_max;
        self.files += usize::from(keep);
        self.threads.push(Thread {
            id,
            file: keep.then_some(file),
            last: run,
        });
    }
}

impl Thread {
    fn read(&self, base: impl AsFd) -> Result<Run, Errno> {
        match &self.file {
            Some(file) => file.read(schedstat),
            None => schedstat_of(base, self.id)?.read(schedstat),
        }
    }

    /// Adds what the thread has done since the last reading to the sum. Returns the CPU time that
    /// it used.
    fn advance(&mut self, run: Run, sum: &mut Run) -> u64 {
        let last = core::mem::replace(&mut self.last, run);
        // Less than before: its id now belongs to another thread, whose past is unknown.
        let used = run.used.checked_sub(last.used);
        let waited = run.waited.checked_sub(last.waited);
        let (Some(used), Some(waited)) = (used, waited) else {
            return 0;
        };
        sum.used = sum.used.saturating_add(used);
        sum.waited = sum.waited.saturating_add(waited);
        used
    }
}

/// Returns the CPUs that a thread may run on.
pub(super) fn affinity(id: u32) -> Option<CpuSet> {
    let id = Pid::from_raw(i32::try_from(id).ok()?)?;
    sched_getaffinity(Some(id)).ok()
}

fn schedstat_of(base: impl AsFd, id: u32) -> Result<SmallFile, Errno> {
    let mut path = PathOfThread::default();
    write!(path, "{id}/schedstat").map_err(|_| Errno::NAMETOOLONG)?;
    SmallFile::at(base, path.as_bytes())
}

/// A path of up to ten digits and a name, without an allocation.
#[derive(Default)]
struct PathOfThread {
    bytes: [u8; 32],
    length: usize,
}

impl PathOfThread {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for PathOfThread {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end);
        room.ok_or(core::fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(used: u64, waited: u64) -> Thread {
        Thread {
            id: 7,
            file: None,
            last: Run { used, waited },
        }
    }

    #[test]
    fn thread_adds_its_use_since_the_last_reading() {
        let mut sum = Run::default();
        let mut thread = thread(100, 10);
        let run = Run {
            used: 130,
            waited: 15,
        };
        assert_eq!(thread.advance(run, &mut sum), 30);
        assert_eq!(
            sum,
            Run {
                used: 30,
                waited: 5
            }
        );
    }

    /// The id was given to another thread, which has done less. No sum goes back, and later work
    /// counts from there.
    #[test]
    fn reused_thread_id_adds_nothing() {
        let mut sum = Run::default();
        let mut thread = thread(100, 10);
        let other = Run {
            used: 5,
            waited: 20,
        };
        assert_eq!(thread.advance(other, &mut sum), 0);
        assert_eq!(sum, Run::default());
        let later = Run {
            used: 8,
            waited: 20,
        };
        assert_eq!(thread.advance(later, &mut sum), 3);
    }

    #[test]
    fn path_buffer_fits_any_thread_id() {
        let mut path = PathOfThread::default();
        write!(path, "{}/schedstat", u32::MAX).unwrap();
        assert_eq!(path.as_bytes(), b"4294967295/schedstat");
    }
}
