//! Probes that are due, their targets, and probes in flight. `[A2]` `[A3]` `[A4]`
//!
//! A pick only counts how many probes it triggers. Targets are drawn when the driver polls for
//! probes, off the query's path. Each probe sent ends once: answered, or lost.

use super::back_off::BackOff;
use super::rate_cap::RateCap;
use crate::draw::{Draw, below};
use crate::policy::fleet::{Fleet, Standing};
use crate::policy::prequal::PrequalConfig;
use crate::policy::probe::{Probe, ProbeId};
use crate::replica::ReplicaId;
use crate::time::{Instant, MaybeInstant, span_ns};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

/// Most batches of probes that wait to be sent. A driver that polls after each pick has one.
const BATCHES_MAX: usize = 64;

/// A probe in flight.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    replica: ReplicaId,
    sent_at: Instant,
}

/// A slot for a probe in flight. The serial distinguishes a late answer to its former probe from
/// one to the current probe.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    serial: u32,
    outstanding: Option<Outstanding>,
}

/// An answer to a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) replica: ReplicaId,
    /// `None` if the probe was a sibling's.
    pub(super) round_trip_ns: Option<u64>,
    /// Probes that the replica lost in a row before.
    pub(super) lost: u8,
    /// The state of the replica. `None` if it has left.
    pub(super) standing: Option<Standing>,
}

impl Answer {
    /// The answer to a sibling's probe.
    pub(super) fn of_sibling(now: Instant, replica: ReplicaId, fleet: &mut Fleet) -> Self {
        let standing = fleet.standing_mut(replica);
        let (lost, standing) = match standing {
            Some(standing) => (standing.last_probe.answered(now), Some(*standing)),
            None => (0, None),
        };
        Self {
            replica,
            round_trip_ns: None,
            lost,
            standing,
        }
    }
}

/// Why a probe that was due is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skipped {
    /// The replica has left.
    Unknown,
    /// A probe to the same replica is in flight.
    Outstanding,
    /// The replica was probed a moment ago.
    Interval,
    /// Too many probes are in flight.
    Cap,
    /// Too many probes were sent recently.
    Rate,
}

/// Probes that are due, and probes in flight.
#[derive(Clone, Debug)]
pub(super) struct Probing {
    /// How many probes each waiting batch has. The targets of one batch are distinct.
    batches: VecDeque<u32>,
    /// Targets drawn for the current batch.
    targets: Vec<ReplicaId>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// When idle probes are due.
    idle_at: MaybeInstant,
    /// How long without a probe counts as idle, this time.
    idle_span_ns: u64,
    /// From when it is sent, a probe has this long.
    deadline_ns: u64,
    /// No probe in flight has an earlier deadline. It is checked before a search. The end of time
    /// if none has one.
    next_deadline: Instant,
    rate_cap: RateCap,
    pub(super) back_off: BackOff,
}

impl Probing {
    pub(super) fn new(config: &PrequalConfig) -> Self {
        let slots = u32::from(config.probes_outstanding_max);
        Self {
            batches: VecDeque::with_capacity(BATCHES_MAX),
            targets: Vec::with_capacity(16),
            slots: (0..slots).map(|_| Slot::default()).collect(),
            free: (0..slots).rev().collect(),
            idle_at: MaybeInstant::NONE,
            idle_span_ns: span_ns(config.probe_idle_max),
            deadline_ns: span_ns(config.probe_deadline),
            next_deadline: Instant::END,
            rate_cap: RateCap::new(config.probes_per_second_max),
            back_off: BackOff::new(config),
        }
    }

    /// Removes a replica. Its probes stay in flight until they end, without effect.
    pub(super) fn remove(&mut self, replica: ReplicaId) {
        self.targets.retain(|&target| target != replica);
    }

    /// Adds a batch of `count` probes. Returns `false` if too many batches wait already.
    pub(super) fn want(&mut self, count: u32) -> bool {
        if count > 0 && self.batches.len() == BATCHES_MAX {
            self.back_off.starved(count);
            return false;
        }
        if count > 0 {
            self.batches.push_back(count);
        }
        true
    }

