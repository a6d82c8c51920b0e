//! The system's figures about this process, read from `/proc`; empty where there is none.

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;
use std::fs;

/// The system's figures about this process.
#[derive(Debug, Default)]
pub(super) struct System {
    pub(super) stat: Option<Stat>,
    pub(super) started_at_s: Option<f64>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_fds: Option<u64>,
    pub(super) max_fds: Option<u64>,
    /// CPU time by thread name.
    pub(super) threads_s: BTreeMap<String, f64>,
}

/// Fields of `/proc/…/stat`, of a process or of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stat {
    pub(super) cpu_s: f64,
    pub(super) threads: u64,
    started_ticks: u64,
    pub(super) virtual_bytes: u64,
}

impl System {
    /// Reads a few files, including one for each thread.
    pub(super) fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok();
        let stat = read("/proc/self/stat").and_then(|text| Stat::parse(&text));
        let boot_s = read("/proc/stat").and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("btime "));
            line?.parse::<f64>().ok()
        });
        let ticks = clock_ticks_per_second() as f64;
        let resident = read("/proc/self/statm");
        let resident = resident.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        // Reading the directory opens one more descriptor.
        let open = fs::read_dir("/proc/self/fd").ok();
        let open = open.map(|fds| (fds.count() as u64).saturating_sub(1));
        Self {
            stat,
            started_at_s: boot_s
                .zip(stat)
                .map(|(boot_s, stat)| boot_s + stat.started_ticks as f64 / ticks),
            resident_bytes: resident.map(|pages| pages * page_size() as u64),
            open_fds: open,
            max_fds: getrlimit(Resource::Nofile).current,
            threads_s: threads(),
        }
    }
}

/// CPU time of all threads by their names; threads of the same name are added up.
fn threads() -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    let tasks = fs::read_dir("/proc/self/task").ok();
    for task in tasks.into_iter().flatten().filter_map(Result::ok) {
        // The thread may have ended meanwhile.
        let stat = fs::read_to_string(task.path().join("stat")).ok();
        if let Some((name, stat)) = stat.as_deref().and_then(|it| name(it).zip(Stat::parse(it))) {
            *sums.entry(name.to_owned()).or_default() += stat.cpu_s;
        }
    }
    sums
}

/// The name is in parentheses, and may contain parentheses itself.
fn name(stat: &str) -> Option<&str> {
    stat.get(stat.find('(')? + 1..stat.rfind(')')?)
}

impl Stat {
    fn parse(stat: &str) -> Option<Self> {
        let rest = stat.get(stat.rfind(')')? + 2..)?;
        let fields: Vec<_> = rest.split_ascii_whitespace().collect();
        // `fields` begins with the third field of proc(5).
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = clock_ticks_per_second() as f64;
        Some(Self {
            cpu_s: (field(14)? + field(15)?) as f64 / ticks,
            threads: field(20)?,
            started_ticks: field(22)?,
            virtual_bytes: field(23)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_may_have_parentheses_and_spaces() {
        let stat = "7 (a) (b c) S 1 1 1 0 -1 4 5 6 7 8 150 50 0 0 20 0 3 0 777 4096 9 18446744073709551615";
        assert_eq!(name(stat), Some("a) (b c"));
        let ticks = clock_ticks_per_second() as f64;
        let expected = Stat {
            cpu_s: 200.0 / ticks,
            threads: 3,
            started_ticks: 777,
            virtual_bytes: 4096,
        };
        assert_eq!(Stat::parse(stat), Some(expected));
        assert_eq!(Stat::parse("7 (a) S 1"), None);
    }
}
