//! Why a request has no response, and whether another replica may get it.

use crate::forward::request::RequestBody;
use core::error::Error;
use core::fmt;
use slackwater_core::overload::Shed;
use slackwater_http::Request;
use slackwater_telemetry::attempt_failure::FailureKind;
use std::io;

/// Why there is no response.
#[derive(Debug)]
pub enum Cause {
    /// No connection could be opened.
    NoConnection(io::Error),
    /// No connection had a free stream, and no more connections are allowed.
    Full,
    /// The connection broke, or carried data that is not HTTP.
    Broken(Box<dyn Error + Send + Sync>),
    /// The response head did not arrive in time.
    FirstByte,
    /// An agent answered in place of its server, which is gone.
    Withdrawn,
    /// The replica, or its agent, rejected the request before it started, because of overload.
    Shed(Shed),
    /// The response has a transfer coding that cannot be forwarded.
    Coding,
    /// The response head is larger than allowed.
    HeadTooLarge,
    /// The replica switched the protocol (101) although the client had not requested that.
    Switched,
    /// The client stopped sending its request.
    ClientStalled,
    /// The client broke off its request.
    ClientBroken,
    /// The request body is larger than its route allows.
    TooLarge,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConnection(error) => write!(f, "no connection: {error}"),
            Self::Full => f.write_str("no free connection or stream in time"),
            Self::Broken(error) => match error.source() {
                Some(source) => write!(f, "broke off: {error}: {source}"),
                None => write!(f, "broke off: {error}"),
            },
            Self::FirstByte => f.write_str("no response head in time"),
            Self::Coding => f.write_str("a transfer coding that cannot be passed on"),
            Self::HeadTooLarge => f.write_str("the response's head is too large"),
            Self::Switched => f.write_str("a protocol switch that the client had not asked for"),
            Self::Withdrawn => f.write_str("the agent's server is gone"),
            Self::Shed(shed) => write!(f, "rejected before it started: {shed}"),
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
    /// The request, if it can be sent again.
    pub(crate) request: Option<Box<Request<RequestBody>>>,
    /// Whether the request certainly never reached the application.
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

    /// Returns the evidence against the replica, with the full error. `None` if the failure is no
    /// evidence, or if the replica did respond.
    pub(crate) fn evidence(&self) -> Option<(FailureKind, String)> {
        let kind = match &self.cause {
            Cause::NoConnection(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => FailureKind::Refused,
                io::ErrorKind::TimedOut => FailureKind::ConnectTimedOut,
                _ => FailureKind::ConnectFailed,
            },
            Cause::Broken(_) => FailureKind::Closed,
            Cause::FirstByte => FailureKind::NoResponse,
            Cause::Withdrawn => FailureKind::Withdrawn,
            Cause::Full
            | Cause::Shed(_)
            | Cause::Coding
            | Cause::HeadTooLarge
            | Cause::Switched
            | Cause::ClientStalled
            | Cause::ClientBroken
            | Cause::TooLarge => return None,
        };
        Some((kind, self.cause.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_errors_and_responses_are_no_evidence_against_a_replica() {
        for cause in [Cause::ClientBroken, Cause::Full, Cause::HeadTooLarge] {
            assert_eq!(Failure::new(cause).evidence(), None);
        }
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let failure = Failure::new(Cause::NoConnection(refused));
        let (kind, error) = failure.evidence().expect("it is");
        assert_eq!(kind, FailureKind::Refused);
        assert!(error.starts_with("no connection: "), "{error}");
    }
}
