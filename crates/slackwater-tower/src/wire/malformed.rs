//! The verdicts on datagrams that are refused.
//!
//! Names and order of the checks are part of the protocol (`docs/probe-protocol.md`, "Rules"), so that implementations can
//! be compared verdict by verdict. The checks themselves are the datagram's.

/// Why a datagram is refused. The same checks in the same order on both sides, so a datagram has one verdict. Refusing is
/// silent on the wire; count these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Shorter than the base, or than base and tag where it says that it has a tag.
    #[error("the datagram is shorter than a probe")]
    TooShort,
    /// Longer than [`DATAGRAM_BYTES_MAX`](super::datagram::DATAGRAM_BYTES_MAX).
    #[error("the datagram is longer than any probe")]
    TooLong,
    /// Does not begin with the protocol's magic: something else was sent here.
    #[error("the datagram is not of the probe protocol; what else uses this port?")]
    NotAProbe,
    /// A version of the protocol that this side does not know.
    #[error("the datagram is of an unknown version of the probe protocol")]
    Version,
    /// A reply where a request is expected, a request where a reply is, or neither.
    #[error("the datagram is a request where a reply is expected, or the other way round")]
    Kind,
    /// This side has a key, the datagram no tag.
    #[error("the datagram has no tag, but a probe key is configured here; configure it there too")]
    Unkeyed,
    /// The datagram has a tag, this side no key.
    #[error("the datagram has a tag, but no probe key is configured here")]
    Keyed,
    /// The tag is wrong: another key, or a changed datagram.
    #[error("the datagram's tag is wrong; do both sides have the same probe key?")]
    Authentication,
    /// The hint is longer than allowed or than the datagram.
    #[error("the datagram's hint is longer than allowed or than the datagram")]
    Hint,
}

impl Malformed {
    /// Every reason, in the order of [`index`](Self::index).
    pub const ALL: &'static [Self] = &[
        Self::TooShort,
        Self::TooLong,
        Self::NotAProbe,
        Self::Version,
        Self::Kind,
        Self::Unkeyed,
        Self::Keyed,
        Self::Authentication,
        Self::Hint,
    ];

    /// Its place in [`ALL`](Self::ALL), for tables of counts.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name in metrics and test vectors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::TooLong => "too_long",
            Self::NotAProbe => "not_a_probe",
            Self::Version => "version",
            Self::Kind => "kind",
            Self::Unkeyed => "unkeyed",
            Self::Keyed => "keyed",
            Self::Authentication => "authentication",
            Self::Hint => "hint",
        }
    }
}
