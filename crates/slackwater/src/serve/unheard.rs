//! Responses that nobody hears: read all the same, within bounds, so that what they say of their replicas is known and their
//! connections can be used again.

use crate::forward::{ResponseBody, Watch};
use bytes::Bytes;
use core::future::poll_fn;
use core::pin::Pin;
use core::time::Duration;
use http_body::Body;

/// Of the answer to a copy so much is read, and a copy takes so long altogether, then its connection is closed.
pub(super) const COPY_BYTES_MAX: usize = 1 << 20;
pub(super) const COPY_TIME_MAX: Duration = Duration::from_mins(5);

/// Reads a body to its end, or until it has had more than so many bytes; `false` if something is left of it. What is left
/// is to be dropped, which closes its connection.
pub(super) async fn read_out<W: Watch + Unpin>(
    body: &mut ResponseBody<W>,
    bytes_max: usize,
) -> bool {
    let mut read = 0;
    while read <= bytes_max {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return true,
        }
    }
    false
}
