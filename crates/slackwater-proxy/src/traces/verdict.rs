//! Interprets a collector's response: accepted, rejected, or to be retried (OTLP 1.x, "Failures").

use super::messages::{ExportResponse, RpcStatus};
use core::time::Duration;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use prost::Message;
use slackwater_http::GRPC_STATUS;

const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Maximum length of a reason in the log.
const REASON_MAX: usize = 200;

/// Longest wait that a collector may request.
const AFTER_MAX: Duration = Duration::from_secs(30);

/// An export that was accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Number of spans that were rejected.
    pub(super) rejected: u64,
    /// Why spans were rejected, or a warning.
    pub(super) message: String,
}

/// An export that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// Whether it may be retried.
    pub(super) may_retry: bool,
    /// Earliest time of a retry.
    pub(super) after: Option<Duration>,
    pub(super) why: String,
}

impl Refused {
    /// The collector could not be reached, or did not answer.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "errors are handed over as they come"
    )]
    pub(super) fn unanswered(why: impl ToString) -> Self {
        Self {
            may_retry: true,
            after: None,
            why: shown(&why.to_string()),
        }
    }
}

/// Interprets an HTTP response.
pub(super) fn of_http(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Taken, Refused> {
    if status.is_success() {
        return Ok(taken(body));
    }
    let is_protobuf = headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-protobuf"));
    let told = RpcStatus::decode(body).ok().filter(|_| is_protobuf);
    let told = told.map_or_else(String::new, |told| format!(": {}", told.message));
    let after = headers
        .get(RETRY_AFTER)
        .and_then(|after| after.to_str().ok());
    let after = after.and_then(|after| after.trim().parse().ok());
    Err(Refused {
        may_retry: matches!(status.as_u16(), 429 | 502 | 503 | 504),
        after: after.map(|after| Duration::from_secs(after).min(AFTER_MAX)),
        why: shown(&format!(
            "it answered with status {}{told}",
            status.as_u16()
        )),
    })
}

/// Interprets a gRPC response; `status` is its HTTP status, and `end` the fields that end the call.
pub(super) fn of_grpc(status: StatusCode, end: &HeaderMap, body: &[u8]) -> Result<Taken, Refused> {
    if status != StatusCode::OK {
        return of_http(status, end, &[]);
    }
    let code = end.get(GRPC_STATUS).and_then(|code| code.to_str().ok());
    match code.and_then(|code| code.parse::<u8>().ok()) {
        // One message, after its prefix of compression flag and length.
        Some(0) => Ok(taken(body.get(5..).unwrap_or_default())),
        Some(code) => {
            let told = end.get(GRPC_MESSAGE).map(HeaderValue::as_bytes);
            let told = told.map_or_else(String::new, |told| {
                format!(": {}", String::from_utf8_lossy(told))
            });
            Err(Refused {
                // Cancelled, deadline exceeded, aborted, out of range, unavailable, data loss.
                may_retry: matches!(code, 1 | 4 | 10 | 11 | 14 | 15),
                after: None,
                why: shown(&format!("it answered with gRPC status {code}{told}")),
            })
        }
        None => Err(Refused::unanswered(
            "it ended the call without a gRPC status",
        )),
    }
}

/// Reads the body of an accepted export. An empty or unreadable body means that all spans were
/// accepted.
fn taken(body: &[u8]) -> Taken {
    let response = ExportResponse::decode(body).unwrap_or_default();
    let partial = response.partial_success.unwrap_or_default();
    Taken {
        rejected: u64::try_from(partial.rejected_spans).unwrap_or_default(),
        message: shown(&partial.error_message),
    }
}

/// Makes foreign text safe for a log line.
fn shown(text: &str) -> String {
    let kept = text.chars().take(REASON_MAX);
    kept.map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::messages::PartialSuccess;

    fn grpc(status: &str) -> HeaderMap {
        let mut end = HeaderMap::new();
        end.insert(GRPC_STATUS, status.parse().expect("a value"));
        end.insert(
            GRPC_MESSAGE,
            "full\u{1b}[1m"
                .replace('\u{1b}', "%1B")
                .parse()
                .expect("a value"),
        );
        end
    }

    #[test]
    fn retryable_statuses_are_those_of_the_protocol() {
        for code in 1..17_u8 {
            let refused = of_grpc(StatusCode::OK, &grpc(&code.to_string()), &[]);
            let refused = refused.expect_err("refused");
            assert_eq!(
                refused.may_retry,
                [1, 4, 10, 11, 14, 15].contains(&code),
                "{code}"
            );
            assert!(refused.why.contains(&format!("gRPC status {code}: full")));
        }
        for status in 300..600_u16 {
            let code = StatusCode::from_u16(status).expect("a status");
            for refused in [
                of_http(code, &HeaderMap::new(), &[]),
                of_grpc(code, &HeaderMap::new(), &[]),
            ] {
                let may_retry = refused.expect_err("refused").may_retry;
                assert_eq!(
                    may_retry,
                    [429, 502, 503, 504].contains(&status),
                    "{status}"
                );
            }
        }
        let silent = of_grpc(StatusCode::OK, &HeaderMap::new(), &[]).expect_err("no status");
        assert!(silent.may_retry);
    }

    #[test]
    fn a_requested_wait_is_respected_up_to_a_limit() {
        for (said, after) in [
            ("7", Some(7)),
            ("3000", Some(30)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, said.parse().expect("a value"));
            let refused = of_http(StatusCode::SERVICE_UNAVAILABLE, &headers, &[]);
            let refused = refused.expect_err("refused");
            assert_eq!(refused.after, after.map(Duration::from_secs), "{said}");
        }
    }

    #[test]
    fn a_partial_success_counts_rejected_spans() {
        let response = ExportResponse {
            partial_success: Some(PartialSuccess {
                rejected_spans: 3,
                error_message: "too\nold".to_owned(),
            }),
        };
        let body = response.encode_to_vec();
        let expected = Taken {
            rejected: 3,
            message: "too old".to_owned(),
        };
        assert_eq!(
            of_http(StatusCode::OK, &HeaderMap::new(), &body),
            Ok(expected.clone())
        );
        let framed = [&[0, 0, 0, 0, 0], &*body].concat();
        assert_eq!(of_grpc(StatusCode::OK, &grpc("0"), &framed), Ok(expected));
        let all = Ok(Taken::default());
        assert_eq!(of_http(StatusCode::ACCEPTED, &HeaderMap::new(), b"{}"), all);
        assert_eq!(of_grpc(StatusCode::OK, &grpc("0"), &[]), all);
    }

    #[test]
    fn status_in_the_body_is_shown_as_one_short_line() {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            "application/x-protobuf".parse().expect("a value"),
        );
        let told = RpcStatus {
            message: format!("bad\n{}", "x".repeat(1000)),
        };
        let refused = of_http(StatusCode::BAD_REQUEST, &headers, &told.encode_to_vec());
        let why = refused.expect_err("refused").why;
        assert!(
            why.starts_with("it answered with status 400: bad xxx"),
            "{why}"
        );
        assert_eq!(why.len(), REASON_MAX);
    }
}
