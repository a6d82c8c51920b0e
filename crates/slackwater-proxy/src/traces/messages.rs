//! OTLP messages for traces, with the fields that are sent or read here (opentelemetry-proto 1.x,
//! whose field numbers do not change).

use super::context::SpanContext;
use core::time::Duration;
use prost::{Message, Oneof};
use slackwater_telemetry::trace::SpanId;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum length of a text attribute: a path or a user agent may be as long as a head.
const TEXT_BYTES_MAX: usize = 1024;

/// Bits in a span's flags above those of its context.
const IS_REMOTE_KNOWN: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// A span.
#[derive(Clone, PartialEq, Message)]
#[expect(clippy::struct_field_names, reason = "the names are the protocol's")]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(crate) trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(enumeration = "Kind", tag = "6")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(crate) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<Event>,
    #[prost(message, optional, tag = "15")]
    pub(crate) status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    pub(crate) flags: u32,
}

/// Side of a request that a span is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Kind {
    /// Not specified.
    Unspecified = 0,
    /// The receiver.
    Server = 2,
    /// The sender.
    Client = 3,
}

/// An event within a span.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(fixed64, tag = "1")]
    pub(crate) time_unix_nano: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) attributes: Vec<KeyValue>,
}

/// Status of a span.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(enumeration = "StatusCode", tag = "3")]
    pub(crate) code: i32,
}

/// Whether it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum StatusCode {
    /// Not set.
    Unset = 0,
    /// Failed.
    Error = 2,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

/// Value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3")]
    pub(crate) value: Option<Value>,
}

/// A value by its type.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Value {
    /// Text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A boolean.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// An integer.
    #[prost(int64, tag = "3")]
    Int(i64),
}

/// The sender of spans.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
}

/// The library that made the spans.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Scope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

/// A collector's response to an accepted export.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

/// The part of an export that was not accepted.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(crate) rejected_spans: i64,
    #[prost(string, tag = "2")]
    pub(crate) error_message: String,
}

/// `google.rpc.Status`, the reason over HTTP why an export was not accepted.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// A list of attributes.
#[derive(Debug, Default)]
pub(crate) struct Attributes(pub(crate) Vec<KeyValue>);

impl Attributes {
    fn add(&mut self, key: &str, value: Value) {
        self.0.push(KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
        });
    }

    /// Adds text. Invalid UTF-8 is replaced, and long text is cut.
    pub(crate) fn text(&mut self, key: &str, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        let mut text =
            String::from_utf8_lossy(&text[..text.len().min(TEXT_BYTES_MAX)]).into_owned();
        // A cut within a character may have made the text longer.
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        self.add(key, Value::Text(text));
    }

    /// Like [`Self::text`], if there is a value.
    pub(crate) fn optional(&mut self, key: &str, text: Option<impl AsRef<[u8]>>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    pub(crate) fn number(&mut self, key: &str, number: u64) {
        self.add(key, Value::Int(i64::try_from(number).unwrap_or(i64::MAX)));
    }

    pub(crate) fn micros(&mut self, key: &str, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.number(key, micros);
    }

    pub(crate) fn boolean(&mut self, key: &str, value: bool) {
        self.add(key, Value::Bool(value));
    }
}

impl Span {
    /// Makes the span of `own` below `parent`. For a server span, the parent is in another process.
    pub(super) fn new(own: SpanContext, parent: Option<SpanId>, kind: Kind) -> Self {
        let is_remote = kind == Kind::Server && parent.is_some();
        let remote = IS_REMOTE_KNOWN | if is_remote { IS_REMOTE } else { 0 };
        Self {
            trace_id: own.trace.0.get().to_be_bytes().to_vec(),
            span_id: own.span.0.get().to_be_bytes().to_vec(),
            parent_span_id: parent
                .map_or_else(Vec::new, |parent| parent.0.get().to_be_bytes().to_vec()),
            kind: kind as i32,
            flags: u32::from(own.flags.bits()) | remote,
            ..Self::default()
        }
    }
}

/// Returns nanoseconds since 1970; 0 for earlier times.
pub(crate) fn unix_nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Encodes the head of an export whose spans take `length` bytes with their tags. The spans follow
/// it directly, and end the message.
pub(crate) fn export_head(resource: &Resource, scope: &Scope, length: usize) -> Vec<u8> {
    use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, message};
    let scope_length = message::encoded_len(1, scope) + length;
    let nested = 1 + encoded_len_varint(scope_length as u64) + scope_length;
    let resource_length = message::encoded_len(1, resource) + nested;
    let mut head = Vec::new();
    encode_key(1, WireType::LengthDelimited, &mut head);
    encode_varint(resource_length as u64, &mut head);
    message::encode(1, resource, &mut head);
    encode_key(2, WireType::LengthDelimited, &mut head);
    encode_varint(scope_length as u64, &mut head);
    message::encode(1, scope, &mut head);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let text = |bytes: &[u8]| {
            let mut attributes = Attributes::default();
            attributes.text("k", bytes);
            match attributes.0[0].value.clone().and_then(|value| value.value) {
                Some(Value::Text(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(text(b"caf\xe9"), "caf\u{fffd}");
        assert_eq!(text("x".repeat(2000).as_bytes()).len(), 1024);
        let long = format!("{}\u{e4}{}", "x".repeat(1023), "y".repeat(9));
        assert_eq!(text(long.as_bytes()), "x".repeat(1023));
    }

    #[test]
    fn times_before_1970_are_0() {
        assert_eq!(unix_nanos(UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert_eq!(unix_nanos(UNIX_EPOCH + Duration::new(1, 7)), 1_000_000_007);
    }
}
