//! The possible ends of a request, and the kinds of error that the figures distinguish.
//!
//! Each arrival ends exactly once, as an [`Answer`] or as a [`Failure`]; both go into the latency
//! record. A 5xx answer is an answer here (its body was read to the end); the record counts it as
//! an error.

use core::error::Error;
use core::fmt::Write as _;
use http::StatusCode;
use slackwater_core::named;
use std::io;
use std::time::Instant;

named! {
    /// What went wrong with a request, as counted in the table and in JSON.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum ErrorKind by name {
        /// No connection could be opened: refused, unreachable, out of ports or file descriptors.
        Connect = "connect",
        /// The answer was not complete when the timeout, counted from the intended start, expired.
        Timeout = "timeout",
        /// The connection or stream was closed or reset before the answer was complete.
        Closed = "closed",
        /// The target answered with a status from 500 to 599.
        Status5xx = "status_5xx",
        /// Never sent: all connections were in use and the queue was full.
        Overload = "overload",
        /// Anything else, such as an answer that is not HTTP.
        Other = "other",
    }
}

/// A request without a complete answer.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    /// The message for the user, who sees the first of each kind.
    pub(super) message: String,
}

impl Failure {
    pub(super) fn timeout() -> Self {
        Self {
            kind: ErrorKind::Timeout,
            message: "no whole answer in time".into(),
        }
    }

    pub(super) fn overload() -> Self {
        Self {
            kind: ErrorKind::Overload,
            message: "not sent: every connection taken and the queue full".into(),
        }
    }

    /// A failure to connect.
    pub(super) fn connect(error: &(dyn Error + 'static)) -> Self {
        Self {
            kind: ErrorKind::Connect,
            message: with_causes(error),
        }
    }

    /// A failure on an open connection, before the answer was complete.
    pub(super) fn exchange(error: &hyper::Error) -> Self {
        let kind = if error.is_parse() || error.is_user() {
            ErrorKind::Other
        } else {
            ErrorKind::Closed
        };
        Self {
            kind,
            message: with_causes(error),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::connect(&error)
    }
}

/// An answer whose body was read to its last byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body_bytes: u64,
    /// When the last byte arrived.
    pub(super) ended: Instant,
}

/// The messages of the error and of its causes, each only once.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !message.contains(&text) {
            // Writing to a string cannot fail.
            let _ = write!(message, ": {text}");
        }
        cause = inner.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(io::Error);

    impl core::fmt::Display for Outer {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.write_str("cannot connect")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn failure_message_has_each_cause_once() {
        let failure = Failure::connect(&Outer(io::Error::other("refused")));
        assert_eq!(failure.message, "cannot connect: refused");
        assert_eq!(failure.kind, ErrorKind::Connect);
    }
}
