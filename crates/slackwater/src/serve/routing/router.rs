//! Routes in order, of which the first that matches decides.

use crate::config::RouteConfig;

/// The routes of a configuration.
#[derive(Debug)]
pub(super) struct Router {
    routes: Box<[RouteConfig]>,
}

impl Router {
    pub(super) fn new(routes: &[RouteConfig]) -> Self {
        Self {
            routes: routes.into(),
        }
    }

    /// The first route that matches.
    pub(super) fn route(&self, listener: usize) -> Option<&RouteConfig> {
        let matches = |route: &&RouteConfig| {
            route.listeners.is_empty() || route.listeners.contains(&listener)
        };
        self.routes.iter().find(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(listeners: &[usize], service: usize) -> RouteConfig {
        RouteConfig {
            listeners: listeners.to_vec(),
            service,
        }
    }

    #[test]
    fn the_first_route_that_matches_decides() {
        let router = Router::new(&[route(&[1, 2], 0), route(&[1], 1), route(&[3], 2)]);
        let service = |listener| router.route(listener).map(|route| route.service);
        assert_eq!([0, 1, 2, 3].map(service), [None, Some(0), Some(0), Some(2)]);
        let router = Router::new(&[route(&[1], 0), route(&[], 1)]);
        let service = |listener| router.route(listener).map(|route| route.service);
        assert_eq!([0, 1].map(service), [Some(1), Some(0)]);
    }
}
