//! Synchronous rounds that wait for answers. `[S1]`
//!
//! A round stays in a slot until the query that started it takes it out. Probes name their round by
//! slot and serial, so an answer that arrives after the round's end finds none and changes nothing.

use core::task::Waker;
use slackwater_core::policy::ProbeRound;

/// The most queries that may wait for their probes at once. One more is picked at once, without
/// answers.
pub(super) const ROUNDS_MAX: usize = 4096;

/// The id of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RoundId {
    slot: u32,
    serial: u32,
}

/// A round under way.
#[derive(Debug)]
pub(super) struct ActiveRound {
    pub(super) round: ProbeRound,
    /// The query that waits for it.
    pub(super) waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct Slot {
    serial: u32,
    active: Option<ActiveRound>,
}

/// Every round under way.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Rounds {
    /// Stores a round. Returns it as the error when [`ROUNDS_MAX`] are under way.
    #[expect(
        clippy::result_large_err,
        reason = "the round itself comes back, on the stack"
    )]
    pub(super) fn begin(&mut self, round: ProbeRound) -> Result<RoundId, ProbeRound> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < ROUNDS_MAX => {
                self.slots.push(Slot::default());
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
            None => return Err(round),
        };
        let Some(place) = self.slots.get_mut(slot as usize) else {
            return Err(round);
        };
        place.active = Some(ActiveRound { round, waker: None });
        Ok(RoundId {
            slot,
            serial: place.serial,
        })
    }

    /// The round, while it is under way.
    pub(super) fn find_mut(&mut self, id: RoundId) -> Option<&mut ActiveRound> {
        self.slots
            .get_mut(id.slot as usize)
            .filter(|place| place.serial == id.serial)?
            .active
            .as_mut()
    }

    /// Removes the round. Its id is no longer valid from now on.
    pub(super) fn end(&mut self, id: RoundId) -> Option<ActiveRound> {
        let place = self
            .slots
            .get_mut(id.slot as usize)
            .filter(|place| place.serial == id.serial)?;
        let active = place.active.take()?;
        place.serial = place.serial.wrapping_add(1);
        self.free.push(id.slot);
        Some(active)
    }
}