    /// The next replica to probe, drawn uniformly without replacement within its batch. `[A2]`
    pub(super) fn next_target(
        &mut self,
        probe_set: &[ReplicaId],
        draw: &mut dyn Draw,
    ) -> Option<ReplicaId> {
        while self.targets.is_empty() {
            let count = self.batches.pop_front()?;
            draw_distinct(count, probe_set, draw, &mut self.targets);
        }
        self.targets.pop()
    }

    /// The probe to send to `replica`, or why none is sent.
    #[expect(
        clippy::inline_always,
        reason = "counted by examples/policy_cost: a call costs more than a copy"
    )]
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        fleet: &mut Fleet,
        interval_ns: u64,
    ) -> Result<Probe, Skipped> {
        let standing = fleet.standing_mut(replica).ok_or(Skipped::Unknown)?;
        let last = &mut standing.last_probe;
        if last.outstanding {
            return Err(Skipped::Outstanding);
        }
        if last
            .sent_at
            .get()
            .is_some_and(|sent_at| now.ns_since(sent_at) < interval_ns)
        {
            return Err(Skipped::Interval);
        }
        if self.free.is_empty() {
            self.back_off.starved(1);
            return Err(Skipped::Cap);
        }
        // The rate cap comes last, so that a probe that is skipped for another reason costs no
        // token.
        if !self.rate_cap.take(now) {
            return Err(Skipped::Rate);
        }
        let slot = self.free.pop().ok_or(Skipped::Cap)?;
        self.back_off.sent();
        last.sent_at = now.into();
        last.outstanding = true;
        standing.probe_sent();
        let deadline = now.plus_ns(self.deadline_ns);
        // Expiry only searches the slots when the earliest deadline has passed.
        self.next_deadline = self.next_deadline.min(deadline);
        let place = &mut self.slots[slot as usize];
        place.outstanding = Some(Outstanding {
            replica,
            sent_at: now,
        });
        Ok(Probe {
            id: ProbeId {
                slot,
                serial: place.serial,
            },
            replica,
            deadline,
        })
    }

    /// The replica of a probe in flight.
    pub(super) fn target(&self, id: ProbeId) -> Option<ReplicaId> {
        let slot = self.slots.get(id.slot as usize)?;
        let out = slot
            .outstanding
            .as_ref()
            .filter(|_| slot.serial == id.serial);
        out.map(|out| out.replica)
    }

    /// Ends a probe. Returns the replica that it went to and when it was sent, or `None` if it has
    /// ended already.
    pub(super) fn end(&mut self, id: ProbeId, fleet: &mut Fleet) -> Option<(ReplicaId, Instant)> {
        let (replica, sent_at) = self.free_slot(id)?;
        if let Some(standing) = fleet.standing_mut(replica) {
            standing.last_probe.outstanding = false;
        }
        Some((replica, sent_at))
    }

    /// Like [`Self::end`], and updates the back-off: the probe was answered.
    #[expect(
        clippy::inline_always,
        reason = "each policy calls it once for each answer"
    )]
    #[inline(always)]
    pub(super) fn end_answered(
        &mut self,
        now: Instant,
        id: ProbeId,
        fleet: &mut Fleet,
    ) -> Option<Answer> {
        let (replica, sent_at) = self.free_slot(id)?;
        let round_trip_ns = now.ns_since(sent_at);
        let mut answer = Answer {
            replica,
            round_trip_ns: Some(round_trip_ns),
            lost: 0,
            standing: None,
        };
        if let Some(standing) = fleet.standing_mut(replica) {
            let last = &mut standing.last_probe;
            last.outstanding = false;
            self.back_off.ended(&mut last.fared, Some(round_trip_ns));
            answer.lost = last.answered(now);
            answer.standing = Some(*standing);
        }
        Some(answer)
    }

    fn free_slot(&mut self, id: ProbeId) -> Option<(ReplicaId, Instant)> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.serial != id.serial {
            return None;
        }
        let Outstanding {
            replica, sent_at, ..
        } = slot.outstanding.take()?;
        slot.serial = slot.serial.wrapping_add(1);
        self.free.push(id.slot);
        Some((replica, sent_at))
    }

    /// Updates the back-off with a lost probe of a replica that normally answers.
    pub(super) fn missed(&mut self, replica: ReplicaId, fleet: &mut Fleet) {
        if let Some(standing) = fleet.standing_mut(replica) {
            self.back_off.ended(&mut standing.last_probe.fared, None);
        }
    }

    /// Whether the deadline of a probe in flight may have passed.
    pub(super) fn may_expire(&self, now: Instant) -> bool {
        self.next_deadline <= now
    }

    /// Ends each probe whose deadline has passed, and passes its replica to `lost`. `[A4]`
    pub(super) fn expire(
        &mut self,
        now: Instant,
        fleet: &mut Fleet,
        mut lost: impl FnMut(ReplicaId),
    ) {
        self.next_deadline = Instant::END;
        for slot in 0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX) {
            let place = self.slots[slot as usize];
            let Some(Outstanding { sent_at, .. }) = place.outstanding else {
                continue;
            };
            let deadline = sent_at.plus_ns(self.deadline_ns);
            if deadline > now {
                self.next_deadline = self.next_deadline.min(deadline);
            } else {
                let serial = place.serial;
                let ended = self.end(ProbeId { slot, serial }, fleet);
                if let Some((replica, _)) = ended {
                    lost(replica);
                }
            }
        }
    }

    /// Undoes a probe that was not sent. Returns `true` if it was in flight.
    pub(super) fn unsend(&mut self, id: ProbeId, fleet: &mut Fleet) -> bool {
        let Some((replica, _)) = self.end(id, fleet) else {
            return false;
        };
        if let Some(standing) = fleet.standing_mut(replica) {
            standing.last_probe.sent_at = MaybeInstant::NONE;
        }
        self.rate_cap.give_back();
        self.back_off.unsent();
        true
    }

    /// Restarts the idle span. At the end of time no span follows, or it would be over at once,
    /// again and again.
    pub(super) fn rest(&mut self, now: Instant) {
        self.idle_at = now.plus_ns(self.idle_span_ns).into();
    }

    /// Makes idle probes due at once if no idle span has started.
    pub(super) fn begin_rest(&mut self, now: Instant) {
        if self.idle_at == MaybeInstant::NONE {
            self.idle_at = now.into();
        }
    }

    /// Draws a new length for the idle span, between three quarters of `idle_max` and all of it, so
    /// that idle clients do not probe in step. `[A3]`
    pub(super) fn jitter(&mut self, idle_max: Duration, draw: &mut dyn Draw) {
        let max_us = u32::try_from(idle_max.as_micros()).unwrap_or(u32::MAX);
        let early_us = below(draw, max_us / 4 + 1);
        self.idle_span_ns = u64::from(max_us - early_us) * 1_000;
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.idle_at.get().is_some_and(|idle_at| idle_at <= now)
    }

    /// When something is due next.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let idle_at = self.idle_at.get().unwrap_or(Instant::END);
        Some(self.next_deadline.min(idle_at)).filter(|&at| at < Instant::END)
    }
}

/// Draws `count` distinct members, or all if there are no more. Every order of every set is equally
/// likely, by Robert Floyd's algorithm for sequences: as many draws as members, and no table of the
/// set's size.
///
/// The order matters when a cap on probes binds, so that not all of them are sent. If the newest
/// member always came last, the last replica of the table would be probed three times as often as
/// the others.
pub(in crate::policy) fn draw_distinct(
    count: u32,
    from: &[ReplicaId],
    draw: &mut dyn Draw,
    into: &mut Vec<ReplicaId>,
) {
    let members = u32::try_from(from.len()).unwrap_or(u32::MAX);
    for newest in members.saturating_sub(count)..members {
        let candidate = from[below(draw, newest + 1) as usize];
        match into.iter().position(|&drawn| drawn == candidate) {
            Some(place) => into.insert(place, from[newest as usize]),
            None => into.push(candidate),
        }
    }
}
