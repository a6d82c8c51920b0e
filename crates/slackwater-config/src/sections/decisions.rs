//! `[decisions]`: the requests whose decisions are recorded, and the number of records.

use super::request_id::LOGGED_FIELD;
use crate::table::{
    Any, Boolean, DAY, Maybe, Number, Or, Share, Span, Within, millionths, settings,
};
use core::time::Duration;
use http::HeaderName;
use slackwater_core::Quantile;

settings! {
    /// The requests whose decisions are recorded.
    pub struct DecisionSettings in "decisions" {
        /// Share of requests that are recorded, drawn at random.
        sample: Quantile = millionths(10_000), Any(Share), fixed;
        /// Records all requests that wait this long for the head of a response. Costs 9 % more CPU
        /// on each request ([measured](../../results/cost-of-seeing.md)).
        slower_than: Option<Duration> = None,
            Or("off", Within(Span, Duration::ZERO..=DAY)), fixed;
        /// Records requests that fail (status 500 and above, a gRPC server error, or a broken
        /// response). `true`: all, at the same cost. `"auto"`: up to 100 a second and worker, and
        /// all for 10 s after a failure.
        failed: Option<bool> = None, Or("auto", Boolean), fixed;
        /// Records every request with this header. Any client can send it.
        header: Option<HeaderName> = None, Maybe(LOGGED_FIELD), "", fixed;
        /// Records in memory, of 4 KiB on average, shared by the workers. The oldest are dropped.
        /// 0: none.
        capacity: u32 = 1_000, Within(Number, 0..=100_000), fixed;
    }
}

impl DecisionSettings {
    /// Returns whether any decision may be recorded.
    pub fn keeps_any(&self) -> bool {
        let is_drawn = self.sample > Quantile::ZERO;
        let is_kept =
            self.slower_than.is_some() || self.failed != Some(false) || self.header.is_some();
        self.capacity > 0 && (is_drawn || is_kept)
    }
}
