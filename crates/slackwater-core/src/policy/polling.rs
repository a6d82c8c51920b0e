//! Polls that are due, and polls in flight: one per interval for each replica, at a phase of its
//! own.

use crate::draw::{Draw, below};
use crate::policy::last_probe::LostProbes;
use crate::policy::probe::{Probe, ProbeId};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::time::{Instant, MaybeInstant, span_ns};
use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;
use core::time::Duration;

/// Longest deadline of a poll, at any interval.
const DEADLINE_MAX: Duration = Duration::from_secs(1);

/// A poll in flight.
#[derive(Clone, Copy, Debug)]
struct Out {
    replica: ReplicaId,
    deadline: Instant,
}

/// The poll state of a replica.
#[derive(Clone, Copy, Debug, Default)]
struct Hearing {
    asked: bool,
    answered_at: MaybeInstant,
    /// When the first of the lost polls that count was lost.
    lost_since: MaybeInstant,
    lost_in_a_row: u8,
    unprobed: bool,
}

/// Polls that are due, and polls in flight.
#[derive(Clone, Debug)]
pub(super) struct Polling {
    interval_ns: u64,
    deadline_ns: u64,
    /// The next poll of each replica that was polled at most once, the earliest first.
    new: BinaryHeap<Reverse<(Instant, ReplicaId)>>,
    /// The next poll of each other replica, in order. They are an interval apart, so a replica that
    /// is polled goes to the end: a queue is enough, while a heap would have to search each time.
    regular: VecDeque<(Instant, ReplicaId)>,
    /// Polls in the order of their numbers, which is that of their deadlines. The first is in
    /// flight; some of the others have ended.
    out: VecDeque<Option<Out>>,
    /// The number of the first poll in `out`.
    first: u32,
    hearings: ReplicaMap<Hearing>,
}

