//! Further copies of a request, which may be sent while the first is still in flight.
//!
//! The template is made before the first copy is sent. It is cheap if no body has to be kept: the
//! fields are one text. A body must be complete, and all of it in the replay buffer, when a copy
//! is made; the first copy continues to read it undisturbed.

use super::body::{BodyTemplate, RequestBody};
use crate::forward::wire::Budget;
use http::header::CONTENT_LENGTH;
use http::{Extensions, HeaderValue, Method, Uri, Version};
use http_body::Body;
use slackwater_http::{Fields, Request};
use std::rc::Rc;

/// Template for further copies of a request.
#[derive(Debug)]
pub(crate) struct RequestTemplate {
    method: Method,
    uri: Uri,
    version: Version,
    headers: Fields,
    extensions: Extensions,
    body: BodyTemplate,
    budget: Option<Rc<Budget>>,
}

impl RequestTemplate {
    /// Makes a template. Returns `None` if no further copy is possible: the body is not kept, or
    /// the request upgrades its connection.
    pub(crate) fn of(request: &Request<RequestBody>) -> Option<Self> {
        Some(Self {
            body: request.body().template()?,
            budget: request.body().budget().cloned(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers: request.headers().clone(),
            extensions: request.extensions().clone(),
        })
    }

    /// Makes a copy; `None` if the first copy has not read the whole body yet, or the body is too
    /// large.
    pub(crate) fn request(&self) -> Option<Box<Request<RequestBody>>> {
        let body = RequestBody::own(self.body.bytes()?).with_budget(self.budget.clone());
        let length = body.size_hint().lower();
        let mut request = Box::new(Request::new(body));
        request.method_mut().clone_from(&self.method);
        request.uri_mut().clone_from(&self.uri);
        *request.version_mut() = self.version;
        request.headers_mut().clone_from(&self.headers);
        request.extensions_mut().clone_from(&self.extensions);
        if length > 0 {
            let length = HeaderValue::from(length);
            request.headers_mut().insert(CONTENT_LENGTH, length);
        }
        Some(request)
    }
}
