//! What a client is told when there is no response to pass on.
//!
//! A line of text, and its kind in one word in `x-slackwater-error`, for programs. Addresses of replicas are not told to
//! clients; they are in the log.

use super::body::{ResponseBody, Watch};
use super::failure::Cause;
use super::grpc_answer::{GRPC_STATUS, UNAVAILABLE};
use super::hygiene::Refusal;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};

/// The kind of an answer of our own, in one word.
pub(crate) const X_SLACKWATER_ERROR: HeaderName = HeaderName::from_static("x-slackwater-error");
const WITHDRAWN: &str = "withdrawn";

/// The answer to a request that no replica answered; without a cause, because there is no replica.
pub(crate) fn answer<W: Watch>(cause: Option<&Cause>) -> Response<ResponseBody<W>> {
    let Some(cause) = cause else {
        return shed("no_replica", "there is no replica to send this to");
    };
    match cause {
        Cause::Unreachable(error) => {
            let line = format!("no connection to a replica: {}", error.kind());
            text(StatusCode::BAD_GATEWAY, "unreachable", &line)
        }
        Cause::Broken(_) => text(
            StatusCode::BAD_GATEWAY,
            "broken",
            "the replica broke off before it answered",
        ),
        Cause::Withdrawn => withdrawn(),
        Cause::Coding => text(
            StatusCode::BAD_GATEWAY,
            "coding",
            "the replica answered in a transfer coding that cannot be passed on",
        ),
        Cause::Switched => text(
            StatusCode::BAD_GATEWAY,
            "switched",
            "the replica changed the protocol although nobody had asked it to",
        ),
        Cause::FirstByte => text(
            StatusCode::GATEWAY_TIMEOUT,
            "first_byte_timeout",
            "the replica did not answer in time",
        ),
        Cause::ClientStalled => text(
            StatusCode::REQUEST_TIMEOUT,
            "client_stalled",
            "the rest of the request did not come in time",
        ),
        Cause::TooLarge => too_large(),
        Cause::ClientBroken => text(
            StatusCode::BAD_REQUEST,
            "client_broken",
            "the request broke off",
        ),
    }
}

/// The answer to a request for which there is no room; `kind` says why in one word. Whoever hears it may come back in a
/// second.
pub(crate) fn shed<W: Watch>(kind: &'static str, line: &str) -> Response<ResponseBody<W>> {
    let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, kind, line);
    let second = HeaderValue::from_static("1");
    answer.headers_mut().insert(header::RETRY_AFTER, second);
    answer
}

/// What an agent answers in place of a server that cannot be connected to: the request may go elsewhere, or come back.
fn withdrawn<W: Watch>() -> Response<ResponseBody<W>> {
    let line = "the server behind the agent cannot be connected to";
    shed(WITHDRAWN, line)
}

/// Whether an agent answered in place of its server.
pub(super) fn says_withdrawn<B>(response: &Response<B>) -> bool {
    let headers = response.headers();
    let is_told = match response.status() {
        StatusCode::SERVICE_UNAVAILABLE => true,
        // To a gRPC call.
        StatusCode::OK => headers
            .get(GRPC_STATUS)
            .is_some_and(|status| status == UNAVAILABLE),
        _ => false,
    };
    is_told && (headers.get(X_SLACKWATER_ERROR)).is_some_and(|kind| kind == WITHDRAWN)
}

/// Takes the mark out of a response that is not ours to mark.
pub(super) fn unmark<B>(response: &mut Response<B>) {
    response.headers_mut().remove(X_SLACKWATER_ERROR);
}

/// The answer to a request that is not forwarded at all.
pub(crate) fn refuse<W: Watch>(refusal: Refusal) -> Response<ResponseBody<W>> {
    let kind = if refusal.status.is_success() {
        "max_forwards"
    } else {
        "refused"
    };
    text(refusal.status, kind, refusal.reason)
}

/// The answer to a request whose body is larger than its route allows.
pub(crate) fn too_large<W: Watch>() -> Response<ResponseBody<W>> {
    text(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        "the body is larger than is allowed here",
    )
}

/// The answer to a request that no route takes.
pub(crate) fn no_route<W: Watch>() -> Response<ResponseBody<W>> {
    text(
        StatusCode::NOT_FOUND,
        "no_route",
        "no route leads from here to a service",
    )
}

/// A response that no replica made and that is no failure.
pub(crate) fn own_response<W: Watch>(status: StatusCode, body: Bytes) -> Response<ResponseBody<W>> {
    let mut response = Response::new(ResponseBody::own(body));
    *response.status_mut() = status;
    response
}

/// An answer of our own: a line of text, and its kind in one word.
pub(crate) fn text<W: Watch>(
    status: StatusCode,
    kind: &'static str,
    line: &str,
) -> Response<ResponseBody<W>> {
    let mut response = Response::new(ResponseBody::own(Bytes::from(format!("{line}\n"))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(X_SLACKWATER_ERROR, HeaderValue::from_static(kind));
    response
}
