//! The latest report of each replica, in one array whose first rows are the newest: a choice
//! compares those, and looks at no others.

use crate::replica::{ReplicaId, ReplicaMap};
use crate::time::Instant;
use alloc::vec::Vec;

/// The latest report of a replica. `K` is what a rule knows of the replica by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<K> {
    pub(super) replica: ReplicaId,
    pub(super) received_at: Instant,
    pub(super) latency_ns: Option<u64>,
    /// Queries that other clients have in flight: the reported RIF minus what this client had; for
    /// an unprobed replica, as drawn from what others reported.
    pub(super) others: u32,
    pub(super) local: bool,
    pub(super) known: K,
}

impl<K> Row<K> {
    /// Fewest queries that other clients count with.
    pub(super) const fn others_min(&self) -> u32 {
        if self.local { 0 } else { self.others }
    }
}

/// The latest reports. The first `newest_max` are the newest, in no order; neither are the others.
#[derive(Debug)]
pub(super) struct Rows<K> {
    all: Vec<Row<K>>,
    /// Where the row of each replica is.
    places: ReplicaMap<usize>,
    newest_max: usize,
    /// None of the newest rows is older. It is checked before a search.
    newest_since: Instant,
}

impl<K: Copy> Rows<K> {
    pub(super) fn new(newest_max: usize) -> Self {
        Self {
            all: Vec::new(),
            places: ReplicaMap::default(),
            newest_max,
            newest_since: Instant::EPOCH,
        }
    }

    /// Reserves space for a report of this replica and of those with lower indexes, so that setting
    /// them later does not allocate.
    pub(super) fn reserve(&mut self, replica: ReplicaId) {
        self.places.reserve(replica);
        let replicas = replica.index() + 1;
        self.all.reserve(replicas.saturating_sub(self.all.len()));
    }

    /// The newest reports.
    pub(super) fn newest(&self) -> &[Row<K>] {
        &self.all[..self.all.len().min(self.newest_max)]
    }

    /// All reports, the newest ones first.
    pub(super) fn all(&self) -> &[Row<K>] {
        &self.all
    }

    pub(super) fn all_mut(&mut self) -> &mut [Row<K>] {
        &mut self.all
    }

    pub(super) fn find(&self, replica: ReplicaId) -> Option<&Row<K>> {
        self.all.get(*self.places.find(replica)?)
    }

    pub(super) fn find_mut(&mut self, replica: ReplicaId) -> Option<&mut Row<K>> {
        self.all.get_mut(*self.places.find(replica)?)
    }

    /// Makes this report the latest of its replica, and one of the newest. It is not older than any
    /// other. Returns whether it replaces one.
    #[inline]
    pub(super) fn insert(&mut self, row: Row<K>) -> bool {
        let found = self.places.find(row.replica).copied();
        let mut place = found.unwrap_or(self.all.len());
        if found.is_none() {
            self.all.push(row);
        }
        if place >= self.newest_max {
            let oldest = self.oldest_of_newest();
            self.move_row(oldest, place);
            place = oldest;
        }
        self.all[place] = row;
        if found != Some(place) {
            self.places.insert(row.replica, place);
        }
        found.is_some()
    }

    /// Copies a row to another place.
    #[inline]
    fn move_row(&mut self, from: usize, to: usize) {
        let row = self.all[from];
        self.all[to] = row;
        self.places.insert(row.replica, to);
    }

    fn oldest_of_newest(&self) -> usize {
        let mut oldest = (0, Instant::from_nanos(u64::MAX));
        for (place, row) in self.newest().iter().enumerate() {
            if row.received_at < oldest.1 {
                oldest = (place, row.received_at);
            }
        }
        oldest.0
    }

    pub(super) fn remove(&mut self, replica: ReplicaId) {
        let Some(mut place) = self.places.remove(replica) else {
            return;
        };
        self.newest_since = Instant::EPOCH;
        if place < self.newest_max && self.all.len() > self.newest_max {
            let others = self.all.iter().enumerate().skip(self.newest_max);
            if let Some((next, _)) = others.max_by_key(|(_, row)| row.received_at) {
                self.move_row(next, place);
                place = next;
            }
        }
        let last = self.all.len() - 1;
        if place < last {
            self.move_row(last, place);
        }
        self.all.pop();
    }

    /// Removes the reports that were received before `since`, if there is one among the newest.
    /// Returns how many.
    pub(super) fn expire(&mut self, since: Instant) -> usize {
        if since <= self.newest_since {
            return 0;
        }
        let received_at = self.newest().iter().map(|row| row.received_at);
        let oldest = received_at.min().unwrap_or(since);
        self.newest_since = oldest.max(since);
        if oldest >= since {
            return 0;
        }
        let is_old = |row: &Row<K>| row.received_at < since;
        let before = self.all.len();
        let (rows, places) = (&mut self.all, &mut self.places);
        rows.retain(|row| {
            if is_old(row) {
                places.remove(row.replica);
            }
            !is_old(row)
        });
        for (place, row) in rows.iter().enumerate() {
            places.insert(row.replica, place);
        }
        before - rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{SplitMix64, below};
    use crate::replica::ReplicaIds;

    const NEWEST_MAX: usize = 5;

    /// Compared with a list, oldest first, that is searched from end to end.
    #[test]
    fn first_rows_are_the_newest_and_each_replica_has_one() {
        let mut ids = ReplicaIds::new();
        let mut draw = SplitMix64::new(3);
        let replicas: Vec<_> = (0..12).filter_map(|_| ids.allocate()).collect();
        let mut rows = Rows::new(NEWEST_MAX);
        let mut list: Vec<(ReplicaId, Instant)> = Vec::new();
        let mut expired = 0;
        for time in 1..20_000 {
            let now = Instant::from_nanos(time);
            let replica = replicas[below(&mut draw, 12) as usize];
            match below(&mut draw, 12) {
                0..=1 => {
                    rows.remove(replica);
                    list.retain(|row| row.0 != replica);
                }
                2 => {
                    let since = Instant::from_nanos(time.saturating_sub(8));
                    let newest = list.len().saturating_sub(NEWEST_MAX);
                    let before = list.len();
                    // Others than the newest wait until one of the newest is old.
                    if list[newest..].iter().any(|row| row.1 < since) {
                        list.retain(|row| row.1 >= since);
                    }
                    assert_eq!(rows.expire(since), before - list.len());
                    expired += before - list.len();
                }
                _ => {
                    rows.insert(Row {
                        replica,
                        received_at: now,
                        latency_ns: None,
                        others: 0,
                        local: false,
                        known: (),
                    });
                    list.retain(|row| row.0 != replica);
                    list.push((replica, now));
                }
            }
            let seen = |rows: &[Row<()>]| {
                let mut seen: Vec<_> = rows.iter().map(|it| (it.replica, it.received_at)).collect();
                seen.sort_unstable_by_key(|row| row.1);
                seen
            };
            let newest = list.len().saturating_sub(NEWEST_MAX);
            assert_eq!(seen(rows.newest()), list[newest..], "{time}");
            assert_eq!(seen(rows.all()), list, "{time}");
            for &replica in &replicas {
                let listed = list.iter().find(|row| row.0 == replica);
                let found = rows.find(replica).map(|it| (it.replica, it.received_at));
                assert_eq!(found.as_ref(), listed);
                let found = rows.find_mut(replica).map(|it| it.replica);
                assert_eq!(found, listed.map(|row| row.0));
            }
        }
        assert!(expired > 500, "{expired}");
    }
}
