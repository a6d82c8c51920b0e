//! Entries as bytes. What both sides keep: the time, who is in the fleet, and reports' rarer fields
//! and requests' texts that were seen lately.
//!
//! An entry is a byte that says which it is, the time since the one before, and its fields. Both
//! sides keep the same [`Context`], so that what was said once is not said again.

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

/// Which entry it is: the lower five bits of its first byte.
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

    pub(super) const MASK: u8 = 0x1f;
    /// Nobody sets it yet.
    pub(super) const FREE: u8 = 0x20;
    /// It happened at the time of the one before: no time follows.
    pub(super) const SAME_TIME: u8 = 0x80;
    /// Its usual form: a first try that may go anywhere; no probe, no trial; available.
    pub(super) const PLAIN: u8 = 0x40;
}

/// What a query was told, in a byte: none, a round, or a pick for the reason of this number less
/// [`said::PICK`].
mod said {
    pub(super) const NO_REPLICA: u8 = 0;
    pub(super) const PROBE: u8 = 1;
    pub(super) const PICK: u8 = 2;
}

/// What both sides know.
#[derive(Debug, Default)]
struct Context {
    at_ns: u64,
    /// Who is in the fleet, by index.
    members: Vec<Option<ReplicaId>>,
    /// How often somebody has joined.
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

    /// One more than the index of a member; 0 of a stranger, whom no policy knows.
    #[inline]
    fn number(&self, replica: ReplicaId) -> u64 {
        let index = replica.index();
        let is_member = self.members.get(index) == Some(&Some(replica));
        if is_member { index as u64 + 1 } else { 0 }
    }
}

/// A name that nobody has: it stands for replicas that are not in the fleet.
const STRANGER: ReplicaId = ReplicaId::from_bits(u64::MAX);
