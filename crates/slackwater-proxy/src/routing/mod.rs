//! Routes requests to services, or answers them as their route specifies.
//!
//! Routes and services together are an immutable [`Table`]: a request keeps the one that it started
//! with.

mod counts;
mod mirror;

use crate::forward::{
    AttemptTimeouts, Count, Handler, Origin, Refusal, RequestBody, UnreadableCounts,
    convert_to_grpc, is_grpc_call, no_route, own_response, prepare_request, refuse, too_large,
};
use crate::request_record::{RecordHandle, RequestRecorder};
use crate::service::{Attempt, DispatchOptions, Service};
use bytes::Bytes;
use core::cell::RefCell;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use mirror::Mirrors;

pub(crate) use counts::{ListenerCounts, UnroutedCounts};
use slackwater_config::routes::{
    Action, FixedResponse, Forward, Found, Head, Parts, PathRule, Redirect, Rewrite, Route, Router,
    host_of,
};
use slackwater_config::{Connect, ReplicaProtocol};
use slackwater_core::SplitMix64;
use slackwater_http::{Fields, Request};
use slackwater_tower::wire::asks::time_left;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// A response as clients get it.
type Answer = crate::forward::Answer<Box<Attempt>>;

/// Routes, and the services to which they lead.
#[derive(Debug)]
pub(crate) struct Table {
    router: Router,
    /// In the order of the configuration.
    services: Vec<Rc<Service>>,
}

impl Table {
    /// `services` are those of the routes' configuration, in its order.
    pub(crate) fn new(routes: &[Route], services: Vec<Rc<Service>>) -> Self {
        Self {
            router: Router::new(routes),
            services,
        }
    }

    /// The services, in the order of the configuration.
    pub(crate) fn services(&self) -> &[Rc<Service>] {
        &self.services
    }

