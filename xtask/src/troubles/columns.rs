//! The measurements of a lane, and how they are shown.

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Column {
    /// Share of the measured requests that failed.
    Errors,
    /// Requests that got no answer at all; part of the failed ones.
    Unanswered,
    /// Requests that failed within the first second of the trouble.
    FirstSecond,
    /// Quantile of all measured requests, including failed ones and those whose client gave up.
    P50,
    P99,
    P999,
    Max,
    /// The first replica's share of the requests during the trouble.
    Share,
    /// The first replica's share some time later.
    ShareAfter,
    /// Requests that failed some time later.
    ErrorsAfter,
    /// Hedges per request.
    Copies,
    /// Second copies of tied requests, per request.
    Tied,
    /// Requests that replicas started, in excess of those that clients sent.
    Begun,
    /// Time that replicas spent on a request, including copies.
    Work,
    /// The generator's own lateness, at its 99th percentile.
    Late,
}

impl Column {
    /// The header of its column.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Errors => "errors %",
            Self::Unanswered => "unanswered",
            Self::FirstSecond => "errors in the 1st s",
            Self::P50 => "p50 ms",
            Self::P99 => "p99 ms",
            Self::P999 => "p99.9 ms",
            Self::Max => "max ms",
            Self::Share => "its share %",
            Self::ShareAfter => "share afterwards %",
            Self::ErrorsAfter => "errors afterwards %",
            Self::Copies => "copies %",
            Self::Tied => "second copies %",
            Self::Begun => "begun twice %",
            Self::Work => "work ms",
            Self::Late => "late ms",
        }
    }

    /// The key in JSON.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Errors => "errors_percent",
            Self::Unanswered => "unanswered",
            Self::FirstSecond => "errors_first_second",
            Self::P50 => "p50_ms",
            Self::P99 => "p99_ms",
            Self::P999 => "p999_ms",
            Self::Max => "max_ms",
            Self::Share => "share_percent",
            Self::ShareAfter => "share_after_percent",
            Self::ErrorsAfter => "errors_after_percent",
            Self::Copies => "copies_percent",
            Self::Tied => "tied_percent",
            Self::Begun => "begun_twice_percent",
            Self::Work => "work_ms",
            Self::Late => "generator_late_p99_ms",
        }
    }

    /// The value in a table cell.
    pub(super) fn written(self, value: f64) -> String {
        match self {
            Self::Unanswered | Self::FirstSecond => format!("{value:.0}"),
            Self::P50 | Self::P99 | Self::P999 | Self::Max | Self::Share | Self::ShareAfter => {
                format!("{value:.1}")
            }
            _ => format!("{value:.2}"),
        }
    }
}
