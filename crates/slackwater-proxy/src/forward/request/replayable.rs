//! A request that can be sent again, if the first attempt turns out to have had no effect: an idle
//! connection was closed just as the request was sent, or an agent that has withdrawn rejected it.
//!
//! Over HTTP/1.1 this is the request itself, because sending does not consume it. HTTP/2 consumes
//! the request, so a copy is made beforehand. The copy is made for each request and rarely used, so
//! it is cheap: the fields are one text and one list.

use super::body::{ReplayableBody, RequestBody};
use crate::forward::wire::Budget;
use crate::forward::wire::buffers;
use http::{Method, Uri, Version};
use http_body::Body;
use slackwater_http::{Fields, Request};
use std::rc::Rc;

/// A request that can be sent again: it has no body, or one that is kept.
#[derive(Debug)]
pub(crate) struct ReplayableRequest {
    request: Head,
    body: Option<ReplayableBody>,
    budget: Option<Rc<Budget>>,
}

#[derive(Debug)]
enum Head {
    Itself(Box<Request<RequestBody>>),
    Copy(Box<CopiedHead>),
}

#[derive(Debug)]
struct CopiedHead {
    method: Method,
    uri: Uri,
    version: Version,
    headers: Fields,
}

impl ReplayableRequest {
    /// Wraps the request itself. `had_body` is whether it had a body, and `body` replaces it.
    pub(crate) fn itself(
        request: Box<Request<RequestBody>>,
        had_body: bool,
        body: Option<ReplayableBody>,
    ) -> Option<Self> {
        let can_be_had = !had_body || body.is_some();
        can_be_had.then(|| Self {
            budget: request.body().budget().cloned(),
            request: Head::Itself(request),
            body,
        })
    }

    /// Copies the request. Returns `None` if it has a body that cannot be read twice.
    pub(crate) fn copy(request: &Request<RequestBody>) -> Option<Self> {
        let body = request.body().replay();
        if body.is_none() && !request.body().is_end_stream() {
            return None;
        }
        let budget = request.body().budget().cloned();
        let mut headers = buffers::lend_headers();
        headers.clone_from(request.headers());
        let request = Head::Copy(Box::new(CopiedHead {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers,
        }));
        Some(Self {
            request,
            body,
            budget,
        })
    }

    /// Whether repeating the request does no harm even if the first one was processed (RFC 9110
    /// §9.2.1).
    pub(crate) fn is_safe(&self) -> bool {
        match &self.request {
            Head::Itself(request) => request.method().is_safe(),
            Head::Copy(head) => head.method.is_safe(),
        }
    }

    /// Whether its body, if any, can be read again.
    pub(crate) fn is_whole(&self) -> bool {
        self.body.as_ref().is_none_or(ReplayableBody::is_whole)
    }

    /// Returns the request; `None` if its body exceeded the replay buffer.
    pub(crate) fn into_request(self) -> Option<Box<Request<RequestBody>>> {
        let body = match self.body {
            Some(body) => Some(body.into_body()?.with_budget(self.budget.clone())),
            None => None,
        };
        match self.request {
            Head::Itself(mut request) => {
                if let Some(body) = body {
                    *request.body_mut() = body;
                }
                Some(request)
            }
            Head::Copy(head) => {
                let mut request =
                    Box::new(Request::new(body.unwrap_or_else(|| {
                        RequestBody::default().with_budget(self.budget)
                    })));
                *request.method_mut() = head.method;
                *request.uri_mut() = head.uri;
                *request.version_mut() = head.version;
                *request.headers_mut() = head.headers;
                Some(request)
            }
        }
    }

    /// Recycles the fields of a request that is no longer needed.
    pub(crate) fn recycle(self) {
        buffers::take_headers_back(match self.request {
            Head::Itself(mut request) => core::mem::take(request.headers_mut()),
            Head::Copy(head) => head.headers,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method) -> Request<RequestBody> {
        http::Request::builder()
            .method(method)
            .uri("/path?query")
            .version(Version::HTTP_11)
            .header("host", "x")
            .header("accept", "a")
            .header("accept", "b")
            .body(RequestBody::default())
            .expect("a valid request")
            .into()
    }

    #[test]
    fn a_replayed_request_is_the_same() {
        let original = request(Method::OPTIONS);
        let copy = ReplayableRequest::copy(&original).expect("it has no body");
        let itself = ReplayableRequest::itself(Box::new(request(Method::OPTIONS)), false, None);
        for replayable in [copy, itself.expect("it has no body")] {
            assert!(replayable.is_safe(), "asking twice does no harm");
            let replayable = replayable
                .into_request()
                .expect("no body, so none too large");
            assert_eq!(replayable.method(), original.method());
            assert_eq!(replayable.uri(), original.uri());
            assert_eq!(replayable.version(), original.version());
            assert_eq!(replayable.headers(), original.headers());
        }
    }

    #[test]
    fn only_safe_methods_are_repeated() {
        for method in [Method::POST, Method::PATCH, Method::DELETE, Method::PUT] {
            let copy = ReplayableRequest::copy(&request(method.clone())).expect("it has no body");
            assert!(!copy.is_safe());
            let itself = ReplayableRequest::itself(Box::new(request(method)), false, None);
            assert!(!itself.expect("it has no body").is_safe());
        }
    }

    #[test]
    fn a_body_that_is_not_kept_cannot_be_replayed() {
        assert!(ReplayableRequest::itself(Box::new(request(Method::PUT)), true, None).is_none());
    }
}
