//! W3C Trace Context, the field `traceparent`: the trace of a request, and the span that sent it.
//!
//! The field is parsed strictly, as the recommendation requires: lower-case digits, exact lengths,
//! no id of zeros, no version ff. From a later version, the known prefix is used.

use core::num::{NonZeroU64, NonZeroU128};
use http::header::{HeaderName, HeaderValue};
use slackwater_http::Fields;
use slackwater_telemetry::trace::{SpanId, TraceId};

pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// `00-` + 32 digits + `-` + 16 digits + `-` + 2 digits.
const LENGTH: usize = 55;

/// Trace flags of the sender. Only known flags are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    const SAMPLED: u8 = 1;
    /// The last 7 bytes of the trace id are random.
    const RANDOM: u8 = 2;
    const KNOWN: u8 = Self::SAMPLED | Self::RANDOM;

    /// Flags of a trace that starts here.
    pub(super) const BEGUN: Self = Self(Self::KNOWN);

    pub(super) const fn is_sampled(self) -> bool {
        self.0 & Self::SAMPLED != 0
    }

    pub(super) const fn bits(self) -> u8 {
        self.0
    }
}

/// The context of a span that sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanContext {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub(super) flags: Flags,
}

impl SpanContext {
    /// Reads the context from a request's fields; `None` if there is no valid one.
    pub(super) fn of(headers: &Fields) -> Option<Self> {
        let mut fields = headers.get_all(TRACEPARENT);
        let only = fields.next()?;
        // With two parents, neither is valid.
        if fields.next().is_some() {
            return None;
        }
        Self::parse(only.as_bytes())
    }

    fn parse(field: &[u8]) -> Option<Self> {
        let (known, rest) = field.split_at_checked(LENGTH)?;
        let [version, trace, span, flags] =
            [&known[..2], &known[3..35], &known[36..52], &known[53..]];
        if [known[2], known[35], known[52]] != *b"---" {
            return None;
        }
        let is_whole = match digits(version)? {
            0 => rest.is_empty(),
            0xff => false,
            // Additions of a later version begin with a dash.
            _ => rest.first().is_none_or(|&byte| byte == b'-'),
        };
        if !is_whole {
            return None;
        }
        let span = u64::try_from(digits(span)?).ok()?;
        let flags = u8::try_from(digits(flags)?).ok()?;
        Some(Self {
            trace: TraceId(NonZeroU128::new(digits(trace)?)?),
            span: SpanId(NonZeroU64::new(span)?),
            flags: Flags(flags & Flags::KNOWN),
        })
    }

    /// Sets this span as the sender in a request's fields.
    pub(super) fn mark(self, headers: &mut Fields) {
        // Its 55 characters are all allowed in a field.
        if let Some(value) = self.to_value() {
            headers.insert(TRACEPARENT, value);
        }
    }

    /// Formats the field, in the current version.
    fn to_value(self) -> Option<HeaderValue> {
        let Self { trace, span, flags } = self;
        HeaderValue::try_from(format!("00-{trace}-{span}-{:02x}", flags.bits())).ok()
    }
}

