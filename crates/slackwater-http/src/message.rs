//! Requests and responses whose fields are [`Fields`].
//!
//! They are used like those of `http`, whose fields can only be a `HeaderMap`.

use crate::fields::Fields;
use http::{Extensions, Method, StatusCode, Uri, Version};

/// A request: method, target and fields, and a body of any type.
#[derive(Debug)]
pub struct Request<B> {
    method: Method,
    uri: Uri,
    version: Version,
    headers: Fields,
    extensions: Extensions,
    body: B,
}

/// A response: status and fields, and a body of any type.
#[derive(Debug)]
pub struct Response<B> {
    status: StatusCode,
    headers: Fields,
    body: B,
}

impl<B> Request<B> {
    /// `GET /` without fields, with this body.
    pub fn new(body: B) -> Self {
        Self {
            method: Method::GET,
            uri: Uri::default(),
            version: Version::HTTP_11,
            headers: Fields::new(),
            extensions: Extensions::new(),
            body,
        }
    }

    /// The method.
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The method, to change it.
    pub const fn method_mut(&mut self) -> &mut Method {
        &mut self.method
    }

    /// The target.
    pub const fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The target, to change it.
    pub const fn uri_mut(&mut self) -> &mut Uri {
        &mut self.uri
    }

    /// The version by which the request came.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The version, to change it.
    pub const fn version_mut(&mut self) -> &mut Version {
        &mut self.version
    }

    /// The fields.
    pub const fn headers(&self) -> &Fields {
        &self.headers
    }

    /// The fields, to change them.
    pub const fn headers_mut(&mut self) -> &mut Fields {
        &mut self.headers
    }

    /// What code has attached to the request.
    pub const fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// What code has attached to the request, to change it.
    pub const fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// The body.
    pub const fn body(&self) -> &B {
        &self.body
    }

    /// The body, to change it.
    pub const fn body_mut(&mut self) -> &mut B {
        &mut self.body
    }

    /// The body alone.
    pub fn into_body(self) -> B {
        self.body
    }

    /// Method, target, fields and body.
    pub fn into_parts(self) -> (Method, Uri, Fields, B) {
        (self.method, self.uri, self.headers, self.body)
    }
}

impl<B> Response<B> {
    /// 200 without fields, with this body.
    pub fn new(body: B) -> Self {
        Self {
            status: StatusCode::OK,
            headers: Fields::new(),
            body,
        }
    }

    /// The status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The status, to change it.
    pub const fn status_mut(&mut self) -> &mut StatusCode {
        &mut self.status
    }

    /// The fields.
    pub const fn headers(&self) -> &Fields {
        &self.headers
    }

    /// The fields, to change them.
    pub const fn headers_mut(&mut self) -> &mut Fields {
        &mut self.headers
    }

    /// The body.
    pub const fn body(&self) -> &B {
        &self.body
    }

    /// The body, to change it.
    pub const fn body_mut(&mut self) -> &mut B {
        &mut self.body
    }

    /// The body alone.
    pub fn into_body(self) -> B {
        self.body
    }

    /// Status, fields and body.
    pub fn into_parts(self) -> (StatusCode, Fields, B) {
        (self.status, self.headers, self.body)
    }

    /// This response with another body, made of its own.
    pub fn map<C>(self, change: impl FnOnce(B) -> C) -> Response<C> {
        Response {
            status: self.status,
            headers: self.headers,
            body: change(self.body),
        }
    }
}

impl<B> From<http::Request<B>> for Request<B> {
    fn from(request: http::Request<B>) -> Self {
        let (head, body) = request.into_parts();
        Self {
            method: head.method,
            uri: head.uri,
            version: head.version,
            headers: (&head.headers).into(),
            extensions: head.extensions,
            body,
        }
    }
}

impl<B> From<http::Response<B>> for Response<B> {
    /// Drops the version, which the connection decides, and extensions.
    fn from(response: http::Response<B>) -> Self {
        let (head, body) = response.into_parts();
        Self {
            status: head.status,
            headers: (&head.headers).into(),
            body,
        }
    }
}
