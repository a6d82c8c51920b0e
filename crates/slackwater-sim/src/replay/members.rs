//! The fleet of a stream, part by part: the replica of each part, and the number of the part.

use super::history::History;
use crate::scenario::{News, ReplayChange};
use slackwater_core::ReplicaId;
use std::collections::{BTreeMap, BTreeSet};

/// The fleet of a stream at a time.
#[derive(Debug, Default)]
pub(super) struct Members {
    by_id: BTreeMap<ReplicaId, JoinedPart>,
    /// The parts that its members use.
    taken: BTreeSet<u32>,
}

/// A part that has joined.
#[derive(Debug, Default)]
struct JoinedPart {
    /// Its index in the history's parts, once its replica is known.
    part: Option<u32>,
    /// The indices of its changes in the history, from before its replica was known.
    unclear: Vec<usize>,
}

impl Members {
    /// Returns all members of the fleet.
    pub(super) fn all(&self) -> Vec<ReplicaId> {
        self.by_id.keys().copied().collect()
    }

    /// Sets the replica that a member is a part of.
    pub(super) fn name(&mut self, history: &mut History, replica: ReplicaId, number: u32) {
        let is_unclear = |member: &JoinedPart| member.part.is_none();
        if !self.by_id.get(&replica).is_some_and(is_unclear) {
            return;
        }
        let part = history.free_part(number, &self.taken);
        self.taken.insert(part);
        if let Some(member) = self.by_id.get_mut(&replica) {
            member.part = Some(part);
            for place in member.unclear.drain(..) {
                if let Some(news) = history.news.get_mut(place) {
                    news.part = part;
                }
            }
        }
    }

    /// Returns the number of the replica that a member is a part of. A part without a name is a
    /// replica of its own, named by its id.
    pub(super) fn number(&mut self, history: &mut History, replica: ReplicaId) -> u32 {
        let is_unclear = |member: &JoinedPart| member.part.is_none();
        if self.by_id.get(&replica).is_none_or(is_unclear) {
            let number = history.number(&replica.to_string());
            self.name(history, replica, number);
            return number;
        }
        let part = self.by_id.get(&replica).and_then(|member| member.part);
        let number = part.and_then(|part| history.parts.get(part as usize));
        number.copied().unwrap_or(u32::MAX)
    }

    /// Adds a change that a policy received. Changes of a replica that is not in the fleet, and
    /// repeated joins, are ignored.
    pub(super) fn take_news(
        &mut self,
        history: &mut History,
        replica: ReplicaId,
        mut change: ReplayChange,
    ) {
        let is_member = self.by_id.contains_key(&replica);
        match change.news {
            News::Joined if is_member => return,
            News::Joined => {
                self.by_id.insert(replica, JoinedPart::default());
            }
            // No later entry will name its replica.
            News::Left if is_member => {
                self.number(history, replica);
            }
            News::Left | News::Offered | News::Withdrawn => (),
        }
        let Some(member) = self.by_id.get_mut(&replica) else {
            return;
        };
        match member.part {
            Some(part) => change.part = part,
            None => member.unclear.push(history.news.len()),
        }
        history.news.push(change);
        if change.news == News::Left {
            self.by_id.remove(&replica);
            self.taken.remove(&change.part);
        }
    }
}
