//! Routes in order, of which the first that matches decides.

use super::Route;
use super::conditions::Asked;
use super::host::host_of;
use super::path::{Path, Reading};
use http::Method;
use http::header::HeaderMap;
use http::uri::{Authority, Uri};

/// What was found for a request.
#[derive(Clone, Copy, Debug)]
pub enum Found<'t> {
    /// This route, and its place among them.
    Route(usize, &'t Route),
    /// The path can be read in two ways, and the first route that would take it is sure of neither.
    Doubtful,
    /// No route.
    None,
}

/// A request's head, and where it came in.
#[derive(Clone, Copy, Debug)]
pub struct Head<'r> {
    /// By which listener, as its place among them.
    pub listener: usize,
    /// The method.
    pub method: &'r Method,
    /// The target.
    pub uri: &'r Uri,
    /// The header fields.
    pub headers: &'r HeaderMap,
    /// Stands in for a host that is not named.
    pub local: &'r Authority,
}

/// The routes of a configuration.
#[derive(Debug)]
pub struct Router {
    routes: Box<[Route]>,
    /// Whether any route asks for a host, or a path; else nobody looks at the request's.
    asks_for_hosts: bool,
    asks_for_paths: bool,
}

impl Router {
    /// A router of these routes, which are tried in their order.
    pub fn new(routes: &[Route]) -> Self {
        Self {
            routes: routes.into(),
            asks_for_hosts: routes.iter().any(|route| !route.when.hosts.is_empty()),
            asks_for_paths: routes.iter().any(|route| route.when.path.is_some()),
        }
    }

    /// Whether the same requests go by a route of the same place.
    pub fn matches_like(&self, other: &Self) -> bool {
        let pairs = || self.routes.iter().zip(&other.routes);
        self.routes.len() == other.routes.len()
            && pairs().all(|(one, other)| one.when == other.when)
    }

    /// The first route that matches.
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
