//! Who is in the fleet of a stream, part by part: which replica each part is of, and which part of
//! it.

use super::history::History;
use crate::scenario::{News, TapeNews};
use slackwater_core::ReplicaId;
use std::collections::{BTreeMap, BTreeSet};

/// The fleet of a stream at a time.
#[derive(Debug, Default)]
pub(super) struct Members {
    by_id: BTreeMap<ReplicaId, Member>,
    /// The parts that they are.
    taken: BTreeSet<u32>,
}

/// A part that has joined.
#[derive(Debug, Default)]
struct Member {
    /// Its place among the history's parts, once it is known whose part it is.
    part: Option<u32>,
    /// The places of news of it in the history, from before that was known.
    unclear: Vec<usize>,
}

impl Members {
    /// All that are in the fleet.
    pub(super) fn all(&self) -> Vec<ReplicaId> {
        self.by_id.keys().copied().collect()
    }

    /// It is a part of that replica.
    pub(super) fn name(&mut self, history: &mut History, replica: ReplicaId, number: u32) {
        let is_unclear = |member: &Member| member.part.is_none();
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

    /// The number of the replica whose part that is; of one without a name, by what the policy
    /// calls it.
    pub(super) fn number(&mut self, history: &mut History, replica: ReplicaId) -> u32 {
        let is_unclear = |member: &Member| member.part.is_none();
        if self.by_id.get(&replica).is_none_or(is_unclear) {
            let number = history.number(&replica.to_string());
            self.name(history, replica, number);
            return number;
        }
        let part = self.by_id.get(&replica).and_then(|member| member.part);
        let number = part.and_then(|part| history.parts.get(part as usize));
        number.copied().unwrap_or(u32::MAX)
    }

    /// Its policy hears that of it. News of somebody who is not in the fleet, or joins again, says
    /// nothing.
    pub(super) fn take_news(
        &mut self,
        history: &mut History,
        replica: ReplicaId,
        mut heard: TapeNews,
    ) {
        let is_member = self.by_id.contains_key(&replica);
        match heard.news {
            News::Joined if is_member => return,
            News::Joined => {
                self.by_id.insert(replica, Member::default());
            }
            // Nobody will say any more whose part it is.
            News::Left if is_member => {
                self.number(history, replica);
            }
            News::Left | News::Offered | News::Withdrawn => (),
        }
        let Some(member) = self.by_id.get_mut(&replica) else {
            return;
        };
        match member.part {
            Some(part) => heard.part = part,
            None => member.unclear.push(history.news.len()),
        }
        history.news.push(heard);
        if heard.news == News::Left {
            self.by_id.remove(&replica);
            self.taken.remove(&heard.part);
        }
    }
}
