//! Which requests' decisions are kept, and how many.

use super::request_id::LOGGED_FIELD;
use crate::table::{
    Any, Boolean, DAY, Maybe, Number, Or, Share, Span, Within, millionths, settings,
};
use core::time::Duration;
use http::HeaderName;
use slackwater_core::Quantile;

settings! {
    /// Which requests' decisions are kept.
    pub struct DecisionSettings in "decisions" {
        /// The share of requests that is kept, drawn at random.
        sample: Quantile = millionths(10_000), Any(Share), fixed;
        /// Requests that wait so long or longer for the head of a response are kept, all of them;
        /// those without one by their end. As nobody knows beforehand which those are, each request
        /// is noted then: see [what it costs](decisions.md#what-it-costs).
        slower_than: Option<Duration> = None,
            Or("off", Within(Span, Duration::ZERO..=DAY)), fixed;
        /// Requests that fail (status 500 and above, a gRPC status that blames the server, or a
        /// response that broke off) are kept: with true all of them, at the same cost. With auto
        /// each worker notes up to 100 requests a second and, for 10 s after one that failed, all.
        failed: Option<bool> = None, Or("auto", Boolean), fixed;
        /// A request with this field is kept, whatever its value. Whoever can send requests can
        /// send it.
        header: Option<HeaderName> = None, Maybe(LOGGED_FIELD), "", fixed;
        /// Records in memory, shared out among the workers; the oldest give way. On average they
        /// may take 4 KiB each. 0: none.
        capacity: u32 = 1_000, Within(Number, 0..=100_000), fixed;
    }
}

impl DecisionSettings {
    /// Whether any request may be kept.
    pub fn keeps_any(&self) -> bool {
        let is_drawn = self.sample > Quantile::ZERO;
        let is_kept =
            self.slower_than.is_some() || self.failed != Some(false) || self.header.is_some();
        self.capacity > 0 && (is_drawn || is_kept)
    }
}
