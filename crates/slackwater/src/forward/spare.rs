//! A spare of a request, for when the first one turns out to have gone nowhere: an idle connection was closed just as it
//! was sent, or an agent that has withdrawn turned it away.
//!
//! Made for each request and hardly ever used; so it is cheap: names and values are shared with the request, and the
//! fields are a list that becomes a header map only when it is needed.

use super::body::RequestBody;
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};
use hyper::body::Body;

/// A request without a body, kept until there is a response to it.
#[derive(Debug)]
pub(super) struct Spare {
    method: Method,
    uri: Uri,
    version: Version,
    fields: Vec<(HeaderName, HeaderValue)>,
}

impl Spare {
    /// `None` if the request has a body, which cannot be had twice.
    pub(super) fn of(request: &Request<RequestBody>) -> Option<Self> {
        if !request.body().is_end_stream() {
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

    /// Whether the request does no harm when the first one was heard after all (RFC 9110 §9.2.1).
    pub(super) fn is_safe(&self) -> bool {
        self.method.is_safe()
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
        let original = request(Method::OPTIONS);
        let spare = Spare::of(&original).expect("it has no body");
        assert!(spare.is_safe(), "asking twice does no harm");
        let spare = spare.into_request();
        assert_eq!(spare.method(), original.method());
        assert_eq!(spare.uri(), original.uri());
        assert_eq!(spare.version(), original.version());
        assert_eq!(spare.headers(), original.headers());
    }

    #[test]
    fn what_may_have_had_an_effect_is_not_repeated() {
        for method in [Method::POST, Method::PATCH, Method::DELETE, Method::PUT] {
            assert!(
                !Spare::of(&request(method))
                    .expect("it has no body")
                    .is_safe()
            );
        }
    }
}
