//! What an HTTP response says of its query, for both sides: whether it failed.
//!
//! A status of 500 or more is a failure, and so is a gRPC status that blames the server; a gRPC response has status 200
//! whatever became of it. Who sent a bad request is answered just as well as anybody: 4xx and its gRPC counterparts are
//! successes.

use http::{HeaderMap, HeaderValue, StatusCode};

/// Whether a response's head says that the query failed.
pub(crate) fn head_failed(status: StatusCode, headers: &HeaderMap) -> bool {
    status.is_server_error() || grpc_failed(headers)
}

/// Whether these headers or trailers carry a gRPC status that says that the server failed: `UNKNOWN` (2),
/// `DEADLINE_EXCEEDED` (4), `RESOURCE_EXHAUSTED` (8), `UNIMPLEMENTED` (12), `INTERNAL` (13), `UNAVAILABLE` (14) or
/// `DATA_LOSS` (15). All others, such as `CANCELLED`, `NOT_FOUND` or `PERMISSION_DENIED`, are about the caller.
pub(crate) fn grpc_failed(headers: &HeaderMap) -> bool {
    let status = headers.get("grpc-status").map(HeaderValue::as_bytes);
    matches!(
        status,
        Some(b"2" | b"4" | b"8" | b"12" | b"13" | b"14" | b"15")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(grpc_status: &str) -> HeaderMap {
        let status = grpc_status.parse().expect("a header's value");
        HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), status)])
    }

    #[test]
    fn grpc_fails_only_where_the_server_is_to_blame() {
        let failed: Vec<_> = (0..=17)
            .filter(|status: &u8| grpc_failed(&headers(&status.to_string())))
            .collect();
        assert_eq!(failed, [2, 4, 8, 12, 13, 14, 15]);
        assert!(!grpc_failed(&headers("")));
        assert!(!grpc_failed(&HeaderMap::new()));
    }

    #[test]
    fn a_head_fails_by_either_status() {
        assert!(head_failed(StatusCode::BAD_GATEWAY, &headers("0")));
        assert!(head_failed(StatusCode::OK, &headers("14")));
        assert!(!head_failed(StatusCode::NOT_FOUND, &headers("5")));
    }
}
