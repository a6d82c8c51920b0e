//! CPU time of processes and of the machine, as the kernel counts it.

use core::time::Duration;
use rustix::param::clock_ticks_per_second;
use rustix::process::Pid;
use std::fs;

/// CPU time of a process since its start, in steps of 10 ms; zero if it has ended.
pub(super) fn of_process(process: Pid) -> Duration {
    let file = format!("/proc/{}/stat", process.as_raw_pid());
    let text = fs::read_to_string(file).unwrap_or_default();
    ticks(process_ticks(&text).unwrap_or_default())
}

/// CPU time of all cores and all users since the machine's start.
pub(super) fn of_machine() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    ticks(machine_ticks(&text).unwrap_or_default())
}

/// Number of cores.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
}

/// User and kernel time. The second field, the name, may contain anything, even spaces and
/// brackets.
fn process_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    // The third field of the line is the first of these; utime is the fourteenth, stime the next.
    let mut fields = fields.split(' ').skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

/// All times except idle and iowait, and without guest time, which is already part of user time.
fn machine_ticks(stat: &str) -> Option<u64> {
    let fields = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace();
    let fields: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = fields[..] else {
        return None;
    };
    Some(user + nice + system + irq + softirq + steal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ticks_are_parsed_from_proc_stat() {
        let stat = "12 (a ) b) S 1 12 12 0 -1 4194560 100 0 0 0 250 50 7 8 20 0 1 0 5 6 7";
        assert_eq!(process_ticks(stat), Some(300));
        assert_eq!(process_ticks(""), None);
        let stat =
            "cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(machine_ticks(stat), Some(87_600_321));
        assert_eq!(machine_ticks("intr 5\n"), None);
    }

    #[test]
    fn ended_process_has_used_no_cpu() {
        let this = rustix::process::getpid();
        let begun = of_process(this);
        while of_process(this) == begun {}
        let gone = Pid::from_raw(i32::MAX).unwrap();
        assert_eq!(of_process(gone), Duration::ZERO);
    }
}
