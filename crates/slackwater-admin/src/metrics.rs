//! The status as metrics, in the text format of Prometheus or of `OpenMetrics`.
//!
//! Each metric is defined once, as a [`Family`](family::Family): its name, type, labels, meaning,
//! and the source of its samples. All of them form the [registry](families), from which
//! `docs/reference/metrics.md` is generated, too. One scrape reads the facts of one moment, so
//! `/metrics` and `/status` never disagree.
//!
//! Names are stable, contain their unit, and end in `_total` if they only rise. Labels are bounded:
//! services of the configuration, a limited number of replicas, workers, and fixed lists of
//! reasons.

mod family;
mod folding;
mod metric;
mod own;
mod own_process;
mod policy;
mod process;
mod registry;
mod replica;
mod scrape;
mod service;
mod standing;
mod system;
mod text;
mod workers;

use super::reply::{Reply, reply};
use super::status::Status;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use http::{HeaderMap, StatusCode};
use slackwater_telemetry::facts::Facts;
use std::sync::{Mutex, PoisonError};

pub(super) use folding::Folding;
pub(super) use registry::families;
pub(super) use scrape::Scrape;
pub(super) use text::Format;
#[cfg(test)]
pub(super) use {family::Family, metric::Kind, registry::SUBJECTS};

/// Answers requests for metrics.
#[derive(Debug)]
pub(super) struct Metrics {
    folding: Mutex<Folding>,
    /// Whether the log has mentioned that there are more replicas.
    is_logged: AtomicBool,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            folding: Mutex::new(Folding::new(1_000)),
            is_logged: AtomicBool::new(false),
        }
    }
}

impl Metrics {
    /// Sets how many replicas have their own series.
    pub(super) fn set_replicas_max(&self, replicas_max: u32) {
        let mut folding = self.folding.lock().unwrap_or_else(PoisonError::into_inner);
        folding.set_replicas_max(replicas_max as usize);
    }

    /// Returns the metrics at one moment, in the format that `headers` request.
    pub(super) fn reply(&self, facts: &Facts, status: &Status, headers: &HeaderMap) -> Reply {
        let format = Format::preferred(headers);
        let mut folding = self.folding.lock().unwrap_or_else(PoisonError::into_inner);
        let scrape = Scrape::new(facts, status, &mut folding);
        drop(folding);
        if scrape.folded() > 0 && !self.is_logged.swap(true, Relaxed) {
            tracing::warn!(
                replicas = scrape.folded(),
                "replicas without series of their own: more than admin.metrics_replicas_max"
            );
        }
        reply(
            StatusCode::OK,
            format.content_type(),
            render(&scrape, format),
        )
    }
}

/// The metrics at one moment.
pub(super) fn render(scrape: &Scrape<'_>, format: Format) -> String {
    let mut text = String::new();
    for family in families() {
        family::write_family(&mut text, format, family, scrape);
    }
    text::end(&mut text, format);
    text
}
