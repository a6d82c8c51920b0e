//! Metrics of each worker: its pool, its limit of hot reports, and its rate of probes.

use super::super::status::WorkerStatus;
use super::family::Family;
use super::metric::{Label, OF_WORKER, SERVICE, WORKER};
use super::scrape::Scrape;
use super::text::Samples;

fn each(it: &Scrape<'_>, out: &mut Samples<'_>, value: fn(&WorkerStatus) -> Option<u64>) {
    for worker in &it.status.workers {
        if let Some(value) = value(worker) {
            out.count(&[&worker.service, &worker.worker.to_string()], value);
        }
    }
}

fn probe_rates(it: &Scrape<'_>, out: &mut Samples<'_>) {
    for worker in &it.status.workers {
        if let Some(millionths) = worker.probe_rate_millionths {
            let labels = [worker.service.as_str(), &worker.worker.to_string()];
            out.number(&labels, f64::from(millionths) / 1e6);
        }
    }
}

fn ages(it: &Scrape<'_>, out: &mut Samples<'_>) {
    for worker in &it.status.workers {
        let mut ages_ms: Vec<_> = worker.pool.iter().map(|report| report.age_ms).collect();
        ages_ms.sort_unstable();
        let number = worker.worker.to_string();
        for (which, place) in [
            ("youngest", 0),
            ("median", ages_ms.len() / 2),
            ("oldest", ages_ms.len()),
        ] {
            let last = ages_ms.len().saturating_sub(1);
            if let Some(age_ms) = ages_ms.get(place.min(last)) {
                let labels = [worker.service.as_str(), number.as_str(), which];
                out.number(&labels, *age_ms as f64 / 1e3);
            }
        }
    }
}

pub(super) const FAMILIES: &[Family] = &[
    Family::gauge(
        "slackwater_pool_reports",
        "Reports in the worker's pool.",
        OF_WORKER,
        |it: &Scrape<'_>, out| each(it, out, |worker| Some(worker.pool.len() as u64)),
    ),
    Family::gauge(
        "slackwater_pool_hot_reports",
        "Hot reports in the worker's pool.",
        OF_WORKER,
        |it, out| {
            each(it, out, |worker| {
                Some(worker.pool.iter().filter(|report| report.hot).count() as u64)
            });
        },
    ),
    Family::gauge(
        "slackwater_pool_report_age_seconds",
        "Age of the reports in the worker's pool; absent while empty.",
        &[
            SERVICE,
            WORKER,
            Label {
                name: "report",
                meaning: "`youngest`, `median` or `oldest`",
            },
        ],
        ages,
    ),
    Family::gauge(
        "slackwater_rif_limit_requests",
        "Requests in flight from which a report is hot; absent if none is.",
        OF_WORKER,
        |it, out| each(it, out, |worker| worker.rif_limit.map(u64::from)),
    ),
    Family::gauge(
        "slackwater_probe_rate",
        "Probes that a request triggers now; absent if requests trigger none.",
        OF_WORKER,
        probe_rates,
    ),
];
