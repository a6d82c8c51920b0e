//! The replicas that are shown, and their order.

use super::model::{Model, Row};
use core::cmp::Ordering;
use slackwater_core::named;

named! {
    /// The columns of the fleet's table, by which it can be sorted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Column by title {
        /// The order of the fleet.
        Fleet = "#",
        Name = "REPLICA",
        State = "STATE",
        Rif = "RIF",
        /// Utilization of a replica; only if any replica reports its capacity.
        Full = "FULL",
        Latency = "LATENCY",
        Age = "AGE",
        InFlight = "HERE",
        Load = "LOAD",
        Rate = "REQ/S",
        Failing = "FAIL/S",
        P99 = "≈P99",
    }
}

impl Column {
    /// The columns that apply to a service. Where replicas report nothing, `HERE` replaces `RIF`.
    pub(super) fn of(model: &Model, service: usize) -> Vec<Self> {
        let (capacity, reports) = (model.tells_capacity(service), model.has_reports(service));
        let is_shown = |column: &Self| match column {
            Self::Full => capacity,
            Self::Latency | Self::Age | Self::InFlight => reports,
            _ => true,
        };
        Self::ALL.into_iter().filter(is_shown).collect()
    }

    /// Its head.
    pub(super) const fn head(self, has_reports: bool) -> &'static str {
        match self {
            Self::Rif if !has_reports => Self::InFlight.title(),
            _ => self.title(),
        }
    }
}

/// How the fleet is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) by: Column,
    /// Reverses the default order, in which names rise and figures fall.
    pub(super) is_reversed: bool,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            by: Column::Fleet,
            is_reversed: false,
        }
    }
}

impl Order {
    /// Sorts the rows. Equal ones stay in the order of the fleet, unknown values come last.
    pub(super) fn sort(self, rows: &mut [Row<'_>]) {
        rows.sort_by(|left, right| self.compare(left, right));
    }

    fn compare(self, left: &Row<'_>, right: &Row<'_>) -> Ordering {
        let turned = |ordering: Ordering| {
            if self.is_reversed {
                ordering.reverse()
            } else {
                ordering
            }
        };
        let falling = |of: fn(&Row<'_>) -> Option<f64>| match (of(left), of(right)) {
            (Some(left), Some(right)) => turned(right.total_cmp(&left)),
            (left, right) => right.is_some().cmp(&left.is_some()),
        };
        let ordering = match self.by {
            Column::Fleet => turned(left.index.cmp(&right.index)),
            Column::Name => turned(natural(left.name, right.name)),
            Column::State => falling(|row| Some(row.state_rank as f64)),
            Column::Rif => falling(|row| Some(rif(row)? as f64)),
            Column::Full => falling(full),
            Column::Latency => falling(|row| row.latency_us.map(|us| us as f64)),
            Column::Age => falling(|row| row.report_age_ms.map(|ms| ms as f64)),
            Column::InFlight => falling(|row| Some(row.in_flight as f64)),
            Column::Load => falling(|row| Some(row.load)),
            Column::Rate => falling(|row| Some(row.rate)),
            Column::Failing => falling(|row| Some(row.failing)),
            Column::P99 => falling(|row| row.p99_us.map(|us| us as f64)),
        };
        ordering.then(left.index.cmp(&right.index))
    }
}

/// Requests in flight by its report, or those from here where there are no reports.
fn rif(row: &Row<'_>) -> Option<u64> {
    row.rif.or((!row.has_reports).then_some(row.in_flight))
}

/// A function item, and not a method path, so that it works for rows of any lifetime.
fn full(row: &Row<'_>) -> Option<f64> {
    row.full()
}

/// Returns whether all words of the filter are in a replica's name, address, state or trouble,
/// ignoring case. `hot` and `cold` are words, too.
pub(super) fn is_match(row: &Row<'_>, filter: &str) -> bool {
    let temperature = match row.is_hot {
        Some(true) => "hot",
        Some(false) => "cold",
        None => "",
    };
    let trouble = row.trouble.map(|trouble| trouble.to_string());
    filter.split_whitespace().all(|word| {
        let word = word.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&word);
        has(row.name)
            || has(row.address)
            || has(row.state)
            || temperature == word
            || trouble.as_deref().is_some_and(has)
    })
}

