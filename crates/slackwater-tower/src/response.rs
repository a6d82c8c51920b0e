//! The outcome of a query according to its HTTP response, for both sides, and where the body ends.
//!
//! A status of 500 or more is a failure, and so is a gRPC status that blames the server; a gRPC
//! response always has status 200. An answer to a bad request is a good answer: 4xx and its gRPC
//! counterparts are successes.
//!
//! A body may not be polled to its end: servers stop at the announced length.

use bytes::Buf;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, TRAILER};
use http::{HeaderName, StatusCode};
use http_body::{Body, Frame};
use slackwater_core::policy::Outcome;
use slackwater_http::{FieldMap, Value};

/// The field in which gRPC reports how a call ended: in the trailers, or in a head without a body.
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Whether these are the fields of a gRPC call or of an answer to one, by their `content-type`.
/// gRPC-Web does not count: it is another protocol.
pub fn is_grpc(headers: &impl FieldMap) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    let read = headers.first(&CONTENT_TYPE).map(Value::as_bytes);
    let Some((start, rest)) = read.and_then(|read| read.split_at_checked(GRPC.len())) else {
        return false;
    };
    start.eq_ignore_ascii_case(GRPC)
        && (rest.first()).is_none_or(|next| matches!(next, b'+' | b';' | b' '))
}

/// How a gRPC call ended, as a number: 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcStatus(u8);

impl GrpcStatus {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];

    /// The status in these headers or trailers. `None` if there is none, or if it is not a number
    /// of one or two digits.
    pub fn of(fields: &impl FieldMap) -> Option<Self> {
        let digit = |byte: u8| byte.is_ascii_digit().then(|| byte - b'0');
        let status = fields.first(&GRPC_STATUS)?;
        match *status.as_bytes() {
            [ones] => digit(ones).map(Self),
            [tens @ b'1'..=b'9', ones] => digit(ones).map(|ones| Self((tens - b'0') * 10 + ones)),
            _ => None,
        }
    }

    /// The number.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The name of the status in gRPC; `None` if the number has no meaning.
    pub fn name(self) -> Option<&'static str> {
        Self::NAMES.get(usize::from(self.0)).copied()
    }

    /// Whether the call succeeded.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Whether the status blames the server: `UNKNOWN` (2), `DEADLINE_EXCEEDED` (4),
    /// `RESOURCE_EXHAUSTED` (8), `UNIMPLEMENTED` (12), `INTERNAL` (13), `UNAVAILABLE` (14) or
    /// `DATA_LOSS` (15). All others, such as `CANCELLED`, `NOT_FOUND` or `PERMISSION_DENIED`, are
    /// about the caller.
    pub const fn blames_server(self) -> bool {
        matches!(self.0, 2 | 4 | 8 | 12..=15)
    }
}

/// Whether these headers or trailers carry a gRPC status that [blames the
/// server](GrpcStatus::blames_server).
pub fn grpc_failed(headers: &impl FieldMap) -> bool {
    GrpcStatus::of(headers).is_some_and(GrpcStatus::blames_server)
}

/// The number of bytes of a body that are still to come, if known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BytesLeft {
    bytes: Option<u64>,
    /// Whether trailers may follow the last byte. Those of gRPC may come unannounced.
    before_trailers: bool,
}

impl BytesLeft {
    /// The length is not known.
    pub(crate) const UNKNOWN: Self = Self::of(None);

    const fn of(bytes: Option<u64>) -> Self {
        Self {
            bytes,
            before_trailers: false,
        }
    }

    /// Derives the length from the response's head, its body and the method of its request.
    pub(crate) fn of_response(
        status: StatusCode,
        headers: &impl FieldMap,
        body: &impl Body,
        asks_head_only: bool,
    ) -> Self {
        let has_no_body = asks_head_only
            || status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if has_no_body {
            return Self::of(Some(0));
        }
        let exact = body.size_hint().exact();
        Self {
            bytes: exact.or_else(|| headers.first(&CONTENT_LENGTH)?.to_str().ok()?.parse().ok()),
            before_trailers: is_grpc(headers) || headers.first(&TRAILER).is_some(),
        }
    }

    /// Counts a frame that has arrived.
    pub(crate) fn take<D: Buf>(&mut self, frame: &Frame<D>) {
        if let (Some(left), Some(data)) = (self.bytes.as_mut(), frame.data_ref()) {
            let bytes = u64::try_from(data.remaining()).unwrap_or(u64::MAX);
            *left = left.saturating_sub(bytes);
        }
    }

    /// Whether nothing more is to come.
    pub(crate) const fn is_none(self) -> bool {
        self.have_come() && !self.before_trailers
    }

    /// Whether all bytes have come. A reader that stops there has read the whole body.
    pub(crate) const fn have_come(self) -> bool {
        matches!(self.bytes, Some(0))
    }
}

/// The result of a query, according to a response's head or its trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOutcome {
    /// Outcome of the query.
    pub outcome: Outcome,
    /// Status of a gRPC call, if these fields contain it.
    pub grpc_status: Option<GrpcStatus>,
}

