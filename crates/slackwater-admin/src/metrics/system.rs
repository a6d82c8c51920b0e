//! The process as its system sees it, under the names that all exporters of Prometheus use. Where a
//! system does not tell (it is read from `/proc`), there is nothing.

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
    meaning: "its name: `worker-0` and so on carry requests; threads of the same name are added up",
};

pub(super) const FAMILIES: &[Family] = &[
    Family::counter(
        "process_cpu_seconds",
        "CPU time of the process, in user and in system mode.",
        &[],
        |it: &Scrape<'_>, out| number(out, it.system.stat.map(|stat| stat.cpu_s)),
    ),
    Family::gauge(
        "process_start_time_seconds",
        "When the process began, as seconds from 1970 on.",
        &[],
        |it, out| number(out, it.system.started_at_s),
    ),
    Family::gauge(
        "process_resident_memory_bytes",
        "Memory that the process has in use.",
        &[],
        |it, out| count(out, it.system.resident_bytes),
    ),
    Family::gauge(
        "process_virtual_memory_bytes",
        "Addresses that the process has in use.",
        &[],
        |it, out| count(out, it.system.stat.map(|stat| stat.virtual_bytes)),
    ),
    Family::gauge(
        "process_open_fds",
        "File descriptors that are open.",
        &[],
        |it, out| count(out, it.system.open_fds),
    ),
    Family::gauge(
        "process_max_fds",
        "File descriptors that may be open; absent where there is no limit.",
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
        "CPU time of threads: a worker whose rate comes near 1 has no room left.",
        &[THREAD],
        |it, out| {
            for (name, cpu_s) in &it.system.threads_s {
                out.number(&[name], *cpu_s);
            }
        },
    ),
];
