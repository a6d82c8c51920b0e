//! One replica as a tower service: a request waits for its emulated service time and gets a small
//! response.
//!
//! Layers for a real application, such as the load tracker's, wrap this service. It does not depend
//! on them, on probes or on sockets; `server` has the sockets.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use http_body_util::Full;
use tower_service::Service;

use super::machine::{Machine, Refusal};

/// The request header with the number of a request: a decimal integer, from which its cost follows.
/// The demo's load sends both fleets the same numbers. If it is absent or not a number, the replica
/// draws a cost.
pub(crate) const REQUEST_NUMBER: HeaderName = HeaderName::from_static("x-demo-request");

/// The application of an embedded replica. It answers any request, whatever its method, path and
/// body, with 200 after the service time, or with 503 at once if the replica has too many queries
/// or its fault is `failing`. The body names the replica.
#[derive(Debug, Clone)]
pub(crate) struct Emulated {
    machine: Machine,
}

impl Emulated {
    /// Returns the application that runs on `machine`.
    pub(crate) fn new(machine: Machine) -> Self {
        Self { machine }
    }
}

impl<B> Service<Request<B>> for Emulated {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let machine = self.machine.clone();
        let work = machine.cost(request_number(request.headers()));
        Box::pin(async move {
            let outcome = machine.serve(work).await;
            Ok(answer(machine.index(), outcome))
        })
    }
}

fn request_number(headers: &HeaderMap) -> Option<u64> {
    headers.get(REQUEST_NUMBER)?.to_str().ok()?.parse().ok()
}

fn answer(index: usize, outcome: Result<(), Refusal>) -> Response<Full<Bytes>> {
    let (status, text) = match outcome {
        Ok(()) => (StatusCode::OK, format!("replica {index}\n")),
        Err(refusal) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("replica {index}: {refusal}\n"),
        ),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_request_number_is_a_decimal_integer_or_nothing() {
        let number = |text: &'static [u8]| {
            let value = HeaderValue::from_bytes(text).expect("a valid header");
            request_number(&HeaderMap::from_iter([(REQUEST_NUMBER, value)]))
        };
        assert_eq!(number(b"17"), Some(17));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for odd in [&b"18446744073709551616"[..], b"-1", b"", b"1.5", b"\xff"] {
            assert_eq!(number(odd), None, "{odd:?}");
        }
        assert_eq!(request_number(&HeaderMap::new()), None);
    }
}
