//! Figures of a replay as text.

use core::time::Duration;
use slackwater_sim::report::with_thousands;

/// A span in milliseconds, with three digits or so.
pub(super) fn span(span: Duration) -> String {
    let ms = span.as_secs_f64() * 1e3;
    match ms {
        _ if ms < 10.0 => format!("{ms:.2} ms"),
        _ if ms < 100.0 => format!("{ms:.1} ms"),
        _ => format!("{} ms", with_thousands(&format!("{ms:.0}"))),
    }
}

/// `12,345`.
pub(super) fn number(number: u64) -> String {
    with_thousands(&number.to_string())
}