/// Natural order of names: `replica 9` before `replica 10`.
fn natural(left: &str, right: &str) -> Ordering {
    let (mut left_rest, mut right_rest) = (left, right);
    loop {
        let (left_part, right_part) = (first_part(left_rest), first_part(right_rest));
        let ordering = if is_number(left_part) && is_number(right_part) {
            // Longer numbers are larger, however many digits they have.
            let [left, right] = [left_part, right_part].map(|it| it.trim_start_matches('0'));
            left.len().cmp(&right.len()).then_with(|| left.cmp(right))
        } else {
            left_part.cmp(right_part)
        };
        if ordering.is_ne() || left_part.is_empty() {
            // `01` and `1` are the same number, but two names.
            return ordering.then_with(|| left.cmp(right));
        }
        left_rest = &left_rest[left_part.len()..];
        right_rest = &right_rest[right_part.len()..];
    }
}

/// Returns whether a text begins with a digit.
fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

/// The digits, or the other characters, with which a text begins.
fn first_part(text: &str) -> &str {
    let is_number = is_number(text);
    let end = text.find(|next: char| next.is_ascii_digit() != is_number);
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn order(by: Column, is_reversed: bool) -> Vec<usize> {
        let model = samples::serve();
        let mut rows = model.rows(0);
        Order { by, is_reversed }.sort(&mut rows);
        rows.iter().map(|row| row.index).collect()
    }

    #[test]
    fn numbers_sort_descending_names_ascending_and_ties_stably() {
        assert_eq!(order(Column::Fleet, false), (0..20).collect::<Vec<_>>());
        assert_eq!(
            order(Column::Fleet, true),
            (0..20).rev().collect::<Vec<_>>()
        );
        // 10.0.0.10 comes after 10.0.0.9.
        assert_eq!(order(Column::Name, false), (0..20).collect::<Vec<_>>());
        assert_eq!(order(Column::Rif, false)[..5], [4, 5, 8, 10, 19]);
        assert_eq!(order(Column::Rif, true)[..3], [3, 6, 9]);
        assert_eq!(order(Column::State, false)[..4], [9, 5, 11, 13]);
        assert_eq!(order(Column::Failing, false)[..3], [5, 9, 0]);
        assert_eq!(order(Column::Load, false)[0], 3);
        assert_eq!(order(Column::Age, false)[0], 12);
        assert_eq!(order(Column::InFlight, false)[0], 4);
        assert_eq!(order(Column::Latency, false)[..2], [4, 2]);
    }

    #[test]
    fn unknown_values_are_last_in_either_direction() {
        for is_reversed in [false, true] {
            assert_eq!(order(Column::P99, is_reversed)[18..], [5, 13]);
        }
    }

    #[test]
    fn all_words_of_a_filter_must_match() {
        let model = samples::serve();
        let matching = |filter| -> Vec<usize> {
            let rows = model.rows(0);
            let found = rows.iter().filter(|row| is_match(row, filter));
            found.map(|row| row.index).collect()
        };
        assert_eq!(matching("").len(), 20);
        assert_eq!(matching("  EJECT "), [5]);
        assert_eq!(matching("10.0.1. disabled"), [13]);
        assert_eq!(matching("hot"), [4]);
        assert_eq!(matching("hot ejected"), [0_usize; 0]);
        assert_eq!(matching("10.0.0.10"), [9]);
    }

    #[test]
    fn names_sort_in_natural_order() {
        for (left, right, expected) in [
            ("a9", "a10", Ordering::Less),
            ("a10", "a9b", Ordering::Greater),
            ("a1b2", "a1b10", Ordering::Less),
            ("a", "a1", Ordering::Less),
            ("01", "1", Ordering::Less),
            ("1", "1", Ordering::Equal),
            ("", "", Ordering::Equal),
            ("99999999999999999999", "1", Ordering::Greater),
            ("5", "10", Ordering::Less),
            ("10", "30000000000000000000", Ordering::Less),
            ("5", "30000000000000000000", Ordering::Less),
            (
                "0030000000000000000000",
                "30000000000000000001",
                Ordering::Less,
            ),
        ] {
            assert_eq!(natural(left, right), expected, "{left} {right}");
            assert_eq!(natural(right, left), expected.reverse(), "{right} {left}");
        }
    }
}
