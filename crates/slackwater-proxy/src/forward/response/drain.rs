//! Drains responses that no client gets. They are read, within limits, so that their replicas'
//! reports are used and their connections can be reused.

use super::body::{End, ResponseBody, Watch};
use bytes::Bytes;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Waker};
use core::time::Duration;
use http_body::Body;

/// Limits of draining the response to a copy; beyond them its connection is closed.
pub(crate) const COPY_BYTES_MAX: usize = 1 << 20;
pub(crate) const COPY_TIME_MAX: Duration = Duration::from_mins(5);

/// Limits of draining a response that was replaced by another.
const DRAIN_BYTES_MAX: usize = 64 << 10;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// A watch for bodies whose end has no consequences.
#[derive(Debug)]
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    fn finish(self, _: End) {}
}

/// Drains a response that was replaced by another: the available data immediately, the rest in the
/// background.
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

/// Reads a body to its end, or until it exceeds `bytes_max`. Returns `false` if some of it is left;
/// the caller must then drop it, which closes its connection.
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
