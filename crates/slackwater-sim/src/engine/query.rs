//! Queries in progress and their copies.
//!
//! A [`Query`] is the client's side: it exists until it is answered or given up. An [`Attempt`] is
//! one copy of it on its way: to a replica, inside it, and back. It outlives its query if the
//! replica works on after the query was given up. Slots are reused. A serial number distinguishes
//! an item from its successor in the slot.

use super::arrivals::Arrival;
use super::cached::KeyNumber;
use super::classes::Class;
use super::replicas::Served;
use crate::machine::Time;
use slab::Slab;
use slackwater_core::LoadReport;
use slackwater_core::ReplicaId;
use slackwater_core::policy::{self, Ticket};
use slackwater_core::tail::{COPIES_MAX, TieName, Watch};

/// The most copies of a query.
const COPIES: usize = COPIES_MAX as usize;

/// A reference to something that may be gone when it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) slot: u32,
    serial: u32,
}

/// A query that its client waits for.
#[derive(Debug)]
pub(super) struct Query {
    serial: u32,
    pub(super) client: u32,
    pub(super) arrived_at: Time,
    pub(super) cost_ns: f64,
    luck: u64,
    wait_ns: u64,
    /// The kind of attempt that its first copy is.
    pub(super) attempt: policy::Attempt,
    /// The number of the replica that its first copy is pinned to.
    pub(super) pinned: Option<u32>,
    pub(super) measured: bool,
    /// Its class, if classes are known.
    pub(super) class: Option<Class>,
    /// The requests in flight that it counts as.
    pub(super) weight: u32,
    /// The key that it carries.
    pub(super) key_number: Option<KeyNumber>,
    /// When its client stops waiting.
    pub(super) due: Time,
    /// The slots of the copies in flight: the first copy, and those after it.
    pub(super) copies: [Option<u32>; COPIES],
    /// When the next copy is due; `None` where there are no second copies.
    pub(super) watch: Option<Watch>,
}

impl Key {
    /// Returns the name of a query's tied copies. No other query has it.
    pub(super) const fn tie_name(self) -> TieName {
        TieName((self.serial as u64) << u32::BITS | self.slot as u64)
    }
}

impl Query {
    pub(super) const fn new(
        serial: u32,
        arrival: Arrival,
        arrived_at: Time,
        due: Time,
        measured: bool,
    ) -> Self {
        Self {
            serial,
            client: arrival.client,
            arrived_at,
            cost_ns: arrival.cost_ns,
            luck: arrival.luck,
            wait_ns: arrival.wait_ns,
            attempt: arrival.attempt,
            pinned: arrival.pinned,
            measured,
            class: arrival.class,
            weight: arrival.weight,
            key_number: arrival.key_number,
            due,
            copies: [None; COPIES],
            watch: None,
        }
    }

    /// Returns whether a copy is in flight. Before that, the next copy is the first.
    #[inline]
    pub(super) fn is_out(&self) -> bool {
        self.copies != [None; COPIES]
    }

    /// Adds a copy in flight: the first, or one after it.
    pub(super) fn sent(&mut self, slot: u32) {
        let place = usize::from(self.is_out());
        let mut places = self.copies[place..].iter_mut();
        if let Some(free) = places.find(|copy| copy.is_none()) {
            *free = Some(slot);
        }
    }

    /// Removes a copy that has ended. Returns whether it was the first.
    #[inline]
    pub(super) fn over(&mut self, slot: u32) -> bool {
        let place = self.copies.iter().position(|copy| *copy == Some(slot));
        if let Some(place) = place {
            self.copies[place] = None;
        }
        place == Some(0)
    }
}

