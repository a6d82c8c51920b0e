//! Records every call of a policy and its result.
//!
//! [`record`] puts a recorder around any policy. Each call of the policy is an [`Entry`]: the
//! events that it handles, queries, heads and ends. The entry also has the result: the replica and
//! the reason, or the probe. The recorder gives the policy random draws from its own generator,
//! whose seed is stored with the settings. Playing the entries again (`replay::exact` of
//! slackwater-sim) therefore gives the same choices, one by one.
//!
//! Nothing here opens a file. An [`Encoder`] turns entries into bytes, which go to a [`Sink`] block
//! by block, and a [`Decoder`] turns bytes into entries. Each policy is a stream of its own.
//! [`file`](mod@file) has the blocks of streams as they are in a file. `docs/reference/replay.md`
//! describes the bytes.

#![forbid(unsafe_code)]

mod bytes;
mod codec;
mod entry;
pub mod file;
mod recorder;

pub use bytes::{Bytes, Malformed, put_text, put_varint};
pub use codec::{Decoder, Encoder};
pub use entry::{Answer, Asked, Entry, Request};
pub use recorder::{Sink, Stream, record};
