//! When a client sends a second copy of a query: after a live quantile of its own latencies, paid from a budget.
//!
//! [The Tail at Scale, "Hedged requests"]: "defer sending a secondary request until the first request has been outstanding
//! for more than the 95th-percentile expected latency".

use crate::machine::Time;
use crate::scenario::Hedge;

/// Latencies that a client remembers.
const WINDOW: usize = 512;
/// The quantile is found anew after so many latencies.
const RENEW: usize = 16;
/// A client with fewer latencies than this does not know its quantile, and sends no second copies.
const SAMPLES_MIN: usize = 64;
/// A budget that is not used piles up to so many copies.
const TOKENS_MAX: f64 = 10.0;

/// One client's second copies.
#[derive(Debug)]
pub(super) struct Hedging {
    quantile: f64,
    /// Tokens for each query; a copy costs one.
    budget: f64,
    delay_min: Time,
    tokens: f64,
    /// A ring, once it is full.
    latencies: Vec<Time>,
    next: usize,
    since_renewed: usize,
    /// Room to find the quantile in.
    sorted: Vec<Time>,
    delay: Option<Time>,
}

impl Hedging {
    pub(super) fn new(hedge: &Hedge) -> Self {
        Self {
            quantile: hedge.after_quantile,
            budget: hedge.budget,
            delay_min: super::nanos(hedge.delay_min),
            tokens: 0.0,
            latencies: Vec::with_capacity(WINDOW),
            next: 0,
            since_renewed: 0,
            sorted: Vec::with_capacity(WINDOW),
            delay: None,
        }
    }

    /// A query is sent; how long it may be out before a copy follows, if that is known.
    pub(super) fn query(&mut self) -> Option<Time> {
        self.tokens = (self.tokens + self.budget).min(TOKENS_MAX);
        self.delay
    }

    /// A query ended after so long, in time or at its deadline.
    pub(super) fn ended(&mut self, latency: Time) {
        if self.latencies.len() < WINDOW {
            self.latencies.push(latency);
        } else {
            self.latencies[self.next] = latency;
            self.next = (self.next + 1) % WINDOW;
        }
        self.since_renewed += 1;
        if self.since_renewed >= RENEW && self.latencies.len() >= SAMPLES_MIN {
            self.since_renewed = 0;
            self.renew();
        }
    }

    /// Pays for a copy; `false` if the budget does not allow it.
    pub(super) fn pay(&mut self) -> bool {
        let paid = self.tokens >= 1.0;
        if paid {
            self.tokens -= 1.0;
        }
        paid
    }

    fn renew(&mut self) {
        self.sorted.clear();
        self.sorted.extend_from_slice(&self.latencies);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of at most the window's length"
        )]
        let rank = (self.quantile * self.sorted.len() as f64).ceil() as usize;
        let index = rank.saturating_sub(1).min(self.sorted.len() - 1);
        let (_, &mut delay, _) = self.sorted.select_nth_unstable(index);
        self.delay = Some(delay.max(self.delay_min));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn hedging(delay_min_ns: u64) -> Hedging {
        Hedging::new(&Hedge {
            after_quantile: 0.95,
            budget: 0.02,
            delay_min: Duration::from_nanos(delay_min_ns),
        })
    }

    #[test]
    fn the_delay_is_the_quantile_of_recent_latencies() {
        let mut hedging = hedging(0);
        for latency in 1..=63 {
            hedging.ended(latency);
        }
        assert_eq!(hedging.query(), None, "too few to know");
        for latency in 64..=1_024 {
            hedging.ended(latency);
        }
        // The newest 512 are 513 to 1,024; rank 487 of them.
        assert_eq!(hedging.query(), Some(999));
        for _ in 0..WINDOW {
            hedging.ended(7);
        }
        assert_eq!(hedging.query(), Some(7), "it follows");
    }

    #[test]
    fn a_copy_is_never_sent_before_the_least_delay() {
        let mut hedging = hedging(50);
        for _ in 0..100 {
            hedging.ended(7);
        }
        assert_eq!(hedging.query(), Some(50));
    }

    #[test]
    fn copies_are_paid_for_by_queries() {
        let mut hedging = hedging(0);
        let mut copies = 0;
        for _ in 0..10_000 {
            hedging.query();
            copies += u32::from(hedging.pay());
        }
        // 2 % of 10,000; the last token may be a rounding error short.
        assert!((199..=200).contains(&copies), "{copies}");
        for _ in 0..10_000 {
            hedging.query();
        }
        let saved = (0..100).filter(|_| hedging.pay()).count();
        assert_eq!(saved, 10, "savings are bounded");
    }
}
