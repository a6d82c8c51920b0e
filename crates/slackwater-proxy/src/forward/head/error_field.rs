//! `x-slackwater-error`: the kind of an answer of our own, in one word, and what it says of a
//! request that such an answer came back for.
//!
//! An agent, or a replica's library, that turns a request away unstarted answers in a form that is
//! recognized here, field by field, so that the request may go to another replica. Answers are
//! written in `answer`, which stands above this.

use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use slackwater_core::overload::Shed;
use slackwater_http::content_length;
use slackwater_tower::wire::shed::{grpc_status, marked};

pub(crate) use slackwater_http::GRPC_STATUS;

/// The kind of an answer of our own, in one word.
pub(crate) const X_SLACKWATER_ERROR: HeaderName = HeaderName::from_static("x-slackwater-error");
pub(crate) const WITHDRAWN: &str = "withdrawn";
pub(crate) const WITHDRAWN_LINE: &str = "the server behind the agent cannot be connected to";
pub(crate) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// When whoever is turned away may come back, in seconds.
pub(crate) const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

pub(crate) const GRPC: &str = "application/grpc";
pub(crate) const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
pub(crate) const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The status that tells that a call did not come through.
pub(crate) const UNAVAILABLE: &str = "14";

/// What a replica says of a request that its application never had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unstarted {
    /// The agent's server is gone.
    Withdrawn,
    /// It has been turned away.
    Shed(Shed),
}

/// Whether an agent answered in place of its server, or a replica before its application. It takes
/// more than the mark, for what an agent says makes any request one that nobody had: the answer has
/// to be an agent's as a whole. A server that passes on what it heard from an agent before yet
/// another server has had the request; it puts in a field of its own, as a rule, and is not
/// believed.
pub(crate) fn read_unstarted<B>(response: &Response<B>) -> Option<Unstarted> {
    let headers = response.headers();
    // Hardly any response has it.
    let said = headers.get(X_SLACKWATER_ERROR)?;
    let (unstarted, line) = match marked(said) {
        Some(shed) => (Unstarted::Shed(shed), shed.to_string()),
        None if said == WITHDRAWN => (Unstarted::Withdrawn, WITHDRAWN_LINE.to_owned()),
        None => return None,
    };
    let is_shed = unstarted != Unstarted::Withdrawn;
    let status = match unstarted {
        Unstarted::Shed(shed) => grpc_status(shed),
        Unstarted::Withdrawn => UNAVAILABLE,
    };
    let is_unavailable = || headers.get(GRPC_STATUS).is_some_and(|it| it == status);
    let (kind, length) = match response.status() {
        StatusCode::SERVICE_UNAVAILABLE => (TEXT, line.len() + 1),
        // To a gRPC call.
        StatusCode::OK if is_unavailable() => (HeaderValue::from_static(GRPC), 0),
        _ => return None,
    };
    let is_agents = |(name, value): (&HeaderName, &HeaderValue)| match *name {
        header::CONTENT_TYPE => value == kind,
        header::RETRY_AFTER => value == RETRY_AFTER,
        header::CONTENT_LENGTH => {
            let said = content_length::parse(value.as_bytes());
            // The layer of the server library answers without a body.
            said == Some(length as u64) || is_shed && said == Some(0)
        }
        header::DATE | header::CONNECTION => true,
        _ if *name == X_SLACKWATER_ERROR => value == said,
        _ if *name == GRPC_MESSAGE => value == line.as_str(),
        _ => *name == GRPC_STATUS || *name == GRPC_PUSHBACK,
    };
    let has_all = [header::CONTENT_TYPE, header::RETRY_AFTER]
        .iter()
        .all(|name| headers.contains_key(name));
    (has_all && headers.iter().all(is_agents)).then_some(unstarted)
}

/// Takes the mark out of a response that is not ours to mark.
pub(crate) fn unmark<B>(response: &mut Response<B>) {
    response.headers_mut().remove(X_SLACKWATER_ERROR);
}
