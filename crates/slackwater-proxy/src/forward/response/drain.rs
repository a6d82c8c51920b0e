//! Responses that nobody hears: read all the same, within bounds, so that what they say of their replicas is known and their
//! connections can be used again.

use super::body::{End, ResponseBody, Watch};
use bytes::Bytes;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Waker};
use core::time::Duration;
use http_body::Body;

/// Of the answer to a copy so much is read, and a copy takes so long altogether, then its connection is closed.
pub(crate) const COPY_BYTES_MAX: usize = 1 << 20;
pub(crate) const COPY_TIME_MAX: Duration = Duration::from_mins(5);

/// Of a response that another one has taken the place of.
const REST_BYTES_MAX: usize = 64 << 10;
const REST_TIME_MAX: Duration = Duration::from_secs(1);

/// Has nothing to settle.
#[derive(Debug)]
pub(crate) struct Unheard;

impl Watch for Unheard {
    fn finish(self, _: End) {}
}

/// Reads what is left of a response in whose place another one goes: what is there already at once, the rest beside
/// everything else.
pub(crate) fn read_rest<W: Watch + 'static>(mut body: ResponseBody<W>) {
    if body.is_end_stream() {
        return;
    }
    let mut reading = Box::pin(async move { read_out(&mut body, REST_BYTES_MAX).await });
    let mut at_once = Context::from_waker(Waker::noop());
    if reading.as_mut().poll(&mut at_once).is_pending() {
        tokio::task::spawn_local(tokio::time::timeout(REST_TIME_MAX, reading));
    }
}

/// Reads a body to its end, or until it has had more than so many bytes; `false` if something is left of it. What is left
/// is to be dropped, which closes its connection.
pub(crate) async fn read_out<W: Watch>(body: &mut ResponseBody<W>, bytes_max: usize) -> bool {
    let mut read = 0;
    while read <= bytes_max {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return true,
        }
    }
    false
}
