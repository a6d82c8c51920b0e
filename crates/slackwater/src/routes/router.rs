//! Routes in order, of which the first that matches decides.

use super::Route;
use super::conditions::Asked;
use super::path::Reading;

/// What was found for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'t> {
    /// This route.
    Route(&'t Route),
    /// The path can be read in two ways, and the first route that would take it is sure of neither.
    Doubtful,
    /// No route.
    None,
}

/// The routes of a configuration.
#[derive(Debug)]
pub(crate) struct Router {
    routes: Box<[Route]>,
}

impl Router {
    pub(crate) fn new(routes: &[Route]) -> Self {
        Self {
            routes: routes.into(),
        }
    }

    /// The first route that matches.
    pub(crate) fn find(&self, asked: &Asked<'_>) -> Found<'_> {
        for route in &self.routes {
            match route.when.read(asked) {
                Reading::Meant => return Found::Route(route),
                Reading::Doubtful => return Found::Doubtful,
                Reading::NotMeant => (),
            }
        }
        Found::None
    }
}
