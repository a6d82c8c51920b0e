//! From a request to the service that it is for, or to the answer that its route has for it.
//!
//! Routes and services together are a [`Table`], a value that does not change: a request keeps the one that it began with.

mod mirror;

use super::service::{Flight, Service, Tries};
use crate::config::{Connect, ReplicaProtocol};
use crate::forward::{
    Handler, Origin, Patience, Refusal, RequestBody, ResponseBody, UnreadableCounts, is_grpc_call,
    no_route, own_response, prepare_request, refuse, say_in_grpc, too_large,
};
use crate::request_record::{Recorder, Story};
use crate::routes::{
    Action, FixedResponse, Forward, Found, Head, Parts, PathRule, Redirect, Rewrite, Route, Router,
    host_of,
};
use bytes::Bytes;
use core::cell::RefCell;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use mirror::Mirrors;
use slackwater_core::SplitMix64;
use slackwater_tower::wire::asks::time_left;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// A response as clients get it.
type Answer = Response<ResponseBody<Box<Flight>>>;

/// Routes, and the services that they lead to.
#[derive(Debug)]
pub(super) struct Table {
    router: Router,
    /// In the order of the configuration.
    services: Vec<Rc<Service>>,
}

impl Table {
    /// `services` are those of the configuration that the routes are from, in its order.
    pub(super) fn new(routes: &[Route], services: Vec<Rc<Service>>) -> Self {
        Self {
            router: Router::new(routes),
            services,
        }
    }

    /// In the order of the configuration.
    pub(super) fn services(&self) -> &[Rc<Service>] {
        &self.services
    }

    /// Whether each request goes by the same route as it would by `other`.
    pub(super) fn matches_like(&self, other: &Self) -> bool {
        self.router.matches_like(&other.router)
    }

    fn find(&self, request: &Request<RequestBody>, origin: &Origin) -> Found<'_> {
        self.router.find(&Head {
            listener: origin.listener,
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            local: &origin.local,
        })
    }
}

/// A worker's handler of requests.
#[derive(Debug)]
pub(super) struct Routing {
    table: RefCell<Rc<Table>>,
    /// For the choice between services.
    draw: RefCell<SplitMix64>,
    mirrors: Mirrors,
    recorder: Rc<Recorder>,
    unreadable: Arc<UnreadableCounts>,
}

impl Routing {
    /// `seed`: from somewhere that differs from worker to worker.
    pub(super) fn new(
        table: Rc<Table>,
        seed: u64,
        recorder: Rc<Recorder>,
        unreadable: Arc<UnreadableCounts>,
    ) -> Self {
        Self {
            table: RefCell::new(table),
            draw: RefCell::new(SplitMix64::new(seed)),
            mirrors: Mirrors::default(),
            recorder,
            unreadable,
        }
    }

    /// Requests that come from now on find their way by this one.
    pub(super) fn swap(&self, table: &Rc<Table>) {
        self.table.replace(Rc::clone(table));
    }

    async fn forward(
        &self,
        table: &Table,
        (number, forward): (usize, &Forward),
        mut request: Box<Request<RequestBody>>,
        origin: &Origin,
        (id, story): (Option<&HeaderValue>, &Story),
    ) -> Answer {
        let chosen = forward.services.choose(&mut *self.draw.borrow_mut());
        let Some(service) = table.services.get(chosen) else {
            return no_route();
        };
        story.route(service.name(), service.directory());
        if let Some(mirror) = &forward.mirror {
            let draw = &mut *self.draw.borrow_mut();
            (self.mirrors).send(mirror, table, &mut request, origin, forward, draw);
        }
        let client = service.client(request.headers(), origin);
        let protocol = service.protocol();
        let prepared = prepare_request(&mut request, protocol, forward.connect, origin);
        if let Err(refusal) = prepared {
            return refuse(refusal);
        }
        service.tell_ends(&mut request, origin);
        self.recorder.ids().pass_on(id, request.headers_mut());
        // What a tunnel is for has no path, and its host is the replica's affair.
        if *request.method() != Method::CONNECT && !rewrite(&forward.rewrite, &mut request, origin)
        {
            return refuse(Refusal {
                status: StatusCode::BAD_REQUEST,
                reason: "the target is not valid",
            });
        }
        // Not before: a client must not be able to have them removed as its connection's own.
        forward.request_headers.apply(request.headers_mut());
        let bounds = &forward.bounds;
        if let Some(bytes_max) = bounds.body_bytes_max
            && !request.body_mut().limit(bytes_max.into())
        {
            return too_large();
        }
        let ends = bounds.total.map(|total| Instant::now() + total);
        let said = time_left(request.headers()).map(|left| Instant::now() + left);
        let patience = Patience {
            first_byte: bounds.first_byte,
            client: bounds.first_byte,
            ends,
            wanted: ends.into_iter().chain(said).min(),
        };
        let tries = Tries {
            patience,
            rules: forward.retries_at(chosen),
            route: Some(number),
        };
        let mut answer = service.handle(request, client, story, tries).await;
        answer.body_mut().bound(bounds.stall, bounds.tunnel, ends);
        answer
    }
}

