//! A span as it is looked at: ids as text, attributes by name.

use core::fmt::Write;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1 as otlp;
use std::collections::BTreeMap;

/// Attributes by their names.
pub type Attributes = BTreeMap<String, Value>;

/// What an attribute says.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Something else.
    Other,
}

/// Which side of a request a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The one that was asked.
    Server,
    /// The one that asks.
    Client,
    /// Something else.
    Other,
}

/// A span with who sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// Who sent it.
    pub resource: Attributes,
    /// By what it was made.
    pub scope: String,
    /// The span.
    pub span: Span,
}

/// One thing that took some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace that it belongs to, as 32 digits.
    pub trace: String,
    /// Itself, as 16 digits.
    pub id: String,
    /// The span above it; empty if there is none.
    pub parent: String,
    /// What other tracing systems say.
    pub state: String,
    /// What it is called.
    pub name: String,
    /// Which side it is.
    pub kind: Kind,
    /// When it began, in nanoseconds since 1970.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// What is said of it.
    pub attributes: Attributes,
    /// What happened in it.
    pub events: Vec<Event>,
    /// Its status says that it failed.
    pub failed: bool,
    /// Its flags.
    pub flags: u32,
}

/// Something that happened within a span.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, in nanoseconds since 1970.
    pub at_ns: u64,
    /// What.
    pub name: String,
    /// What is said of it.
    pub attributes: Attributes,
}

impl Span {
    /// A text that is said of it; empty if none is.
    pub fn text(&self, key: &str) -> &str {
        match self.attributes.get(key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// A number that is said of it.
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
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
