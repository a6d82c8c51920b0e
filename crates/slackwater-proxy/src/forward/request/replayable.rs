//! A request that can be sent again, if the first attempt turns out to have had no effect: an idle
//! connection was closed just as the request was sent, or an agent that has withdrawn rejected it.
//!
//! It is the request itself: sending takes nothing of it but the body, and adds at most
//! `content-length`.

use super::body::{ReplayableBody, RequestBody};
use crate::forward::wire::buffers;
use slackwater_http::Request;

/// A request that can be sent again: it has no body, or one that is kept.
#[derive(Debug)]
pub(crate) struct ReplayableRequest {
    request: Box<Request<RequestBody>>,
    body: Option<ReplayableBody>,
}

impl ReplayableRequest {
    /// Wraps a request that was sent. `had_body` is whether it had a body, and `body` replaces it.
    /// Returns `None` if it had a body that cannot be read twice.
    pub(crate) fn new(
        request: Box<Request<RequestBody>>,
        had_body: bool,
        body: Option<ReplayableBody>,
    ) -> Option<Self> {
        let sent = Self { request, body };
        if had_body && sent.body.is_none() {
            sent.recycle();
            return None;
        }
        Some(sent)
    }

    /// Whether repeating the request does no harm even if the first one was processed (RFC 9110
    /// §9.2.1).
    pub(crate) fn is_safe(&self) -> bool {
        self.request.method().is_safe()
    }

    /// Whether its body, if any, can be read again.
    pub(crate) fn is_whole(&self) -> bool {
        self.body.as_ref().is_none_or(ReplayableBody::is_whole)
    }

    /// Returns the request; `None` if its body exceeded the replay buffer.
    pub(crate) fn into_request(mut self) -> Option<Box<Request<RequestBody>>> {
        if let Some(body) = self.body {
            let budget = self.request.body().budget().cloned();
            *self.request.body_mut() = body.into_body()?.with_budget(budget);
        }
        Some(self.request)
    }

    /// Recycles the fields of a request that is no longer needed.
    pub(crate) fn recycle(mut self) {
        buffers::take_headers_back(core::mem::take(self.request.headers_mut()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Version};

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
        let sent = ReplayableRequest::new(Box::new(request(Method::OPTIONS)), false, None);
        let sent = sent.expect("it has no body");
        assert!(sent.is_safe(), "asking twice does no harm");
        let replayed = sent.into_request().expect("no body, so none too large");
        assert_eq!(replayed.method(), original.method());
        assert_eq!(replayed.uri(), original.uri());
        assert_eq!(replayed.version(), original.version());
        assert_eq!(replayed.headers(), original.headers());
    }

    #[test]
    fn only_safe_methods_are_repeated() {
        for method in [Method::POST, Method::PATCH, Method::DELETE, Method::PUT] {
            let sent = ReplayableRequest::new(Box::new(request(method)), false, None);
            assert!(!sent.expect("it has no body").is_safe());
        }
    }

    #[test]
    fn a_body_that_is_not_kept_cannot_be_replayed() {
        assert!(ReplayableRequest::new(Box::new(request(Method::PUT)), true, None).is_none());
    }
}
