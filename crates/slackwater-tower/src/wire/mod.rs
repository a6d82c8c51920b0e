//! The wire formats of probes and reports: version 1 of the probe protocol.
//!
//! Other fields of requests and their answers are in [`asks`], [`tie`], [`shed`] and [`carried`].
//!
//! There are three carriers for the same content: [`datagram`] for UDP, [`headers`] for HTTP,
//! [`signed`] for HTTP with a key. `docs/reference/probe-protocol.md` is the specification, written
//! so that others can implement it. `vectors/probe/` holds the test vectors that both sides of
//! every implementation must pass. Nothing here reads a clock or a socket, allocates on the
//! datagram path, or panics.

pub mod asks;
pub mod carried;
pub mod datagram;
pub mod headers;
mod hex;
mod key;
mod malformed;
pub mod shed;
pub mod signed;
pub mod tie;

pub use key::{BadProbeKey, ProbeKey};

pub use slackwater_core::report::PROBE_PATH;

/// The longest query hint that a probe can carry, in bytes. `[S3]`
pub const HINT_BYTES_MAX: usize = 256;

/// Error: a query hint is longer than [`HINT_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the query hint has {bytes} bytes, at most {HINT_BYTES_MAX} fit a probe; send a hash of it"
)]
pub struct HintTooLong {
    /// Its length.
    pub bytes: usize,
}
