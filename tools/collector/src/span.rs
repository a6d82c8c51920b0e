//! A span for inspection: ids as text, attributes by name.

use core::fmt::Write;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1 as otlp;
use std::collections::BTreeMap;

/// Attributes by their names.
pub type Attributes = BTreeMap<String, Value>;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Something else.
    Other,
}

/// The side of a request that a span describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server.
    Server,
    /// The client.
    Client,
    /// Something else.
    Other,
}

/// A span and its resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The attributes of the resource that sent it.
    pub resource: Attributes,
    /// The instrumentation scope that made it.
    pub scope: String,
    /// The span.
    pub span: Span,
}

/// An operation with its duration.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace's id, as 32 digits.
    pub trace: String,
    /// The span's id, as 16 digits.
    pub id: String,
    /// The parent span's id; empty if there is none.
    pub parent: String,
    /// The state for other tracing systems (`tracestate`).
    pub state: String,
    /// The span's name.
    pub name: String,
    /// Its side of the request.
    pub kind: Kind,
    /// Start, in nanoseconds since 1970.
    pub start_ns: u64,
    /// End, in nanoseconds since 1970.
    pub end_ns: u64,
    /// The span's attributes.
    pub attributes: Attributes,
    /// The span's events.
    pub events: Vec<Event>,
    /// Whether its status is an error.
    pub failed: bool,
    /// Its flags.
    pub flags: u32,
}

/// An event within a span.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time, in nanoseconds since 1970.
    pub at_ns: u64,
    /// The event's name.
    pub name: String,
    /// The event's attributes.
    pub attributes: Attributes,
}

impl Span {
    /// The text of an attribute; empty if there is none.
    pub fn text(&self, key: &str) -> &str {
        match self.attributes.get(key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// The number of an attribute.
    pub fn number(&self, key: &str) -> Option<i64> {
        match self.attributes.get(key) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        }
    }

    /// An event by its name.
    pub fn event(&self, name: &str) -> Option<&Event> {
        self.events.iter().find(|event| event.name == name)
    }
}

/// The spans of an export.
pub(crate) fn received(request: &ExportTraceServiceRequest) -> Vec<Received> {
    let mut all = Vec::new();
    for of_resource in &request.resource_spans {
        let said = of_resource.resource.as_ref().map(|it| &it.attributes[..]);
        let resource = attributes(said.unwrap_or_default());
        for of_scope in &of_resource.scope_spans {
            let scope = of_scope.scope.as_ref().map(|it| it.name.clone());
            all.extend(of_scope.spans.iter().map(|it| Received {
                resource: resource.clone(),
                scope: scope.clone().unwrap_or_default(),
                span: span(it),
            }));
        }
    }
    all
}

fn span(span: &otlp::Span) -> Span {
    let event = |event: &otlp::span::Event| Event {
        at_ns: event.time_unix_nano,
        name: event.name.clone(),
        attributes: attributes(&event.attributes),
    };
    Span {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        state: span.trace_state.clone(),
        name: span.name.clone(),
        kind: match span.kind() {
            otlp::span::SpanKind::Server => Kind::Server,
            otlp::span::SpanKind::Client => Kind::Client,
            _ => Kind::Other,
        },
        start_ns: span.start_time_unix_nano,
        end_ns: span.end_time_unix_nano,
        attributes: attributes(&span.attributes),
        events: span.events.iter().map(event).collect(),
        failed: (span.status.as_ref())
            .is_some_and(|status| status.code() == otlp::status::StatusCode::Error),
        flags: span.flags,
    }
}

fn attributes(said: &[KeyValue]) -> Attributes {
    let pair = |pair: &KeyValue| (pair.key.clone(), value(pair.value.as_ref()));
    said.iter().map(pair).collect()
}

fn value(value: Option<&AnyValue>) -> Value {
    match value.and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => Value::Text(text.clone()),
        Some(any_value::Value::BoolValue(value)) => Value::Bool(*value),
        Some(any_value::Value::IntValue(number)) => Value::Int(*number),
        _ => Value::Other,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
