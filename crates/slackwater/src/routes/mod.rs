//! Routes as values: which requests are meant, and what becomes of them. No clock, no socket; matching does not allocate.
//!
//! The configuration makes them, `serve` asks them. The first route that matches decides, in the order of the file.

mod conditions;
mod headers;
mod host;
mod path;
mod rewrite;
mod router;
mod split;
mod template;

pub(crate) use conditions::{Asked, Conditions, HeaderRule, HeaderTest};
pub(crate) use headers::{HeaderChanges, why_untouchable};
pub(crate) use host::{HostRule, host_of};
pub(crate) use path::{Path, PathRule, Reading};
pub(crate) use rewrite::{PathRewrite, Rewrite};
pub(crate) use router::{Found, Head, Router};
pub(crate) use split::Split;
pub(crate) use template::{Parts, Template};

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

/// Which requests, and what becomes of them.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) when: Conditions,
    pub(crate) then: Action,
    /// To the response, whoever made it.
    pub(crate) response_headers: HeaderChanges,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// It goes to a service.
    Forward(Box<Forward>),
    /// The client is sent elsewhere.
    Redirect(Redirect),
    /// It is answered from the configuration.
    Respond(FixedResponse),
}

/// To which service, and how it is changed on the way.
#[derive(Clone, Debug)]
pub(crate) struct Forward {
    pub(crate) services: Split,
    pub(crate) rewrite: Rewrite,
    pub(crate) request_headers: HeaderChanges,
}

/// Where a client is sent.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub(crate) status: StatusCode,
    pub(crate) to: Template,
}

/// An answer from the configuration.
#[derive(Clone, Debug)]
pub(crate) struct FixedResponse {
    /// From 200 to 599.
    pub(crate) status: StatusCode,
    /// At most 64 KiB.
    pub(crate) body: Bytes,
    pub(crate) content_type: HeaderValue,
}
