//! `[queue]`: how many requests a service works on at once, and how many wait.

use crate::table::{HOUR, Number, Or, SECOND, Span, Within, settings};
use core::time::Duration;

/// Upper bound of both settings.
const MOST: u32 = 1 << 20;

settings! {
    /// How many requests a service works on at once, and how many wait.
    pub struct QueueSettings in "queue" {
        /// Requests in flight of the service, over all workers. Each worker has its share, at least
        /// 1.
        requests_max: Option<u32> = None, Or("none", Within(Number, 1..=MOST));
        /// Requests that wait for a permit, over all workers. 0: none.
        waiting_max: u32 = 1024, Within(Number, 0..=MOST);
        /// Longest wait for a permit. 0: none.
        wait_max: Duration = SECOND,
            Within(Span, Duration::ZERO..=HOUR);
    }
}
