//! `[queue]`: how many requests a service works on at once, and how many wait.

use crate::table::{HOUR, Number, Or, SECOND, Span, Within, settings};
use core::time::Duration;

/// The most requests that work or wait.
const MOST: u32 = 1 << 20;

settings! {
    /// How many requests a service works on at once, and how many wait.
    pub struct QueueSettings in "queue" {
        /// Requests in flight in the service, over all workers. Each worker has its share, rounded
        /// so that they add up, and at least 1.
        requests_max: Option<u32> = None, Or("none", Within(Number, 1..=MOST));
        /// Requests that wait for a place, over all workers; each has its share. 0: nobody waits.
        waiting_max: u32 = 1024, Within(Number, 0..=MOST);
        /// For which a request waits for a place. 0: nobody waits.
        wait_max: Duration = SECOND,
            Within(Span, Duration::ZERO..=HOUR);
    }
}
