//! Reading what is left of a response that nobody wants, so that its connection can be used again.

use super::body::{End, ResponseBody, Watch};
use bytes::Bytes;
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Waker};
use core::time::Duration;
use http_body::Body;

/// So much is read of it at most, and for so long; of what is longer, the connection is closed.
const BYTES_MAX: usize = 64 << 10;
const TIME_MAX: Duration = Duration::from_secs(1);

/// Nobody hears how the response ends.
#[derive(Debug)]
pub(super) struct Unheard;

impl Watch for Unheard {
    fn finish(self, _: End) {}
}

/// Reads a body to its end, if that is near: what is there already at once, and else beside everything else.
pub(crate) fn read_rest<W: Watch + 'static>(body: ResponseBody<W>) {
    if body.is_end_stream() {
        return;
    }
    let mut reading = Box::pin(read(body));
    if reading
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
    {
        tokio::task::spawn_local(tokio::time::timeout(TIME_MAX, reading));
    }
}

async fn read<W: Watch>(mut body: ResponseBody<W>) {
    read_out(&mut body, BYTES_MAX).await;
}

/// Reads a body to its end, or until it has had more than so many bytes; `false` if something is left of it. What is left
/// is to be dropped, which closes its connection.
pub(crate) async fn read_out<W: Watch>(body: &mut ResponseBody<W>, bytes_max: usize) -> bool {
    let mut body = pin!(body);
    let mut read_bytes = 0;
    while read_bytes <= bytes_max {
        match poll_fn(|cx| Pin::as_mut(&mut body).poll_frame(cx)).await {
            Some(Ok(frame)) => read_bytes += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return true,
        }
    }
    false
}