/// Reads the outcome of a query from a response's head: pushback, failure or success. A pushback is
/// status 429 or 503 with `retry-after`, or gRPC's counterpart. A 503 without it may have any
/// cause, and is a failure; a 429 without it blames the caller. `[E1]`
pub fn read_head(status: StatusCode, headers: &impl FieldMap) -> ReadOutcome {
    let mut read = read_trailers(headers, Outcome::Success);
    if read.outcome == Outcome::Success && status.is_server_error() {
        read.outcome = Outcome::Failed;
    }
    let refuses = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    if refuses && headers.first(&RETRY_AFTER).is_some() {
        read.outcome = Outcome::PushedBack;
    }
    read
}

/// Reads the outcome of a query from a response's trailers; `by_head` is the outcome according to
/// the head. `RESOURCE_EXHAUSTED` (8), `UNAVAILABLE` (14) or `DEADLINE_EXCEEDED` (4) with
/// `grpc-retry-pushback-ms`, whatever its value, is a pushback.
pub fn read_trailers(trailers: &impl FieldMap, by_head: Outcome) -> ReadOutcome {
    let grpc_status = GrpcStatus::of(trailers);
    let outcome = match grpc_status {
        Some(status) if status.blames_server() => {
            let may_push_back = matches!(status.code(), 4 | 8 | 14);
            if may_push_back && trailers.first(&GRPC_RETRY_PUSHBACK_MS).is_some() {
                Outcome::PushedBack
            } else {
                Outcome::Failed
            }
        }
        _ => by_head,
    };
    ReadOutcome {
        outcome,
        grpc_status,
    }
}

/// As [`read_head`], but returns only the query's outcome.
pub fn head_outcome(status: StatusCode, headers: &impl FieldMap) -> Outcome {
    read_head(status, headers).outcome
}

/// As [`read_trailers`], but returns only the query's outcome.
pub fn trailers_outcome(trailers: &impl FieldMap, by_head: Outcome) -> Outcome {
    read_trailers(trailers, by_head).outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};

    fn headers(grpc_status: &str) -> HeaderMap {
        let status = grpc_status.parse().expect("a header's value");
        HeaderMap::from_iter([(GRPC_STATUS, status)])
    }

    #[test]
    fn only_grpc_statuses_that_blame_the_server_are_failures() {
        let failed: Vec<_> = (0..=17)
            .filter(|status: &u8| grpc_failed(&headers(&status.to_string())))
            .collect();
        assert_eq!(failed, [2, 4, 8, 12, 13, 14, 15]);
        assert!(!grpc_failed(&headers("")));
        assert!(!grpc_failed(&HeaderMap::new()));
    }

    #[test]
    fn grpc_status_is_a_number_with_a_name_if_it_is_known() {
        for (read, code, name) in [
            ("0", 0, Some("OK")),
            ("5", 5, Some("NOT_FOUND")),
            ("14", 14, Some("UNAVAILABLE")),
            ("16", 16, Some("UNAUTHENTICATED")),
            ("17", 17, None),
            ("99", 99, None),
        ] {
            let headers = headers(read);
            let status = GrpcStatus::of(&headers).expect("a number");
            assert_eq!((status.code(), status.name()), (code, name));
            assert_eq!(status.is_ok(), read == "0");
            let of_head = read_head(StatusCode::OK, &headers).grpc_status;
            assert_eq!(of_head, Some(status), "{read}");
        }
        for unfit in ["", "014", "05", "-1", "x", "1x", "100"] {
            assert_eq!(GrpcStatus::of(&headers(unfit)), None, "{unfit}");
        }
    }

    #[test]
    fn retry_after_is_pushback_and_no_failure() {
        let later = (RETRY_AFTER, HeaderValue::from_static("1"));
        let plain = HeaderMap::new();
        let told = HeaderMap::from_iter([later]);
        for (status, without, with) in [
            (200, Outcome::Success, Outcome::Success),
            (429, Outcome::Success, Outcome::PushedBack),
            (500, Outcome::Failed, Outcome::Failed),
            (503, Outcome::Failed, Outcome::PushedBack),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(head_outcome(status, &plain), without, "{status}");
            assert_eq!(head_outcome(status, &told), with, "{status}");
        }
        for (status, without, with) in [
            ("0", Outcome::Success, Outcome::Success),
            ("8", Outcome::Failed, Outcome::PushedBack),
            ("13", Outcome::Failed, Outcome::Failed),
            ("14", Outcome::Failed, Outcome::PushedBack),
        ] {
            let mut headers = headers(status);
            for outcome in [without, with] {
                assert_eq!(head_outcome(StatusCode::OK, &headers), outcome, "{status}");
                let by_trailers = trailers_outcome(&headers, Outcome::Success);
                assert_eq!(by_trailers, outcome, "{status}");
                headers.insert("grpc-retry-pushback-ms", HeaderValue::from_static("7"));
            }
        }
        let by_trailers = trailers_outcome(&plain, Outcome::PushedBack);
        assert_eq!(by_trailers, Outcome::PushedBack, "as the head had it");
    }

    #[test]
    fn head_fails_by_http_or_grpc_status() {
        for (status, grpc, outcome) in [
            (StatusCode::BAD_GATEWAY, "0", Outcome::Failed),
            (StatusCode::OK, "14", Outcome::Failed),
            (StatusCode::NOT_FOUND, "5", Outcome::Success),
        ] {
            assert_eq!(head_outcome(status, &headers(grpc)), outcome, "{status}");
        }
    }
}
