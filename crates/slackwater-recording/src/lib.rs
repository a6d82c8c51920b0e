//! What a policy was told and what it said, written down call by call.
//!
//! [`record`] puts a recorder around any policy. Each call of the policy is an [`Entry`]: the
//! events that it handles, queries, heads and ends; with it stands what came out: which replica for
//! which reason, which probe. The recorder gives the policy draws of its own, from a seed that is
//! written down with the settings; so the entries played again (`replay::exact` of slackwater-sim)
//! give the same choices, one by one.
//!
//! Nothing here opens a file: entries become bytes ([`Encoder`]) that go to a [`Sink`] block by
//! block, and bytes become entries again ([`Decoder`]). Each policy is a stream of its own.
//! [`file`](mod@file) has the blocks of streams as they stand in a file. The bytes are described in
//! `docs/reference/replay.md`.

#![forbid(unsafe_code)]

mod bytes;
mod codec;
mod entry;
pub mod file;
mod recorder;

pub use bytes::{Bytes, Malformed, put_text, put_varint};
pub use codec::{Decoder, Encoder};
pub use entry::{Asked, Entry, Request, Said};
pub use recorder::{Sink, Stream, record};
