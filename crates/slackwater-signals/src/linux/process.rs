//! A process: its CPU time, its threads, and whether it is still there.

use super::listing::{Listing, count, directory};
use super::small_file::{SmallFile, kept, reason};
use super::threads::Watched;
use crate::finding::Origin;
use crate::parse::{Run, schedstat, stat_ticks};
use core::time::Duration;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rustix::fd::OwnedFd;
use rustix::fs::CWD;
use rustix::param::clock_ticks_per_second;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Process {
    id: u32,
    clock: Clock,
    /// Its directory `task`. The descriptor stays with this process even if another one gets its id
    /// later.
    task: Result<OwnedFd, String>,
}

#[derive(Debug)]
enum Clock {
    This,
    /// The clock of a process id. It may be read only while the id still belongs to the same
    /// process.
    Other(ClockId),
    Stat(SmallFile),
}

impl Process {
    pub(super) fn this() -> Self {
        Self {
            id: std::process::id(),
            clock: Clock::This,
            task: task("/proc/self/task".as_ref()),
        }
    }

    pub(super) fn other(id: u32) -> Result<Self, String> {
        proc_is_ours()?;
        let base = PathBuf::from(format!("/proc/{id}"));
        let task = task(&base.join("task"))?;
        let signed = i32::try_from(id).map_err(|_| format!("there is no process {id}"))?;
        let clock = match clock_getcpuclockid(Pid::from_raw(signed)) {
            Ok(clock) => Clock::Other(clock),
            Err(_) => Clock::Stat(kept(&base.join("stat"), stat_ticks)?.0),
        };
        // Checked after the clock was found: if the process still exists, the clock is its own.
        if count(&task) == 0 {
            return Err(format!("process {id} has ended"));
        }
        let task = Ok(task);
        Ok(Self { id, clock, task })
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Returns where its CPU time comes from.
    pub(super) fn found(&self) -> (Origin, String) {
        match &self.clock {
            Clock::This => (Origin::ProcessClock, "CPU clock of this process".to_owned()),
            Clock::Other(_) => (
                Origin::ProcessClock,
                format!("CPU clock of process {}", self.id),
            ),
            Clock::Stat(_) => (
                Origin::ProcessStat,
                format!("/proc/{}/stat, in ticks", self.id),
            ),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        match (&self.clock, &self.task) {
            (Clock::This, _) | (_, Err(_)) => false,
            (_, Ok(task)) => count(task) == 0,
        }
    }

    pub(super) fn used(&self) -> Option<Duration> {
        match &self.clock {
            Clock::This => clock(ClockId::CLOCK_PROCESS_CPUTIME_ID),
            Clock::Other(id) => clock(*id),
            Clock::Stat(file) => {
                let ticks = file.read(stat_ticks).ok()?;
                let ticks_per_second = clock_ticks_per_second().max(1);
                let ns = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_second);
                u64::try_from(ns).ok().map(Duration::from_nanos)
            }
        }
    }

    /// Opens its threads, if they can be watched, and returns where they were found.
    pub(super) fn threads(&self) -> Result<(Watched, String), String> {
        waits_are_counted()?;
        let task = self.task.as_ref().map_err(Clone::clone)?;
        let place = format!("/proc/{}/task", self.id);
        let again = || directory(task, ".").map_err(|error| reason(place.as_ref(), error));
        let listing = Listing::Process {
            task: again()?,
            total: 0,
        };
        let watched = Watched::new(listing, again()?);
        if watched.is_empty() {
            return Err(format!("no thread below {place} could be read"));
        }
        Ok((watched, format!("schedstat of the threads below {place}")))
    }
}

/// Uses the C library: rustix uses the vDSO, which does not exist under valgrind.
fn clock(id: ClockId) -> Option<Duration> {
    clock_gettime(id).ok().map(Duration::from)
}

fn task(path: &Path) -> Result<OwnedFd, String> {
    directory(CWD, path).map_err(|error| reason(path, error))
}

/// Checks that `/proc` shows the process ids of this process. It does not if it was mounted from
/// another namespace.
fn proc_is_ours() -> Result<(), String> {
    let link = std::fs::read_link("/proc/self").map_err(|error| format!("/proc/self: {error}"))?;
    if link == Path::new(&std::process::id().to_string()) {
        return Ok(());
    }
    Err(format!(
        "/proc is of another namespace of process ids: this process is {} there",
        link.display()
    ))
}

/// Checks that the kernel counts how long threads wait. At least one thread of this process has
/// run, so this process would have a count.
pub(super) fn waits_are_counted() -> Result<(), String> {
    proc_is_ours()?;
    let (_, run) = kept("/proc/self/schedstat".as_ref(), schedstat).map_err(|reason| {
        format!("{reason}; a kernel without CONFIG_SCHEDSTATS and CONFIG_TASK_DELAY_ACCT has none")
    })?;
    if run == Run::default() {
        return Err(
            "/proc/self/schedstat has only zeros; kernels before 5.14 count with CONFIG_SCHEDSTATS, or with delayacct at boot"
                .to_owned(),
        );
    }
    Ok(())
}
