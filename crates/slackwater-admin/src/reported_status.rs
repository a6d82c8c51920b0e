//! The last report of a replica in `/status`.

use serde::{Deserialize, Serialize};
use slackwater_core::report::Reported;

/// A replica's last report, from the worker that received the newest one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct ReportedStatus {
    pub(crate) rif: u32,
    pub(crate) latency_us: Option<u64>,
    pub(crate) capacity_millirif: Option<u32>,
    pub(crate) cost_us: Option<u64>,
    pub(crate) age_ms: u64,
}

impl From<&Reported> for ReportedStatus {
    fn from(reported: &Reported) -> Self {
        Self {
            rif: reported.rif.count(),
            latency_us: reported.latency.map(|latency| whole(latency.as_micros())),
            capacity_millirif: reported.capacity_millirif,
            cost_us: reported.cost.map(|cost| whole(cost.as_micros())),
            age_ms: whole(reported.age.as_millis()),
        }
    }
}

pub(crate) fn whole(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
