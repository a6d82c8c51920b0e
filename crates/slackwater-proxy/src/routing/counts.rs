//! A worker's counts of clients and requests that did not reach a service.

use crate::forward::{ConnectionCounts, Count, UnreadableCounts};
use slackwater_telemetry::facts::UnroutedFacts;
use std::sync::Arc;

/// One worker's counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerCounts {
    /// Connections closed because a valid PROXY header was missing.
    pub(crate) proxy_headers_refused: Arc<Count>,
    pub(crate) connections: Arc<ConnectionCounts>,
    pub(crate) unreadable: Arc<UnreadableCounts>,
    pub(crate) unrouted: Arc<UnroutedCounts>,
}

/// Requests that reached no service; [`UnroutedFacts`] explains each count.
#[derive(Debug, Default)]
pub(crate) struct UnroutedCounts {
    pub(crate) no_route: Count,
    pub(crate) doubtful_path: Count,
    pub(crate) refused: Count,
    pub(crate) redirected: Count,
    pub(crate) responded: Count,
}

impl UnroutedCounts {
    /// Sums the counts of all workers.
    pub(crate) fn sum<'c>(workers: impl Iterator<Item = &'c Self>) -> UnroutedFacts {
        let mut sum = UnroutedFacts::default();
        for worker in workers {
            sum += UnroutedFacts {
                no_route: worker.no_route.read(),
                doubtful_path: worker.doubtful_path.read(),
                refused: worker.refused.read(),
                redirected: worker.redirected.read(),
                responded: worker.responded.read(),
            };
        }
        sum
    }
}
