//! HTTP/1.1 on the wire, without I/O: heads, how long bodies are, chunks. RFC 9112
//!
//! Strict both ways, because whatever two parsers could read in two ways lets one request hide in
//! another: what the grammar does not allow is refused, never repaired. Tokens are found by
//! `httparse`; what it forgives is refused here. Nothing here depends on how the bytes were cut on
//! their way.
//!
//! | | file |
//! |---|---|
//! | where a head ends, and which octets it can't have | `head` |
//! | fields, and what the codec itself must know of them | `fields` |
//! | requests, responses | `request`, `response` |
//! | bodies by length, by chunks, to the end of the connection | `body`, `chunked` |
//! | heads, chunks and trailers to send | `encode` |

mod body;
mod chunked;
mod encode;
mod fields;
mod head;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use body::{BodyDecoder, BodyLength, Decoded};
pub use chunked::is_of_the_head;
pub use encode::{
    CONTINUE, Framing, LAST_CHUNK, ResponseExtras, encode_chunk_start, encode_request,
    encode_response, encode_trailers,
};
pub use head::{HeadSearch, SoFar, end_of_head, is_head_so_far, new_part};
pub use request::{RequestHead, parse_request};
pub use response::{ResponseHead, parse_response};

/// How much a head may be.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Octets, from the first of the start line to the last of the empty line.
    pub bytes_max: usize,
    /// Fields, each occurrence of a name counted.
    pub fields_max: usize,
}

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BadMessage {
    /// What is answered depends on it.
    pub kind: BadKind,
    /// Lower-case, no trailing stop.
    pub reason: &'static str,
}

/// What kind of mistake it is, which decides what is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadKind {
    /// Not HTTP/1.1 as it is written.
    Malformed,
    /// A transfer coding other than chunked, below it.
    Coding,
    /// Another major version.
    Version,
    /// The target alone is longer than a head may be.
    TargetTooLong,
    /// A head that is longer, or has more fields, than allowed.
    HeadTooLarge,
}

impl BadMessage {
    const fn malformed(reason: &'static str) -> Self {
        Self {
            kind: BadKind::Malformed,
            reason,
        }
    }

    /// An octet that no head has, or a line that ends as none does.
    const NOT_A_HEAD: Self = Self::malformed("this is not HTTP/1.1");

    /// A head that is still not complete after as many octets as are allowed, which these are.
    fn unfinished(so_far: &[u8]) -> Self {
        if memchr::memchr(b'\n', so_far).is_none() && memchr::memchr(b' ', so_far).is_some() {
            return Self {
                kind: BadKind::TargetTooLong,
                reason: "the target is too long",
            };
        }
        Self {
            kind: BadKind::HeadTooLarge,
            reason: "the head is too long",
        }
    }
}
