//! Metrics of an agent: its answer to probes, and the queue before its server.

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
        "Requests in flight, as answered to probes.",
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
        "Capacity in requests in flight, as answered to probes; absent while unknown.",
        &[],
        |it, out| {
            of_load(it, out, |load| {
                Some(f64::from(load.capacity_millirif?) / 1e3)
            });
        },
    ),
    Family::gauge(
        "slackwater_own_capacity_source",
        "1 for the origin of that capacity; absent while unknown.",
        &[Label {
            name: "source",
            meaning: "`waits`: threads waiting for a CPU; `latency`; `cores`: limit of the available \
                  cores",
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
        "Cost of a request, as answered to probes; absent while unknown.",
        &[],
        |it, out| of_load(it, out, |load| Some(load.cost_us? as f64 / 1e6)),
    ),
    Family::gauge(
        "slackwater_own_cpu_ratio",
        "Share of the available CPU in use over 10 s; absent while unknown.",
        &[],
        |it, out| of_load(it, out, |load| Some(f64::from(load.cpu_millionths?) / 1e6)),
    ),
    Family::gauge(
        "slackwater_own_draining",
        "1 if probes are answered with `draining`.",
        &[],
        |it, out| {
            if let Some(load) = &it.status.own_load {
                out.count(&[], load.draining.into());
            }
        },
    ),
    Family::gauge(
        "slackwater_own_limit_requests",
        "Agent's queue: requests that the server may have at a time.",
        &[],
        |it, out| of_queue(it, out, |queue| queue.limit.into()),
    ),
    Family::gauge(
        "slackwater_own_started_requests",
        "Agent's queue: requests that the server has.",
        &[],
        |it, out| of_queue(it, out, |queue| queue.rif.into()),
    ),
    Family::gauge(
        "slackwater_own_waiting_requests",
        "Agent's queue: waiting requests.",
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
        "Agent's queue: age of the oldest waiting request.",
        &[],
        |it, out| {
            if let Some(queue) = &it.status.own_queue {
                out.number(&[], queue.age_us as f64 / 1e6);
            }
        },
    ),
    Family::histogram(
        "slackwater_own_wait_seconds",
        "Agent's queue: waiting time of requests that had to wait.",
        &[],
        |it, out| {
            if it.status.own_queue.is_some() {
                out.latencies(&[], &it.own_waits, None);
            }
        },
    ),
    Family::counter(
        "slackwater_own_queued",
        "Agent's queue: requests that had to wait.",
        &[],
        |it, out| of_queue(it, out, |queue| queue.queued),
    ),
    Family::counter(
        "slackwater_own_shed",
        "Agent's queue: requests shed.",
        &[Label {
            name: "reason",
            meaning: "as [`own_queue.shed`](admin.md#an-agent)",
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
        "Agent's tied requests, by event.",
        &[Label {
            name: "event",
            meaning: "as [`own_ties`](admin.md#an-agent)",
        }],
        |it, out| {
            if let Some(ties) = &it.status.own_ties {
                for (event, count) in [
                    ("dropped", ties.dropped),
                    ("doubled", ties.doubled),
                    ("untied", ties.untied),
                    ("notified", ties.notified),
                    ("unnotified", ties.unnotified),
                    ("strange", ties.strange),
                ] {
                    out.count(&[event], count);
                }
            }
        },
    ),
    Family::gauge(
        "slackwater_own_hint_entries",
        "Agent's hints: answered ones in memory.",
        &[],
        |it, out| {
            if let Some(hints) = &it.status.own_hints {
                out.count(&[], hints.entries);
            }
        },
    ),
    Family::counter(
        "slackwater_own_hint_probes",
        "Agent's hints: probes with a hint.",
        &[Label {
            name: "result",
            meaning: "`hit`: the hint was in memory; `miss`",
        }],
        |it, out| {
            if let Some(hints) = &it.status.own_hints {
                out.count(&["hit"], hints.hits);
                out.count(&["miss"], hints.misses);
            }
        },
    ),
];
