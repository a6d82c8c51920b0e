//! The measurements of a lane's round: from the generator's results, the access log, and the
//! replicas' counts.

use super::columns::Column;
use super::plan::{Round, Span};
use crate::loopback::access_log::Line;
use core::time::Duration;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The data of a lane.
#[derive(Debug)]
pub(super) struct Left {
    /// Results of each stream of `slackwater load`.
    pub(super) seen: Vec<Value>,
    /// The access log.
    pub(super) lines: Vec<Line>,
    /// Beginning of the round, since 1970.
    pub(super) began: Duration,
    /// The access log's name of the replica with the trouble.
    pub(super) first_replica: String,
    /// Counts of each replica's process, since its start.
    pub(super) counts: Vec<Value>,
    /// The status of `serve`, at the end.
    pub(super) status: Value,
}

/// The measurements of one variant in one run.
#[derive(Debug)]
pub(super) struct Found {
    numbers: BTreeMap<Column, f64>,
    /// The raw data, with the sums of each second instead of the access log.
    pub(super) raw: Value,
}

impl Found {
    /// Returns `None` if there is no data for it.
    pub(super) fn of(&self, column: Column) -> Option<f64> {
        self.numbers.get(&column).copied()
    }

    /// A single measurement.
    #[cfg(test)]
    pub(super) fn with(column: Column, value: f64) -> Self {
        Self {
            numbers: BTreeMap::from([(column, value)]),
            raw: Value::Null,
        }
    }

    /// Computes the measurements.
    pub(super) fn new(round: &Round, left: &Left) -> Self {
        let mut numbers = BTreeMap::new();
        let mut note = |column, value: Option<f64>| {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                numbers.insert(column, value);
            }
        };
        if let Some(main) = left.seen.first() {
            let number = |name: &str| main[name].as_u64().unwrap_or_default();
            note(
                Column::Errors,
                percent(number("errors"), number("requests")),
            );
            note(Column::Unanswered, unanswered(main));
            let latencies = [
                (Column::P50, "p50_ms"),
                (Column::P99, "p99_ms"),
                (Column::P999, "p999_ms"),
                (Column::Max, "max_ms"),
            ];
            for (column, name) in latencies {
                note(column, main[name].as_f64());
            }
            note(Column::Late, main["sent_late"]["p99_ms"].as_f64());
        }
        let during = Sums::of(left, round.during);
        note(
            Column::Share,
            percent(during.first_replica, during.requests),
        );
        // `during` starts one second after the trouble, so that second is measured separately.
        let first_second = Span {
            from: round.during.from.saturating_sub(SECOND),
            to: round.during.from,
        };
        let first_second = Sums::of(left, first_second);
        note(Column::FirstSecond, Some(first_second.errors as f64));
        if let Some(after) = round.after {
            let after = Sums::of(left, after);
            note(
                Column::ShareAfter,
                percent(after.first_replica, after.requests),
            );
            note(Column::ErrorsAfter, percent(after.errors, after.requests));
        }
        let requests = left.lines.len() as f64;
        let sum = |name: &str| -> f64 {
            let counts = left
                .counts
                .iter()
                .filter_map(|counts| counts[name].as_u64());
            counts.sum::<u64>() as f64
        };
        note(Column::Begun, Some((sum("begun") / requests - 1.0) * 100.0));
        note(Column::Work, Some(sum("busy_us") / requests / 1e3));
        note(
            Column::Copies,
            Some(copies(&left.status) / requests * 100.0),
        );
        note(Column::Tied, Some(tied(&left.status) / requests * 100.0));
        let streams = round.streams.iter().zip(&left.seen);
        let streams = streams.map(|(stream, seen)| json!({"name": stream.name, "load": seen}));
        let named: BTreeMap<_, _> =
            (numbers.iter().map(|(column, value)| (column.key(), value))).collect();
        let raw = json!({
            "numbers": named,
            "streams": streams.collect::<Vec<_>>(),
            "seconds": seconds(round, left),
            "replicas": left.counts,
        });
        Self { numbers, raw }
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn percent(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64 * 100.0)
}

fn unanswered(figures: &Value) -> Option<f64> {
    let errors = figures["errors"].as_u64()?;
    let with_status = figures["errors_by_kind"]["status_5xx"].as_u64()?;
    let unfinished = figures["unfinished"].as_u64()?;
    Some((errors.saturating_sub(with_status) + unfinished) as f64)
}

/// Hedges that `serve` sent.
fn copies(status: &Value) -> f64 {
    let replicas = status["replicas"].as_array().into_iter().flatten();
    let copies = replicas.filter_map(|replica| replica["requests"]["hedges"].as_u64());
    copies.sum::<u64>() as f64
}

