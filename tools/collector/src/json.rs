//! Spans as JSON, for people and scripts.

use crate::span::{Attributes, Event, Kind, Span, Value};
use serde_json::{Map, json};

/// The spans of a trace, as a list.
pub(crate) fn trace(spans: &[Span]) -> serde_json::Value {
    spans.iter().map(span).collect()
}

fn span(span: &Span) -> serde_json::Value {
    json!({
        "trace_id": span.trace,
        "span_id": span.id,
        "parent_span_id": span.parent,
        "name": span.name,
        "kind": match span.kind {
            Kind::Server => "server",
            Kind::Client => "client",
            Kind::Other => "other",
        },
        "start_ns": span.start_ns,
        "end_ns": span.end_ns,
        "failed": span.failed,
        "attributes": attributes(&span.attributes),
        "events": span.events.iter().map(event).collect::<Vec<_>>(),
    })
}

fn event(event: &Event) -> serde_json::Value {
    json!({
        "at_ns": event.at_ns,
        "name": event.name,
        "attributes": attributes(&event.attributes),
    })
}

fn attributes(attributes: &Attributes) -> serde_json::Value {
    let value = |value: &Value| match value {
        Value::Text(text) => json!(text),
        Value::Bool(value) => json!(value),
        Value::Int(number) => json!(number),
        Value::Other => serde_json::Value::Null,
    };
    let pairs = attributes
        .iter()
        .map(|(key, said)| (key.clone(), value(said)));
    serde_json::Value::Object(pairs.collect::<Map<_, _>>())
}
