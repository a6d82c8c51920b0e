//! A request without a body that can be sent once more, for when the first one turns out to have gone nowhere: an idle
//! connection was closed just as it was sent, or an agent that has withdrawn turned it away.
//!
//! Over HTTP/1.1 it is the request itself, for sending it takes nothing from it. HTTP/2 takes the request, so there a
//! copy is made beforehand: for each request and hardly ever used, and so a cheap one, whose names and values are shared
//! with the request, and whose fields are a list that becomes a header map only when it is needed.

use super::request_body::RequestBody;
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};
use http_body::Body;

/// A request without a body, kept until there is a response to it.
#[derive(Debug)]
pub(super) enum Spare {
    Itself(Box<Request<RequestBody>>),
    Copy(Copied),
}

#[derive(Debug)]
pub(super) struct Copied {
    method: Method,
    uri: Uri,
    version: Version,
    fields: Vec<(HeaderName, HeaderValue)>,
}

impl Spare {
    /// `None` if the request has a body, which cannot be had twice.
    pub(super) fn copy(request: &Request<RequestBody>) -> Option<Self> {
        if !request.body().is_end_stream() {
            return None;
        }
        let fields = request.headers().iter();
        Some(Self::Copy(Copied {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            fields: fields
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        }))
    }

    /// Whether the request does no harm when the first one was heard after all (RFC 9110 §9.2.1).
    pub(super) fn is_safe(&self) -> bool {
        match self {
            Self::Itself(request) => request.method().is_safe(),
            Self::Copy(copy) => copy.method.is_safe(),
        }
    }

    pub(super) fn into_request(self) -> Box<Request<RequestBody>> {
        let copy = match self {
            Self::Itself(request) => return request,
            Self::Copy(copy) => copy,
        };
        let mut request = Box::new(Request::new(RequestBody::default()));
        *request.method_mut() = copy.method;
        *request.uri_mut() = copy.uri;
        *request.version_mut() = copy.version;
        request.headers_mut().extend(copy.fields);
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
        let copy = Spare::copy(&original).expect("it has no body");
        for spare in [copy, Spare::Itself(Box::new(request(Method::OPTIONS)))] {
            assert!(spare.is_safe(), "asking twice does no harm");
            let spare = spare.into_request();
            assert_eq!(spare.method(), original.method());
            assert_eq!(spare.uri(), original.uri());
            assert_eq!(spare.version(), original.version());
            assert_eq!(spare.headers(), original.headers());
        }
    }

    #[test]
    fn what_may_have_had_an_effect_is_not_repeated() {
        for method in [Method::POST, Method::PATCH, Method::DELETE, Method::PUT] {
            let copy = Spare::copy(&request(method.clone())).expect("it has no body");
            assert!(!copy.is_safe());
            assert!(!Spare::Itself(Box::new(request(method))).is_safe());
        }
    }
}
