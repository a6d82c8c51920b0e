//! What each worker knows by itself, and what the process answers to probes.

use super::super::status::{Status, WorkerStatus};
use super::{Families, Labels};
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

    pub(super) fn own_load(&mut self, status: &Status) -> fmt::Result {
        let Some(load) = &status.own_load else {
            return Ok(());
        };
        let rif = [(Labels::new(), u64::from(load.rif))];
        self.gauges(
            "own_rif_requests",
            "Requests in flight, as answered to probes.",
            rif,
        )?;
        let draining = [(Labels::new(), u64::from(load.draining))];
        self.gauges(
            "own_draining",
            "1 if probes are told to stay away.",
            draining,
        )?;
        match load.latency_us {
            None => Ok(()),
            Some(latency_us) => self.seconds(
                "own_latency",
                "Estimated latency, as answered to probes; absent while unknown.",
                latency_us as f64 / 1e6,
            ),
        }
    }
}