/// Second copies of tied requests that `serve` sent.
fn tied(status: &Value) -> f64 {
    let services = status["services"].as_array().into_iter().flatten();
    let tied = services.filter_map(|service| service["admission"]["ties_sent"].as_u64());
    tied.sum::<u64>() as f64
}

/// Requests that arrived in a period.
#[derive(Debug, Default)]
struct Sums {
    requests: u64,
    errors: u64,
    /// Requests answered by that replica, or sent to it last.
    first_replica: u64,
}

impl Sums {
    fn of(left: &Left, span: Span) -> Self {
        let (from, to) = (left.began + span.from, left.began + span.to);
        let mut sums = Self::default();
        for line in &left.lines {
            if (from..to).contains(&line.began) {
                sums.requests += 1;
                sums.errors += u64::from(line.is_failure());
                let replica = line.replica.as_deref();
                sums.first_replica += u64::from(replica == Some(&left.first_replica));
            }
        }
        sums
    }
}

/// Sums by the second in which requests arrived.
fn seconds(round: &Round, left: &Left) -> Vec<Value> {
    let length = u32::try_from(round.lasts().as_secs()).unwrap_or(u32::MAX);
    let of_second = |second: u32| {
        let (from, to) = (SECOND * second, SECOND * (second + 1));
        let sums = Sums::of(left, Span { from, to });
        json!({"requests": sums.requests, "errors": sums.errors, "first_replica": sums.first_replica})
    };
    (0..length).map(of_second).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;
    use crate::troubles::options::Options;

    /// A request that arrived this many milliseconds after the beginning.
    fn line(ms: u64, replica: &str, status: u64) -> Line {
        let began = Duration::from_secs(1_000) + Duration::from_millis(ms);
        Line {
            began,
            ended: began + Duration::from_millis(10),
            replica: Some(replica.to_owned()),
            status,
            end: "complete".to_owned(),
            attempts: 1,
            text: String::new(),
        }
    }

    fn round() -> Round {
        let options: Options = parse(&["fail-fast"]).unwrap();
        let mut rounds = options.cases().unwrap()[0](&options).rounds;
        rounds.remove(0)
    }

    fn left() -> Left {
        let figures = json!({
            "requests": 200, "errors": 3, "unfinished": 1, "errors_by_kind": {"status_5xx": 2},
            "p50_ms": 1.5, "p99_ms": 2.5, "p999_ms": 3.5, "max_ms": 4.5, "sent_late": {"p99_ms": 0.25},
        });
        // The trouble is from 2 s to 12 s; measured are 3 s to 12 s, and 22 s to 25 s.
        let lines = vec![
            line(1_999, "bad", 500),
            line(2_000, "bad", 500),
            line(2_999, "good", 500),
            line(3_000, "bad", 200),
            line(11_999, "good", 200),
            line(12_000, "good", 200),
            line(22_000, "good", 502),
            line(24_999, "good", 200),
        ];
        Left {
            seen: vec![figures],
            lines,
            began: Duration::from_secs(1_000),
            first_replica: "bad".to_owned(),
            counts: vec![
                json!({"begun": 6, "busy_us": 6_000}),
                json!({"begun": 4, "busy_us": 2_000}),
            ],
            status: json!({
                "replicas": [{"requests": {"hedges": 1}}, {"requests": {"hedges": 3}}],
                "services": [{"admission": {"ties_sent": 2}}],
            }),
        }
    }

    #[test]
    fn figures_are_read_from_their_sources_and_windows() {
        let found = Found::new(&round(), &left());
        for (column, expected) in [
            (Column::Errors, 1.5),
            (Column::Unanswered, 2.0),
            (Column::FirstSecond, 2.0),
            (Column::P50, 1.5),
            (Column::P99, 2.5),
            (Column::P999, 3.5),
            (Column::Max, 4.5),
            (Column::Share, 50.0),
            (Column::ShareAfter, 0.0),
            (Column::ErrorsAfter, 50.0),
            (Column::Copies, 50.0),
            (Column::Tied, 25.0),
            (Column::Begun, 25.0),
            (Column::Work, 1.0),
            (Column::Late, 0.25),
        ] {
            assert_eq!(found.of(column), Some(expected), "{}", column.key());
        }
        let second = &found.raw["seconds"][2];
        assert_eq!(
            second,
            &json!({"requests": 2, "errors": 2, "first_replica": 1})
        );
    }

    #[test]
    fn missing_data_yields_no_figure() {
        let mut left = left();
        left.lines.clear();
        left.seen.clear();
        let found = Found::new(&round(), &left);
        for column in [
            Column::Errors,
            Column::Share,
            Column::ShareAfter,
            Column::Work,
        ] {
            assert_eq!(found.of(column), None, "{}", column.key());
        }
    }
}
