//! What each worker knows by itself.

use super::super::status::{Status, WorkerStatus};
use super::Families;
use core::fmt;

impl Families<'_> {
    pub(super) fn workers(&mut self, status: &Status) -> fmt::Result {
        let workers = || status.workers.iter();
        let named = |worker: &WorkerStatus| {
            vec![
                ("service", worker.service.clone()),
                ("worker", worker.worker.to_string()),
            ]
        };
        self.gauges(
            "pool_reports",
            "Reports in the worker's pool.",
            workers().map(|worker| (named(worker), worker.pool.len() as u64)),
        )?;
        self.gauges(
            "pool_hot_reports",
            "Reports in the worker's pool whose RIF has reached the limit.",
            workers().map(|worker| {
                let hot = worker.pool.iter().filter(|report| report.hot).count();
                (named(worker), hot as u64)
            }),
        )?;
        self.gauges(
            "rif_limit_requests",
            "The RIF from which a report counts as hot; absent where nothing does.",
            workers().filter_map(|worker| Some((named(worker), u64::from(worker.rif_limit?)))),
        )
    }
}
