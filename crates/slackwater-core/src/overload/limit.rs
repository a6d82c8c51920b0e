//! How many queries an application works on at a time: a number that is said, or one that is
//! learned.

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
    /// Always so many.
    pub const fn fixed(limit: NonZeroU32) -> Self {
        Self(Kind::Fixed(limit.get()))
    }

    /// As many as latencies show to be of use.
    pub fn gradient(config: GradientConfig) -> Self {
        Self(Kind::Gradient(Gradient::new(config)))
    }

    /// How many, now.
    pub fn limit(&self) -> u32 {
        match &self.0 {
            Kind::Fixed(limit) => *limit,
            Kind::Gradient(gradient) => gradient.limit(),
        }
    }

    /// The latency without any wait, as far as it has been learned.
    pub fn least_latency(&self) -> Option<Duration> {
        match &self.0 {
            Kind::Fixed(_) => None,
            Kind::Gradient(gradient) => gradient.least(),
        }
    }

    /// A query is started; with it, `rif` are in flight.
    pub fn start(&mut self, now: Instant, rif: u32) {
        if let Kind::Gradient(gradient) = &mut self.0 {
            gradient.start(now, rif);
        }
    }

    /// A query that was started at `started_at` has been answered, or has ended in another way: to
    /// be called once for each, when the head of its answer is ready.
    pub fn finish(&mut self, now: Instant, started_at: Instant, end: End) {
        if let Kind::Gradient(gradient) = &mut self.0 {
            gradient.finish(now, started_at, end);
        }
    }
}
