//! Who reported last: a rule that compares a few of the newest reports finds them without a look at all the others.

use crate::replica::ReplicaId;
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// So many are remembered for each report that is compared: some of them are of replicas that have reported again since, or that a
/// query may not go to.
const REMEMBERED: usize = 4;

/// The reports that came in last.
#[derive(Debug)]
pub(super) struct Newest {
    /// So many are looked for; 0 where all reports are compared.
    compared: usize,
    /// The newest last. At most [`REMEMBERED`] times as many.
    arrived: VecDeque<(Instant, ReplicaId)>,
}

impl Newest {
    /// For a rule that compares so many; `usize::MAX` is all.
    pub(super) fn new(compared: usize) -> Self {
        let compared = if compared == usize::MAX { 0 } else { compared };
        Self {
            compared,
            arrived: VecDeque::with_capacity(compared * REMEMBERED),
        }
    }

    /// The most places that [`find`](Self::find) finds.
    pub(super) fn capacity(&self) -> usize {
        self.compared * REMEMBERED
    }

    /// A report came in. Time does not step back.
    pub(super) fn record(&mut self, now: Instant, replica: ReplicaId) {
        if self.compared == 0 {
            return;
        }
        if self.arrived.len() == self.capacity() {
            self.arrived.pop_front();
        }
        self.arrived.push_back((now, replica));
    }

    /// Since when reports came that are among the newest, as many as are compared and all that came with the last of them; their
    /// places, in order, are put into `places`. `place` says which one a replica has whose report counts. `None` if not as many
    /// are remembered.
    pub(super) fn find(
        &self,
        place: impl Fn(ReplicaId) -> Option<u32>,
        places: &mut Vec<u32>,
    ) -> Option<Instant> {
        places.clear();
        let mut since = None;
        for &(at, replica) in self.arrived.iter().rev() {
            if since.is_some_and(|since| at < since) {
                places.sort_unstable();
                return since;
            }
            // What it reported before its latest one is met after that.
            if let Some(place) = place(replica)
                && !places.contains(&place)
            {
                places.push(place);
                if places.len() == self.compared {
                    since = Some(at);
                }
            }
        }
        places.clear();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;
    use crate::draw::below;
    use crate::replica::{ReplicaIds, ReplicaMap};

    /// The same by a look at all: the newest so many of those that may be chosen, and all that came with the last of them.
    fn by_all(compared: usize, latest: &[Option<Instant>]) -> Option<(Instant, Vec<u32>)> {
        let mut times: Vec<_> = latest.iter().flatten().copied().collect();
        times.sort_unstable();
        let since = *times.get(times.len().checked_sub(compared)?)?;
        let places = (0..).zip(latest);
        let places = places.filter(|(_, at)| at.is_some_and(|at| at >= since));
        Some((since, places.map(|(place, _)| place).collect()))
    }

    #[test]
    fn it_finds_what_a_look_at_all_finds_or_says_that_it_cannot() {
        let mut ids = ReplicaIds::new();
        let mut draw = SplitMix64::new(3);
        let (mut found, mut unknown) = (0, 0);
        for round in 0..200_u32 {
            let replicas: Vec<_> = (0..4 + round % 30).filter_map(|_| ids.allocate()).collect();
            let fleet = u32::try_from(replicas.len()).expect("few");
            let mut newest = Newest::new(4);
            let mut latest: ReplicaMap<Instant> = ReplicaMap::default();
            let (mut now, mut places) = (Instant::EPOCH, Vec::new());
            for _ in 0..200 {
                now = now.plus_ns(below(&mut draw, 3).into());
                let replica = replicas[below(&mut draw, fleet) as usize];
                latest.insert(replica, now);
                newest.record(now, replica);
                assert!(newest.arrived.len() <= newest.capacity());
                if below(&mut draw, 8) == 0 {
                    latest.remove(replicas[below(&mut draw, fleet) as usize]);
                }
                // It may not go there.
                let avoided = replicas[below(&mut draw, fleet) as usize];
                let allowed = |replica: ReplicaId| {
                    let at = latest.find(replica).copied();
                    at.filter(|_| replica != avoided)
                };
                let place = |replica| {
                    allowed(replica)?;
                    let place = replicas.iter().position(|&other| other == replica)?;
                    u32::try_from(place).ok()
                };
                let all: Vec<_> = replicas.iter().map(|&replica| allowed(replica)).collect();
                if let Some(since) = newest.find(place, &mut places) {
                    assert_eq!(Some((since, places.clone())), by_all(4, &all));
                    found += 1;
                } else {
                    assert!(places.is_empty());
                    unknown += 1;
                }
            }
        }
        assert!(found > 30_000 && unknown > 1_000, "{found}, {unknown}");
    }

    #[test]
    fn where_all_are_compared_nothing_is_remembered() {
        let mut newest = Newest::new(usize::MAX);
        let replica = ReplicaIds::new().allocate().expect("room");
        newest.record(Instant::EPOCH, replica);
        assert_eq!((newest.capacity(), newest.arrived.len()), (0, 0));
        assert_eq!(newest.find(|_| Some(0), &mut Vec::new()), None);
    }
}
