//! `[[routes]]`: the first route that matches a request decides. Without routes, all requests go to
//! the only service.

mod action;
mod bounds;
mod heads;
mod mirror;
mod reach;
mod rows;
mod show;
mod when;

use super::connect::Connect;
use super::listeners::LocatedListener;
use super::model::ServiceConfig;
use crate::routes::{Action, Bounds, Conditions, Forward, HeaderChanges, Rewrite, Route, Split};
use crate::toml_reader::values::found;
use crate::toml_reader::{Definition, Item, Mistake, Reader, Remark};

pub(super) use show::write_routes;

pub(super) use rows::RouteRows;

/// The most routes.
const ROUTES_MAX: usize = 1024;

/// Names that routes may use, and defaults of their keys.
#[derive(Clone, Copy)]
pub(super) struct Named<'n> {
    pub(super) listeners: &'n [LocatedListener],
    pub(super) services: &'n [ServiceConfig],
    /// The default of a route's `connect`.
    pub(super) connect: Connect,
}

impl Named<'_> {
    fn listener(self, item: &Item<'_>) -> Result<usize, Mistake> {
        let names = self.listeners.iter();
        place(item, "listener", names.map(|it| it.config.name.as_str()))
    }

    fn service(self, item: &Item<'_>) -> Result<usize, Mistake> {
        place(
            item,
            "service",
            self.services.iter().map(|it| it.name.as_str()),
        )
    }
}

/// The index of a name in `all`.
fn place<'n>(
    item: &Item<'_>,
    what: &str,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Result<usize, Mistake> {
    let name = item.value.as_str();
    names
        .clone()
        .position(|other| Some(other) == name)
        .ok_or_else(|| {
            let names: Vec<_> = names.map(|name| format!("{name:?}")).collect();
            item.mistake(format!(
                "found {}, which is no {what}, expected one of {}",
                found(&item.value),
                names.join(", ")
            ))
        })
}

/// A route and where it was set.
struct LocatedRoute {
    route: Route,
    definition: Definition,
}

/// Reads all routes, at least one unless mistakes were recorded, with remarks.
pub(super) fn read_routes(reader: &mut Reader<'_>, named: Named<'_>) -> (Vec<Route>, Vec<Remark>) {
    let count = reader.count_tables("routes");
    if count > ROUTES_MAX {
        reader.add_mistake_near(
            &format!("routes[{ROUTES_MAX}]"),
            format!("is one too many, expected at most {ROUTES_MAX} routes"),
        );
    }
    if count == 0 {
        return (read_none(reader, named), Vec::new());
    }
    let mut routes = Vec::new();
    for index in 0..count.min(ROUTES_MAX) {
        let field = format!("routes[{index}]");
        let route = read_route(reader, &format!("{field}."), named);
        let place = reader.place_near(&field);
        routes.extend(route.map(|route| LocatedRoute {
            route,
            definition: Definition { field, place },
        }));
    }
    // A route with a mistake might be the one that leads to a service without requests.
    let is_whole = routes.len() == count;
    reach::note_circles(reader, &routes, named.listeners);
    let remarks = if is_whole {
        reach::remarks(reader, &routes, named.services)
    } else {
        Vec::new()
    };
    (routes.into_iter().map(|it| it.route).collect(), remarks)
}

/// The default without routes: all requests go to the only service.
fn read_none(reader: &mut Reader<'_>, named: Named<'_>) -> Vec<Route> {
    if let [_, second, ..] = named.services {
        reader.add_mistake_near(
            &format!("services.{}", second.name),
            "is a second service, and nothing says which requests are for it; expected tables \
             [[routes]]"
                .to_owned(),
        );
    }
    vec![Route::to(0, named.connect)]
}

impl Route {
    /// A route for all requests to one service.
    pub fn to(service: usize, connect: Connect) -> Self {
        Self {
            when: Conditions::default(),
            then: Action::Forward(Box::new(Forward {
                services: Split::one(service),
                rewrite: Rewrite::default(),
                request_headers: HeaderChanges::default(),
                bounds: Bounds::default(),
                connect,
                mirror: None,
                retries: None,
            })),
            response_headers: HeaderChanges::default(),
        }
    }
}

/// Reads the keys of a route; `None` after a mistake.
fn read_route(reader: &mut Reader<'_>, prefix: &str, named: Named<'_>) -> Option<Route> {
    let when = when::read(reader, prefix, named);
    let then = action::read(reader, prefix, named, when.as_ref());
    let response_headers = heads::read_changes(reader, &format!("{prefix}response_headers"));
    Some(Route {
        when: when?,
        then: then?,
        response_headers: response_headers?,
    })
}
