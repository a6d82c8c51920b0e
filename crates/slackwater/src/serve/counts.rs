//! What a worker counts of clients who did not get as far as a service.

use crate::forward::{ConnectionCounts, Count, UnreadableCounts};
use slackwater_telemetry::facts::UnroutedFacts;
use std::sync::Arc;

/// One worker's counts.
#[derive(Clone, Debug, Default)]
pub(super) struct DoorCounts {
    /// Connections closed for want of a PROXY header.
    pub(super) proxy_headers_refused: Arc<Count>,
    pub(super) connections: Arc<ConnectionCounts>,
    pub(super) unreadable: Arc<UnreadableCounts>,
    pub(super) unrouted: Arc<UnroutedCounts>,
}

/// Requests that no service had; the meaning of each is in [`UnroutedFacts`].
#[derive(Debug, Default)]
pub(super) struct UnroutedCounts {
    pub(super) no_route: Count,
    pub(super) doubtful_path: Count,
    pub(super) refused: Count,
    pub(super) redirected: Count,
    pub(super) responded: Count,
}

impl UnroutedCounts {
    /// Of all workers.
    pub(super) fn sum<'c>(workers: impl Iterator<Item = &'c Self>) -> UnroutedFacts {
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
