//! The response body that keeps its query's place at the application to its end.

use super::Permit;
use core::pin::Pin;
use core::task::{Context, Poll};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// A response body `B` whose query holds its place until the body ends, fails or is dropped; or the empty body of an
    /// answer to a query that was turned away.
    #[derive(Debug)]
    pub struct AdmittedBody<B> {
        #[pin]
        inner: Option<B>,
        permit: Option<Permit>,
    }
}

impl<B: Body> AdmittedBody<B> {
    pub(super) fn new(inner: B, permit: Permit) -> Self {
        let permit = (!inner.is_end_stream()).then_some(permit);
        Self {
            inner: Some(inner),
            permit,
        }
    }

    pub(super) const fn empty() -> Self {
        Self {
            inner: None,
            permit: None,
        }
    }
}

impl<B: Body> Body for AdmittedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let Some(mut inner) = this.inner.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        let polled = inner.as_mut().poll_frame(cx);
        let goes_on = match &polled {
            Poll::Pending => true,
            Poll::Ready(Some(Ok(frame))) => !frame.is_trailers() && !inner.is_end_stream(),
            Poll::Ready(None | Some(Err(_))) => false,
        };
        if !goes_on {
            *this.permit = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
