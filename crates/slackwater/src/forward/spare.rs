//! A spare of a request, for when an idle connection turns out to have been closed just as the request was sent.
//!
//! Made for each request that goes out on a connection that had been idle, and hardly ever used; so it is cheap: names and
//! values are shared with the request, and the fields are a list that becomes a header map only when it is needed.

use super::body::RequestBody;
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};
use hyper::body::Body;

/// A request without a body, kept until it is known that the first one was heard.
#[derive(Debug)]
pub(super) struct Spare {
    method: Method,
    uri: Uri,
    version: Version,
    fields: Vec<(HeaderName, HeaderValue)>,
}

impl Spare {
    /// `None` if doing the request twice could do harm, or if it has a body, which cannot be had twice.
    pub(super) fn of(request: &Request<RequestBody>) -> Option<Self> {
        if !request.method().is_idempotent() || !request.body().is_end_stream() {
            return None;
        }
        let fields = request.headers().iter();
        Some(Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            fields: fields
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        })
    }

    pub(super) fn into_request(self) -> Box<Request<RequestBody>> {
        let mut request = Box::new(Request::new(RequestBody::default()));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.version_mut() = self.version;
        request.headers_mut().extend(self.fields);
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method) -> Request<RequestBody> {
        Request::builder()
            .method(method)
            .uri("/path?query")
            .version(Version::HTTP_11)
            .header("host", "x")
            .header("accept", "a")
            .header("accept", "b")
            .body(RequestBody::default())
            .expect("a valid request")
    }

    #[test]
    fn the_spare_is_the_same_request() {
        let original = request(Method::DELETE);
        let spare = Spare::of(&original)
            .expect("deleting twice does no harm")
            .into_request();
        assert_eq!(spare.method(), original.method());
        assert_eq!(spare.uri(), original.uri());
        assert_eq!(spare.version(), original.version());
        assert_eq!(spare.headers(), original.headers());
    }

    #[test]
    fn what_may_not_be_repeated_has_no_spare() {
        for method in [Method::POST, Method::PATCH, Method::CONNECT] {
            assert!(Spare::of(&request(method)).is_none());
        }
    }
}
