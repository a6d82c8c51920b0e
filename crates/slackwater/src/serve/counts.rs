//! What a worker counts of clients who did not get as far as a request.

use crate::forward::{ConnectionCounts, Count, UnreadableCounts};
use std::sync::Arc;

/// One worker's counts.
#[derive(Clone, Debug, Default)]
pub(super) struct DoorCounts {
    /// Connections closed for want of a PROXY header.
    pub(super) proxy_headers_refused: Arc<Count>,
    pub(super) connections: Arc<ConnectionCounts>,
    pub(super) unreadable: Arc<UnreadableCounts>,
}
