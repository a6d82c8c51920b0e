//! One query: picks a replica, waits for its service, calls it, and hands the lease to the
//! response's body.

use super::body::LeasedBody;
use super::{Chosen, NoReplica, Shared};
use crate::client::lease::Lease;
use crate::client::round::Round;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::{Method, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use slackwater_core::policy::Query;
use std::sync::Arc;
use tower::{BoxError, Service};

pin_project! {
    /// The response to a balanced query.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        shared: Arc<Shared<S, B>>,
        #[pin]
        state: State<S, B, S::Future>,
    }
}

pin_project! {
    #[project = StateProj]
    pub(super) enum State<S, B, F> {
        /// Synchronous mode: the probes are outstanding.
        Probing { round: Option<Round>, request: Option<Request<B>> },
        /// The chosen service is not ready yet.
        Readying { service: S, lease: Option<Lease>, request: Option<Request<B>> },
        /// The request is in flight.
        Waiting { #[pin] future: F, lease: Option<Lease>, asks_head_only: bool },
        /// There is no replica, or the response has been returned.
        Done,
    }
}

impl<S, B, F> State<S, B, F> {
    pub(super) fn chosen(chosen: Option<Chosen<S>>, request: Request<B>) -> Self {
        match chosen {
            Some(Chosen { lease, service }) => Self::Readying {
                service,
                lease: Some(lease),
                request: Some(request),
            },
            None => Self::Done,
        }
    }
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) const fn new(shared: Arc<Shared<S, B>>, state: State<S, B, S::Future>) -> Self {
        Self { shared, state }
    }
}

impl<S, B, RB> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<RB>> + Clone,
    S::Error: Into<BoxError>,
    RB: Body,
{
    type Output = Result<Response<LeasedBody<RB>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let (next, result) = match this.state.as_mut().project() {
                StateProj::Probing { round, request } => {
                    if let Some(round) = round {
                        ready!(round.poll_ready(cx));
                    }
                    let request_ref = request.as_ref();
                    let copies = request_ref.and_then(|it| it.extensions().get());
                    let key = request_ref.and_then(|request| this.shared.key_of(request));
                    let chosen = round.take().and_then(|round| {
                        let finish = |query: Query<'_>| round.finish(Query { key, ..query });
                        this.shared.find(copies, finish)
                    });
                    match request.take() {
                        Some(request) => (State::chosen(chosen, request), None),
                        None => (State::Done, None),
                    }
                }
                // The query counts as in flight at its replica while the service becomes ready.
                StateProj::Readying {
                    service,
                    lease,
                    request,
                } => match ready!(service.poll_ready(cx)) {
                    Err(error) => (State::Done, Some(this.shared.failed(lease, error.into()))),
                    Ok(()) => match request.take() {
                        Some(request) => {
                            let asks_head_only = request.method() == Method::HEAD;
                            let future = service.call(request);
                            let lease = lease.take();
                            let waiting = State::Waiting {
                                future,
                                lease,
                                asks_head_only,
                            };
                            (waiting, None)
                        }
                        None => (State::Done, None),
                    },
                },
                StateProj::Waiting {
                    future,
                    lease,
                    asks_head_only,
                } => match ready!(future.poll(cx)) {
                    Err(error) => (State::Done, Some(this.shared.failed(lease, error.into()))),
                    Ok(response) => (
                        State::Done,
                        lease
                            .take()
                            .map(|lease| Ok(this.shared.leased(response, lease, *asks_head_only))),
                    ),
                },
                StateProj::Done => return Poll::Ready(Err(NoReplica.into())),
            };
            this.state.set(next);
            if let Some(result) = result {
                return Poll::Ready(result);
            }
        }
    }
}

impl<S, B> core::fmt::Debug for ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let state = match self.state {
            State::Probing { .. } => "probing",
            State::Readying { .. } => "readying",
            State::Waiting { .. } => "waiting",
            State::Done => "done",
        };
        f.debug_struct("ResponseFuture")
            .field("state", &state)
            .finish_non_exhaustive()
    }
}
