//! Why streams and connections end. RFC 9113 §7

use core::fmt;
use std::io;

/// An error code, which may be any number. RFC 9113 §7
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub u32);

impl Reason {
    /// No error: the stream or the connection ends regularly.
    pub const NO_ERROR: Self = Self(0);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// The sender of this code had an error.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// More was sent than a window allowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame arrived on a stream that had ended.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame is too long, or has a wrong length for its type.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The stream was not processed, so the request may be sent again.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(8);
    /// A header block cannot be decoded, and so no later one either.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The peer causes too much work.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "NO_ERROR",
            1 => "PROTOCOL_ERROR",
            2 => "INTERNAL_ERROR",
            3 => "FLOW_CONTROL_ERROR",
            4 => "SETTINGS_TIMEOUT",
            5 => "STREAM_CLOSED",
            6 => "FRAME_SIZE_ERROR",
            7 => "REFUSED_STREAM",
            8 => "CANCEL",
            9 => "COMPRESSION_ERROR",
            10 => "CONNECT_ERROR",
            11 => "ENHANCE_YOUR_CALM",
            12 => "INADEQUATE_SECURITY",
            13 => "HTTP_1_1_REQUIRED",
            other => return write!(f, "error code {other}"),
        })
    }
}

/// Why a stream has ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The peer reset it.
    #[error("the stream was reset: {0}")]
    Reset(Reason),
    /// This side reset it.
    #[error("the stream was reset by this side: {0}")]
    ByUs(Reason),
    /// This side reset it, because the response's head is larger than allowed.
    #[error("the response's head is too large")]
    HeadTooLarge,
    /// The request was never sent, or the peer's GOAWAY excludes it.
    #[error("the request was not processed")]
    TurnedAway,
    /// The connection has ended.
    #[error("{0}")]
    Connection(Ended),
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The peer has closed it.
    #[error("the connection was closed")]
    Closed,
    /// It failed.
    #[error("the connection failed: {0}")]
    Failed(io::ErrorKind),
    /// The peer sent this reason.
    #[error("the peer ended the connection: {0}")]
    GoneAway(Reason),
    /// This side ended it, because the peer violated the protocol or a limit.
    #[error("the connection was ended by this side: {0}")]
    ByUs(Reason),
}

impl Lost {
    /// Whether the peer has reported, with HTTP/2's own means, that it did not process the request:
    /// RFC 9113 §6.8, §8.7.
    pub fn is_turned_away(self) -> bool {
        self == Self::TurnedAway || self == Self::Reset(Reason::REFUSED_STREAM)
    }
}
