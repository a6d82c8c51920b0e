//! Which polls are due, and which are out: once in an interval for each replica, at a phase of its own.

use crate::draw::{Draw, below};
use crate::policy::probe::{Probe, ProbeId};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::time::{Instant, span_ns};
use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;
use core::time::Duration;

/// A poll is answered by then, or lost, however long the interval.
const DEADLINE_MAX: Duration = Duration::from_secs(1);
/// So many polls lost in a row make a replica silent.
const LOST_IN_A_ROW: u8 = 3;

/// A poll that is out.
#[derive(Clone, Copy, Debug)]
struct Out {
    replica: ReplicaId,
    deadline: Instant,
}

/// What is heard of a replica.
#[derive(Clone, Copy, Debug, Default)]
struct Hearing {
    asked: bool,
    lost_in_a_row: u8,
}

/// Which polls are due, and which are out.
#[derive(Clone, Debug)]
pub(super) struct Polling {
    interval_ns: u64,
    deadline_ns: u64,
    /// The next poll of each replica, the earliest first.
    due: BinaryHeap<Reverse<(Instant, ReplicaId)>>,
    /// In the order of their numbers, which is that of their deadlines; the first is out, of the others some have ended.
    out: VecDeque<Option<Out>>,
    /// The number of the first.
    first: u32,
    hearings: ReplicaMap<Hearing>,
}

impl Polling {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval_ns: span_ns(interval),
            deadline_ns: span_ns(interval.min(DEADLINE_MAX)),
            due: BinaryHeap::new(),
            out: VecDeque::new(),
            first: 0,
            hearings: ReplicaMap::default(),
        }
    }

    pub(super) fn add(&mut self, now: Instant, replica: ReplicaId) {
        self.hearings.insert(replica, Hearing::default());
        self.due.push(Reverse((now, replica)));
        // While the first is out, everybody else may be asked twice: a replica's first two polls are less than an interval
        // apart, and so are one that was late and the next.
        self.out.reserve(2 * self.due.len());
    }

    /// A poll of a replica that left stays out until it ends; nobody cares how.
    pub(super) fn remove(&mut self, replica: ReplicaId) {
        if self.hearings.remove(replica).is_some() {
            self.due.retain(|&Reverse((_, other))| other != replica);
        }
    }

    /// The next poll that is due.
    pub(super) fn next(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        let &Reverse((due, replica)) = self.due.peek().filter(|Reverse((due, _))| *due <= now)?;
        self.due.pop();
        let next_due = self.due_after(now, due, replica, draw);
        self.due.push(Reverse((next_due, replica)));
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

    /// When a replica is asked again that is asked now: an interval after this poll was due, except that its first two
    /// are a random part of one apart, and that polls missed for longer are not made up for.
    fn due_after(
        &mut self,
        now: Instant,
        due: Instant,
        replica: ReplicaId,
        draw: &mut dyn Draw,
    ) -> Instant {
        if let Some(hearing) = self.hearings.find_mut(replica)
            && !hearing.asked
        {
            hearing.asked = true;
            let interval_us = u32::try_from(self.interval_ns / 1_000).unwrap_or(u32::MAX);
            return now.plus_ns((u64::from(below(draw, interval_us)) + 1) * 1_000);
        }
        let regular = due.plus_ns(self.interval_ns);
        if regular > now {
            regular
        } else {
            now.plus_ns(self.interval_ns)
        }
    }

    /// Ends a poll; the replica that was asked, or `None` if it has ended already.
    pub(super) fn end(&mut self, id: ProbeId) -> Option<ReplicaId> {
        let place = id.serial.wrapping_sub(self.first) as usize;
        let ended = self.out.get_mut(place)?.take()?;
        self.drop_ended();
        Some(ended.replica)
    }

    /// Ends the first poll, if its deadline has passed.
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

    pub(super) fn answered(&mut self, replica: ReplicaId) {
        if let Some(hearing) = self.hearings.find_mut(replica) {
            hearing.lost_in_a_row = 0;
        }
    }

    /// `true` if the replica falls silent by this.
    pub(super) fn lost(&mut self, replica: ReplicaId) -> bool {
        let Some(hearing) = self.hearings.find_mut(replica) else {
            return false;
        };
        hearing.lost_in_a_row = hearing.lost_in_a_row.saturating_add(1);
        hearing.lost_in_a_row == LOST_IN_A_ROW
    }

    pub(super) fn is_silent(&self, replica: ReplicaId) -> bool {
        let hearing = self.hearings.find(replica);
        hearing.is_some_and(|hearing| hearing.lost_in_a_row >= LOST_IN_A_ROW)
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let deadline = self.out.front().copied().flatten().map(|out| out.deadline);
        let due = self.due.peek().map(|&Reverse((due, _))| due);
        deadline.into_iter().chain(due).min()
    }
}
