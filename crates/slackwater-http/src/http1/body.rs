//! Bodies as they are received: by length, in chunks, or to the end of the connection.

use super::chunked::Chunked;
use super::{BadMessage, HeadLimits};
use bytes::Bytes;
use http::HeaderMap;

/// The length of a body. RFC 9112 §6
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// This many octets, perhaps none.
    Known(u64),
    /// Chunks, the last of which is empty.
    Chunked,
    /// Everything until the connection ends; responses only.
    UntilClose,
}

/// A piece of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// More octets are needed.
    Starved,
    /// Octets of the body, at least one; of chunks, only the data.
    Data(Bytes),
    /// The fields after the last chunk. [`Self::End`] follows.
    Trailers(HeaderMap),
    /// The body is complete.
    End,
}

/// Decodes a body from the octets that follow a head.
#[derive(Debug)]
pub enum BodyDecoder {
    /// The number of octets still to come.
    Known(u64),
    /// Chunks, and how far they have been read.
    Chunked(Box<Chunked>),
    /// Everything until the connection ends.
    UntilClose,
}

impl BodyDecoder {
    /// Creates a decoder. `limits` apply to the trailers.
    pub fn new(length: BodyLength, limits: HeadLimits) -> Self {
        match length {
            BodyLength::Known(length) => Self::Known(length),
            BodyLength::Chunked => Self::Chunked(Box::new(Chunked::new(limits))),
            BodyLength::UntilClose => Self::UntilClose,
        }
    }

    /// Whether nothing more of the body is to come.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Known(left) => *left == 0,
            Self::Chunked(chunked) => chunked.is_done(),
            Self::UntilClose => false,
        }
    }

    /// The number of octets still to come, if known.
    pub fn left(&self) -> Option<u64> {
        match self {
            Self::Known(left) => Some(*left),
            Self::Chunked(chunked) if chunked.is_done() => Some(0),
            _ => None,
        }
    }

    /// Takes the next piece out of `unread`. Nothing is copied.
    pub fn decode(&mut self, unread: &mut Bytes) -> Result<Decoded, BadMessage> {
        match self {
            Self::Known(0) => Ok(Decoded::End),
            Self::Chunked(chunked) => chunked.decode(unread),
            _ if unread.is_empty() => Ok(Decoded::Starved),
            Self::Known(left) => {
                let length =
                    usize::try_from(*left).map_or(unread.len(), |left| left.min(unread.len()));
                *left -= length as u64;
                Ok(Decoded::Data(unread.split_to(length)))
            }
            Self::UntilClose => Ok(Decoded::Data(core::mem::take(unread))),
        }
    }

    /// Whether the body is complete if the connection ends now.
    pub fn may_end(&self) -> bool {
        matches!(self, Self::UntilClose) || self.is_done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        bytes_max: 1024,
        fields_max: 10,
    };

    #[test]
    fn body_of_known_length_leaves_following_bytes() {
        let mut body = BodyDecoder::new(BodyLength::Known(5), LIMITS);
        let mut unread = Bytes::from_static(b"abc");
        assert!(!body.is_done() && !body.may_end());
        assert_eq!(body.decode(&mut unread), Ok(Decoded::Data("abc".into())));
        assert_eq!(body.decode(&mut unread), Ok(Decoded::Starved));
        unread = Bytes::from_static(b"deGET /");
        assert_eq!(body.decode(&mut unread), Ok(Decoded::Data("de".into())));
        assert_eq!(body.decode(&mut unread), Ok(Decoded::End));
        assert_eq!(unread, "GET /");
        assert!(body.is_done() && body.may_end());
    }

    #[test]
    fn body_without_length_ends_with_the_connection() {
        let mut body = BodyDecoder::new(BodyLength::UntilClose, LIMITS);
        let mut unread = Bytes::from_static(b"abc");
        assert_eq!(body.decode(&mut unread), Ok(Decoded::Data("abc".into())));
        assert_eq!(body.decode(&mut unread), Ok(Decoded::Starved));
        assert!(!body.is_done() && body.may_end());
        assert_eq!(body.left(), None);
    }
}
