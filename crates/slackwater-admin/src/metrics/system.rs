//! The process as its system sees it, under the names that all exporters of Prometheus use. Where a
//! system does not tell (it is read from `/proc`), there is nothing.

use super::registry::{Family, Label};
use super::scrape::Scrape;
use super::text::Samples;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;
use std::fs;

/// What the system says of this process.
#[derive(Debug, Default)]
pub(super) struct System {
    stat: Option<Stat>,
    started_at_s: Option<f64>,
    resident_bytes: Option<u64>,
    open_fds: Option<u64>,
    max_fds: Option<u64>,
    /// CPU time by the names of threads.
    threads_s: BTreeMap<String, f64>,
}

/// Of `/proc/…/stat`: of a process, or of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stat {
    cpu_s: f64,
    threads: u64,
    started_ticks: u64,
    virtual_bytes: u64,
}

impl System {
    /// Reads a few files, one of them for each thread.
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
        // Reading the directory opens one more.
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

/// CPU time of all threads by their names; threads of the same name together.
fn threads() -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    let tasks = fs::read_dir("/proc/self/task").ok();
    for task in tasks.into_iter().flatten().filter_map(Result::ok) {
        // A thread may end meanwhile.
        let stat = fs::read_to_string(task.path().join("stat")).ok();
        if let Some((name, stat)) = stat.as_deref().and_then(|it| name(it).zip(Stat::parse(it))) {
            *sums.entry(name.to_owned()).or_default() += stat.cpu_s;
        }
    }
    sums
}

/// It stands in parentheses, and may have some itself.
fn name(stat: &str) -> Option<&str> {
    stat.get(stat.find('(')? + 1..stat.rfind(')')?)
}

impl Stat {
    fn parse(stat: &str) -> Option<Self> {
        let rest = stat.get(stat.rfind(')')? + 2..)?;
        let fields: Vec<_> = rest.split_ascii_whitespace().collect();
        // The third of proc(5) is the first here.
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

fn number(samples: &mut Samples<'_>, value: Option<f64>) {
    if let Some(value) = value {
        samples.number(&[], value);
    }
}

fn count(samples: &mut Samples<'_>, value: Option<u64>) {
    if let Some(value) = value {
        samples.count(&[], value);
    }
}

const THREAD: Label = Label {
    name: "thread",
    meaning: "its name, `worker-0` and so on; equal names are added up",
};

pub(super) const FAMILIES: &[Family] = &[
    Family::counter(
        "process_cpu_seconds",
        "CPU time of the process, user and system.",
        &[],
        |it: &Scrape<'_>, out| number(out, it.system.stat.map(|stat| stat.cpu_s)),
    ),
    Family::gauge(
        "process_start_time_seconds",
        "Start of the process, since 1970.",
        &[],
        |it, out| number(out, it.system.started_at_s),
    ),
    Family::gauge(
        "process_resident_memory_bytes",
        "Resident memory.",
        &[],
        |it, out| count(out, it.system.resident_bytes),
    ),
    Family::gauge(
        "process_virtual_memory_bytes",
        "Virtual memory.",
        &[],
        |it, out| count(out, it.system.stat.map(|stat| stat.virtual_bytes)),
    ),
    Family::gauge(
        "process_open_fds",
        "Open file descriptors.",
        &[],
        |it, out| count(out, it.system.open_fds),
    ),
    Family::gauge(
        "process_max_fds",
        "Limit of open file descriptors; absent without a limit.",
        &[],
        |it, out| count(out, it.system.max_fds),
    ),
    Family::gauge(
        "process_threads",
        "Threads of the process.",
        &[],
        |it, out| {
            count(out, it.system.stat.map(|stat| stat.threads));
        },
    ),
    Family::counter(
        "slackwater_thread_cpu_seconds",
        "CPU time of threads; a worker near 1 is saturated.",
        &[THREAD],
        |it, out| {
            for (name, cpu_s) in &it.system.threads_s {
                out.number(&[name], *cpu_s);
            }
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_parentheses_and_spaces() {
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