impl Handler for Routing {
    type Watch = Box<Flight>;

    async fn handle(&self, request: Box<Request<RequestBody>>, origin: &Origin) -> Answer {
        let ids = self.recorder.ids();
        let id = ids.of(request.headers());
        let client = || origin.client(request.headers());
        let (local, cut) = (origin.local(), origin.cut());
        let story = (self.recorder).begin(&request, id.as_ref(), client, local, cut);
        let is_grpc_call = is_grpc_call(request.headers());
        let mut answer = self.answer(request, origin, (id.as_ref(), &story)).await;
        ids.answer(id.as_ref(), answer.headers_mut());
        // The log has the status that tells most.
        let status = answer.status();
        if is_grpc_call {
            say_in_grpc(&mut answer);
        }
        story.answer(status, &answer);
        answer
    }

    fn unreadable(&self, answer: &Answer, origin: &Origin) {
        self.unreadable.add_one(answer.status());
        let client = origin.client(&HeaderMap::new());
        self.recorder.refused(answer, client, origin.local());
        tracing::debug!(%client, status = answer.status().as_u16(), "a request that cannot be read");
    }
}

impl Routing {
    async fn answer(
        &self,
        request: Box<Request<RequestBody>>,
        origin: &Origin,
        told: (Option<&HeaderValue>, &Story),
    ) -> Answer {
        let table = Rc::clone(&self.table.borrow());
        let (number, route) = match table.find(&request, origin) {
            Found::Route(number, route) => (number, route),
            Found::Doubtful => {
                return refuse(Refusal {
                    status: StatusCode::BAD_REQUEST,
                    reason: "the path can be read in two ways that lead to different places",
                });
            }
            Found::None => return no_route(),
        };
        let mut answer = match &route.then {
            Action::Forward(forward) => {
                self.forward(&table, (number, forward), request, origin, told)
                    .await
            }
            Action::Redirect(redirect) => redirected(redirect, route, request, origin),
            Action::Respond(response) => respond(response, request, origin),
        };
        route.response_headers.apply(answer.headers_mut());
        answer
    }
}

/// Changes a request as its route says; `false` if what came out is no target.
fn rewrite(rewrite: &Rewrite, request: &mut Request<RequestBody>, origin: &Origin) -> bool {
    if rewrite.host.is_some() {
        origin.keep_host(request);
    }
    rewrite.apply(request)
}

/// Makes sure that what would be refused on its way to a replica is refused here, too.
fn check(request: &mut Request<RequestBody>, origin: &Origin) -> Result<(), Refusal> {
    // A response of ours that says 200 would be taken for a tunnel.
    let connect = Connect::Refuse;
    prepare_request(request, ReplicaProtocol::Http1, connect, origin)
}

fn redirected(
    redirect: &Redirect,
    route: &Route,
    mut request: Box<Request<RequestBody>>,
    origin: &Origin,
) -> Answer {
    // Before it is taken out, where nobody vouches for it.
    let scheme = origin.client_scheme(request.headers());
    if let Err(refusal) = check(&mut request, origin) {
        return refuse(refusal);
    }
    let uri = request.uri();
    // OPTIONS may ask about the server as a whole.
    let path = Some(uri.path())
        .filter(|path| path.starts_with('/'))
        .unwrap_or("/");
    let prefix = match &route.when.path {
        Some(PathRule::Prefix(prefix)) => prefix.len(),
        _ => 0,
    };
    let location = redirect.to.fill(&Parts {
        scheme,
        host: host_of(uri, request.headers(), &origin.local),
        path,
        rest: path.get(prefix..).unwrap_or_default(),
        query: uri.query(),
    });
    let Ok(location) = HeaderValue::try_from(location) else {
        return refuse(Refusal {
            status: StatusCode::BAD_REQUEST,
            reason: "the target is not valid",
        });
    };
    let mut answer = own_response(redirect.status, Bytes::new());
    answer.headers_mut().insert(header::LOCATION, location);
    answer
}

fn respond(
    response: &FixedResponse,
    mut request: Box<Request<RequestBody>>,
    origin: &Origin,
) -> Answer {
    if let Err(refusal) = check(&mut request, origin) {
        return refuse(refusal);
    }
    let mut answer = own_response(response.status, response.body.clone());
    if !response.body.is_empty() {
        let content_type = response.content_type.clone();
        answer
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
    }
    answer
}
