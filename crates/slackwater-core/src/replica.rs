//! Replicas: their names, sets of them that can be sampled, and tables keyed by them.
//!
//! A [`ReplicaId`] is a slot and a generation, allocated by [`ReplicaIds`]. It stays the same from
//! the time a replica joins until it leaves, and is never used again, so that a late event about a
//! replica that has left cannot be mistaken for one about its successor. Slots are dense, so sets
//! and tables are plain vectors: constant time at any fleet size, and an iteration order that
//! depends only on the history of calls.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

/// The name of one replica, stable for as long as it is known. Names are in the order of their
/// slots, and of one slot in the order of its generations.
///
/// It is one number, with the slot in the lower half and the generation in the upper half, so that
/// a copy and a comparison are one instruction each.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplicaId(u64);

impl ReplicaId {
    const fn new(slot: u32, generation: u32) -> Self {
        Self((generation as u64) << u32::BITS | slot as u64)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    const fn slot(self) -> u32 {
        self.0 as u32
    }

    const fn generation(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }

    /// A small number that no other replica of the fleet has at the same time, to index tables
    /// with. After the replica has left, its successor may have it.
    pub const fn index(self) -> usize {
        self.slot() as usize
    }

    /// The name as a number, for storage: the index in the lower half, the generation in the upper
    /// half.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The name that was stored as this number. A policy makes its tables as long as the largest
    /// index it sees.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl Ord for ReplicaId {
    fn cmp(&self, other: &Self) -> Ordering {
        let slot_first = |replica: &Self| replica.0.rotate_left(u32::BITS);
        slot_first(self).cmp(&slot_first(other))
    }
}

impl PartialOrd for ReplicaId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation() {
            0 => write!(f, "r{}", self.slot()),
            generation => write!(f, "r{}.{generation}", self.slot()),
        }
    }
}

impl fmt::Debug for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Allocates replica names, one allocator per fleet. Policies that serve the same fleet share its
/// names.
#[derive(Clone, Default)]
pub struct ReplicaIds {
    /// The generation that each slot is in, and whether it is taken.
    slots: Vec<(u32, bool)>,
    free: Vec<u32>,
}

impl fmt::Debug for ReplicaIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_use = self.slots.len() - self.free.len();
        f.debug_struct("ReplicaIds")
            .field("in_use", &in_use)
            .finish_non_exhaustive()
    }
}

impl ReplicaIds {
    /// The most replicas that a fleet can have at once.
    pub const MAX: usize = 1 << 20;

    /// Names for an empty fleet.
    pub const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// A name for a replica that joins; `None` when [`ReplicaIds::MAX`] are in use.
    pub fn allocate(&mut self) -> Option<ReplicaId> {
        if let Some(slot) = self.free.pop() {
            let (generation, taken) = self.slots.get_mut(slot as usize)?;
            *taken = true;
            return Some(ReplicaId::new(slot, *generation));
        }
        if self.slots.len() >= Self::MAX {
            return None;
        }
        let slot = u32::try_from(self.slots.len()).ok()?;
        self.slots.push((0, true));
        Some(ReplicaId::new(slot, 0))
    }

    /// Releases the name of a replica that left. Returns `false` if it was not in use. Every policy
    /// with this replica must remove it first, since its successor takes its slot.
    pub fn release(&mut self, replica: ReplicaId) -> bool {
        match self.slots.get_mut(replica.index()) {
            Some((generation, taken)) if *taken && *generation == replica.generation() => {
                *taken = false;
                *generation = generation.wrapping_add(1);
                self.free.push(replica.slot());
                true
            }
            _ => false,
        }
    }
}

/// A table keyed by replica.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaMap<T> {
    slots: Vec<Slot<T>>,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    /// The replica whose value it is, or [`VACANT`]. One comparison shows both whether there is a
    /// value and whether it is that of the replica in question.
    owner: ReplicaId,
    /// The default if there is none.
    value: T,
}

/// No replica: its slot is beyond [`ReplicaIds::MAX`].
const VACANT: ReplicaId = ReplicaId(u64::MAX);

impl<T: Default> Default for Slot<T> {
    fn default() -> Self {
        Self {
            owner: VACANT,
            value: T::default(),
        }
    }
}

impl<T> Default for ReplicaMap<T> {
    fn default() -> Self {
        Self { slots: Vec::new() }
    }
}

