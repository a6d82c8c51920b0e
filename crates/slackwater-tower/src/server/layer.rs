//! The tower layer that counts HTTP requests and answers probes.
//!
//! It works for every `Service<http::Request<B>>` that responds with an `http::Response`: hyper's
//! with an adapter, axum's and tonic's directly. The core defines how a query's end affects the
//! load; `body` observes the body's end.

use super::body::TrackedBody;
use super::counts::add_one;
use super::ends::end_by_head;
use super::{Load, QueryInFlight};
use crate::response::BytesLeft;
use crate::wire::carried::write_load;
use crate::wire::{PROBE_PATH, ProbeKey, headers, signed};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use slackwater_core::overload::Shed;
use slackwater_core::tracker::End;
use slackwater_http::FieldMap;
use std::sync::Arc;
use std::time::SystemTime;
use tower_layer::Layer;
use tower_service::Service;

/// Counts the queries of a service, and answers `GET /prequal/probe`.
///
/// Put it outside of everything that makes requests wait in the replica (queues, concurrency
/// limits), so that waiting requests count as in flight. No layer outside of it should answer in
/// the service's place.
#[derive(Clone, Debug)]
pub struct LoadLayer {
    load: Load,
    probe_path: Option<Arc<str>>,
    probe_key: Option<ProbeKey>,
    reports_with_responses: bool,
}

impl LoadLayer {
    /// Counts into `load`, answers probes at [`PROBE_PATH`].
    pub fn new(load: Load) -> Self {
        Self {
            load,
            probe_path: Some(PROBE_PATH.into()),
            probe_key: None,
            reports_with_responses: false,
        }
    }

    /// Whether the head of every response carries the replica's load in `x-slackwater-load`: RIF
    /// without the request that is answered, and capacity and cost if known. For clients whose
    /// policy learns from it, and then needs few probes. The header is never signed, and absent
    /// from responses to rejected requests. Default: off. Leave it off if the receivers of
    /// responses must not know the load: of all hops, only `slackwater serve` with such a policy
    /// removes the header.
    #[must_use]
    pub fn report_with_responses(self, reports: bool) -> Self {
        Self {
            reports_with_responses: reports,
            ..self
        }
    }

    /// Answers only probes that are signed with `key`, and signs the answers. All other probes get
    /// status 403.
    #[must_use]
    pub fn probe_key(self, key: ProbeKey) -> Self {
        Self {
            probe_key: Some(key),
            ..self
        }
    }

    /// Answers probes at `path` instead. It is compared with a request's path byte by byte, without
    /// decoding.
    pub fn probe_path(self, path: &str) -> Result<Self, BadProbePath> {
        let is_path = path.starts_with('/')
            && path
                .parse::<http::uri::PathAndQuery>()
                .is_ok_and(|parsed| parsed.path() == path);
        if !is_path {
            return Err(BadProbePath { path: path.into() });
        }
        Ok(Self {
            probe_path: Some(path.into()),
            ..self
        })
    }

    /// Answers no probes over HTTP: the service gets every request.
    #[must_use]
    pub fn without_probe_path(self) -> Self {
        Self {
            probe_path: None,
            ..self
        }
    }
}

/// Error: a probe path does not begin with a slash, or contains characters that no path can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the probe path {path:?} is not a plain URL path such as {PROBE_PATH}")]
pub struct BadProbePath {
    /// The given path.
    pub path: Box<str>,
}

impl<S> Layer<S> for LoadLayer {
    type Service = LoadService<S>;

