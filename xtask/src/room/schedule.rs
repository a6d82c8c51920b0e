//! The schedule of a seed: when neighbours are there, and the order of the policies' turns.

use core::time::Duration;
use slackwater_core::SplitMix64;
use slackwater_core::draw::below;
use slackwater_sim::random::{Purpose, Stream};

/// A period, relative to the beginning of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Duration,
    pub(super) to: Duration,
}

/// Bounds of the time for which a neighbour stays or stays away, drawn each time: it is there half
/// of the time in the long run, and for many requests at a time, so that measurements can show it.
const LEAST_S: f64 = 1.0;
const MOST_S: f64 = 3.0;

/// When the neighbour on the machine of this number is there, in the first `length` of a run.
pub(super) fn presence(seed: u64, machine: usize, length: Duration) -> Vec<Span> {
    let mut draws = Stream::new(seed, Purpose::Headroom, machine as u64);
    let mut stays = || Duration::from_secs_f64(draws.uniform_between(LEAST_S, MOST_S));
    // The first absence is shortened at random, so that not all neighbours start by being away.
    let mut at = stays().saturating_sub(stays());
    let mut spans = Vec::new();
    while at < length {
        let to = at + stays();
        spans.push(Span { from: at, to });
        at = to + stays();
    }
    spans
}

/// The share of `window` for which it is there.
pub(super) fn presence_within(spans: &[Span], window: Span) -> f64 {
    let within = |span: &Span| {
        let (from, to) = (span.from.max(window.from), span.to.min(window.to));
        to.saturating_sub(from)
    };
    let within: Duration = spans.iter().map(within).sum();
    within.as_secs_f64() / window.to.saturating_sub(window.from).as_secs_f64()
}

/// The elements in an order drawn for this turn.
pub(super) fn shuffled<T: Clone>(things: &[T], seed: u64, turn: u64) -> Vec<T> {
    let mut draw = SplitMix64::new(seed ^ turn.rotate_left(32));
    let mut things = things.to_vec();
    // Fisher–Yates shuffle.
    for last in (1..things.len()).rev() {
        let bound = u32::try_from(last + 1).unwrap_or(u32::MAX);
        things.swap(last, below(&mut draw, bound) as usize);
    }
    things
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn neighbours_are_seeded_and_present_half_of_the_time() {
        let spans = presence(1, 3, HOUR);
        assert_eq!(spans, presence(1, 3, HOUR));
        assert_ne!(spans, presence(1, 4, HOUR));
        assert_ne!(spans, presence(2, 3, HOUR));
        for pair in spans.windows(2) {
            let ends = [pair[0].from, pair[0].to, pair[1].from];
            for length in ends.windows(2).map(|ends| ends[1].checked_sub(ends[0])) {
                let range = Duration::from_secs(1)..=Duration::from_secs(3);
                assert!(range.contains(&length.unwrap()), "{length:?}");
            }
        }
        let all = Span {
            from: Duration::ZERO,
            to: HOUR,
        };
        let share = presence_within(&spans, all);
        assert!((share - 0.5).abs() < 0.02, "{share}");
        // Some are there from the start, and some come later.
        let first = |machine| presence(1, machine, HOUR)[0].from.is_zero();
        let firsts: BTreeSet<_> = (0..20).map(first).collect();
        assert_eq!(firsts.len(), 2);
    }

    #[test]
    fn presence_is_counted_only_within_the_window() {
        let span = |from, to| Span {
            from: Duration::from_secs(from),
            to: Duration::from_secs(to),
        };
        let spans = [span(0, 3), span(5, 6), span(9, 20)];
        assert!((presence_within(&spans, span(2, 10)) - 3.0 / 8.0).abs() < 1e-9);
        assert!(presence_within(&[], span(2, 10)).abs() < 1e-9);
    }

    #[test]
    fn policies_are_shuffled_in_each_turn() {
        let things = [1, 2, 3, 4];
        assert_eq!(shuffled(&things, 1, 1), shuffled(&things, 1, 1));
        let orders: BTreeSet<_> = (0..400).map(|turn| shuffled(&things, 1, turn)).collect();
        assert_eq!(orders.len(), 24, "every order comes");
        assert_ne!(
            (0..9)
                .map(|turn| shuffled(&things, 1, turn))
                .collect::<Vec<_>>(),
            (0..9)
                .map(|turn| shuffled(&things, 2, turn))
                .collect::<Vec<_>>()
        );
    }
}
