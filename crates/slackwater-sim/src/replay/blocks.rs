//! Blocks of time: what a figure might be in another stretch of the same service's time.
//!
//! Queries of one moment share its troubles, so they are not independent samples. Blocks of time
//! that are longer than most troubles (nearly) are. The same number of blocks, drawn with
//! replacement, is another past like this one. A figure's spread over many such pasts is its random
//! error (block bootstrap: Künsch, 1989). The recorded figures, the model and the model under
//! another policy use the same blocks each time, because they had the same queries.

use crate::measure::Latencies;
use crate::random::{Purpose, Stream};
use core::time::Duration;

/// The shortest block.
const SHORTEST: Duration = Duration::from_secs(5);
/// The least number of blocks that gives a result, and the most that are used.
const BLOCKS: core::ops::RangeInclusive<u32> = 6..=60;
/// One more than the number of pasts that are drawn. The ends of the 95 % interval are then two of
/// the pasts.
const PASTS: usize = 400;

/// Returns the length of a block for a past of this length; zero if it is too short.
pub(super) fn length(span: Duration) -> Duration {
    let count = span.as_nanos() / SHORTEST.as_nanos();
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    if count < *BLOCKS.start() {
        return Duration::ZERO;
    }
    let length = span / count.min(*BLOCKS.end());
    // The remainder of the rounding must not become a block of its own.
    length + Duration::from_nanos(u64::from(*BLOCKS.end()))
}

/// Returns the block of a time that is `since` after the beginning; `None` if there are no blocks.
pub(super) fn place(since: Duration, length: Duration) -> Option<usize> {
    let place = since.as_nanos().checked_div(length.as_nanos())?;
    usize::try_from(place).ok()
}

/// One run, or the recording: how often each latency occurred in each block.
#[derive(Debug)]
struct Run {
    /// All latencies that occurred, the shortest first.
    values: Vec<Duration>,
    /// For each block, the indices of its latencies in `values`, and how often each occurred.
    blocks: Vec<Vec<(usize, u64)>>,
}

impl Run {
    fn new(blocks: &[Latencies]) -> Self {
        let mut values: Vec<_> = (blocks.iter().flat_map(Latencies::counts))
            .map(|(latency, _)| latency)
            .collect();
        values.sort_unstable();
        values.dedup();
        let place = |latency| values.binary_search(&latency).unwrap_or_else(|place| place);
        let blocks = blocks.iter().map(|block| {
            let counts = block.counts();
            counts
                .map(|(latency, count)| (place(latency), count))
                .collect()
        });
        Self {
            blocks: blocks.collect(),
            values,
        }
    }

    /// Returns quantiles over blocks that each occur `times` times, as logarithms of seconds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count, and a float's conversion saturates"
    )]
    fn logarithms(&self, times: &[u64], quantiles: &[f64], room: &mut Vec<u64>) -> Vec<f64> {
        room.clear();
        room.resize(self.values.len(), 0);
        for (block, times) in self
            .blocks
            .iter()
            .zip(times)
            .filter(|(_, times)| **times > 0)
        {
            for &(place, count) in block {
                room[place] += count * times;
            }
        }
        let total: u64 = room.iter().sum();
        let quantile = |q: &f64| {
            let rank = ((q * total as f64).ceil() as u64).max(1);
            let mut below = 0;
            let reached = room.iter().position(|count| {
                below += count;
                below >= rank
            });
            let value = reached.and_then(|place| self.values.get(place));
            value.map_or(f64::NEG_INFINITY, |value| value.as_secs_f64().ln())
        };
        quantiles.iter().map(quantile).collect()
    }
}

/// The spread of a figure over pasts like the recorded one: the ends of its 95 % interval, as
/// logarithms.
pub(super) type Spread = Option<(f64, f64)>;

/// The spreads of a quantile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spreads {
    /// Spread of the model under the recorded policy, as a multiple of the recording; the mean over
    /// seeds.
    pub(super) error: Spread,
    /// Spread of the model under the other policy, as a multiple of the model under the recorded
    /// one; the mean over seeds.
    pub(super) change: Spread,
}

