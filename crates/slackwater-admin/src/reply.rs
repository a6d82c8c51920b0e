//! Answers of the admin server: a whole body, a body that is generated while it is read, or a
//! stream of events.

use super::hub::Events;
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
pub type Reply = Response<ReplyBody>;

/// The body of an answer.
#[derive(Debug)]
pub enum ReplyBody {
    /// The whole body at once.
    Whole(Full<Bytes>),
    /// Pieces that are generated while the client reads.
    Pieces(Pieces),
    /// Events, for as long as the client reads.
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
            Self::Pieces(pieces) => pieces
                .poll_next(cx)
                .map(|piece| Some(Ok(Frame::data(piece?)))),
            Self::Events(events) => events
                .poll_next(cx)
                .map(|text| Some(Ok(Frame::data(text?)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Pieces(_) | Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Pieces(_) | Self::Events(_) => SizeHint::default(),
        }
    }
}

/// A large body. Only one piece of it is in memory at a time, and other connections get their turn
/// between pieces.
pub struct Pieces {
    pieces: Box<dyn Iterator<Item = Bytes> + Send>,
    is_others_turn: bool,
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces").finish_non_exhaustive()
    }
}

impl Pieces {
    fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        self.is_others_turn = !self.is_others_turn;
        if self.is_others_turn {
            return Poll::Ready(self.pieces.next());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// An answer whose body is generated piece by piece while it is read; a single piece is sent at
/// once.
pub fn in_pieces(
    content_type: &'static str,
    mut pieces: impl Iterator<Item = Bytes> + Send + 'static,
) -> Reply {
    let first = pieces.next().unwrap_or_default();
    let Some(second) = pieces.next() else {
        return reply(StatusCode::OK, content_type, first);
    };
    let mut reply = reply(StatusCode::OK, content_type, Bytes::new());
    *reply.body_mut() = ReplyBody::Pieces(Pieces {
        pieces: Box::new([first, second].into_iter().chain(pieces)),
        is_others_turn: false,
    });
    reply
}

/// An answer with its whole body. It must not be cached, and its type must not be guessed.
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

/// An error with its reason in words.
pub fn refusal(status: StatusCode, why: impl fmt::Display) -> Reply {
    reply(status, TEXT, format!("{why}\n"))
}

/// JSON on one line.
pub fn json(figures: &impl Serialize) -> Reply {
    match serde_json::to_vec(figures) {
        Ok(body) => reply(StatusCode::OK, "application/json", body),
        Err(error) => unwritten(&error),
    }
}

/// A value that could not be serialized.
pub(super) fn unwritten(error: &dyn fmt::Display) -> Reply {
    refusal(
        StatusCode::INTERNAL_SERVER_ERROR,
        format_args!("the figures could not be written: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use core::task::Waker;
    use http_body_util::BodyExt;
    use std::sync::Arc;

    #[test]
    fn streamed_body_is_generated_lazily_and_yields() {
        let made = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&made);
        let pieces = (0..4).map(move |piece: u8| {
            counts.fetch_add(1, Ordering::Relaxed);
            Bytes::from(vec![piece])
        });
        let mut body = in_pieces(TEXT, pieces).into_body();
        assert_eq!(body.size_hint().exact(), None);
        let mut cx = Context::from_waker(Waker::noop());
        let (read, turns) = (Cell::new(0), Cell::new(0));
        loop {
            match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    assert_eq!(frame.into_data().expect("data"), [read.get()][..]);
                    read.set(read.get() + 1);
                    // The first two are generated in advance, to see whether there is more than
                    // one.
                    let read = usize::from(read.get());
                    assert_eq!(made.load(Ordering::Relaxed), read.max(2));
                }
                Poll::Ready(None) => break,
                Poll::Ready(Some(Err(never))) => match never {},
                Poll::Pending => turns.set(turns.get() + 1),
            }
        }
        assert_eq!((read.get(), turns.get()), (4, 4));
    }

    #[tokio::test]
    async fn single_piece_is_a_body_with_a_length() {
        for pieces in [vec![], vec![Bytes::from("all")]] {
            let expected = pieces.concat();
            let body = in_pieces(TEXT, pieces.into_iter()).into_body();
            assert_eq!(body.size_hint().exact(), Some(expected.len() as u64));
            assert_eq!(body.collect().await.expect("whole").to_bytes(), expected);
        }
    }
}
