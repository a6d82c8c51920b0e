//! The latest report of each replica, in one array whose first rows are the newest: a choice
//! compares those, and looks at no others.

use super::order::{ORDERED_MAX, Order};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::time::Instant;
use alloc::vec::Vec;
use core::num::NonZeroU64;

/// The latest report of a replica. `K` is what a rule knows of the replica by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<K> {
    pub(super) replica: ReplicaId,
    pub(super) received_at: Instant,
    pub(super) latency_ns: Option<NonZeroU64>,
    /// Queries that other clients have in flight: the reported RIF minus what this client had. For
    /// an unprobed replica it is an estimate.
    pub(super) others: u32,
    /// Queries that this client had in flight then.
    pub(super) own: u32,
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
    /// The newest rows by age, and of equal age by place. Unused if they are more than
    /// [`ORDERED_MAX`]: all are the newest then.
    order: Order,
    /// None of the newest rows is older. It is checked before a search.
    newest_since: Instant,
}

impl<K: Copy + Default> Rows<K> {
    /// No reports. The newest are at most `newest_max`, or all if that is more than
    /// [`ORDERED_MAX`].
    pub(super) fn new(newest_max: usize) -> Self {
        let newest_max = if newest_max > ORDERED_MAX {
            usize::MAX
        } else {
            newest_max
        };
        Self {
            all: Vec::new(),
            places: ReplicaMap::default(),
            newest_max,
            order: Order::default(),
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
        let mut place = found.unwrap_or_else(|| self.add(row.replica));
        if place >= self.newest_max {
            let oldest = self.order.oldest(self.newest_max);
            self.move_row(oldest, place);
            self.places.insert(row.replica, oldest);
            place = oldest;
        } else if self.keeps_order() {
            self.order.take(place);
        }
        self.all[place] = row;
        if self.keeps_order() {
            self.put_in_order(place, self.newest().len() - 1);
        }
        found.is_some()
    }

    /// Adds a row for a replica, for its first report. Returns its place.
    #[cold]
    fn add(&mut self, replica: ReplicaId) -> usize {
        let place = self.all.len();
        self.all.push(Row {
            replica,
            received_at: Instant::EPOCH,
            latency_ns: None,
            others: 0,
            own: 0,
            local: false,
            known: K::default(),
        });
        self.places.insert(replica, place);
        if self.keeps_order() && place < self.newest_max {
            self.put_in_order(place, place);
        }
        place
    }

    /// Copies a row to another place.
    #[inline]
    fn move_row(&mut self, from: usize, to: usize) {
        let row = self.all[from];
        self.all[to] = row;
        self.places.insert(row.replica, to);
    }

    const fn keeps_order(&self) -> bool {
        self.newest_max <= ORDERED_MAX
    }

    /// Puts one of the newest rows in order, among the `len` that are.
    #[inline]
    fn put_in_order(&mut self, place: usize, len: usize) {
        let key = |place: usize| (self.all[place].received_at, place);
        let this = key(place);
        self.order.add(place, len, |other| key(other) > this);
    }

    /// Puts the newest rows in order after they have moved.
    fn put_all_in_order(&mut self) {
        if self.keeps_order() {
            for place in 0..self.newest().len() {
                self.put_in_order(place, place);
            }
        }
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
        self.put_all_in_order();
    }

    /// Removes the reports that were received before `since`, if there is one among the newest.
    /// Returns how many.
    #[inline]
    pub(super) fn expire(&mut self, since: Instant) -> usize {
        if since <= self.newest_since {
            0
        } else {
            self.search_expired(since)
        }
    }

    #[cold]
    fn search_expired(&mut self, since: Instant) -> usize {
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
        let expired = before - rows.len();
        self.put_all_in_order();
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{SplitMix64, below};
    use crate::replica::ReplicaIds;
    use core::cmp::Reverse;

    const NEWEST_MAX: usize = 5;

    fn row(replica: ReplicaId, received_at: Instant) -> Row<()> {
        Row {
            replica,
            received_at,
            latency_ns: None,
            others: 0,
            own: 0,
            local: false,
            known: (),
        }
    }

    /// Whatever happens to the rows, and where several came at once.
    #[test]
    fn kept_order_of_the_newest_rows_is_the_order_of_their_ages() {
        let mut ids = ReplicaIds::new();
        let mut draw = SplitMix64::new(4);
        let replicas: Vec<_> = (0..40).filter_map(|_| ids.allocate()).collect();
        for newest_max in [1, NEWEST_MAX, ORDERED_MAX] {
            let mut rows = Rows::new(newest_max);
            for step in 0..5_000_u64 {
                let now = Instant::from_nanos(step / 4);
                let replica = replicas[below(&mut draw, 40) as usize];
                match below(&mut draw, 40) {
                    0..=4 => rows.remove(replica),
                    5 => _ = rows.expire(Instant::from_nanos((step / 4).saturating_sub(20))),
                    _ => _ = rows.insert(row(replica, now)),
                }
                let mut sorted: Vec<_> = (0..rows.newest().len()).collect();
                sorted.sort_unstable_by_key(|&place| Reverse((rows.all[place].received_at, place)));
                assert_eq!(
                    rows.order.places(sorted.len()).collect::<Vec<_>>(),
                    sorted,
                    "{step}"
                );
            }
        }
    }

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
                    rows.insert(row(replica, now));
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
