//! Routes as values: which requests are meant, and what becomes of them. No clock, no socket;
//! matching does not allocate.
//!
//! The configuration makes them, `serve` asks them. The first route that matches decides, in the
//! order of the file.

mod conditions;
mod headers;
mod host;
mod path;
mod retries;
mod rewrite;
mod router;
mod split;
mod template;

pub use conditions::{Asked, Conditions, HeaderRule, HeaderTest};
pub use headers::{HeaderChanges, why_untouchable};
pub use host::{HostRule, host_of};
pub use path::{Path, PathRule, Reading};
pub use retries::{RetryCauses, RetryMethods, RetryRules};
pub use rewrite::{PathRewrite, Rewrite};
pub use router::{Found, Head, Router};
pub use split::Split;
pub use template::{Parts, Template};

use bytes::Bytes;
use core::time::Duration;
use http::{HeaderValue, StatusCode};
use slackwater_core::Quantile;

/// Which requests, and what becomes of them.
#[derive(Clone, Debug)]
pub struct Route {
    /// Which requests are meant.
    pub when: Conditions,
    /// What becomes of them.
    pub then: Action,
    /// To the response, whoever made it.
    pub response_headers: HeaderChanges,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Action {
    /// It goes to a service.
    Forward(Box<Forward>),
    /// The client is sent elsewhere.
    Redirect(Redirect),
    /// It is answered from the configuration.
    Respond(FixedResponse),
}

impl Action {
    /// The shortest time that any of its requests may take for anything.
    pub fn shortest_timeout(&self) -> Option<Duration> {
        let Self::Forward(forward) = self else {
            return None;
        };
        let bounds = &forward.bounds;
        let tries = forward.retries.iter().flat_map(|retries| &retries.at);
        let tries = tries.filter_map(|(_, rules)| rules.attempt_timeout);
        let spans = [bounds.first_byte, bounds.stall, bounds.tunnel, bounds.total];
        spans.into_iter().flatten().chain(tries).min()
    }
}

/// To which service, and how it is changed on the way.
#[derive(Clone, Debug)]
pub struct Forward {
    /// The services that share these requests.
    pub services: Split,
    /// What replicas see in place of the host and the path.
    pub rewrite: Rewrite,
    /// What is changed in the request's header fields.
    pub request_headers: HeaderChanges,
    /// Limits and timeouts of these requests.
    pub bounds: Bounds,
    /// What becomes of CONNECT.
    pub connect: Connect,
    /// Where copies of these requests go; default nowhere.
    pub mirror: Option<Mirror>,
    /// `None`: as the service says.
    pub retries: Option<Box<RouteRetries>>,
}

impl Forward {
    /// Which of its requests are tried again at a service, where that is not as the service says.
    pub fn retries_at(&self, service: usize) -> Option<&RetryRules> {
        let at = &self.retries.as_ref()?.at;
        let found = at.iter().find(|(other, _)| *other == service);
        found.map(|(_, rules)| rules)
    }
}

/// What becomes of CONNECT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connect {
    /// It is answered with 501.
    #[default]
    Refuse,
    /// It goes to a replica as other requests do; if that accepts, bytes pass both ways.
    Pass,
}

/// Which of a route's requests are tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRetries {
    /// The keys that were said, with their values in TOML.
    pub said: Vec<(&'static str, String)>,
    /// What it comes to at each of the route's services.
    pub at: Vec<(usize, RetryRules)>,
}

/// Who gets copies of a route's requests, whose answers nobody hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The place of the service.
    pub service: usize,
    /// Of all requests.
    pub share: Quantile,
    /// Bytes of a body that are kept for the copy; a request with more is not copied.
    pub body_bytes_max: u32,
}

/// How long a request of this route may take, and how much it may be; where nothing is said, as
/// long and as much as any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// From its dispatch to the head of the response, all tries together.
    pub first_byte: Option<Duration>,
    /// Between two pieces of the response's body.
    pub stall: Option<Duration>,
    /// For which neither side of a tunnel may say anything.
    pub tunnel: Option<Duration>,
    /// From its arrival to the end of the response.
    pub total: Option<Duration>,
    /// Bytes of its body.
    pub body_bytes_max: Option<u32>,
}

/// Where a client is sent.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: StatusCode,
    /// The value of `location`.
    pub to: Template,
}

/// An answer from the configuration.
#[derive(Clone, Debug)]
pub struct FixedResponse {
    /// From 200 to 599.
    pub status: StatusCode,
    /// At most 64 KiB.
    pub body: Bytes,
    /// The value of `content-type`.
    pub content_type: HeaderValue,
}
