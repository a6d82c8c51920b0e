//! Routes as values: conditions and actions. No clock, no socket; matching does not allocate.
//!
//! The configuration makes them, `serve` uses them. The first route that matches decides, in the
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

/// A route: its conditions and its action.
#[derive(Clone, Debug)]
pub struct Route {
    /// The requests that match.
    pub when: Conditions,
    /// What happens to them.
    pub then: Action,
    /// Changes to every response, from a replica or from the proxy.
    pub response_headers: HeaderChanges,
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Action {
    /// The request goes to a service.
    Forward(Box<Forward>),
    /// The client is redirected.
    Redirect(Redirect),
    /// The proxy sends a fixed response.
    Respond(FixedResponse),
}

impl Action {
    /// The shortest of the timeouts of its requests.
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

/// Forwarding to a service, with changes to the request.
#[derive(Clone, Debug)]
pub struct Forward {
    /// The services that share these requests.
    pub services: Split,
    /// Changes to the host and the path that replicas receive.
    pub rewrite: Rewrite,
    /// Changes to the request's headers.
    pub request_headers: HeaderChanges,
    /// Limits and timeouts of these requests.
    pub bounds: Bounds,
    /// Handling of CONNECT.
    pub connect: Connect,
    /// Where copies of these requests go; default: no copies.
    pub mirror: Option<Mirror>,
    /// The route's own retry rules; `None`: those of the service.
    pub retries: Option<Box<RouteRetries>>,
}

impl Forward {
    /// The retry rules at a service, if they differ from the service's own.
    pub fn retries_at(&self, service: usize) -> Option<&RetryRules> {
        let at = &self.retries.as_ref()?.at;
        let found = at.iter().find(|(other, _)| *other == service);
        found.map(|(_, rules)| rules)
    }
}

/// Handling of CONNECT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connect {
    /// Refuses it with 501.
    #[default]
    Refuse,
    /// Forwards it to a replica like other requests; if the replica accepts, bytes pass in both
    /// directions.
    Pass,
}

/// A route's own retry rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRetries {
    /// The keys that are set, with their values in TOML.
    pub set_keys: Vec<(&'static str, String)>,
    /// The resulting rules at each of the route's services.
    pub at: Vec<(usize, RetryRules)>,
}

/// The service that receives copies of a route's requests. Its responses are discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The index of the service.
    pub service: usize,
    /// Share of the requests that are copied.
    pub share: Quantile,
    /// Bytes of a body that are kept for the copy; a request with a larger body is not copied.
    pub body_bytes_max: u32,
}

/// Timeouts and limits of the route's requests; `None`: the service's or the process's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// From its dispatch to the head of the response, over all attempts.
    pub first_byte: Option<Duration>,
    /// Between two pieces of the response's body.
    pub stall: Option<Duration>,
    /// Longest silence of a tunnel.
    pub tunnel: Option<Duration>,
    /// From its arrival to the end of the response.
    pub total: Option<Duration>,
    /// Size of its body in bytes.
    pub body_bytes_max: Option<u32>,
}

/// A redirect.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: StatusCode,
    /// The value of `location`.
    pub to: Template,
}

/// A fixed response.
#[derive(Clone, Debug)]
pub struct FixedResponse {
    /// From 200 to 599.
    pub status: StatusCode,
    /// At most 64 KiB.
    pub body: Bytes,
    /// The value of `content-type`.
    pub content_type: HeaderValue,
}
