//! From a request to the service that it is for.
//!
//! Routes and services together are a [`Table`], a value that does not change: a request keeps the one that it began with.

mod router;

use super::service::{Flight, Service};
use crate::config::RouteConfig;
use crate::forward::{
    Handler, Origin, Refusal, RequestBody, ResponseBody, prepare_request, refuse,
};
use core::cell::RefCell;
use http::{Request, Response, StatusCode};
use router::Router;
use std::rc::Rc;

/// Routes, and the services that they lead to.
#[derive(Debug)]
pub(super) struct Table {
    router: Router,
    /// In the order of the configuration.
    services: Vec<Rc<Service>>,
}

impl Table {
    /// `services` are those of the configuration that the routes are from, in its order.
    pub(super) fn new(routes: &[RouteConfig], services: Vec<Rc<Service>>) -> Self {
        Self {
            router: Router::new(routes),
            services,
        }
    }

    /// In the order of the configuration.
    pub(super) fn services(&self) -> &[Rc<Service>] {
        &self.services
    }

    fn service(&self, origin: &Origin) -> Option<&Rc<Service>> {
        let route = self.router.route(origin.listener)?;
        self.services.get(route.service)
    }
}

/// A worker's handler of requests.
#[derive(Debug)]
pub(super) struct Routing {
    table: RefCell<Rc<Table>>,
}

impl Routing {
    pub(super) const fn new(table: Rc<Table>) -> Self {
        Self {
            table: RefCell::new(table),
        }
    }

    /// Requests that come from now on find their way by this one.
    pub(super) fn swap(&self, table: &Rc<Table>) {
        self.table.replace(Rc::clone(table));
    }
}

impl Handler for Routing {
    type Watch = Box<Flight>;

    async fn handle(
        &self,
        mut request: Box<Request<RequestBody>>,
        origin: &Origin,
    ) -> Response<ResponseBody<Box<Flight>>> {
        let service = self.table.borrow().service(origin).map(Rc::clone);
        let Some(service) = service else {
            return refuse(Refusal {
                status: StatusCode::NOT_FOUND,
                reason: "no route leads from here to a service",
            });
        };
        if let Err(refusal) = prepare_request(&mut request, service.protocol(), origin) {
            return refuse(refusal);
        }
        service.handle(request).await
    }
}
