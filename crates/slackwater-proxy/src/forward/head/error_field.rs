//! `x-slackwater-error`: the kind of the proxy's own answer in one word, and whether the request
//! may be retried.
//!
//! An agent, or a replica's library, that rejects a request before it starts answers in a form that
//! is recognized here, field by field, so that the request may go to another replica. `answer`, a
//! layer above, writes the answers.

use http::StatusCode;
use http::header::{self, HeaderName};
use slackwater_core::overload::Shed;
use slackwater_http::content_length;
use slackwater_http::{Response, Value};
use slackwater_tower::wire::shed::{grpc_status, marked};

pub(crate) use slackwater_http::GRPC_STATUS;

/// Field with the kind of an answer of the proxy itself, in one word.
pub(crate) const X_SLACKWATER_ERROR: HeaderName = HeaderName::from_static("x-slackwater-error");
pub(crate) const WITHDRAWN: &str = "withdrawn";
pub(crate) const WITHDRAWN_LINE: &str = "the server behind the agent cannot be connected to";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
/// Seconds after which a client of a rejected request may retry.
pub(crate) const RETRY_AFTER: &str = "1";

pub(crate) const GRPC: &str = "application/grpc";
pub(crate) const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
pub(crate) const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// `UNAVAILABLE`: the call was not carried out.
pub(crate) const UNAVAILABLE: &str = "14";

/// Why the application of a replica never received a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unstarted {
    /// The agent's server is gone.
    Withdrawn,
    /// The request was shed.
    Shed(Shed),
}

/// Recognizes an answer of an agent in place of its server, or of a replica's library before its
/// application. The mark alone is not enough, because such an answer makes any request safe to
/// repeat: the whole answer must be an agent's. A server that forwards the answer of another agent
/// has received the request itself. Usually it adds a field of its own, and is then not recognized.
pub(crate) fn read_unstarted<B>(response: &Response<B>) -> Option<Unstarted> {
    let headers = response.headers();
    let said = headers.get(X_SLACKWATER_ERROR)?;
    let (unstarted, line) = match marked(said.as_bytes()) {
        Some(shed) => (Unstarted::Shed(shed), shed.to_string()),
        None if said == *WITHDRAWN => (Unstarted::Withdrawn, WITHDRAWN_LINE.to_owned()),
        None => return None,
    };
    let is_shed = unstarted != Unstarted::Withdrawn;
    let status = match unstarted {
        Unstarted::Shed(shed) => grpc_status(shed),
        Unstarted::Withdrawn => UNAVAILABLE,
    };
    let is_unavailable = || headers.get(GRPC_STATUS).is_some_and(|it| it == *status);
    let (kind, length) = match response.status() {
        StatusCode::SERVICE_UNAVAILABLE => (TEXT, line.len() + 1),
        // The answer to a gRPC call.
        StatusCode::OK if is_unavailable() => (GRPC, 0),
        _ => return None,
    };
    let is_agents = |(name, value): (&[u8], Value<'_>)| match name {
        b"content-type" => value == *kind,
        b"retry-after" => value == RETRY_AFTER,
        b"content-length" => {
            let said = content_length::parse(value.as_bytes());
            // The layer of the server library answers without a body.
            said == Some(length as u64) || is_shed && said == Some(0)
        }
        b"date" | b"connection" => true,
        _ if name == X_SLACKWATER_ERROR.as_str().as_bytes() => value == said,
        _ if name == GRPC_MESSAGE.as_str().as_bytes() => value == line,
        _ => name == GRPC_STATUS.as_str().as_bytes() || name == GRPC_PUSHBACK.as_str().as_bytes(),
    };
    let has_all = [header::CONTENT_TYPE, header::RETRY_AFTER]
        .iter()
        .all(|name| headers.contains_key(name));
    (has_all && headers.iter().all(is_agents)).then_some(unstarted)
}

/// Removes the mark from a response that the proxy did not make.
pub(crate) fn unmark<B>(response: &mut Response<B>) {
    response.headers_mut().remove(X_SLACKWATER_ERROR);
}
