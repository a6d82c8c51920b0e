//! How a query ended, according to an HTTP response or an error.

use crate::response::{head_outcome, trailers_outcome};
use core::error::Error;
use http::HeaderMap;
use http::response::Parts;
use slackwater_core::policy::Outcome;
use std::io;

/// Classifies a query's [`Outcome`]. The result never changes the response or the error that the
/// client gets.
pub trait Classify: Send + Sync + 'static {
    /// The outcome according to the response's head, if its body arrives whole. The default is
    /// failed for a status of 500 or more, and for a gRPC status that blames the server (in the
    /// head if there is no body): `UNKNOWN`, `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED`,
    /// `UNIMPLEMENTED`, `INTERNAL`, `UNAVAILABLE`, `DATA_LOSS`. It is pushed back for 429 or 503
    /// with `retry-after`, and for `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED` or `UNAVAILABLE` with
    /// `grpc-retry-pushback-ms`.
    fn head(&self, head: &Parts) -> Outcome {
        head_outcome(head.status, &head.headers)
    }

    /// The outcome when the response ends in trailers. The default is failed or pushed back if they
    /// have one of these gRPC statuses, otherwise `by_head`.
    fn trailers(&self, trailers: &HeaderMap, by_head: Outcome) -> Outcome {
        trailers_outcome(trailers, by_head)
    }

    /// The outcome of a query for which the service returned an error. The default is no connection
    /// if the causes include an I/O error that only connecting can give. Otherwise the first I/O
    /// error that means timed out or broken off decides; without one it is failed.
    fn error(&self, error: &(dyn Error + 'static)) -> Outcome {
        outcome_of_error(error)
    }
}

/// The default: a 5xx status, a gRPC status that blames the server and any error are failures. An
/// error that started as a failure to connect means that the replica never received the query.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByStatus;

impl Classify for ByStatus {}

fn outcome_of_error(error: &(dyn Error + 'static)) -> Outcome {
    if is_connect_error(error) {
        return Outcome::NoConnection;
    }
    let by_kind = |kind| match kind {
        io::ErrorKind::TimedOut => Some(Outcome::TimedOut),
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => Some(Outcome::Broken),
        _ => None,
    };
    io_kinds(error).find_map(by_kind).unwrap_or(Outcome::Failed)
}

/// Whether the error, or what caused it, is one that only connecting can give.
pub fn is_connect_error(error: &(dyn Error + 'static)) -> bool {
    io_kinds(error).any(|kind| {
        matches!(
            kind,
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::AddrNotAvailable
        )
    })
}

/// The kinds of the I/O errors among the error and its causes.
fn io_kinds<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = io::ErrorKind> + 'a {
    // The source of an I/O error that wraps another error is the other one's source.
    let wrapped = |error: &'a (dyn Error + 'static)| error.downcast_ref::<io::Error>()?.get_ref();
    let cause = move |&error: &&'a (dyn Error + 'static)| match wrapped(error) {
        Some(inner) => Some(inner as &(dyn Error + 'static)),
        None => error.source(),
    };
    core::iter::successors(Some(error), cause)
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .map(io::Error::kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt;

    #[derive(Debug)]
    struct Wrapped(io::Error);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("wrapped")
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn refused_connection_is_a_connect_error_even_if_wrapped() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(ByStatus.error(&refused()), Outcome::NoConnection);
        assert_eq!(ByStatus.error(&Wrapped(refused())), Outcome::NoConnection);
        let other = io::Error::other(Wrapped(io::Error::other(refused())));
        assert_eq!(ByStatus.error(&other), Outcome::NoConnection);
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(
            ByStatus.error(&Wrapped(reset)),
            Outcome::Broken,
            "the replica may have seen it"
        );
        let late = io::Error::from(io::ErrorKind::TimedOut);
        assert_eq!(ByStatus.error(&Wrapped(late)), Outcome::TimedOut);
        let other = io::Error::from(io::ErrorKind::InvalidData);
        assert_eq!(ByStatus.error(&Wrapped(other)), Outcome::Failed);
    }

    #[test]
    fn grpc_status_is_read_from_head_and_trailers() {
        for (status, outcome) in [
            ("0", Outcome::Success),
            ("5", Outcome::Success),
            ("14", Outcome::Failed),
        ] {
            let response = http::Response::builder().header("grpc-status", status);
            let (head, ()) = response.body(()).expect("a header").into_parts();
            assert_eq!(ByStatus.head(&head), outcome, "{status}");
            let by_trailers = ByStatus.trailers(&head.headers, Outcome::Success);
            assert_eq!(by_trailers, outcome, "{status}");
        }
        let by_head = ByStatus.trailers(&HeaderMap::new(), Outcome::Failed);
        assert_eq!(by_head, Outcome::Failed, "trailers make no failure good");
    }

    #[test]
    fn server_errors_fail_and_client_errors_do_not() {
        for (status, outcome) in [
            (200, Outcome::Success),
            (404, Outcome::Success),
            (500, Outcome::Failed),
            (503, Outcome::Failed),
        ] {
            let response = http::Response::builder().status(status).body(());
            let (head, ()) = response.expect("a status").into_parts();
            assert_eq!(ByStatus.head(&head), outcome, "{status}");
        }
    }
}
