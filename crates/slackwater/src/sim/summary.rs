//! A scenario in a line: the clients, the load, the fleet.

use core::fmt::Write;
use slackwater_sim::Scenario;
use slackwater_sim::presets::rate_at;
use slackwater_sim::report::with_thousands;

/// The load as a share of the fleet's allocation; 0 if the fleet can take any load.
pub(super) fn load_of(scenario: &Scenario) -> f64 {
    let whole = rate_at(1.0, &scenario.fleet, &scenario.cost);
    if whole > 0.0 {
        scenario.load.rate / whole
    } else {
        0.0
    }
}

/// `8 replicas, 1 client, 1,360.0 queries/s (85 % of the fleet's allocation)`.
pub(super) fn fleet_and_load(scenario: &Scenario) -> String {
    let mut text = format!(
        "{}, {}, {} queries/s",
        counted(scenario.replicas(), "replica"),
        counted(scenario.load.clients.len(), "client"),
        tenths(scenario.load.rate),
    );
    let percent = load_of(scenario) * 100.0;
    if percent > 0.0 {
        let percent = if percent < 1.0 {
            "less than 1".to_owned()
        } else {
            with_thousands(&format!("{percent:.0}"))
        };
        // Writing to a string does not fail.
        let _ = write!(text, " ({percent} % of the fleet's allocation)");
    }
    text
}

/// `60 s after 10 s of warm-up`.
pub(super) fn times(scenario: &Scenario) -> String {
    let (warmup, span) = (scenario.warmup.as_secs_f64(), scenario.span.as_secs_f64());
    format!("{span} s after {warmup} s of warm-up")
}

/// Number of queries that a seed measures.
pub(super) fn queries(scenario: &Scenario) -> f64 {
    scenario.load.rate * scenario.span.as_secs_f64()
}

/// Number of queries that a run plays, including the warm-up.
pub(super) fn queries_played(scenario: &Scenario) -> f64 {
    scenario.load.rate * (scenario.warmup + scenario.span).as_secs_f64()
}

/// `1 client`, `10,000 clients`.
pub(super) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", with_thousands(&count.to_string()))
}

/// A rate with one decimal; a very low one with as many as it needs.
fn tenths(rate: f64) -> String {
    if rate < 0.1 {
        format!("{rate:.2e}")
    } else {
        with_thousands(&format!("{rate:.1}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_sim::presets::{at_load, web};

    #[test]
    fn a_line_describes_clients_load_and_fleet() {
        assert_eq!(
            fleet_and_load(&web(1, 1, 0.85)).split(", ").next(),
            Some("1 replica")
        );
        let mut scenario = at_load(1.27, web(20, 4, 0.5));
        let line = fleet_and_load(&scenario);
        assert!(line.starts_with("20 replicas, 4 clients, "), "{line}");
        assert!(
            line.ends_with(" queries/s (127 % of the fleet's allocation)"),
            "{line}"
        );
        scenario.load.rate = 1e-300;
        let line = fleet_and_load(&scenario);
        assert!(
            line.ends_with(" 1.00e-300 queries/s (less than 1 % of the fleet's allocation)"),
            "{line}"
        );
    }
}