impl<T: Default> ReplicaMap<T> {
    /// Reserves space for a value of `replica`, so that setting it later does not allocate.
    pub(crate) fn reserve(&mut self, replica: ReplicaId) {
        if self.slots.len() <= replica.index() {
            self.grow(replica.index() + 1);
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        self.slots.resize_with(len, Slot::default);
    }

    /// Sets the value of `replica`. It replaces the value that the replica, or an earlier owner of
    /// its slot, had.
    pub(crate) fn insert(&mut self, replica: ReplicaId, value: T) {
        match self.slots.get_mut(replica.index()) {
            Some(slot) => {
                *slot = Slot {
                    owner: replica,
                    value,
                }
            }
            None => self.insert_beyond(replica, value),
        }
    }

    #[cold]
    fn insert_beyond(&mut self, replica: ReplicaId, value: T) {
        self.grow(replica.index());
        self.slots.push(Slot {
            owner: replica,
            value,
        });
    }

    pub(crate) fn remove(&mut self, replica: ReplicaId) -> Option<T> {
        let slot = self.slots.get_mut(replica.index())?;
        if slot.owner != replica {
            return None;
        }
        Some(core::mem::take(slot).value)
    }

    pub(crate) fn find(&self, replica: ReplicaId) -> Option<&T> {
        match self.slots.get(replica.index()) {
            Some(slot) if slot.owner == replica => Some(&slot.value),
            _ => None,
        }
    }

    pub(crate) fn find_mut(&mut self, replica: ReplicaId) -> Option<&mut T> {
        match self.slots.get_mut(replica.index()) {
            Some(slot) if slot.owner == replica => Some(&mut slot.value),
            _ => None,
        }
    }

    /// The values, in the order of the replicas' slots.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        let taken = self.slots.iter().filter(|slot| slot.owner != VACANT);
        taken.map(|slot| &slot.value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let taken = self.slots.iter_mut().filter(|slot| slot.owner != VACANT);
        taken.map(|slot| &mut slot.value)
    }
}

/// A set of replicas with constant-time insertion, removal and uniform sampling.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaSet {
    /// In order of insertion, until a removal moves the last one into the gap.
    members: Vec<ReplicaId>,
    positions: ReplicaMap<u32>,
}

impl ReplicaSet {
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn contains(&self, replica: ReplicaId) -> bool {
        self.positions.find(replica).is_some()
    }

    pub(crate) fn as_slice(&self) -> &[ReplicaId] {
        &self.members
    }

    /// Adds a replica. Returns `true` if it was not a member before.
    pub(crate) fn insert(&mut self, replica: ReplicaId) -> bool {
        if self.contains(replica) {
            return false;
        }
        let Ok(position) = u32::try_from(self.members.len()) else {
            return false;
        };
        self.positions.insert(replica, position);
        self.members.push(replica);
        true
    }

    /// Removes a replica. Returns `true` if it was a member.
    pub(crate) fn remove(&mut self, replica: ReplicaId) -> bool {
        let Some(position) = self.positions.remove(replica) else {
            return false;
        };
        self.members.swap_remove(position as usize);
        if let Some(&moved) = self.members.get(position as usize) {
            self.positions.insert(moved, position);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn replica_ids_are_never_reused() {
        let mut ids = ReplicaIds::new();
        let first = ids.allocate().expect("room");
        assert!(ids.release(first));
        assert!(!ids.release(first), "already taken back");
        let second = ids.allocate().expect("room");
        assert_ne!(first, second);
        assert!(
            !ids.release(first),
            "the old name does not release the new owner of its slot"
        );

        let mut map = ReplicaMap::default();
        map.insert(second, 'x');
        assert_eq!(map.find(first), None);
        assert_eq!(map.remove(first), None);
        assert_eq!(map.find(second), Some(&'x'));
    }

    #[test]
    fn replica_id_round_trips_through_bits() {
        let mut ids = ReplicaIds::new();
        ids.allocate().expect("room");
        let first = ids.allocate().expect("room");
        assert!(ids.release(first));
        let second = ids.allocate().expect("room");
        assert_eq!((first.to_bits(), second.to_bits()), (1, (1 << 32) | 1));
        for name in [first, second] {
            assert_eq!(ReplicaId::from_bits(name.to_bits()), name);
        }
        assert_eq!(second.to_string(), "r1.1");
    }

    #[test]
    fn replica_ids_are_in_the_order_of_their_slots() {
        let in_order = [(0, 0), (0, 7), (1, 0), (1, 1), (2, 0)];
        let mut names = in_order.map(|(slot, generation)| ReplicaId::new(slot, generation));
        names.sort_by_key(|name| name.to_bits());
        names.sort_unstable();
        assert_eq!(names.map(|it| (it.slot(), it.generation())), in_order);
    }

    #[test]
    fn replica_ids_are_limited() {
        let mut ids = ReplicaIds::new();
        let last = (0..ReplicaIds::MAX)
            .map(|_| ids.allocate())
            .last()
            .flatten()
            .expect("room");
        assert_eq!(ids.allocate(), None);
        assert!(ids.release(last));
        assert!(ids.allocate().is_some());
    }

    #[test]
    fn set_stays_consistent_after_removal_in_the_middle() {
        let mut ids = ReplicaIds::new();
        let mut set = ReplicaSet::default();
        let replicas: Vec<_> = (0..5).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            assert!(set.insert(replica));
            assert!(!set.insert(replica));
        }
        assert!(set.remove(replicas[1]));
        assert!(!set.remove(replicas[1]));
        assert_eq!(set.len(), 4);
        for index in [0, 2, 3, 4] {
            assert!(set.contains(replicas[index]));
            assert!(set.remove(replicas[index]));
        }
        assert_eq!(set.len(), 0);
    }
}
