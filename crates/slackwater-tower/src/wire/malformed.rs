//! The reasons for which datagrams are refused.
//!
//! Names and order of the checks are part of the protocol (`docs/reference/probe-protocol.md`,
//! "Rules"), so that implementations can be compared result by result. The checks themselves are in
//! `datagram`.

use slackwater_core::named;

named! {
    /// Why a datagram is refused. Both sides make the same checks in the same order, so a datagram
    /// has one result. A refused datagram gets no answer; count these.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
    #[non_exhaustive]
    pub enum Malformed by name {
        /// Shorter than the base, or than base and tag if its flags announce a tag.
        #[error("the datagram is shorter than a probe")]
        TooShort = "too_short",
        /// Longer than [`DATAGRAM_BYTES_MAX`](super::datagram::DATAGRAM_BYTES_MAX).
        #[error("the datagram is longer than any probe")]
        TooLong = "too_long",
        /// Does not begin with the protocol's magic: it belongs to another protocol.
        #[error("the datagram is not of the probe protocol; what else uses this port?")]
        NotAProbe = "not_a_probe",
        /// A version of the protocol that this side does not know.
        #[error("the datagram is of an unknown version of the probe protocol")]
        Version = "version",
        /// A reply where a request is expected, a request where a reply is, or neither.
        #[error("the datagram is a request where a reply is expected, or the other way round")]
        Kind = "kind",
        /// This side has a key, but the datagram has no tag.
        #[error("the datagram has no tag, but a probe key is configured here; configure it there too")]
        Unkeyed = "unkeyed",
        /// The datagram has a tag, but this side has no key.
        #[error("the datagram has a tag, but no probe key is configured here")]
        Keyed = "keyed",
        /// The tag is wrong: another key, or a changed datagram.
        #[error("the datagram's tag is wrong; do both sides have the same probe key?")]
        Authentication = "authentication",
        /// The hint is longer than allowed or than the datagram.
        #[error("the datagram's hint is longer than allowed or than the datagram")]
        Hint = "hint",
    }
}

impl Malformed {
    /// The index in [`ALL`](Self::ALL), for tables of counts.
    pub const fn index(self) -> usize {
        self as usize
    }
}
