//! The proxy's own answers to clients, sent when there is no response to forward.
//!
//! An answer is a line of text. Its kind is one word in `x-slackwater-error`, for programs.
//! Addresses of replicas are not sent to clients; they are in the log. `grpc` turns such an answer
//! into a gRPC status.

mod grpc;

pub use grpc::{convert_to_grpc, is_grpc_call};

use crate::forward::exchange::Cause;
use crate::forward::head::Refusal;
use crate::forward::head::error_field::{
    RETRY_AFTER, TEXT, WITHDRAWN, WITHDRAWN_LINE, X_SLACKWATER_ERROR,
};
use crate::forward::response::{Answer, ResponseBody, Watch};
use bytes::Bytes;
use http::StatusCode;
use http::header::{self, HeaderValue};
use slackwater_core::overload::Shed;
use slackwater_http::Response;
use slackwater_tower::wire::shed::mark;

const HEAD_TOO_LARGE: &str = "response_head_too_large";

/// Makes the answer to a request that no replica answered. Without a cause, there is no replica.
pub fn answer<W: Watch>(cause: Option<&Cause>) -> Answer<W> {
    let Some(cause) = cause else {
        return shed("no_replica", "there is no replica to send this to");
    };
    match cause {
        Cause::NoConnection(error) => {
            let line = format!("no connection to a replica: {}", error.kind());
            text(StatusCode::BAD_GATEWAY, "no_connection", &line)
        }
        Cause::Full => replicas_full(),
        Cause::Broken(_) => text(
            StatusCode::BAD_GATEWAY,
            "broken",
            "the replica broke off before it answered",
        ),
        Cause::Withdrawn => withdrawn(),
        Cause::Shed(Shed::Deadline) => too_late(),
        Cause::Shed(_) => shed("overloaded", "the replica is overloaded"),
        Cause::Coding => text(
            StatusCode::BAD_GATEWAY,
            "coding",
            "the replica answered in a transfer coding that cannot be passed on",
        ),
        Cause::HeadTooLarge => text(
            StatusCode::BAD_GATEWAY,
            HEAD_TOO_LARGE,
            "the head of the replica's response is larger than is allowed here",
        ),
        Cause::Switched => text(
            StatusCode::BAD_GATEWAY,
            "switched",
            "the replica switched the protocol although the client had not asked for that",
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

/// Makes the answer to a request that is shed; `kind` is the reason in one word. The client may
/// retry after a second.
pub(crate) fn shed<W: Watch>(kind: &'static str, line: &str) -> Answer<W> {
    let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, kind, line);
    answer
        .headers_mut()
        .insert(header::RETRY_AFTER, RETRY_AFTER);
    answer
}

/// Makes the answer to a request for which every replica was full.
pub(crate) fn replicas_full<W: Watch>() -> Answer<W> {
    shed(
        "replicas_full",
        "no replica had room for another connection in time",
    )
}

/// Makes the answer to a request whose deadline passed before it was started.
pub(crate) fn too_late<W: Watch>() -> Answer<W> {
    text(
        StatusCode::GATEWAY_TIMEOUT,
        "deadline",
        "the deadline of the request passed before it was started",
    )
}

/// Makes an agent's answer when its server cannot be connected to: the request may go to another
/// replica, or be retried later.
fn withdrawn<W: Watch>() -> Answer<W> {
    shed(WITHDRAWN, WITHDRAWN_LINE)
}

/// Makes an agent's answer to a request that it rejected before it started: the request may go to
/// another replica.
pub fn turned_away<W: Watch>(why: Shed) -> Answer<W> {
    shed(mark(why), &why.to_string())
}

/// Makes the answer to a request that is not forwarded at all.
pub fn refuse<W: Watch>(refusal: Refusal) -> Answer<W> {
    let kind = if refusal.status.is_success() {
        "max_forwards"
    } else {
        "refused"
    };
    text(refusal.status, kind, refusal.reason)
}

/// Makes the answer to a request whose body is larger than its route allows.
pub(crate) fn too_large<W: Watch>() -> Answer<W> {
    text(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_large",
        "the body is larger than is allowed here",
    )
}

/// Makes the answer to a request that matches no route.
pub(crate) fn no_route<W: Watch>() -> Answer<W> {
    text(
        StatusCode::NOT_FOUND,
        "no_route",
        "no route matches the request",
    )
}

/// Makes a response of the proxy itself that is not a failure.
pub(crate) fn own_response<W: Watch>(status: StatusCode, body: Bytes) -> Answer<W> {
    let mut response = Box::new(Response::new(ResponseBody::own(body)));
    *response.status_mut() = status;
    response
}

/// Makes an answer of the proxy itself: a line of text, and its kind in one word.
pub(crate) fn text<W: Watch>(status: StatusCode, kind: &'static str, line: &str) -> Answer<W> {
    let body = ResponseBody::own(Bytes::from(format!("{line}\n")));
    let mut response = Box::new(Response::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, TEXT);
    headers.insert(X_SLACKWATER_ERROR, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::head::error_field::{
        GRPC, GRPC_MESSAGE, GRPC_PUSHBACK, GRPC_STATUS, Unstarted, read_unstarted,
    };
    use crate::forward::response::Unwatched;
    use http::HeaderName;

    /// An agent's answer with one field added or changed.
    fn changed(
        mut answer: Answer<Unwatched>,
        name: HeaderName,
        value: &'static str,
    ) -> Answer<Unwatched> {
        let headers = answer.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
        answer
    }

    fn with(name: HeaderName, value: &'static str) -> Answer<Unwatched> {
        changed(withdrawn(), name, value)
    }

    /// Like [`with`], as the answer to a gRPC call.
    fn with_in_grpc(name: HeaderName, value: &'static str) -> Answer<Unwatched> {
        let mut answer = withdrawn();
        convert_to_grpc(&mut answer);
        changed(answer, name, value)
    }

    #[test]
    fn agent_answer_is_recognized_only_if_all_of_it_matches() {
        for (name, value, is_agents) in [
            (header::CONTENT_LENGTH, "51", true),
            (header::DATE, "Mon, 16 Nov 2026 12:00:00 GMT", true),
            (header::CONNECTION, "close", true),
            (header::CONTENT_LENGTH, "50", false),
            (header::CONTENT_LENGTH, "", false),
            (header::CONTENT_TYPE, "text/plain", false),
            (header::RETRY_AFTER, "2", false),
            (header::SERVER, "nginx", false),
            (header::VIA, "1.1 other", false),
            (HeaderName::from_static("x-request-id"), "7", false),
            (X_SLACKWATER_ERROR, "no_replica", false),
        ] {
            let response = with(name.clone(), value);
            assert_eq!(
                read_unstarted(&response).is_some(),
                is_agents,
                "{name}: {value}"
            );
        }
        for missing in [
            X_SLACKWATER_ERROR,
            header::RETRY_AFTER,
            header::CONTENT_TYPE,
        ] {
            let mut response = with(header::CONTENT_LENGTH, "51");
            response.headers_mut().remove(&missing);
            assert!(read_unstarted(&response).is_none(), "without {missing}");
        }
        let mut response = with(header::CONTENT_LENGTH, "51");
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        assert!(read_unstarted(&response).is_none());
    }

    #[test]
    fn a_rejected_request_is_recognized_with_its_reason() {
        for why in Shed::ALL {
            let mut agents = turned_away::<Unwatched>(why).map(drop);
            let unstarted = Some(Unstarted::Shed(why));
            assert_eq!(read_unstarted(&agents), unstarted);
            let length = why.to_string().len() + 1;
            let headers = agents.headers_mut();
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            assert_eq!(read_unstarted(&agents), unstarted);
            let headers = agents.headers_mut();
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length + 1));
            assert_eq!(read_unstarted(&agents), None);
            for fields in [slackwater_http::Fields::new(), call()] {
                let layers = slackwater_tower::wire::shed::shed_response(why, &fields);
                let mut layers = Response::from(layers);
                let headers = layers.headers_mut();
                headers.insert(header::CONTENT_LENGTH, "0");
                assert_eq!(read_unstarted(&layers), unstarted);
                let headers = layers.headers_mut();
                headers.insert(header::VIA, HeaderValue::from_static("1.1 other"));
                assert_eq!(read_unstarted(&layers), None, "a proxy forwarded it");
            }
        }
        let withdrawn = with(header::CONTENT_LENGTH, "0");
        assert_eq!(
            read_unstarted(&withdrawn),
            None,
            "an agent always sends a line"
        );
    }

    fn call() -> slackwater_http::Fields {
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static(GRPC));
        slackwater_http::Fields::from_iter([kind])
    }

    #[test]
    fn agent_grpc_answer_is_recognized_only_if_all_of_it_matches() {
        for (name, value, is_agents) in [
            (header::CONTENT_LENGTH, "0", true),
            (header::DATE, "Mon, 16 Nov 2026 12:00:00 GMT", true),
            (GRPC_PUSHBACK, "1000", true),
            (header::CONTENT_LENGTH, "51", false),
            (header::CONTENT_TYPE, "text/plain; charset=utf-8", false),
            (header::RETRY_AFTER, "2", false),
            (header::SERVER, "nginx", false),
            (GRPC_STATUS, "0", false),
            (GRPC_STATUS, "13", false),
            (GRPC_MESSAGE, "away", false),
            (X_SLACKWATER_ERROR, "no_replica", false),
        ] {
            let response = with_in_grpc(name.clone(), value);
            assert_eq!(
                read_unstarted(&response).is_some(),
                is_agents,
                "{name}: {value}"
            );
        }
        for missing in [
            X_SLACKWATER_ERROR,
            GRPC_STATUS,
            header::RETRY_AFTER,
            header::CONTENT_TYPE,
        ] {
            let mut response = with_in_grpc(header::CONTENT_LENGTH, "0");
            response.headers_mut().remove(&missing);
            assert!(read_unstarted(&response).is_none(), "without {missing}");
        }
        for status in [StatusCode::SERVICE_UNAVAILABLE, StatusCode::ACCEPTED] {
            let mut response = with_in_grpc(header::CONTENT_LENGTH, "0");
            *response.status_mut() = status;
            assert!(read_unstarted(&response).is_none(), "{status}");
        }
    }
}
