//! Queries and their copies, as the engine keeps them while they are under way.
//!
//! A [`Query`] is the client's side: it is there until it is answered or given up. An [`Attempt`] is one copy of it on its
//! way: to a replica, inside it, and back. It outlives its query where a replica works on for nobody. Slots are used again;
//! a serial number tells what was meant from its successor.

use super::replicas::Served;
use crate::machine::Time;
use slab::Slab;
use slackwater_core::ReplicaId;
use slackwater_core::policy::Ticket;

/// The name of a query or an attempt that may be gone by the time somebody asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) slot: u32,
    pub(super) serial: u32,
}

/// What carries a serial number.
pub(super) trait Numbered {
    fn serial(&self) -> u32;
}

/// A query that its client waits for.
#[derive(Debug)]
pub(super) struct Query {
    serial: u32,
    pub(super) client: u32,
    pub(super) arrived_at: Time,
    pub(super) cost_ns: Time,
    /// Whether a failing replica fails it: uniform over all values, and fails below the replica's share.
    pub(super) luck: u64,
    pub(super) measured: bool,
    /// The copies that are out, by slot: the first and its hedge.
    pub(super) attempts: [Option<u32>; 2],
}

/// One copy of a query.
#[derive(Debug)]
pub(super) struct Attempt {
    serial: u32,
    pub(super) query: Key,
    /// The replica's number.
    pub(super) replica: u32,
    /// The replica's name at the choice; a hedge avoids it.
    pub(super) id: Option<ReplicaId>,
    /// There until the client is done with this copy; clairvoyants give none.
    pub(super) ticket: Option<Ticket>,
    pub(super) stage: Stage,
}

/// Where a copy is.
#[derive(Debug)]
pub(super) enum Stage {
    /// On its way to the replica.
    Coming,
    /// The same, but cancelled: the replica will drop it.
    Unwanted,
    /// At the replica.
    Served(Served),
    /// Its answer is on its way back.
    Leaving,
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

/// Things under way, by slot and serial.
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
    /// Puts in what `make` makes of its serial number.
    #[inline]
    pub(super) fn insert(&mut self, make: impl FnOnce(u32) -> T) -> Key {
        let serial = self.next_serial;
        self.next_serial = self.next_serial.wrapping_add(1);
        let slot = self.slots.insert(make(serial));
        Key {
            slot: slot_number(slot),
            serial,
        }
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

    /// What is in a slot, for those who hold the slot as long as they name it.
    #[inline]
    pub(super) fn at(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)
    }

    #[inline]
    pub(super) fn take(&mut self, slot: u32) -> Option<T> {
        self.slots.try_remove(slot as usize)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// Slots stay far below 2^32: each one stands for hundreds of bytes.
#[inline]
pub(super) fn slot_number(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}

impl Query {
    pub(super) const fn new(
        serial: u32,
        arrival: &super::arrivals::Arrival,
        arrived_at: Time,
        measured: bool,
    ) -> Self {
        Self {
            serial,
            client: arrival.client,
            arrived_at,
            cost_ns: arrival.cost_ns,
            luck: arrival.luck,
            measured,
            attempts: [None, None],
        }
    }
}

impl Attempt {
    pub(super) const fn new(
        serial: u32,
        query: Key,
        replica: u32,
        id: Option<ReplicaId>,
        ticket: Option<Ticket>,
    ) -> Self {
        Self {
            serial,
            query,
            replica,
            id,
            ticket,
            stage: Stage::Coming,
        }
    }
}
