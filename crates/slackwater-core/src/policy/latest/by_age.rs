//! A table keyed by replica that also keeps the order of insertion: the oldest value, and the
//! newest ones first, are found without looking at the others.

use crate::replica::ReplicaId;
use alloc::vec::Vec;

/// The values, linked in order of insertion.
#[derive(Clone, Debug)]
pub(super) struct ByAge<T> {
    /// By the replica's index.
    slots: Vec<Slot<T>>,
    oldest: Option<ReplicaId>,
    newest: Option<ReplicaId>,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    value: Option<(ReplicaId, T)>,
    /// The neighbours in that order; unused without a value.
    older: Option<ReplicaId>,
    newer: Option<ReplicaId>,
}

impl<T> Default for ByAge<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            oldest: None,
            newest: None,
        }
    }
}

impl<T> ByAge<T> {
    /// Reserves space for a value of `replica`, so that setting it later does not allocate.
    pub(super) fn reserve(&mut self, replica: ReplicaId) {
        let empty = || Slot {
            value: None,
            older: None,
            newer: None,
        };
        if self.slots.len() <= replica.index() {
            self.slots.resize_with(replica.index() + 1, empty);
        }
    }

    /// Sets the value of `replica` as the newest. It replaces the value that the replica, or an
    /// earlier owner of its slot, had.
    pub(super) fn insert(&mut self, replica: ReplicaId, value: T) {
        self.reserve(replica);
        self.unlink(replica.index());
        let older = self.newest.replace(replica);
        match older {
            Some(older) => self.slots[older.index()].newer = Some(replica),
            None => self.oldest = Some(replica),
        }
        self.slots[replica.index()] = Slot {
            value: Some((replica, value)),
            older,
            newer: None,
        };
    }

    pub(super) fn remove(&mut self, replica: ReplicaId) {
        if self.find(replica).is_some() {
            self.unlink(replica.index());
        }
    }

    /// Removes the value in the slot.
    fn unlink(&mut self, slot: usize) {
        let slot = &mut self.slots[slot];
        if slot.value.take().is_none() {
            return;
        }
        let (older, newer) = (slot.older, slot.newer);
        match older {
            Some(older) => self.slots[older.index()].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.slots[newer.index()].older = older,
            None => self.newest = older,
        }
    }

    pub(super) fn find(&self, replica: ReplicaId) -> Option<&T> {
        let (owner, value) = self.slots.get(replica.index())?.value.as_ref()?;
        (*owner == replica).then_some(value)
    }

    pub(super) fn find_mut(&mut self, replica: ReplicaId) -> Option<&mut T> {
        let (owner, value) = self.slots.get_mut(replica.index())?.value.as_mut()?;
        (*owner == replica).then_some(value)
    }

    /// The value that was inserted first.
    pub(super) fn oldest(&self) -> Option<&(ReplicaId, T)> {
        self.slots[self.oldest?.index()].value.as_ref()
    }

    /// All values, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &(ReplicaId, T)> {
        let slot = |of: ReplicaId| &self.slots[of.index()];
        let slots = core::iter::successors(self.newest.map(slot), move |of| of.older.map(slot));
        slots.filter_map(|slot| slot.value.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use crate::draw::below;
    use crate::replica::ReplicaIds;

    /// Compared with a list that is searched from end to end.
    #[test]
    fn table_keeps_arrival_order_with_each_replica_once() {
        let mut ids = ReplicaIds::new();
        let mut draw = SplitMix64::new(3);
        let mut replicas: Vec<_> = (0..12).filter_map(|_| ids.allocate()).collect();
        let (mut table, mut list) = (ByAge::default(), Vec::new());
        for value in 0..20_000_u32 {
            let place = below(&mut draw, 12) as usize;
            let replica = replicas[place];
            match below(&mut draw, 8) {
                0 => {
                    table.remove(replica);
                    list.retain(|&(other, _)| other != replica);
                }
                // It leaves without an event, and another replica gets its slot.
                1 => {
                    assert!(ids.release(replica));
                    let next = ids.allocate().expect("room");
                    assert_eq!(next.index(), replica.index());
                    replicas[place] = next;
                    table.insert(next, value);
                    list.retain(|&(other, _)| other != replica);
                    list.push((next, value));
                    table.remove(replica);
                    assert_eq!(table.find(replica), None, "the old name finds nothing");
                }
                2 => {
                    if let Some(found) = table.find_mut(replica) {
                        *found += 1;
                    }
                    let listed = list.iter_mut().find(|(other, _)| *other == replica);
                    if let Some((_, listed)) = listed {
                        *listed += 1;
                    }
                }
                _ => {
                    table.insert(replica, value);
                    list.retain(|&(other, _)| other != replica);
                    list.push((replica, value));
                }
            }
            assert!(table.newest_first().eq(list.iter().rev()), "{value}");
            assert_eq!(table.oldest(), list.first());
            for &replica in &replicas {
                let listed = list.iter().find(|&&(other, _)| other == replica);
                assert_eq!(table.find(replica), listed.map(|(_, value)| value));
            }
        }
    }

    #[test]
    fn empty_table_has_no_oldest_entry() {
        let replica = ReplicaIds::new().allocate().expect("room");
        let mut table = ByAge::default();
        assert_eq!((table.oldest(), table.find(replica)), (None, None));
        table.insert(replica, 1);
        assert_eq!(table.oldest(), Some(&(replica, 1)));
        table.remove(replica);
        assert_eq!((table.oldest(), table.newest_first().next()), (None, None));
    }
}
