//! Fan-outs: requests that wait for many leaves, composed of the latencies that single leaves
//! showed.
//!
//! The engine plays queries one by one, and nothing in it waits for several. So a fan-out is
//! composed afterwards: each of its leaves is one of the measured queries, drawn with replacement.
//! Such leaves are independent. Those of this scenario are: their latencies depend neither on how
//! many queries there are nor on when they come.

use crate::measure::Latencies;
use crate::random::{Purpose, Stream};
use core::time::Duration;

/// Requests composed for each wait.
const REQUESTS: u32 = 4_000;

/// Fan-outs over leaves that behave as measured.
#[derive(Debug)]
pub(super) struct FanOut<'a> {
    leaves: &'a Latencies,
    stream: Stream,
}

impl<'a> FanOut<'a> {
    /// Returns fan-outs that are the same every time for the same leaves and `index`.
    pub(super) fn new(leaves: &'a Latencies, index: u64) -> Self {
        Self {
            leaves,
            stream: Stream::new(1, Purpose::FanOut, index),
        }
    }

    /// Returns the share of requests to `width` leaves of which at least one takes longer than
    /// `bound`. It needs no draws: over all requests that can be composed of the measured queries,
    /// the share is exactly this.
    pub(super) fn share_beyond(&self, width: usize, bound: Duration) -> f64 {
        chance_beyond(width, 1.0 - self.leaves.share_at_most(bound))
    }

    /// Draws how long requests to `width` leaves take until `share` of these have answered.
    ///
    /// It need not draw all leaves. The highest of n uniform ranks is a uniform to the power of
    /// 1/n, and the next one below it is a uniform to the power of 1/(n − 1), relative to the
    /// highest. So only the leaves that the request does not wait for are drawn, and the last one
    /// that it waits for.
    pub(super) fn waits(&mut self, width: usize, share: f64) -> Waits {
        let needed = needed(width, share).max(1);
        let mut ranks: Vec<f64> = (0..REQUESTS)
            .map(|_| {
                let slowest_first = (needed..=width).rev();
                slowest_first.fold(1.0, |rank, left| {
                    rank * self.stream.uniform().powf(1.0 / left as f64)
                })
            })
            .collect();
        ranks.sort_by(f64::total_cmp);
        Waits(ranks)
    }

    /// Returns the latency of `waits` at a quantile `q`, in milliseconds.
    pub(super) fn wait_ms(&self, waits: &Waits, q: f64) -> f64 {
        let rank = waits.at(q);
        self.leaves.quantile(rank).as_secs_f64() * 1e3
    }
}

/// For each request, the rank of the leaf that it waited for among all leaves' latencies; lowest
/// first.
#[derive(Debug)]
pub(super) struct Waits(Vec<f64>);

impl Waits {
    /// Returns a quantile by nearest rank.
    fn at(&self, q: f64) -> f64 {
        let index = needed(self.0.len(), q).saturating_sub(1);
        self.0.get(index).copied().unwrap_or(0.0)
    }
}

/// Returns how long a share `q` of requests to `width` leaves takes at most, in milliseconds. All
/// `width` leaves are within a bound in a share `q` of requests if each is within it in a share of
/// the `width`th root of `q`. It needs no draws, like [`FanOut::share_beyond`].
pub(super) fn slowest_ms(leaves: &Latencies, width: usize, q: f64) -> f64 {
    let of_a_leaf = q.powf(1.0 / width.max(1) as f64);
    leaves.quantile(of_a_leaf).as_secs_f64() * 1e3
}

/// Returns how many of `width` are a `share` of them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of at most the width"
)]
fn needed(width: usize, share: f64) -> usize {
    ((share * width as f64).ceil() as usize).min(width)
}

/// Returns the chance that at least one of `width` independent leaves is among the slowest share
/// `outliers`.
pub(super) fn chance_beyond(width: usize, outliers: f64) -> f64 {
    1.0 - (1.0 - outliers).powf(width as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The article's two numbers: "63 %" and "almost one in five".
    #[test]
    fn closed_form_matches_the_article() {
        assert!((chance_beyond(100, 0.01) - 0.634).abs() < 0.001);
        assert!((chance_beyond(2_000, 1e-4) - 0.181).abs() < 0.001);
        assert!((chance_beyond(1, 0.01) - 0.01).abs() < 1e-12);
    }

    /// Latencies of 1 to 1,000 ms, evenly.
    fn leaves() -> Latencies {
        let mut leaves = Latencies::default();
        for ms in 1..=1_000 {
            leaves.record(Duration::from_millis(ms));
        }
        leaves
    }

    #[test]
    fn share_of_late_requests_matches_the_closed_form() {
        let leaves = leaves();
        let fan_out = FanOut::new(&leaves, 0);
        for (width, bound_ms, share) in [(1, 900, 0.1), (10, 900, 0.651), (10, 990, 0.096)] {
            let found = fan_out.share_beyond(width, Duration::from_millis(bound_ms));
            // The rounding of the histogram, ten times.
            assert!((found - share).abs() < 0.01, "{width} leaves: {found}");
        }
    }

    /// The largest of ten uniforms has a median of 0.5^(1/10), the smallest tenth of it one of 1 -
    /// 0.5^(1/10).
    #[test]
    fn request_waits_for_the_slowest_leaf_it_needs() {
        let leaves = leaves();
        let mut fan_out = FanOut::new(&leaves, 0);
        let all = fan_out.waits(10, 1.0);
        let median_of_all = fan_out.wait_ms(&all, 0.5);
        assert!((median_of_all - 933.0).abs() < 8.0, "{median_of_all}");
        let first = fan_out.waits(10, 0.1);
        let median_of_first = fan_out.wait_ms(&first, 0.5);
        assert!((median_of_first - 67.0).abs() < 8.0, "{median_of_first}");
        assert!(fan_out.wait_ms(&all, 0.99) > median_of_all);
    }

    #[test]
    fn slowest_of_ten_matches_simulated_draws() {
        let leaves = leaves();
        let mut fan_out = FanOut::new(&leaves, 0);
        let all = fan_out.waits(10, 1.0);
        for q in [0.1, 0.5, 0.9] {
            let (drawn, said) = (fan_out.wait_ms(&all, q), slowest_ms(&leaves, 10, q));
            assert!((drawn - said).abs() < 8.0, "{q}: {drawn} {said}");
        }
        assert!((slowest_ms(&leaves, 1, 0.5) - 500.0).abs() < 1.0);
    }

    #[test]
    fn fan_outs_are_reproducible() {
        let leaves = leaves();
        let highest = |index| FanOut::new(&leaves, index).waits(3, 1.0).at(1.0).to_bits();
        assert_eq!(highest(1), highest(1));
        assert_ne!(highest(1), highest(2));
    }
}
