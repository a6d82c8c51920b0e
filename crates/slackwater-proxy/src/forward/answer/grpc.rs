//! The proxy's own answers to gRPC calls.
//!
//! A gRPC client reads the status from header fields and ignores text. So an HTTP error answer
//! becomes a response without a body, with the status in its head ("Trailers-Only" in gRPC over
//! HTTP/2). The error kind stays in its field, and so does the time to retry after.

use super::HEAD_TOO_LARGE;
use crate::forward::head::error_field::{
    GRPC, GRPC_MESSAGE, GRPC_PUSHBACK, GRPC_STATUS, UNAVAILABLE, X_SLACKWATER_ERROR,
};
use crate::forward::response::{ResponseBody, Watch};
use http::StatusCode;
use http::header::{self, HeaderValue};
use slackwater_http::Response;
pub use slackwater_tower::response::is_grpc as is_grpc_call;
use slackwater_tower::wire::shed;

/// `RESOURCE_EXHAUSTED`: something is too large.
const RESOURCE_EXHAUSTED: &str = "8";

/// Converts the proxy's own answer to gRPC. Any other response is left unchanged.
pub fn convert_to_grpc<W: Watch>(response: &mut Response<ResponseBody<W>>) {
    let status = response.status();
    if status.is_success() || !response.headers().contains_key(X_SLACKWATER_ERROR) {
        return;
    }
    let Some(text) = response.body_mut().take_own() else {
        return;
    };
    let kind = response.headers().get(X_SLACKWATER_ERROR);
    let grpc_status = if kind.is_some_and(|kind| kind == HEAD_TOO_LARGE) {
        // Clients retry `UNAVAILABLE`, but metadata that is too large will be too large again.
        RESOURCE_EXHAUSTED
    } else {
        (kind.and_then(|kind| shed::marked(kind.as_bytes())))
            .map_or(grpc_status(status), shed::grpc_status)
    };
    let message = HeaderValue::try_from(message(text.trim_ascii_end()));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(GRPC));
    headers.insert(GRPC_STATUS, HeaderValue::from_static(grpc_status));
    headers.extend(message.ok().map(|message| (GRPC_MESSAGE, message)));
    let after = headers.get(header::RETRY_AFTER);
    let after = after.and_then(|after| after.to_str().ok()?.parse::<u32>().ok());
    let pushback = after.map(|seconds| HeaderValue::from(u64::from(seconds) * 1000));
    headers.extend(pushback.map(|pushback| (GRPC_PUSHBACK, pushback)));
}

/// Maps HTTP statuses as gRPC does, except for answers of the proxy that are more specific: timed
/// out (4), too large (8), not offered (12).
fn grpc_status(status: StatusCode) -> &'static str {
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => "4",
        StatusCode::FORBIDDEN => "7",
        StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::URI_TOO_LONG
        | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => RESOURCE_EXHAUSTED,
        StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => "12",
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => UNAVAILABLE,
        StatusCode::BAD_REQUEST
        | StatusCode::EXPECTATION_FAILED
        | StatusCode::HTTP_VERSION_NOT_SUPPORTED
        | StatusCode::LOOP_DETECTED => "13",
        StatusCode::UNAUTHORIZED => "16",
        _ => "2",
    }
}

/// Percent-encodes a message: printable ASCII except `%` stays.
fn message(text: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for &byte in text {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for half in [byte >> 4, byte & 15] {
                encoded.extend(char::from_digit(half.into(), 16).map(|d| d.to_ascii_uppercase()));
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grpc_call_is_recognized_by_its_content_type() {
        for (said, is_one) in [
            ("application/grpc", true),
            ("Application/gRPC", true),
            ("application/grpc+proto", true),
            ("application/grpc;x=1", true),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("application/grp", false),
            ("text/plain", false),
        ] {
            let mut headers = slackwater_http::Fields::new();
            assert!(!is_grpc_call(&headers));
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(said));
            assert_eq!(is_grpc_call(&headers), is_one, "{said}");
        }
    }

    #[test]
    fn a_message_is_printable_and_can_be_read_back() {
        assert_eq!(
            message(b"no replica: 100% \xe2\x82\xac\n"),
            "no replica: 100%25 %E2%82%AC%0A"
        );
    }

    #[test]
    fn statuses_state_whether_a_retry_is_possible() {
        for (status, grpc) in [
            (400, "13"),
            (401, "16"),
            (403, "7"),
            (404, "12"),
            (408, "4"),
            (413, "8"),
            (414, "8"),
            (417, "13"),
            (418, "2"),
            (431, "8"),
            (501, "12"),
            (502, "14"),
            (503, "14"),
            (504, "4"),
            (505, "13"),
            (508, "13"),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(grpc_status(status), grpc, "{status}");
        }
    }
}