/// Parses at most 32 hexadecimal digits, all lower case.
fn digits(written: &[u8]) -> Option<u128> {
    written.iter().try_fold(0, |number: u128, &byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn parsed(field: &str) -> Option<SpanContext> {
        SpanContext::parse(field.as_bytes())
    }

    #[test]
    fn example_from_the_trace_context_recommendation() {
        let context = parsed(VALID).expect("valid");
        assert_eq!(
            context.trace.to_string(),
            "0af7651916cd43dd8448eb211c80319c"
        );
        assert_eq!(context.span.to_string(), "b7ad6b7169203331");
        assert!(context.flags.is_sampled());
        assert_eq!(context.to_value().expect("a value"), VALID);
    }

    #[test]
    fn invalid_fields_are_ignored() {
        for (wrong, why) in [
            ("", "nothing"),
            (
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
                "too short",
            ),
            (
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
                "too long",
            ),
            (
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
                "more than version 00 has",
            ),
            (
                "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "version ff",
            ),
            (
                "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
                "a later one goes on with a dash",
            ),
            (
                "0-00af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "a version of one digit",
            ),
            (
                "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                "no trace",
            ),
            (
                "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                "no span",
            ),
            (
                "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "a capital in the trace",
            ),
            (
                "00-0af7651916cd43dd8448eb211c80319c-B7ad6b7169203331-01",
                "a capital in the span",
            ),
            (
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
                "a capital in the flags",
            ),
            (
                "0G-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "no digit",
            ),
            (
                "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "no dash, first",
            ),
            (
                "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
                "no dash, second",
            ),
            (
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
                "no dash, third",
            ),
            (
                "00-0af7651916cd43dd8448eb211c8031-9cb7ad6b7169203331-0101",
                "ids of other lengths",
            ),
            (
                " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "a space",
            ),
        ] {
            assert_eq!(parsed(wrong), None, "{why}");
        }
    }

    #[test]
    fn later_versions_are_read_as_the_known_one() {
        let known = parsed(VALID);
        assert!(known.is_some());
        for later in [
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes",
            "fe-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        ] {
            assert_eq!(parsed(later), known, "{later}");
        }
    }

    #[test]
    fn unknown_flags_are_not_forwarded() {
        for (written, sampled, passed) in [
            ("00", false, "00"),
            ("01", true, "01"),
            ("02", false, "02"),
            ("ff", true, "03"),
            ("fc", false, "00"),
        ] {
            let context = parsed(&format!("{}{written}", &VALID[..53])).expect("valid");
            assert_eq!(context.flags.is_sampled(), sampled, "{written}");
            let value = context.to_value().expect("a value");
            assert_eq!(&value.as_bytes()[53..], passed.as_bytes(), "{written}");
        }
    }

    #[test]
    fn repeated_traceparent_field_is_ignored() {
        let mut headers = Fields::new();
        assert_eq!(SpanContext::of(&headers), None);
        headers.append(TRACEPARENT, HeaderValue::from_static(VALID));
        assert_eq!(SpanContext::of(&headers), parsed(VALID));
        headers.append(TRACEPARENT, HeaderValue::from_static(VALID));
        assert_eq!(SpanContext::of(&headers), None);
    }

    proptest! {
        #[test]
        fn valid_fields_round_trip(trace in 1_u128.., span in 1_u64.., flags in 0_u8..4) {
            let field = format!("00-{trace:032x}-{span:016x}-{flags:02x}");
            let context = parsed(&field).expect("valid");
            prop_assert_eq!(context.to_value().expect("a value"), field);
        }

        #[test]
        fn only_the_grammar_is_accepted(field in "[0-9a-fA-Fg-]{0,3}-?[0-9a-f]{31,33}-[0-9a-f]{15,17}-[0-9a-fF]{1,3}(-x?)?") {
            let parts: Vec<_> = field.split('-').collect();
            let lower = |part: &str, length| part.len() == length && part.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
            let is_something = |part: &str| part.bytes().any(|byte| byte != b'0');
            let fits = parts.len() >= 4
                && lower(parts[0], 2) && parts[0] != "ff"
                && lower(parts[1], 32) && is_something(parts[1])
                && lower(parts[2], 16) && is_something(parts[2])
                && lower(parts[3], 2)
                && (parts[0] != "00" || parts.len() == 4);
            prop_assert_eq!(parsed(&field).is_some(), fits, "{}", field);
        }

        #[test]
        fn arbitrary_bytes_are_parsed_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(context) = SpanContext::parse(&bytes) {
                let value = context.to_value().expect("a value");
                prop_assert_eq!(&value.as_bytes()[2..53], &bytes[2..53]);
            }
        }
    }
}
