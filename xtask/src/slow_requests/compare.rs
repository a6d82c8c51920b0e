//! Compares the access log's line, the decision and the spans of one request.

use super::site::RequestSources;
use serde_json::Value;

/// One fact, as each of the three sources has it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) what: String,
    /// The value in access log, decision and spans.
    pub(super) values: [Option<String>; 3],
    /// The sources that must have it.
    required: [bool; 3],
}

impl Row {
    /// Returns whether all sources that must have it do, with the same value.
    pub(super) fn agrees(&self) -> bool {
        let values = self.values.iter().zip(self.required);
        let required: Vec<_> = values
            .filter_map(|(value, required)| required.then_some(value))
            .collect();
        required.iter().all(|value| value.is_some())
            && required.windows(2).all(|two| two[0] == two[1])
    }
}

/// A fact's name, and its field in the line, in the decision and in the span.
type Names = (&'static str, [&'static str; 3]);

/// Facts of the request.
const REQUEST: [Names; 7] = [
    ("id", ["id", "id", "slackwater.request_id"]),
    ("trace", ["trace_id", "trace_id", "trace_id"]),
    ("service", ["service", "service", "slackwater.service"]),
    ("method", ["method", "method", "http.request.method"]),
    ("path", ["path", "path", "url.path"]),
    ("status", ["status", "status", "http.response.status_code"]),
    ("end", ["end", "end", "slackwater.end"]),
];

/// Facts of the attempt that was answered.
const CHOICE: [Names; 6] = [
    ("replica", ["replica", "/replica", "slackwater.replica"]),
    ("reason", ["reason", "/reason", "slackwater.pick.reason"]),
    (
        "RIF limit",
        ["rif_limit", "/rif_limit", "slackwater.pick.rif_limit"],
    ),
    ("its RIF", ["rif", "/chosen/rif", "slackwater.report.rif"]),
    (
        "its latency, µs",
        [
            "latency_us",
            "/chosen/latency_us",
            "slackwater.report.latency_us",
        ],
    ),
    (
        "the report's age, µs",
        ["age_us", "/chosen/age_us", "slackwater.report.age_us"],
    ),
];

/// Facts of each attempt, in the decision and in its span.
const ATTEMPT: [(&str, &str, &str); 5] = [
    ("kind", "kind", "slackwater.attempt.kind"),
    ("replica", "replica", "slackwater.replica"),
    ("reason", "reason", "slackwater.pick.reason"),
    ("outcome", "outcome", "slackwater.attempt.outcome"),
    ("answered", "answered", "slackwater.attempt.answered"),
];