    fn layer(&self, inner: S) -> LoadService<S> {
        LoadService {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service whose queries are counted; made by [`LoadLayer`].
///
/// Readiness is the inner service's. While that is not ready, this one takes neither queries nor
/// probes. A service that makes its callers wait in `poll_ready` should answer probes over UDP.
#[derive(Clone, Debug)]
pub struct LoadService<S> {
    inner: S,
    layer: LoadLayer,
}

impl<S> LoadService<S> {
    fn is_probe<B>(&self, request: &Request<B>) -> bool {
        let path = self.layer.probe_path.as_deref();
        path == Some(request.uri().path()) && request.method() == Method::GET
    }

    fn answer<B: Body>(&self, probe: &impl FieldMap) -> Response<TrackedBody<B>> {
        let layer = &self.layer;
        respond_http(&layer.load, probe, layer.probe_key.as_ref()).map(|()| TrackedBody::empty())
    }
}

/// Answers an HTTP probe with these headers: the current load, or status 400 for a bad hint. With a
/// key, only probes signed with it are answered, by a signed report; others get status 403. For
/// servers that are not tower services; [`LoadLayer`] calls it for those that are. The body is
/// empty.
pub fn respond_http(load: &Load, probe: &impl FieldMap, key: Option<&ProbeKey>) -> Response<()> {
    let counts = &load.live_counts().probes;
    let mut response = Response::new(());
    match report(load, probe, key, response.headers_mut()) {
        Ok(()) => add_one(&counts.http_answered),
        Err(status) => {
            add_one(&counts.http_refused);
            *response.status_mut() = status;
        }
    }
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

/// Writes a report into `answer`, signed if there is a key, or returns the status that refuses it.
fn report(
    load: &Load,
    probe: &impl FieldMap,
    key: Option<&ProbeKey>,
    answer: &mut impl FieldMap,
) -> Result<(), StatusCode> {
    let signing = match key {
        Some(key) => {
            let checked = signed::check_probe(key, SystemTime::now(), probe);
            let challenge = checked.map_err(|why| {
                tracing::debug!("HTTP probe refused: {why}");
                StatusCode::FORBIDDEN
            })?;
            Some((key, challenge))
        }
        None => None,
    };
    let hint = headers::read_hint(probe).map_err(|_| StatusCode::BAD_REQUEST)?;
    headers::write_report(&load.report(Some(&hint)), answer);
    if let Some((key, challenge)) = signing {
        signed::sign_report(key, &challenge, answer);
    }
    Ok(())
}

impl<S, B, RB> Service<Request<B>> for LoadService<S>
where
    S: Service<Request<B>, Response = Response<RB>>,
    RB: Body,
{
    type Response = Response<TrackedBody<RB>>;
    type Error = S::Error;
    type Future = LoadFuture<S::Future, RB>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if self.is_probe(&request) {
            let response = Some(self.answer(request.headers()));
            return LoadFuture {
                state: State::Probe { response },
            };
        }
        let asks_head_only = request.method() == Method::HEAD;
        let mut query = self.layer.load.arrive();
        if self.layer.load.notes_hints()
            && let Ok(hint) = headers::read_hint(request.headers())
        {
            query.set_hint(&hint);
        }
        // Call the same service that was polled ready, not a clone of it.
        let inner = query.run(|| self.inner.call(request));
        LoadFuture {
            state: State::Query {
                inner,
                query: Some(query),
                asks_head_only,
                reports: self.layer.reports_with_responses,
            },
        }
    }
}

pin_project! {
    /// The response of a [`LoadService`]. If dropped before it is ready, its query is cancelled.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct LoadFuture<F, RB> {
        #[pin]
        state: State<F, RB>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProjection]
    enum State<F, RB> {
        Probe {
            response: Option<Response<TrackedBody<RB>>>,
        },
        Query {
            #[pin]
            inner: F,
            query: Option<QueryInFlight>,
            asks_head_only: bool,
            reports: bool,
        },
    }
}

impl<F, RB, E> Future for LoadFuture<F, RB>
where
    F: Future<Output = Result<Response<RB>, E>>,
    RB: Body,
{
    type Output = Result<Response<TrackedBody<RB>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Probe { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending, // polled again after its end
            },
            StateProjection::Query {
                inner,
                query,
                asks_head_only,
                reports,
            } => {
                let Some(running) = query else {
                    return Poll::Pending; // polled again after its end
                };
                let result = ready!(running.run(|| inner.poll(cx)));
                let Some(query) = query.take() else {
                    return Poll::Pending;
                };
                Poll::Ready(match result {
                    Ok(response) => Ok(track(response, query, *asks_head_only, *reports)),
                    Err(error) => {
                        query.finish(End::Failed);
                        Err(error)
                    }
                })
            }
        }
    }
}

/// Records the latency, adds the load if configured, and passes the query to the response's body.
fn track<RB: Body>(
    mut response: Response<RB>,
    mut query: QueryInFlight,
    asks_head_only: bool,
    reports: bool,
) -> Response<TrackedBody<RB>> {
    if response.extensions().get::<Shed>().is_some() {
        // The service did not work on it: the query ends here as cancelled, and is no failure.
        drop(query);
        return response.map(TrackedBody::untracked);
    }
    let status = response.status();
    query.head_ready(end_by_head(response.status(), response.headers()));
    if reports {
        write_load(query.carried_load(), response.headers_mut());
    }
    let bytes_left =
        BytesLeft::of_response(status, response.headers(), response.body(), asks_head_only);
    response.map(|body| TrackedBody::new(body, query, bytes_left))
}
