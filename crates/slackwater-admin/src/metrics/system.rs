//! The process as its system sees it, under the names that all exporters of Prometheus use. It is
//! read from `/proc`; on systems without it there are no samples.

use super::family::Family;
use super::metric::Label;
use super::scrape::Scrape;
use super::text::Samples;

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
