//! What a process that stands before a replica tells of that one: what it answers to probes, and
//! the queue before it.

use super::super::status::{LoadStatus, QueueStatus};
use super::family::Family;
use super::metric::Label;
use super::scrape::Scrape;
use super::text::Samples;
use slackwater_core::tracker::CapacitySource;

fn of_queue(it: &Scrape<'_>, out: &mut Samples<'_>, value: fn(&QueueStatus) -> u64) {
    if let Some(queue) = &it.status.own_queue {
        out.count(&[], value(queue));
    }
}

fn of_load(it: &Scrape<'_>, out: &mut Samples<'_>, value: fn(&LoadStatus) -> Option<f64>) {
    if let Some(value) = it.status.own_load.as_ref().and_then(value) {
        out.number(&[], value);
    }
}

pub(super) const FAMILIES: &[Family] = &[
    Family::gauge(
        "slackwater_own_rif_requests",
        "Where this process answers probes: requests in flight, as it answers.",
        &[],
        |it: &Scrape<'_>, out| {
            if let Some(load) = &it.status.own_load {
                out.count(&[], load.rif.into());
            }
        },
    ),
    Family::gauge(
        "slackwater_own_latency_seconds",
        "Estimated latency, as answered to probes; absent while unknown.",
        &[],
        |it, out| of_load(it, out, |load| Some(load.latency_us? as f64 / 1e6)),
    ),
    Family::gauge(
        "slackwater_own_capacity_requests",
        "Requests in flight that the server can carry, as answered to probes; absent while unknown.",
        &[],
        |it, out| {
            of_load(it, out, |load| {
                Some(f64::from(load.capacity_millirif?) / 1e3)
            });
        },
    ),
    Family::gauge(
        "slackwater_own_capacity_source",
        "1 of what told that capacity; absent while none is known.",
        &[Label {
            name: "source",
            meaning: "`waits`: how long the server's threads wait for a CPU; `latency`: how it grows with requests in flight; \
                      `cores`: no more than those that it may use can carry",
        }],
        |it, out| {
            let load = it.status.own_load.as_ref();
            if let Some(known) = load.and_then(|load| load.capacity_source.as_deref()) {
                for source in CapacitySource::ALL.map(CapacitySource::as_str) {
                    out.count(&[source], (source == known).into());
                }
            }
        },
    ),
    Family::gauge(
        "slackwater_own_cost_seconds",
        "What a request costs the server, as answered to probes: CPU time, or the latency without others where nobody tells of the CPU; absent while unknown.",
        &[],
        |it, out| of_load(it, out, |load| Some(load.cost_us? as f64 / 1e6)),
    ),
    Family::gauge(
        "slackwater_own_cpu_ratio",
        "CPU in use, of what the server may use, over the last 10 s, as answered to probes; absent where it is not told.",
        &[],
        |it, out| of_load(it, out, |load| Some(f64::from(load.cpu_millionths?) / 1e6)),
    ),
    Family::gauge(
        "slackwater_own_draining",
        "1 if probes are told to stay away.",
        &[],
        |it, out| {
            if let Some(load) = &it.status.own_load {
                out.count(&[], load.draining.into());
            }
        },
    ),
    Family::gauge(
        "slackwater_own_limit_requests",
        "An agent's queue: requests that its server may have at a time.",
        &[],
        |it, out| of_queue(it, out, |queue| queue.limit.into()),
    ),
    Family::gauge(
        "slackwater_own_started_requests",
        "An agent's queue: requests that its server has.",
        &[],
        |it, out| of_queue(it, out, |queue| queue.rif.into()),
    ),
    Family::gauge(
        "slackwater_own_waiting_requests",
        "An agent's queue: requests that wait for their turn.",
        &[Label {
            name: "priority",
            meaning: "`interactive`, `batch` or `shadow`",
        }],
        |it, out| {
            let queue = it.status.own_queue.iter();
            for (priority, waiting) in queue.flat_map(|queue| &queue.waiting) {
                out.count(&[priority], (*waiting).into());
            }
        },
    ),
    Family::gauge(
        "slackwater_own_waiting_age_seconds",
        "An agent's queue: for how long the oldest request has waited.",
        &[],
        |it, out| {
            if let Some(queue) = &it.status.own_queue {
                out.number(&[], queue.age_us as f64 / 1e6);
            }
        },
    ),
    Family::histogram(
        "slackwater_own_wait_seconds",
        "An agent's queue: how long requests waited, of those that had to; however that ended.",
        &[],
        |it, out| {
            if it.status.own_queue.is_some() {
                out.latencies(&[], &it.own_waits, None);
            }
        },
    ),
    Family::counter(
        "slackwater_own_queued",
        "An agent's queue: requests that had to wait.",
        &[],
        |it, out| of_queue(it, out, |queue| queue.queued),
    ),
    Family::counter(
        "slackwater_own_shed",
        "An agent's queue: requests turned away unstarted.",
        &[Label {
            name: "reason",
            meaning: "`full`, `deadline`, `wait_over`, `overloaded` or `twin_started`, as \
                      [`own_queue.shed`](admin.md#get-status) has them",
        }],
        |it, out| {
            let queue = it.status.own_queue.iter();
            for (reason, count) in queue.flat_map(|queue| &queue.shed) {
                out.count(&[reason], *count);
            }
        },
    ),
    Family::counter(
        "slackwater_own_ties",
        "An agent's tied requests: what happened to those with a copy at another replica.",
        &[Label {
            name: "event",
            meaning: "`dropped`, `doubled`, `untied`, `told`, `untold` or `strange`, as [`own_ties`](admin.md#get-status) has \
                      them",
        }],
        |it, out| {
            if let Some(ties) = &it.status.own_ties {
                for (event, count) in [
                    ("dropped", ties.dropped),
                    ("doubled", ties.doubled),
                    ("untied", ties.untied),
                    ("told", ties.told),
                    ("untold", ties.untold),
                    ("strange", ties.strange),
                ] {
                    out.count(&[event], count);
                }
            }
        },
    ),
];
