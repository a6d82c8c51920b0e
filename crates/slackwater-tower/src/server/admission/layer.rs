//! The tower layer that queues HTTP requests, and rejects those that would start too late.

use super::{Admission, AdmittedBody, Entry, Permit, Shed, Waiting};
use crate::server::end_by_head;
use crate::wire::asks::take_time;
use crate::wire::shed::shed_response;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::{HeaderMap, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use slackwater_core::tracker::End;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// Puts an [`Admission`] in front of a service.
///
/// [`LoadLayer`](crate::server::LoadLayer) goes outside of it, so that waiting requests count as in
/// flight, and probes are answered however long the queue is. A request's priority and remaining
/// time are read from its headers ([`asks`](crate::wire::asks)). Rejected requests are answered as
/// described in [`shed`](crate::wire::shed).
///
/// ```
/// use slackwater_tower::server::{Load, LoadLayer};
/// use slackwater_tower::server::admission::{
///     Admission, AdmissionLayer, ConcurrencyLimit, QueueConfig,
/// };
/// use core::num::NonZeroU32;
/// use tower::Layer;
/// # let app = tower::service_fn(async |_: http::Request<String>| {
/// #     Ok::<_, core::convert::Infallible>(http::Response::new(String::new()))
/// # });
///
/// let limit = ConcurrencyLimit::fixed(NonZeroU32::MIN.saturating_add(31)); // 32 at a time
/// let admission = Admission::new(QueueConfig::default(), limit);
/// let app = AdmissionLayer::new(admission.clone()).layer(app);
/// let app = LoadLayer::new(Load::new()).layer(app);
/// # let _ = app;
/// assert_eq!(admission.view().limit, 32);
/// ```
#[derive(Clone, Debug)]
pub struct AdmissionLayer {
    admission: Admission,
}

impl AdmissionLayer {
    /// Creates the layer. All services that it wraps share the queue and the limit.
    pub const fn new(admission: Admission) -> Self {
        Self { admission }
    }
}

impl<S> Layer<S> for AdmissionLayer {
    type Service = AdmissionService<S>;

    fn layer(&self, inner: S) -> AdmissionService<S> {
        AdmissionService {
            inner,
            admission: self.admission.clone(),
        }
    }
}

/// A service behind a queue; made by [`AdmissionLayer`].
///
/// It is always ready, since it can at least reject a request. The inner service is polled for
/// readiness when a request's turn has come.
#[derive(Clone, Debug)]
pub struct AdmissionService<S> {
    inner: S,
    admission: Admission,
}

impl<S, B, RB> Service<Request<B>> for AdmissionService<S>
where
    S: Service<Request<B>, Response = Response<RB>> + Clone,
    RB: Body,
{
    type Response = Response<AdmittedBody<RB>>;
    type Error = S::Error;
    type Future = AdmissionFuture<S, B, S::Future>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let asks = self.admission.asks(request.headers());
        let tie = self.admission.tie(request.headers());
        let entry = self.admission.arrive(asks, tie);
        let come = |request| {
            Some(Box::new(Come {
                service: self.inner.clone(),
                request,
            }))
        };
        let state = match entry {
            Entry::Begin(permit) => State::Ready {
                permit: Some(permit),
                come: come(request),
            },
            Entry::Wait(waiting) => State::Waiting {
                waiting,
                since: Instant::now(),
                come: come(request),
            },
            Entry::Shed(shed) => State::Shed {
                shed,
                asked: request.into_parts().0.headers,
            },
        };
        AdmissionFuture { state }
    }
}

/// A request that has not started, and the service that gets it.
#[derive(Debug)]
struct Come<S, B> {
    service: S,
    request: Request<B>,
}

pin_project! {
    /// The response of an [`AdmissionService`]. If dropped while its query waits, the query leaves
    /// the queue.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct AdmissionFuture<S, B, F> {
        #[pin]
        state: State<S, B, F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProjection]
    enum State<S, B, F> {
        Waiting {
            waiting: Waiting,
            since: Instant,
            come: Option<Box<Come<S, B>>>,
        },
        Ready {
            permit: Option<Permit>,
            come: Option<Box<Come<S, B>>>,
        },
        Running {
            #[pin]
            inner: F,
            permit: Option<Permit>,
        },
        Shed {
            shed: Shed,
            asked: HeaderMap,
        },
    }
}

impl<S, B, RB> Future for AdmissionFuture<S, B, S::Future>
where
    S: Service<Request<B>, Response = Response<RB>>,
    RB: Body,
{
    type Output = Result<Response<AdmittedBody<RB>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Waiting {
                    waiting,
                    since,
                    come,
                } => {
                    match (ready!(Pin::new(waiting).poll(cx)), come.take()) {
                        (Ok(permit), mut come) => {
                            // The wait has used part of the request's time, and the service must
                            // see what is left.
                            if let Some(come) = &mut come {
                                take_time(come.request.headers_mut(), since.elapsed());
                            }
                            State::Ready {
                                permit: Some(permit),
                                come,
                            }
                        }
                        (Err(shed), Some(come)) => State::Shed {
                            shed,
                            asked: come.request.into_parts().0.headers,
                        },
                        (Err(_), None) => return Poll::Pending, // polled again after its end
                    }
                }
                StateProjection::Ready { permit, come } => {
                    let Some(ready) = come else {
                        return Poll::Pending; // polled again after its end
                    };
                    if let Err(error) = ready!(ready.service.poll_ready(cx)) {
                        *come = None;
                        end(permit, End::Failed);
                        return Poll::Ready(Err(error));
                    }
                    let Some(ready) = come.take() else {
                        return Poll::Pending;
                    };
                    let Come {
                        mut service,
                        request,
                    } = *ready;
                    if let Some(permit) = permit {
                        permit.begin();
                    }
                    State::Running {
                        inner: service.call(request),
                        permit: permit.take(),
                    }
                }
                StateProjection::Running { inner, permit } => {
                    return Poll::Ready(match ready!(inner.poll(cx)) {
                        Ok(response) => Ok(admitted(response, permit.take())),
                        Err(error) => {
                            end(permit, End::Failed);
                            Err(error)
                        }
                    });
                }
                StateProjection::Shed { shed, asked } => {
                    let response = shed_response(*shed, asked);
                    return Poll::Ready(Ok(response.map(|()| AdmittedBody::empty())));
                }
            };
            state.set(next);
        }
    }
}

/// Releases a permit.
fn end(permit: &mut Option<Permit>, end: End) {
    if let Some(mut permit) = permit.take() {
        permit.head_ready(end);
    }
}

/// Reports the latency to the limit, and passes the permit to the response's body.
fn admitted<RB: Body>(
    response: Response<RB>,
    permit: Option<Permit>,
) -> Response<AdmittedBody<RB>> {
    let Some(mut permit) = permit else {
        return response.map(|_| AdmittedBody::empty());
    };
    permit.head_ready(end_by_head(response.status(), response.headers()));
    response.map(|body| AdmittedBody::new(body, permit))
}