/// One copy of a query.
#[derive(Debug)]
pub(super) struct Attempt {
    serial: u32,
    pub(super) query: Key,
    /// The number of the query's client.
    pub(super) client: u32,
    /// The replica's number.
    pub(super) replica: u32,
    pub(super) work_ns: f64,
    /// A uniform draw. A replica that fails a share of its queries fails those whose draw is below
    /// that share of all draws.
    pub(super) luck: u64,
    /// How long it waits without the CPU before its work.
    pub(super) wait_ns: u64,
    /// When the query's client stops waiting.
    pub(super) due: Time,
    /// The requests in flight that it counts as.
    pub(super) weight: u32,
    /// The key that its query carries.
    pub(super) key_number: Option<KeyNumber>,
    /// Whether it is a further copy, which a replica may drop.
    pub(super) is_copy: bool,
    /// Present until the client is done with this copy. Clairvoyants give no ticket.
    pub(super) ticket: Option<Ticket>,
    pub(super) stage: Stage,
    /// The report that its answer carries, if it carries one.
    pub(super) carried: Option<Box<LoadReport>>,
    /// The replica of the other tied copy, if there is one.
    pub(super) tied_replica: Option<u32>,
}

/// Where a copy is.
#[derive(Debug)]
pub(super) enum Stage {
    /// On its way to the replica.
    Coming,
    /// On its way to the replica, but cancelled: the replica will drop it.
    Unwanted,
    /// At the replica.
    Served(Served),
    /// Its outcome is on its way back.
    Leaving,
}

impl Attempt {
    pub(super) fn new(
        serial: u32,
        key: Key,
        query: &Query,
        replica: u32,
        work_ns: f64,
        ticket: Option<Ticket>,
    ) -> Self {
        Self {
            serial,
            query: key,
            client: query.client,
            replica,
            work_ns,
            luck: query.luck,
            wait_ns: query.wait_ns,
            due: query.due,
            weight: query.weight,
            key_number: query.key_number,
            is_copy: query.is_out(),
            ticket,
            stage: Stage::Coming,
            carried: None,
            tied_replica: None,
        }
    }

    pub(super) const fn key(&self, slot: u32) -> Key {
        Key {
            slot,
            serial: self.serial,
        }
    }
}

/// An item with a serial number.
pub(super) trait Numbered {
    fn serial(&self) -> u32;
}

impl Numbered for Query {
    fn serial(&self) -> u32 {
        self.serial
    }
}

impl Numbered for Attempt {
    fn serial(&self) -> u32 {
        self.serial
    }
}

/// Items in progress, by slot and serial.
#[derive(Debug)]
pub(super) struct Table<T> {
    slots: Slab<T>,
    next_serial: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            slots: Slab::new(),
            next_serial: 0,
        }
    }
}

impl<T: Numbered> Table<T> {
    /// Inserts the item that `make` makes from its serial number.
    #[inline]
    pub(super) fn insert(&mut self, make: impl FnOnce(u32) -> T) -> Key {
        let serial = self.next_serial;
        self.next_serial = self.next_serial.wrapping_add(1);
        let slot = slot_number(self.slots.insert(make(serial)));
        Key { slot, serial }
    }

    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<&T> {
        self.slots
            .get(key.slot as usize)
            .filter(|found| found.serial() == key.serial)
    }

    #[inline]
    pub(super) fn find_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slots
            .get_mut(key.slot as usize)
            .filter(|found| found.serial() == key.serial)
    }

    /// Returns the item in a slot, for callers that know that the slot is still theirs.
    #[inline]
    pub(super) fn at(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)
    }

    /// Removes the item in a slot, for callers that know that the slot is still theirs.
    #[inline]
    pub(super) fn take(&mut self, slot: u32) -> Option<T> {
        self.slots.try_remove(slot as usize)
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        self.find(key)?;
        self.take(key.slot)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let slots = self.slots.iter_mut();
        slots.map(|(slot, thing)| (slot_number(slot), thing))
    }
}

/// Returns the query for a policy: for a first copy, or for a further one that must go to another
/// replica.
pub(super) fn asked<'a>(
    first: policy::Query<'static>,
    avoid: &'a [ReplicaId],
) -> policy::Query<'a> {
    if avoid.is_empty() {
        first
    } else {
        policy::Query {
            key: first.key,
            ..policy::Query::hedge(avoid)
        }
    }
}

/// Slots, clients and replicas are far fewer than 2^32.
#[inline]
pub(super) fn slot_number(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}