/// Returns the facts to compare.
///
/// # Errors
///
/// Fails if one of the three sources lacks a required part.
pub(super) fn rows(request: &RequestSources) -> Result<Vec<Row>, String> {
    let of_kind = |kind: &'static str| {
        request
            .spans
            .iter()
            .filter(move |span| span["kind"] == kind)
    };
    let server = of_kind("server").next().ok_or("no span of the request")?;
    let mut attempts: Vec<_> = of_kind("client").collect();
    attempts.sort_by_key(|span| span["attributes"]["slackwater.attempt.number"].as_u64());
    let tried = request.decision["attempts"].as_array();
    let tried =
        tried.ok_or_else(|| format!("a decision without attempts: {}", request.decision))?;

    let attribute = |span: &Value, name: &str| shown(&span["attributes"][name]);
    let mut rows: Vec<_> = REQUEST
        .into_iter()
        .map(|(what, [line, decision, span])| Row {
            what: what.to_owned(),
            values: [
                shown(&request.line[line]),
                shown(&request.decision[decision]),
                attribute(server, span).or_else(|| shown(&server[span])),
            ],
            required: [true; 3],
        })
        .collect();
    rows.push(Row {
        what: "total, µs".to_owned(),
        values: [
            shown(&request.line["total_us"]),
            shown(&request.decision["total_us"]),
            duration_us(server),
        ],
        required: [true; 3],
    });
    rows.push(Row {
        what: "first byte, µs".to_owned(),
        values: [
            shown(&request.line["first_byte_us"]),
            shown(&request.decision["first_byte_us"]),
            since_us(server, event_ns(server, "first_byte")),
        ],
        required: [true; 3],
    });
    rows.push(Row {
        what: "attempts".to_owned(),
        values: [
            shown(&request.line["attempts"]),
            Some(tried.len().to_string()),
            Some(attempts.len().to_string()),
        ],
        required: [true; 3],
    });
    let answered = attempts
        .iter()
        .position(|span| span["attributes"]["slackwater.attempt.answered"] == true);
    let answered = answered.ok_or("no span of an attempt that answered")?;
    let nothing = Value::Null;
    for (what, [line, decision, span]) in CHOICE {
        let of_decision = tried.get(answered).and_then(|it| it.pointer(decision));
        let values = [
            shown(&request.line[line]),
            shown(of_decision.unwrap_or(&nothing)),
            attribute(attempts[answered], span),
        ];
        // A choice without a report has no report fields; all three must agree on that.
        let is_optional = !["replica", "reason"].contains(&what);
        if is_optional && values.iter().all(Option::is_none) {
            continue;
        }
        rows.push(Row {
            what: what.to_owned(),
            values,
            required: [true; 3],
        });
    }
    for (number, span) in attempts.iter().enumerate() {
        let attempt = tried.get(number).unwrap_or(&nothing);
        let mut add = |what: &str, of_decision, of_span| {
            rows.push(Row {
                what: format!("attempt {}: {what}", number + 1),
                values: [None, of_decision, of_span],
                required: [false, true, true],
            });
        };
        for (what, field, name) in ATTEMPT {
            add(what, shown(&attempt[field]), attribute(span, name));
        }
        let sent = since_us(server, span["start_ns"].as_u64());
        add("sent, µs", shown(&attempt["sent_us"]), sent);
    }
    Ok(rows)
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn duration_us(span: &Value) -> Option<String> {
    since_us(span, span["end_ns"].as_u64())
}

fn event_ns(span: &Value, name: &str) -> Option<u64> {
    let events = span["events"].as_array()?;
    let event = events.iter().find(|event| event["name"] == name)?;
    event["at_ns"].as_u64()
}

/// Time since the start of a span in whole microseconds, rounded down as in all three.
fn since_us(span: &Value, at_ns: Option<u64>) -> Option<String> {
    let since_ns = at_ns?.checked_sub(span["start_ns"].as_u64()?)?;
    Some((since_ns / 1_000).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sources_agree_and_differences_are_found() {
        let row = |values: [Option<&str>; 3], required| Row {
            what: "x".to_owned(),
            values: values.map(|value| value.map(str::to_owned)),
            required,
        };
        let all = [true; 3];
        assert!(row([Some("1"), Some("1"), Some("1")], all).agrees());
        assert!(!row([Some("1"), Some("1"), Some("2")], all).agrees());
        assert!(!row([Some("2"), Some("1"), Some("1")], all).agrees());
        // A missing value is no agreement, unless the source need not have it.
        assert!(!row([Some("1"), None, Some("1")], all).agrees());
        assert!(!row([None, None, None], all).agrees());
        assert!(row([None, Some("1"), Some("1")], [false, true, true]).agrees());
        assert!(!row([None, Some("1"), Some("2")], [false, true, true]).agrees());
    }

    #[test]
    fn times_of_a_span_are_relative_to_its_start() {
        let span = serde_json::json!({
            "start_ns": 1_000_000, "end_ns": 3_500_999,
            "events": [{ "name": "first_byte", "at_ns": 2_000_000 }],
        });
        assert_eq!(duration_us(&span).as_deref(), Some("2500"));
        assert_eq!(
            since_us(&span, event_ns(&span, "first_byte")).as_deref(),
            Some("1000")
        );
        assert_eq!(event_ns(&span, "hedged"), None);
        assert_eq!(since_us(&span, Some(5)), None);
    }
}
