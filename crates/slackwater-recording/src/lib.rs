//! What a policy was told and what it said, written down call by call.
//!
//! [`record`] puts a recorder around any policy. Everything that goes in is an [`Event`]: queries, heads and ends, reports,
//! members, timeouts; with it stands what came out: which replica for which reason, which probe. The recorder gives the policy
//! draws of its own, from a seed that is written down with the settings; so the events played again
//! (`replay::exact` of slackwater-sim) give the same choices, one by one.
//!
//! Nothing here opens a file: events become bytes ([`Encoder`]) that go to a [`Sink`] block by block, and bytes become events
//! again ([`Decoder`]). Each policy is a stream of its own. [`file`](mod@file) has the blocks of streams as they stand in a file. The
//! bytes are described in `docs/replay.md`.

#![forbid(unsafe_code)]

mod bytes;
mod codec;
mod event;
pub mod file;
mod recorder;

pub use bytes::{Bytes, Malformed, put_text, put_varint};
pub use codec::{Decoder, Encoder};
pub use event::{Asked, Event, Request, Said};
pub use recorder::{Sink, Stream, record};
