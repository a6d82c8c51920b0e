//! Resource usage of a process: CPU time to the nanosecond, memory, open files.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use nix::time::{ClockId, clock_gettime};
use rustix::process::Pid;
use std::fs;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Polling interval of memory.
const LOOK: Duration = Duration::from_millis(20);

/// CPU time of all threads of a process since its start, including running ones; zero if it has
/// ended.
pub(super) fn cpu_time(process: Pid) -> Duration {
    let pid = nix::unistd::Pid::from_raw(process.as_raw_pid());
    ClockId::pid_cpu_clock_id(pid)
        .and_then(clock_gettime)
        .map_or(Duration::ZERO, Duration::from)
}

/// Resident memory of a process in KiB; zero if it has ended.
pub(super) fn resident_kib(process: Pid) -> u64 {
    let file = format!("/proc/{}/status", process.as_raw_pid());
    let status = fs::read_to_string(file).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

/// Number of open files of a process.
pub(super) fn open_files(process: Pid) -> usize {
    let folder = format!("/proc/{}/fd", process.as_raw_pid());
    fs::read_dir(folder).map_or(0, Iterator::count)
}

/// KiB as MiB, for people.
pub(super) fn mib(kib: u64) -> String {
    format!("{} MiB", kib / 1024)
}

/// The maximum memory of a process since the watch started.
#[derive(Debug)]
pub(super) struct Watch {
    most: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(process: Pid) -> Self {
        let (most, ended) = (
            Arc::new(AtomicU64::new(resident_kib(process))),
            Arc::new(AtomicBool::new(false)),
        );
        let (seen, is_over) = (Arc::clone(&most), Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                seen.fetch_max(resident_kib(process), Ordering::Relaxed);
                std::thread::sleep(LOOK);
            }
        });
        Self {
            most,
            ended,
            thread: Some(thread),
        }
    }

    /// The maximum so far, in KiB.
    pub(super) fn most_kib(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread does nothing that could panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_process_uses_no_resources() {
        let this = rustix::process::getpid();
        assert!(cpu_time(this) > Duration::ZERO);
        assert!(open_files(this) > 2);
        let watch = Watch::start(this);
        assert!(watch.most_kib() > 1_000);
        // Larger than every process id, and small enough for the id of its clock.
        let gone = Pid::from_raw(1 << 27).unwrap();
        assert_eq!((cpu_time(gone), resident_kib(gone)), (Duration::ZERO, 0));
    }
}