/// Returns the spreads of some quantiles; none if the past was not cut into blocks.
pub(super) fn spreads(
    recorded: &[Latencies],
    same: &[&[Latencies]],
    other: &[&[Latencies]],
    quantiles: &[f64],
) -> Vec<Spreads> {
    let count = recorded.len();
    if count == 0 || same.is_empty() {
        return vec![Spreads::default(); quantiles.len()];
    }
    let was = Run::new(recorded);
    let runs =
        |runs: &[&[Latencies]]| -> Vec<Run> { runs.iter().map(|run| Run::new(run)).collect() };
    let (same, other) = (runs(same), runs(other));
    let mut draw = Stream::new(1, Purpose::Blocks, 0);
    let (mut times, mut room) = (vec![0; count], Vec::new());
    let mut errors = vec![Vec::with_capacity(PASTS); quantiles.len()];
    let mut changes = errors.clone();
    for _ in 1..PASTS {
        // Draws another past: as many blocks as there were, with replacement.
        times.fill(0);
        for _ in 0..count {
            let block = draw.below(u32::try_from(count).unwrap_or(u32::MAX));
            times[block as usize] += 1;
        }
        let mean = |runs: &[Run], room: &mut Vec<u64>| {
            let mut sums = vec![0.0; quantiles.len()];
            for run in runs {
                let logarithms = run.logarithms(&times, quantiles, room);
                sums.iter_mut()
                    .zip(logarithms)
                    .for_each(|(sum, it)| *sum += it);
            }
            let means = sums.into_iter().map(|sum| sum / runs.len() as f64);
            means.collect::<Vec<_>>()
        };
        // All three use the same draw, so what they have in common cancels out.
        let was = was.logarithms(&times, quantiles, &mut room);
        let (own, others) = (mean(&same, &mut room), mean(&other, &mut room));
        for quantile in 0..quantiles.len() {
            errors[quantile].push(own[quantile] - was[quantile]);
            changes[quantile].push(others[quantile] - own[quantile]);
        }
    }
    let spreads = errors.into_iter().zip(changes);
    let spreads = spreads.map(|(errors, changes)| Spreads {
        error: interval(errors),
        change: interval(changes),
    });
    spreads.collect()
}

/// Returns the ends of the middle 95 %; `None` if one of the samples is not finite.
fn interval(mut samples: Vec<f64>) -> Spread {
    if !samples.iter().all(|sample| sample.is_finite()) {
        return None;
    }
    samples.sort_by(f64::total_cmp);
    // The 10th and the 390th of 399.
    let end = PASTS / 40;
    Some((*samples.get(end - 1)?, *samples.get(PASTS - end - 1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(ms: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        for ms in ms {
            latencies.record(Duration::from_millis(ms));
        }
        latencies
    }

    #[test]
    fn recording_is_split_into_enough_long_blocks() {
        let count = |seconds| {
            let span = Duration::from_secs(seconds);
            let length = length(span);
            assert!(length.is_zero() || length >= SHORTEST);
            place(span.saturating_sub(Duration::from_nanos(1)), length).map(|last| last + 1)
        };
        assert_eq!(count(29), None, "too short");
        assert_eq!(count(30), Some(6));
        assert_eq!(count(60), Some(12));
        assert_eq!(count(3_600), Some(60));
    }

    #[test]
    fn spread_is_zero_for_equal_blocks_and_large_for_an_outlier() {
        let calm = || block(1..=100);
        let recorded: Vec<_> = (0..12).map(|_| calm()).collect();
        let mut troubled = recorded.clone();
        troubled[3] = block((1..=100).map(|ms| ms * 50));
        let [even, uneven] = [&recorded, &troubled].map(|same| {
            let other = [recorded.as_slice()];
            spreads(&recorded, &[same.as_slice()], &other, &[0.5, 0.99])
        });
        assert_eq!(even[1].error, Some((0.0, 0.0)));
        assert_eq!(even[1].change, Some((0.0, 0.0)));
        // In a third of all pasts that block is missing, and in others it occurs more than once.
        let (low, high) = uneven[1].error.expect("there are blocks");
        assert!(low < 1e-9 && high > 3.0, "{low} to {high}");
        let (low, high) = uneven[1].change.expect("there are blocks");
        assert!(low < -3.0 && high < 1e-9, "{low} to {high}");
        let (low, high) = uneven[0].error.expect("there are blocks");
        assert!(
            low < 1e-9 && high < 0.5,
            "the median hardly moves: {low} to {high}"
        );
    }

    #[test]
    fn quantiles_over_blocks_match_the_merged_run() {
        let blocks: Vec<_> = (0..7)
            .map(|place| block(place * 10 + 1..place * 17 + 20))
            .collect();
        let mut whole = Latencies::default();
        for block in &blocks {
            whole.merge(block);
        }
        let quantiles = [0.0, 0.3, 0.5, 0.99, 1.0];
        let found = Run::new(&blocks).logarithms(&[1; 7], &quantiles, &mut Vec::new());
        for (q, found) in quantiles.into_iter().zip(found) {
            let expected = whole.quantile(q).as_secs_f64().ln();
            assert!(
                (found - expected).abs() < 2e-3,
                "{q}: {found} for {expected}"
            );
        }
    }

    #[test]
    fn without_blocks_there_is_no_spread() {
        let none = spreads(&[], &[&[]], &[&[]], &[0.5]);
        assert_eq!(none, [Spreads::default()]);
        let one = [block([1])];
        let unanswered = spreads(&one, &[&one], &[&[Latencies::default()]], &[0.5]);
        assert_eq!(
            unanswered[0].change, None,
            "no query was answered under the other policy"
        );
    }
}
