//! HTTP/1.1 on the wire, without I/O: heads, body lengths, chunks. RFC 9112
//!
//! Parsing and writing are strict. If two parsers read a message in two ways, one request can hide
//! in another. So what the grammar does not allow is refused, never repaired. Results never depend
//! on how the octets were split.
//!
//! | | file |
//! |---|---|
//! | the end of a head, and octets that it may not contain | `head` |
//! | the fields that the codec itself needs | `fields` |
//! | requests, responses | `request`, `response` |
//! | bodies by length, in chunks, to the end of the connection | `body`, `chunked` |
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

pub use crate::HeadLimits;
pub use body::{BodyDecoder, BodyLength, Decoded};
pub use chunked::is_of_the_head;
pub use encode::{
    CONTINUE, Framing, LAST_CHUNK, ResponseExtras, encode_chunk_start, encode_request,
    encode_response, encode_trailers,
};
pub use head::{HeadSearch, SoFar, end_of_head, is_head_so_far, new_part};
pub use request::{RequestHead, parse_request};
pub use response::{ResponseHead, parse_response};

/// An error in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BadMessage {
    /// The kind, which decides the answer.
    pub kind: BadKind,
    /// Text for people: lower-case, no trailing stop.
    pub reason: &'static str,
}

/// The kind of an error, which decides the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadKind {
    /// The message violates the HTTP/1.1 grammar.
    Malformed,
    /// It has a transfer coding other than chunked, below chunked.
    Coding,
    /// It has another major version.
    Version,
    /// Its target alone is longer than a head may be.
    TargetTooLong,
    /// Its head is longer, or has more fields, than allowed.
    HeadTooLarge,
}

impl BadMessage {
    const fn malformed(reason: &'static str) -> Self {
        Self {
            kind: BadKind::Malformed,
            reason,
        }
    }

    const LINE_END: Self = Self::malformed("a line does not end with CR LF");
    const VERSION: Self = Self::malformed("the version is not one of HTTP/1");

    /// An octet that no head contains, or a wrong line end.
    const NOT_A_HEAD: Self = Self::malformed("this is not HTTP/1.1");

    /// A head that is not complete after the allowed number of octets, which are `so_far`.
    fn unfinished(so_far: &[u8]) -> Self {
        if !so_far.contains(&b'\n') && so_far.contains(&b' ') {
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
