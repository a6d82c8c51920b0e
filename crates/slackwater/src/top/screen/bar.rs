//! Bars with a mark, and rows of blocks for values over time.

use super::super::trend::Point;
use crate::terminal::bars;
use crate::terminal::line::{Ink, Line};

/// The character of a mark in a bar.
const MARK: &str = "│";

/// Adds a bar of `value` on a scale that ends at `end`, with a mark at `mark`; the part beyond the
/// mark has its own ink. It always takes `columns`.
pub(super) fn marked(
    line: Line,
    value: u64,
    end: u64,
    mark: Option<u64>,
    columns: usize,
    ink: Ink,
) -> Line {
    let bar = bars::lying(small(value), small(end), columns);
    let mut cells: Vec<char> = bar.chars().collect();
    cells.resize(columns, ' ');
    let place = mark.map(|mark| u128::from(mark) * columns as u128 / u128::from(end.max(1)));
    let place = place.and_then(|place| usize::try_from(place).ok());
    let Some(place) = place.filter(|place| *place < columns) else {
        return line.with(ink, cells.into_iter().collect::<String>());
    };
    let text = |cells: &[char]| cells.iter().collect::<String>();
    line.with(ink, text(&cells[..place]))
        .with(Ink::Faint, MARK)
        .with(Ink::Second, text(&cells[place + 1..]))
}

/// The end of a scale for bars of requests in flight: the limit is in its middle, unless a replica
/// has far more.
pub(super) fn rif_scale(highest: u64, limit: Option<u64>) -> u64 {
    let most = highest.max(limit.unwrap_or(0).saturating_mul(2)).max(8);
    most.checked_next_power_of_two().unwrap_or(u64::MAX)
}

/// Values as one row of blocks, the highest as high as the row.
pub(super) fn sparkline(values: &[u64]) -> String {
    let end = values.iter().copied().max().unwrap_or(0);
    rows(values, end, 1).concat()
}

/// Values as vertical bars of this many rows.
pub(super) fn rows(values: &[u64], end: u64, rows: usize) -> Vec<String> {
    // Values are scaled before they are converted to the bars' width.
    let scale = (end / u64::from(u32::MAX)).saturating_add(1);
    let values: Vec<u32> = values.iter().map(|value| small(value / scale)).collect();
    bars::standing(&values, small(end / scale), rows, 1)
}

/// The values of the last `columns` points.
pub(super) fn last<'a>(
    points: impl DoubleEndedIterator<Item = &'a Point>,
    columns: usize,
    value: impl Fn(&Point) -> u64,
) -> Vec<u64> {
    let mut values: Vec<u64> = points.rev().take(columns).map(value).collect();
    values.reverse();
    values
}

/// Divides times and values into `columns` columns that span `span_ms` up to the last time, with
/// the highest value in each. Columns begin at multiples of their length, so that the picture moves
/// without flickering.
pub(super) fn columns(times_and_values: &[(u64, u64)], span_ms: u64, columns: usize) -> Vec<u64> {
    let mut highest = vec![0; columns];
    let Some((now, _)) = times_and_values.last() else {
        return highest;
    };
    let width = span_ms.div_ceil(columns.max(1) as u64).max(1);
    for (at, value) in times_and_values {
        let back = (now / width).checked_sub(at / width);
        let back = back.and_then(|back| usize::try_from(back).ok());
        let column = back.and_then(|back| columns.checked_sub(back + 1));
        if let Some(cell) = column.and_then(|column| highest.get_mut(column)) {
            *cell = (*cell).max(*value);
        }
    }
    highest
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(value: u64, end: u64, mark: Option<u64>) -> String {
        let line = marked(Line::default(), value, end, mark, 8, Ink::First);
        assert_eq!(line.columns(), 8);
        let parts = line.stretches().iter().map(|(_, text)| text.as_str());
        parts.collect()
    }

    #[test]
    fn bar_shows_its_mark_above_or_below_its_value() {
        assert_eq!(bar(2, 8, Some(4)), "██  │   ");
        assert_eq!(bar(4, 8, Some(4)), "████│   ");
        assert_eq!(bar(6, 8, Some(4)), "████│█  ");
        assert_eq!(bar(6, 8, None), "██████  ");
        assert_eq!(bar(99, 8, Some(8)), "████████");
        assert_eq!(bar(0, 0, Some(0)), "│       ");
    }

    #[test]
    fn rif_limit_is_mid_scale_unless_a_replica_has_far_more() {
        assert_eq!(rif_scale(3, None), 8);
        assert_eq!(rif_scale(9, Some(8)), 16);
        assert_eq!(rif_scale(3, Some(9)), 32);
        assert_eq!(rif_scale(100, Some(8)), 128);
        assert_eq!(rif_scale(u64::MAX, Some(u64::MAX)), u64::MAX);
    }

    #[test]
    fn sparkline_is_scaled_to_its_maximum() {
        assert_eq!(sparkline(&[0, 1, 4, 8]), " ▁▄█");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[0, u64::MAX / 2, u64::MAX]), " ▄█");
        assert_eq!(rows(&[8, 4], 8, 2), ["█ ", "██"]);
    }

    #[test]
    fn chart_column_is_the_maximum_of_its_interval() {
        let points = [(1_000, 9), (7_000, 1), (8_500, 5), (9_000, 3), (9_999, 4)];
        // Columns of 2 s: 2 to 4, 4 to 6, 6 to 8, 8 to 10.
        assert_eq!(columns(&points, 8_000, 4), [0, 0, 1, 5]);
        assert_eq!(columns(&points, 10_000, 5), [9, 0, 0, 1, 5]);
        assert_eq!(columns(&[], 8_000, 3), [0, 0, 0]);
        assert!(columns(&points, 8_000, 0).is_empty());
        // A clock that was set back must not cause a panic.
        assert_eq!(columns(&[(9_000, 1), (1_000, 2)], 8_000, 2), [0, 2]);
    }
}
