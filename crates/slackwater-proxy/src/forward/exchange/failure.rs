//! Why a request has no response, and whether another replica may have it.

use crate::forward::request::RequestBody;
use core::error::Error;
use core::fmt;
use http::Request;
use slackwater_core::overload::Shed;
use std::io;

/// Why there is no response.
#[derive(Debug)]
pub enum Cause {
    /// No connection.
    Unreachable(io::Error),
    /// No stream on a connection: all that there may be are full.
    Full,
    /// The connection broke, or carried something that is not HTTP.
    Broken(Box<dyn Error + Send + Sync>),
    /// No head in time.
    FirstByte,
    /// An agent answered in place of its server, which is gone.
    Withdrawn,
    /// The replica, or its agent, turned it away unstarted: it has as much as it can do.
    Shed(Shed),
    /// The response is coded in a way that cannot be passed on.
    Coding,
    /// The response's head is larger than is allowed.
    HeadTooLarge,
    /// The replica changed the protocol (101) although nobody had asked it to.
    Switched,
    /// The client stopped sending its request.
    ClientStalled,
    /// The client broke its request off.
    ClientBroken,
    /// The request's body is larger than its route allows.
    TooLarge,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "no connection: {error}"),
            Self::Full => f.write_str("no room on a connection in time"),
            Self::Broken(error) => match error.source() {
                Some(source) => write!(f, "broke off: {error}: {source}"),
                None => write!(f, "broke off: {error}"),
            },
            Self::FirstByte => f.write_str("no head of a response in time"),
            Self::Coding => f.write_str("a transfer coding that cannot be passed on"),
            Self::HeadTooLarge => f.write_str("the response's head is too large"),
            Self::Switched => f.write_str("a change of protocol that nobody asked for"),
            Self::Withdrawn => f.write_str("the agent's server is gone"),
            Self::Shed(shed) => write!(f, "turned away unstarted: {shed}"),
            Self::ClientStalled => f.write_str("the client stopped sending"),
            Self::ClientBroken => f.write_str("the client broke off"),
            Self::TooLarge => f.write_str("the body is too large"),
        }
    }
}

/// A request without a response.
#[derive(Debug)]
pub struct Failure {
    /// Why.
    pub cause: Cause,
    /// The request, if it can be had again.
    pub(crate) request: Option<Box<Request<RequestBody>>>,
    /// It certainly never reached the application.
    pub(crate) is_unsent: bool,
}

impl Failure {
    pub(crate) const fn new(cause: Cause) -> Self {
        Self {
            cause,
            request: None,
            is_unsent: false,
        }
    }
}