impl Polling {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval_ns: span_ns(interval),
            deadline_ns: span_ns(interval.min(DEADLINE_MAX)),
            new: BinaryHeap::new(),
            regular: VecDeque::new(),
            out: VecDeque::new(),
            first: 0,
            hearings: ReplicaMap::default(),
        }
    }

    pub(super) fn add(&mut self, now: Instant, replica: ReplicaId) {
        self.hearings.insert(replica, Hearing::default());
        self.new.push(Reverse((now, replica)));
        self.regular.reserve(self.new.len());
        // While the first is in flight, every other replica may be polled twice: a replica's first
        // two polls are less than an interval apart, and so are a late one and the next.
        self.out.reserve(2 * (self.new.len() + self.regular.len()));
    }

    /// Removes a replica. Its poll stays in flight until it ends, without effect.
    pub(super) fn remove(&mut self, replica: ReplicaId) {
        if self.hearings.remove(replica).is_some() {
            self.new.retain(|&Reverse((_, other))| other != replica);
            self.regular.retain(|&(_, other)| other != replica);
        }
    }

    /// The next poll that is due.
    pub(super) fn next(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        let (due, replica) = self.earliest().filter(|&(due, _)| due <= now)?;
        self.ask(now, due, replica, draw);
        let deadline = now.plus_ns(self.deadline_ns);
        let place = u32::try_from(self.out.len()).unwrap_or(u32::MAX);
        self.out.push_back(Some(Out { replica, deadline }));
        Some(Probe {
            id: ProbeId {
                slot: 0,
                serial: self.first.wrapping_add(place),
            },
            replica,
            deadline,
        })
    }

    /// The poll that is due first; of equals, that of the replica with the lowest name.
    fn earliest(&self) -> Option<(Instant, ReplicaId)> {
        let new = self.new.peek().map(|&Reverse(poll)| poll);
        match (new, self.regular.front().copied()) {
            (Some(new), Some(regular)) => Some(new.min(regular)),
            (new, regular) => new.or(regular),
        }
    }

    /// Polls the replica with the earliest poll. Its next poll is an interval after this one was
    /// due, with three exceptions: its first two are a random part of an interval apart, polls that
    /// were missed for longer are not made up for, and at the end of time there is no next poll.
    fn ask(&mut self, now: Instant, due: Instant, replica: ReplicaId, draw: &mut dyn Draw) {
        if self.regular.front() == Some(&(due, replica)) {
            self.regular.pop_front();
        } else {
            self.new.pop();
            if let Some(hearing) = self.hearings.find_mut(replica)
                && !hearing.asked
            {
                hearing.asked = true;
                let interval_us = u32::try_from(self.interval_ns / 1_000).unwrap_or(u32::MAX);
                let part_ns = (u64::from(below(draw, interval_us)) + 1) * 1_000;
                let next_due = now.plus_ns(part_ns);
                if next_due > now {
                    self.new.push(Reverse((next_due, replica)));
                }
                return;
            }
        }
        let regular = due.plus_ns(self.interval_ns);
        let next_due = if regular > now {
            regular
        } else {
            now.plus_ns(self.interval_ns)
        };
        if next_due <= now {
            return;
        }
        let next = (next_due, replica);
        let place = match self.regular.back() {
            // A poll that was not made up for is now due later than others that were only late.
            Some(last) if next < *last => self.regular.partition_point(|poll| *poll < next),
            _ => self.regular.len(),
        };
        self.regular.insert(place, next);
    }

    /// The replica of a poll in flight.
    pub(super) fn target(&self, id: ProbeId) -> Option<ReplicaId> {
        let place = id.serial.wrapping_sub(self.first) as usize;
        let out = self.out.get(place).copied().flatten();
        out.map(|out| out.replica)
    }

    /// Ends a poll. Returns its replica, or `None` if it has ended already.
    pub(super) fn end(&mut self, id: ProbeId) -> Option<ReplicaId> {
        let place = id.serial.wrapping_sub(self.first) as usize;
        let ended = self.out.get_mut(place)?.take()?;
        self.drop_ended();
        Some(ended.replica)
    }

    /// Ends the first poll if its deadline has passed.
    pub(super) fn expire_one(&mut self, now: Instant) -> Option<ReplicaId> {
        let first = self.out.front_mut()?;
        let expired = first.take_if(|out| out.deadline <= now)?;
        self.drop_ended();
        Some(expired.replica)
    }

    fn drop_ended(&mut self) {
        while let Some(None) = self.out.front() {
            self.out.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Notes that the replica has answered a poll. Returns how many it lost in a row before.
    pub(super) fn answered(&mut self, now: Instant, replica: ReplicaId) -> u8 {
        let Some(hearing) = self.hearings.find_mut(replica) else {
            return 0;
        };
        hearing.answered_at = now.into();
        hearing.unprobed = false;
        core::mem::take(&mut hearing.lost_in_a_row)
    }

    /// Notes a lost poll. Returns it with the ones lost before it, or `None` if the replica has
    /// left.
    pub(super) fn lost(&mut self, now: Instant, replica: ReplicaId) -> Option<LostProbes> {
        let hearing = self.hearings.find_mut(replica)?;
        if hearing.lost_in_a_row == 0 {
            hearing.lost_since = now.into();
        }
        hearing.lost_in_a_row = hearing.lost_in_a_row.saturating_add(1);
        Some(LostProbes {
            answered_at: hearing.answered_at.get(),
            since: hearing.lost_since.get().unwrap_or(now),
            in_a_row: hearing.lost_in_a_row,
        })
    }

    /// Makes the replica count as unprobed until it answers. Returns `false` if it already did.
    pub(super) fn begin_silence(&mut self, replica: ReplicaId) -> bool {
        let hearing = self.hearings.find_mut(replica);
        hearing.is_some_and(|hearing| !core::mem::replace(&mut hearing.unprobed, true))
    }

    pub(super) fn is_unprobed(&self, replica: ReplicaId) -> bool {
        let hearing = self.hearings.find(replica);
        hearing.is_some_and(|hearing| hearing.unprobed)
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let deadline = self.out.front().copied().flatten().map(|out| out.deadline);
        let due = self.earliest().map(|(due, _)| due);
        deadline.into_iter().chain(due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::SplitMix64;
    use crate::replica::ReplicaIds;
    use alloc::vec::Vec;

    const MS_NS: u64 = 1_000_000;
    const INTERVAL: Duration = Duration::from_millis(500);

    /// The next poll of a replica, by the description of [`Polling::ask`], with a search instead of
    /// queues.
    struct Slow {
        due: Instant,
        replica: ReplicaId,
        asked: bool,
    }

    /// The replicas that are polled at `now`, in order.
    fn asked(slow: &mut [Slow], now: Instant, draw: &mut dyn Draw) -> Vec<ReplicaId> {
        let mut asked = Vec::new();
        while let Some(next) = slow.iter_mut().min_by_key(|it| (it.due, it.replica))
            && next.due <= now
        {
            asked.push(next.replica);
            let regular = next.due + INTERVAL;
            next.due = match (next.asked, regular > now) {
                (false, _) => now.plus_ns((u64::from(below(draw, 500_000)) + 1) * 1_000),
                (true, true) => regular,
                (true, false) => now + INTERVAL,
            };
            next.asked = true;
        }
        asked
    }

    #[test]
    fn polls_are_sent_in_due_order_despite_joins_and_leaves() {
        let mut ids = ReplicaIds::new();
        let mut polling = Polling::new(INTERVAL);
        let mut slow: Vec<Slow> = Vec::new();
        let mut draws = [SplitMix64::new(3), SplitMix64::new(3)];
        let mut chance = SplitMix64::new(4);
        let (mut now, mut polls) = (Instant::EPOCH, 0);
        for round in 0..2_000 {
            if round < 20 || below(&mut chance, 50) == 0 {
                let replica = ids.allocate().expect("room");
                polling.add(now, replica);
                slow.push(Slow {
                    due: now,
                    replica,
                    asked: false,
                });
            } else if below(&mut chance, 50) == 0 && slow.len() > 10 {
                let leaves = below(&mut chance, 10) as usize;
                polling.remove(slow.swap_remove(leaves).replica);
            }
            let expected = asked(&mut slow, now, &mut draws[0]);
            let found: Vec<_> =
                core::iter::from_fn(|| polling.next(now, &mut draws[1]).map(|poll| poll.replica))
                    .collect();
            assert_eq!(found, expected, "round {round}");
            polls += found.len();
            // Mostly on time, now and then so late that some polls are put off and others are not.
            let late = if below(&mut chance, 20) == 0 { 900 } else { 20 };
            now = now.plus_ns(u64::from(below(&mut chance, late)) * MS_NS);
        }
        assert!(polls > 1_000, "{polls}");
    }
}