    /// Whether every request takes the same route here as in `other`.
    pub(crate) fn matches_like(&self, other: &Self) -> bool {
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
pub(crate) struct Routing {
    table: RefCell<Rc<Table>>,
    /// For the choice between several services of a route.
    draw: RefCell<SplitMix64>,
    mirrors: Mirrors,
    recorder: Rc<RequestRecorder>,
    unreadable: Arc<UnreadableCounts>,
    unrouted: Arc<UnroutedCounts>,
}

impl Routing {
    /// `seed` must differ between workers.
    pub(crate) fn new(
        table: Rc<Table>,
        seed: u64,
        recorder: Rc<RequestRecorder>,
        counts: &ListenerCounts,
    ) -> Self {
        Self {
            table: RefCell::new(table),
            draw: RefCell::new(SplitMix64::new(seed)),
            mirrors: Mirrors::default(),
            recorder,
            unreadable: Arc::clone(&counts.unreadable),
            unrouted: Arc::clone(&counts.unrouted),
        }
    }

    /// Replaces the table for requests that arrive from now on.
    pub(crate) fn swap(&self, table: &Rc<Table>) {
        self.table.replace(Rc::clone(table));
    }

    async fn forward(
        &self,
        table: &Table,
        (number, forward): (usize, &Forward),
        mut request: Box<Request<RequestBody>>,
        origin: &Origin,
        (id, record): (Option<&HeaderValue>, &RecordHandle),
    ) -> Answer {
        let chosen = forward.services.choose(&mut *self.draw.borrow_mut());
        let Some(service) = table.services.get(chosen) else {
            self.unrouted.no_route.add_one();
            return no_route();
        };
        record.route(service.name(), service.directory());
        if let Some(mirror) = &forward.mirror {
            let draw = &mut *self.draw.borrow_mut();
            let id = (Rc::clone(&self.recorder), id.cloned());
            (self.mirrors).send(mirror, table, &mut request, origin, (forward, id), draw);
        }
        let pinned = service.pinned(&request, origin);
        let key = service.key(&request, origin);
        let protocol = service.protocol();
        let prepared = prepare_request(&mut request, protocol, forward.connect, origin);
        if let Err(refusal) = prepared {
            return service.refused(refuse(refusal), record);
        }
        service.forward_ends(&mut request, origin);
        self.recorder.ids().pass_on(id, request.headers_mut());
        // The target of a tunnel has no path, and its host is for the replica to interpret.
        if *request.method() != Method::CONNECT && !rewrite(&forward.rewrite, &mut request, origin)
        {
            let refusal = Refusal {
                status: StatusCode::BAD_REQUEST,
                reason: "the target is not valid",
            };
            return service.refused(refuse(refusal), record);
        }
        // Applied late, so that a client cannot have these fields removed by naming them in
        // `Connection`.
        forward.request_headers.apply(request.headers_mut());
        let bounds = &forward.bounds;
        if let Some(bytes_max) = bounds.body_bytes_max
            && !request.body_mut().limit(bytes_max.into())
        {
            return service.refused(too_large(), record);
        }
        let ends = bounds.total.map(|total| Instant::now() + total);
        let said = time_left(request.headers()).map(|left| Instant::now() + left);
        let timeouts = AttemptTimeouts {
            first_byte: bounds.first_byte,
            client: bounds.first_byte,
            ends,
            wanted: ends.into_iter().chain(said).min(),
        };
        let options = DispatchOptions {
            timeouts,
            rules: forward.retries_at(chosen),
            route: Some(number),
            key: key.as_ref(),
            pinned,
        };
        let mut answer = service.handle(request, record, &options).await;
        answer.body_mut().bound(bounds.stall, bounds.tunnel, ends);
        answer
    }
}

impl Handler for Routing {
    type Watch = Box<Attempt>;

    async fn handle(&self, mut request: Box<Request<RequestBody>>, origin: &Rc<Origin>) -> Answer {
        let ids = self.recorder.ids();
        let id = ids.of(request.headers());
        let traced = self.recorder.tracer().and_then(|tracer| {
            let scheme = |headers: &Fields| origin.client_scheme(headers);
            tracer.begin(request.headers_mut(), scheme).map(Box::new)
        });
        let record = (self.recorder).begin(&request, (id.as_ref(), traced), origin);
        let is_grpc_call = is_grpc_call(request.headers());
        let table = Rc::clone(&self.table.borrow());
        let known = (id.as_ref(), &record);
        let (mut answer, route) = self.answer(&table, request, origin, known).await;
        let status = answer.status();
        // Both read fields that the route may remove.
        if is_grpc_call {
            convert_to_grpc(&mut answer);
        }
        record.answer(status, &answer);
        if let Some(route) = route {
            route.response_headers.apply(answer.headers_mut());
        }
        ids.answer(id.as_ref(), answer.headers_mut());
        answer
    }

    fn unreadable(&self, answer: &Answer, origin: &Origin) {
        self.unreadable.add_one(answer.status());
        let client = origin.client(&Fields::new());
        self.recorder.refused(answer, client, origin.local());
        tracing::debug!(%client, status = answer.status().as_u16(), "unreadable request rejected");
    }
}

impl Routing {
    /// Returns the answer, and the route, whose changes of its headers are still to come.
    async fn answer<'t>(
        &self,
        table: &'t Table,
        request: Box<Request<RequestBody>>,
        origin: &Origin,
        known: (Option<&HeaderValue>, &RecordHandle),
    ) -> (Answer, Option<&'t Route>) {
        let (number, route) = match table.find(&request, origin) {
            Found::Route(number, route) => {
                known.1.matched(route);
                (number, route)
            }
            Found::Doubtful => {
                self.unrouted.doubtful_path.add_one();
                let refusal = Refusal {
                    status: StatusCode::BAD_REQUEST,
                    reason: "the path can be read in two ways that lead to different places",
                };
                return (refuse(refusal), None);
            }
            Found::None => {
                self.unrouted.no_route.add_one();
                return (no_route(), None);
            }
        };
        let answer = match &route.then {
            Action::Forward(forward) => {
                self.forward(table, (number, forward), request, origin, known)
                    .await
            }
            Action::Redirect(redirect) => {
                let answer = redirected(redirect, route, request, origin);
                self.answered(answer, &self.unrouted.redirected)
            }
            Action::Respond(response) => {
                let answer = respond(response, request, origin);
                self.answered(answer, &self.unrouted.responded)
            }
        };
        (answer, Some(route))
    }
}

impl Routing {
    /// Counts a route's own answer, or that the request was invalid.
    fn answered(&self, answer: Result<Answer, Refusal>, count: &Count) -> Answer {
        match answer {
            Ok(answer) => {
                count.add_one();
                answer
            }
            Err(refusal) => {
                self.unrouted.refused.add_one();
                refuse(refusal)
            }
        }
    }
}

/// Rewrites a request as its route specifies. Returns `false` if the result is not a valid target.
fn rewrite(rewrite: &Rewrite, request: &mut Request<RequestBody>, origin: &Origin) -> bool {
    if rewrite.host.is_some() {
        origin.keep_host(request);
    }
    rewrite.apply(request)
}

/// Rejects here, too, what would be rejected on the way to a replica.
fn check(request: &mut Request<RequestBody>, origin: &Origin) -> Result<(), Refusal> {
    // The client would take the proxy's own 200 for a tunnel.
    let connect = Connect::Refuse;
    prepare_request(request, ReplicaProtocol::Http1, connect, origin)
}

fn redirected(
    redirect: &Redirect,
    route: &Route,
    mut request: Box<Request<RequestBody>>,
    origin: &Origin,
) -> Result<Answer, Refusal> {
    // Read before `check` removes the field if it is not trusted.
    let scheme = origin.client_scheme(request.headers());
    check(&mut request, origin)?;
    let uri = request.uri();
    // OPTIONS may concern the server as a whole.
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
        return Err(Refusal {
            status: StatusCode::BAD_REQUEST,
            reason: "the target is not valid",
        });
    };
    let mut answer = own_response(redirect.status, Bytes::new());
    answer.headers_mut().insert(header::LOCATION, location);
    Ok(answer)
}

fn respond(
    response: &FixedResponse,
    mut request: Box<Request<RequestBody>>,
    origin: &Origin,
) -> Result<Answer, Refusal> {
    check(&mut request, origin)?;
    let mut answer = own_response(response.status, response.body.clone());
    if !response.body.is_empty() {
        let content_type = response.content_type.clone();
        answer
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
    }
    Ok(answer)
}
