//! Drains responses that no client gets: they are read all the same, within bounds, so that what
//! they report of their replicas is known and their connections can be used again.

use super::body::{End, ResponseBody, Watch};
use bytes::Bytes;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Waker};
use core::time::Duration;
use http_body::Body;

/// Drained of the response to a copy, at most, and the longest time of a copy; then its connection
/// is closed.
pub(crate) const COPY_BYTES_MAX: usize = 1 << 20;
pub(crate) const COPY_TIME_MAX: Duration = Duration::from_mins(5);

/// Drained of a response that another one has replaced, at most.
const DRAIN_BYTES_MAX: usize = 64 << 10;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// Nothing has to be settled at the end.
#[derive(Debug)]
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    fn finish(self, _: End) {}
}

/// Reads what is left of a response in whose place another one goes: what is there already at once,
/// the rest beside everything else.
pub(crate) fn drain<W: Watch + 'static>(mut body: ResponseBody<W>) {
    if body.is_end_stream() {
        return;
    }
    let mut reading = Box::pin(async move { drain_up_to(&mut body, DRAIN_BYTES_MAX).await });
    let mut at_once = Context::from_waker(Waker::noop());
    if reading.as_mut().poll(&mut at_once).is_pending() {
        tokio::task::spawn_local(tokio::time::timeout(DRAIN_TIME_MAX, reading));
    }
}

/// Reads a body to its end, or until it has had more than so many bytes; `false` if something is
/// left of it. What is left is to be dropped, which closes its connection.
pub(crate) async fn drain_up_to<W: Watch>(body: &mut ResponseBody<W>, bytes_max: usize) -> bool {
    let mut read = 0;
    while read <= bytes_max {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return true,
        }
    }
    false
}
