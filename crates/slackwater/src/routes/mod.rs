//! Routes as values: which requests are meant, and what becomes of them. No clock, no socket; matching does not allocate.
//!
//! The configuration makes them, `serve` asks them. The first route that matches decides, in the order of the file.

mod conditions;
mod headers;
mod host;
mod path;
mod retries;
mod rewrite;
mod router;
mod split;
mod template;

pub(crate) use conditions::{Asked, Conditions, HeaderRule, HeaderTest};
pub(crate) use headers::{HeaderChanges, why_untouchable};
pub(crate) use host::{HostRule, host_of};
pub(crate) use path::{Path, PathRule, Reading};
pub(crate) use retries::{RetryCauses, RetryChanges, RetryMethods, RetryRules};
pub(crate) use rewrite::{PathRewrite, Rewrite};
pub(crate) use router::{Found, Head, Router};
pub(crate) use split::Split;
pub(crate) use template::{Parts, Template};

use bytes::Bytes;
use core::time::Duration;
use http::{HeaderValue, StatusCode};
use slackwater_core::Quantile;

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

impl Action {
    /// The shortest time that any of its requests may take for anything.
    pub(crate) fn shortest_timeout(&self) -> Option<Duration> {
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
pub(crate) struct Forward {
    pub(crate) services: Split,
    pub(crate) rewrite: Rewrite,
    pub(crate) request_headers: HeaderChanges,
    pub(crate) bounds: Bounds,
    /// What becomes of CONNECT.
    pub(crate) connect: Connect,
    pub(crate) mirror: Option<Mirror>,
    /// `None`: as the service says.
    pub(crate) retries: Option<Box<RouteRetries>>,
}

impl Forward {
    /// Which of its requests are tried again at a service, where that is not as the service says.
    pub(crate) fn retries_at(&self, service: usize) -> Option<&RetryRules> {
        let at = &self.retries.as_ref()?.at;
        let found = at.iter().find(|(other, _)| *other == service);
        found.map(|(_, rules)| rules)
    }
}

/// What becomes of CONNECT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Connect {
    /// It is answered with 501.
    #[default]
    Refuse,
    /// It goes to a replica as other requests do; if that accepts, bytes pass both ways.
    Pass,
}

/// Which of a route's requests are tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteRetries {
    /// As it was said.
    pub(crate) said: RetryChanges,
    /// What it comes to at each of the route's services.
    pub(crate) at: Vec<(usize, RetryRules)>,
}

/// Who gets copies of a route's requests, whose answers nobody hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mirror {
    /// The place of the service.
    pub(crate) service: usize,
    /// Of all requests.
    pub(crate) share: Quantile,
    /// Bytes of a body that are kept for the copy; a request with more is not copied.
    pub(crate) body_bytes_max: u32,
}

/// How long a request of this route may take, and how much it may be; where nothing is said, as long and as much as any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// From its dispatch to the head of the response, all tries together.
    pub(crate) first_byte: Option<Duration>,
    /// Between two pieces of the response's body.
    pub(crate) stall: Option<Duration>,
    /// For which neither side of a tunnel may say anything.
    pub(crate) tunnel: Option<Duration>,
    /// From its arrival to the end of the response.
    pub(crate) total: Option<Duration>,
    /// Bytes of its body.
    pub(crate) body_bytes_max: Option<u32>,
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
