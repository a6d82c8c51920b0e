//! Entries as bytes. Encoder and decoder keep the same [`Context`]: the time, the fleet, and the
//! rarer fields of reports and texts of requests that were seen lately. What was written once is
//! therefore not written again.
//!
//! An entry is a byte with its kind, the time since the entry before it, and its fields.

mod decode;
mod encode;
#[cfg(test)]
mod properties;
mod report;
mod request;
#[cfg(test)]
mod tests;

pub use decode::Decoder;
pub use encode::Encoder;

use report::Seen;
use request::Texts;
use slackwater_core::ReplicaId;

/// The kind of an entry: the lower five bits of its first byte.
mod kind {
    pub(super) const NAMED: u8 = 0;
    pub(super) const ADD: u8 = 1;
    pub(super) const REMOVE: u8 = 2;
    pub(super) const AVAILABLE: u8 = 3;
    pub(super) const QUERY: u8 = 4;
    pub(super) const TRIAL: u8 = 5;
    pub(super) const HEAD: u8 = 6;
    pub(super) const DONE: u8 = 7;
    pub(super) const ROUND: u8 = 8;
    pub(super) const POLL: u8 = 9;
    pub(super) const REPORT: u8 = 10;
    pub(super) const SIBLING_REPORT: u8 = 11;
    pub(super) const SIBLING_QUERIES: u8 = 12;
    pub(super) const CARRIED_REPORT: u8 = 13;
    pub(super) const PROBE_LOST: u8 = 14;
    pub(super) const PROBE_UNSENT: u8 = 15;
    pub(super) const TIMEOUT: u8 = 16;
    pub(super) const REQUEST: u8 = 17;
    pub(super) const IDENTIFIED: u8 = 18;
    pub(super) const FAR: u8 = 19;

    pub(super) const MASK: u8 = 0x1f;
    /// Reserved: no encoder sets it.
    pub(super) const FREE: u8 = 0x20;
    /// The entry happened at the time of the one before, so no time follows.
    pub(super) const SAME_TIME: u8 = 0x80;
    /// The usual form: a first attempt that may go to any replica; no probe, no trial; available.
    pub(super) const PLAIN: u8 = 0x40;
}

/// An answer to a query in one byte: no replica, a round, or a pick. A pick's reason is this
/// number less [`answer::PICK`].
mod answer {
    pub(super) const NO_REPLICA: u8 = 0;
    pub(super) const PROBE: u8 = 1;
    pub(super) const PICK: u8 = 2;
}

/// How a query is narrowed, in one byte. The lower two bits: 0 if it is not pinned, 1 if it is, 2
/// if it has waited for its replica.
mod narrow {
    pub(super) const PIN: u8 = 3;
    pub(super) const KEY: u8 = 4;
    pub(super) const AMONG: u8 = 8;
    pub(super) const HOMES: u8 = 16;
}

/// State that encoder and decoder both keep.
#[derive(Debug, Default)]
struct Context {
    at_ns: u64,
    /// The replicas in the fleet, by index.
    members: Vec<Option<ReplicaId>>,
    /// How often a replica has joined.
    joined: u64,
    seen: Seen,
    texts: Texts,
}

impl Context {
    fn join(&mut self, replica: ReplicaId) {
        self.joined += 1;
        let index = replica.index();
        if self.members.len() <= index {
            self.members.resize(index + 1, None);
        }
        if let Some(member) = self.members.get_mut(index) {
            *member = Some(replica);
        }
    }

    fn leave(&mut self, replica: ReplicaId) {
        if let Some(member) = self.members.get_mut(replica.index())
            && *member == Some(replica)
        {
            *member = None;
        }
    }

    /// Returns one more than the index of a member, and 0 for a replica that the policy does not
    /// have.
    #[inline]
    fn number(&self, replica: ReplicaId) -> u64 {
        let index = replica.index();
        let is_member = self.members.get(index) == Some(&Some(replica));
        if is_member { index as u64 + 1 } else { 0 }
    }
}

/// An id that no replica has. It stands for replicas that are not in the fleet.
const STRANGER: ReplicaId = ReplicaId::from_bits(u64::MAX);
