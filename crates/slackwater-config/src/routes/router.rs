//! Routes in order, of which the first that matches decides.

use super::Route;
use super::conditions::Asked;
use super::host::host_of;
use super::path::{Path, Reading};
use http::Method;
use http::uri::{Authority, Uri};
use slackwater_http::Fields;

/// The result for a request.
#[derive(Clone, Copy, Debug)]
pub enum Found<'t> {
    /// This route, and its index.
    Route(usize, &'t Route),
    /// The path has several interpretations, and the first route that could match it is doubtful.
    Doubtful,
    /// No route.
    None,
}

/// A request's head, and the listener that received it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'r> {
    /// The listener's index.
    pub listener: usize,
    /// The method.
    pub method: &'r Method,
    /// The target.
    pub uri: &'r Uri,
    /// The header fields.
    pub headers: &'r Fields,
    /// The authority for a request that names no host.
    pub local: &'r Authority,
}

/// The routes of a configuration.
#[derive(Debug)]
pub struct Router {
    routes: Box<[Route]>,
    /// Whether any route has a condition on the host or the path. If not, the request's is not
    /// parsed.
    asks_for_hosts: bool,
    asks_for_paths: bool,
}

impl Router {
    /// A router that tries these routes in order.
    pub fn new(routes: &[Route]) -> Self {
        Self {
            routes: routes.into(),
            asks_for_hosts: routes.iter().any(|route| !route.when.hosts.is_empty()),
            asks_for_paths: routes.iter().any(|route| route.when.path.is_some()),
        }
    }

    /// Returns whether both routers send the same requests to routes of the same index.
    pub fn matches_like(&self, other: &Self) -> bool {
        let pairs = || self.routes.iter().zip(&other.routes);
        self.routes.len() == other.routes.len()
            && pairs().all(|(one, other)| one.when == other.when)
    }

    /// Finds the first route that matches.
    pub fn find(&self, head: &Head<'_>) -> Found<'_> {
        let host = self
            .asks_for_hosts
            .then(|| host_of(head.uri, head.headers, head.local));
        let path = self.asks_for_paths.then(|| Path::new(head.uri.path()));
        let asked = &Asked {
            listener: head.listener,
            method: head.method,
            host: host.unwrap_or_default(),
            path: path.unwrap_or_default(),
            headers: head.headers,
        };
        for (number, route) in self.routes.iter().enumerate() {
            match route.when.read(asked) {
                Reading::Meant => return Found::Route(number, route),
                Reading::Doubtful => return Found::Doubtful,
                Reading::NotMeant => (),
            }
        }
        Found::None
    }
}
