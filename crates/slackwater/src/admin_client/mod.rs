//! What all sub-commands that talk to the admin server of a running process share: its address, the
//! requests, and the answers.
//!
//! Answers come from another machine: every wait has a timeout, every answer has a size limit, and
//! no text of an answer reaches a terminal before it is [`clean`](crate::output::clean).

pub(crate) mod address;
mod client;
#[cfg(feature = "top")]
mod sse;
#[cfg(feature = "top")]
mod stream;

pub(crate) use address::Address;
pub(crate) use client::{Failure, Wanted, answer};
#[cfg(feature = "top")]
pub(crate) use sse::Event;
#[cfg(feature = "top")]
pub(crate) use stream::{Stream, json};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use slackwater_config::Fault;

/// All characters that may have a meaning in a path or a query.
const RESERVED: AsciiSet = (NON_ALPHANUMERIC.remove(b'-').remove(b'.'))
    .remove(b'_')
    .remove(b'~');

/// Percent-encodes a name for a path or a query.
pub(crate) fn encode(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, &RESERVED)
}

/// Runs a request to an admin server to its end, on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::runtime(format!("cannot start: {error}")))?;
    runtime.block_on(work)
}
