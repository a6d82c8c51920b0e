//! Why streams and connections end. RFC 9113 §7

use core::error::Error;
use core::fmt;
use std::io;

/// An error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reason(pub(crate) u32);

impl Reason {
    pub(crate) const NO_ERROR: Self = Self(0);
    pub(crate) const PROTOCOL_ERROR: Self = Self(1);
    pub(crate) const INTERNAL_ERROR: Self = Self(2);
    pub(crate) const FLOW_CONTROL_ERROR: Self = Self(3);
    pub(crate) const STREAM_CLOSED: Self = Self(5);
    pub(crate) const FRAME_SIZE_ERROR: Self = Self(6);
    pub(crate) const REFUSED_STREAM: Self = Self(7);
    pub(crate) const CANCEL: Self = Self(8);
    pub(crate) const COMPRESSION_ERROR: Self = Self(9);
    pub(crate) const ENHANCE_YOUR_CALM: Self = Self(11);
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The other side reset it.
    Reset(Reason),
    /// We did.
    ByUs(Reason),
    /// We did, for a response whose head is larger than is allowed.
    HeadTooLarge,
    /// It was never sent, or the other side says in leaving that it did not look at it.
    TurnedAway,
    /// The connection has ended.
    Connection(Ended),
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The other side has closed it.
    Closed,
    /// It failed.
    Failed(io::ErrorKind),
    /// The other side has said why.
    Told(Reason),
    /// We have, for what came.
    ByUs(Reason),
}

impl Lost {
    /// Whether the other side says, by HTTP/2's own means, that it did not process the request: RFC 9113 §6.8, §8.7.
    pub(crate) fn is_turned_away(self) -> bool {
        self == Self::TurnedAway || self == Self::Reset(Reason::REFUSED_STREAM)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::Failed(kind) => write!(f, "the connection failed: {kind}"),
            Self::Told(reason) => write!(f, "the other side ended the connection: {reason}"),
            Self::ByUs(reason) => write!(f, "the connection was ended for what came: {reason}"),
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset(reason) => write!(f, "the stream was reset: {reason}"),
            Self::ByUs(reason) => write!(f, "the stream was ended for what came: {reason}"),
            Self::HeadTooLarge => f.write_str("the response's head is too large"),
            Self::TurnedAway => f.write_str("the request was not processed"),
            Self::Connection(ended) => ended.fmt(f),
        }
    }
}

impl Error for Ended {}
impl Error for Lost {}
