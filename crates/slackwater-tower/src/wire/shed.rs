//! The response with which a replica rejects a request unstarted: load, not a failure.
//!
//! The answer has status 503, `retry-after: 1`, content type `text/plain; charset=utf-8`, and the
//! reason in `x-slackwater-error`. gRPC calls get status 200 and `grpc-status: 14` (`UNAVAILABLE`),
//! or 4 (`DEADLINE_EXCEEDED`) if their deadline has passed, with `grpc-retry-pushback-ms: 1000`.

use crate::response::is_grpc;
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use slackwater_core::overload::Shed;
use slackwater_http::FieldMap;

/// The reason for an answer that does not come from the application, in one word.
pub const ERROR: HeaderName = HeaderName::from_static("x-slackwater-error");

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// The value of [`ERROR`] for a reason.
pub const fn mark(shed: Shed) -> &'static str {
    match shed {
        Shed::Full => "shed_full",
        Shed::Deadline => "shed_deadline",
        Shed::WaitOver => "shed_wait_over",
        Shed::Overloaded => "shed_overloaded",
        Shed::CopyStarted => "shed_twin_started",
    }
}

/// The reason for a value of [`ERROR`]; `None` if it is none of these.
pub fn marked(value: &[u8]) -> Option<Shed> {
    Shed::ALL
        .into_iter()
        .find(|shed| value == mark(*shed).as_bytes())
}

/// The gRPC status for a reason.
pub const fn grpc_status(shed: Shed) -> &'static str {
    match shed {
        Shed::Deadline => "4",
        Shed::Full | Shed::WaitOver | Shed::Overloaded | Shed::CopyStarted => "14",
    }
}

/// Makes the answer, without a body, to a request with these headers.
pub fn shed_response(shed: Shed, request: &impl FieldMap) -> Response<()> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert(ERROR, HeaderValue::from_static(mark(shed)));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    if is_grpc(request) {
        headers.insert(header::CONTENT_TYPE, GRPC);
        headers.insert("grpc-status", HeaderValue::from_static(grpc_status(shed)));
        headers.insert("grpc-retry-pushback-ms", HeaderValue::from_static("1000"));
    } else {
        headers.insert(header::CONTENT_TYPE, TEXT);
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response.extensions_mut().insert(shed);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    #[test]
    fn each_shed_reason_round_trips() {
        for shed in Shed::ALL {
            let response = shed_response(shed, &HeaderMap::new());
            assert_eq!(response.status(), 503);
            assert_eq!(response.headers()[header::RETRY_AFTER], "1");
            assert_eq!(marked(response.headers()[ERROR].as_bytes()), Some(shed));
            assert_eq!(response.extensions().get(), Some(&shed));
        }
        assert_eq!(marked(b"shed"), None);
    }

    #[test]
    fn a_grpc_call_gets_a_grpc_status() {
        let call = (header::CONTENT_TYPE, GRPC);
        let call = HeaderMap::from_iter([call]);
        for (shed, status) in [(Shed::Full, "14"), (Shed::Deadline, "4")] {
            let response = shed_response(shed, &call);
            assert_eq!(response.status(), 200);
            let headers = response.headers();
            assert_eq!(headers["grpc-status"], status);
            assert_eq!(headers["grpc-retry-pushback-ms"], "1000");
            assert_eq!(headers[header::CONTENT_TYPE], "application/grpc");
        }
    }
}
