//! What the admin server answers: a whole body, or a stream of events.

use super::live::Events;
use bytes::Bytes;
use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use serde::Serialize;
use std::fmt;

/// Plain text.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// An answer.
pub(crate) type Reply = Response<ReplyBody>;

/// What an answer's body is.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    /// All of it at once.
    Whole(Full<Bytes>),
    /// What comes, as long as somebody reads.
    Events(Events),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Events(events) => events
                .poll_next(cx)
                .map(|text| Some(Ok(Frame::data(text?)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// An answer with its whole body, which nobody keeps, and which is what its type says.
pub(crate) fn reply(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(Full::new(body.into())));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// What is wrong with a request, in words.
pub(crate) fn refusal(status: StatusCode, why: impl fmt::Display) -> Reply {
    reply(status, TEXT, format!("{why}\n"))
}

/// Figures as JSON on one line.
pub(crate) fn json(figures: &impl Serialize) -> Reply {
    match serde_json::to_vec(figures) {
        Ok(body) => reply(StatusCode::OK, "application/json", body),
        Err(error) => unwritten(&error),
    }
}

/// Figures that could not be put into words.
pub(super) fn unwritten(error: &dyn fmt::Display) -> Reply {
    refusal(
        StatusCode::INTERNAL_SERVER_ERROR,
        format_args!("the figures could not be written: {error}"),
    )
}
