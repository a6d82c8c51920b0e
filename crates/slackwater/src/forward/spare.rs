//! A spare of a request, for when the first one turns out to have gone nowhere: an idle connection was closed just as it
//! was sent, or an agent that has withdrawn turned it away.
//!
//! Made for each request and hardly ever used; so it is cheap: names and values are shared with the request, and the
//! fields are a list that becomes a header map only when it is needed.

use super::body::{BodyAgain, RequestBody};
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};
use hyper::body::Body;

/// A request that can be had again: it has no body, or one that is kept.
#[derive(Debug)]
pub(super) struct Spare {
    method: Method,
    uri: Uri,
    version: Version,
    fields: Vec<(HeaderName, HeaderValue)>,
    body: Option<BodyAgain>,
}

impl Spare {
    /// `None` if the request has a body that cannot be had twice.
    pub(super) fn of(request: &Request<RequestBody>) -> Option<Self> {
        let body = request.body().again();
        if body.is_none() && !request.body().is_end_stream() {
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
            body,
        })
    }

    /// Whether the request does no harm when the first one was heard after all (RFC 9110 §9.2.1).
    pub(super) fn is_safe(&self) -> bool {
        self.method.is_safe()
    }

    /// Whether its body, if it has one, can be had again.
    pub(super) fn is_whole(&self) -> bool {
        self.body.as_ref().is_none_or(BodyAgain::is_whole)
    }

    /// The request; `None` if its body has outgrown what is kept.
    pub(super) fn into_request(self) -> Option<Box<Request<RequestBody>>> {
        let body = match self.body {
            Some(body) => body.into_body()?,
            None => RequestBody::default(),
        };
        let mut request = Box::new(Request::new(body));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.version_mut() = self.version;
        request.headers_mut().extend(self.fields);
        Some(request)
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
        let spare = spare.into_request().expect("no body, so none too large");
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
