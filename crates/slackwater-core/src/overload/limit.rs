//! How many queries an application processes at a time: a fixed number, or a learned one.

use super::gradient::{Gradient, GradientConfig};
use crate::time::Instant;
use crate::tracker::End;
use core::num::NonZeroU32;
use core::time::Duration;

/// How many queries may be in flight at a time.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Fixed(u32),
    Gradient(Gradient),
}

impl ConcurrencyLimit {
    /// A fixed limit.
    pub const fn fixed(limit: NonZeroU32) -> Self {
        Self(Kind::Fixed(limit.get()))
    }

    /// A limit that is learned from latencies.
    pub fn gradient(config: GradientConfig) -> Self {
        Self(Kind::Gradient(Gradient::new(config)))
    }

    /// The current limit.
    pub fn limit(&self) -> u32 {
        match &self.0 {
            Kind::Fixed(limit) => *limit,
            Kind::Gradient(gradient) => gradient.limit(),
        }
    }

    /// Whether one more query may start, beside `rif` in flight, `unanswered` of which wait for the
    /// heads of their responses.
    pub fn has_room(&self, rif: u32, unanswered: u32) -> bool {
        match &self.0 {
            Kind::Fixed(limit) => rif < *limit,
            Kind::Gradient(gradient) => gradient.has_room(rif, unanswered),
        }
    }

    /// The latency without any wait, if it has been learned.
    pub fn least_latency(&self) -> Option<Duration> {
        match &self.0 {
            Kind::Fixed(_) => None,
            Kind::Gradient(gradient) => gradient.least(),
        }
    }

    /// Notes that a query is started. It is included in `rif`.
    pub fn start(&mut self, now: Instant, rif: u32) {
        if let Kind::Gradient(gradient) = &mut self.0 {
            gradient.start(now, rif);
        }
    }

    /// Notes that a query has been answered, or has ended in another way. Call it once for each
    /// query, when the head of its response is ready.
    pub fn finish(&mut self, now: Instant, started_at: Instant, end: End) {
        if let Kind::Gradient(gradient) = &mut self.0 {
            gradient.finish(now, started_at, end);
        }
    }
}
