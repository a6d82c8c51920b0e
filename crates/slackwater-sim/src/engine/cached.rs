//! Keys of queries as they are drawn, their hashes, and the caches of replicas.

use super::Engine;
use crate::random::{Purpose, Stream};
use crate::scenario::{self, Keys, nanoseconds};
use slackwater_core::Draw;
use slackwater_core::keys::{Identity, KeyHash};
use std::collections::HashMap;

/// The number of a key.
pub(super) type KeyNumber = u32;

/// Hashes of keys and names of replicas. Each seed has its own, so that a key's replicas differ
/// from run to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    seed: u64,
}

impl Names {
    /// Returns the names of a run; `None` if its queries have no keys.
    pub(super) fn new(keys: Option<&Keys>, seed: u64) -> Option<Self> {
        keys.map(|_| Self { seed })
    }

    fn key(self, number: KeyNumber) -> KeyHash {
        KeyHash::from_bits(self.draw(1, u64::from(number)))
    }

    fn replica(self, number: usize) -> Identity {
        Identity {
            name: self.draw(2, number as u64),
            part: 0,
        }
    }

    /// Returns a draw that only these numbers determine.
    fn draw(self, kind: u64, number: u64) -> u64 {
        Stream::new(self.seed, Purpose::Keys, kind << 32 | number).draw()
    }
}

impl Engine {
    /// Returns the hash of a query's key.
    #[inline]
    pub(super) fn key_hash(&self, number: Option<KeyNumber>) -> Option<KeyHash> {
        let names = self.names?;
        number.map(|number| names.key(number))
    }

    /// Returns the stable name of a replica, if queries have keys.
    pub(super) fn identity_of(&self, replica: usize) -> Option<Identity> {
        self.names.map(|names| names.replica(replica))
    }
}

/// Draws the key of each query.
#[derive(Debug)]
pub(super) struct KeyDraws {
    /// The sum of the shares of the keys up to and including each one.
    cumulated: Vec<f64>,
    hot_share: f64,
    stream: Stream,
}

impl KeyDraws {
    pub(super) fn new(keys: &Keys, seed: u64) -> Self {
        Self {
            cumulated: keys.cumulated(),
            hot_share: keys.hot_share,
            stream: Stream::new(seed, Purpose::Keys, 0),
        }
    }

    /// Draws a key. Each takes two draws, so that a hot key leaves the other queries' keys as they
    /// are.
    #[inline]
    pub(super) fn draw(&mut self) -> KeyNumber {
        let (hot, rank) = (self.stream.uniform(), self.stream.uniform());
        let last = self.cumulated.len();
        let key = if hot < self.hot_share {
            last
        } else {
            let key = self.cumulated.partition_point(|&sum| sum <= rank);
            key.min(last.saturating_sub(1))
        };
        KeyNumber::try_from(key).unwrap_or(KeyNumber::MAX)
    }
}

/// What a cache has for a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Found {
    /// The key is there.
    Hit,
    /// The key is missing.
    Missing {
        key: KeyNumber,
        /// The cost of what is missing.
        fill_ns: f64,
    },
}

impl Found {
    /// Returns the additional cost of the query, in nanoseconds.
    pub(super) const fn fill_ns(self) -> f64 {
        match self {
            Self::Hit => 0.0,
            Self::Missing { fill_ns, .. } => fill_ns,
        }
    }
}

/// The end of a list of slots.
const NONE: usize = usize::MAX;

/// A replica's cache: a bounded set of keys, of which the one used longest ago gives way.
#[derive(Debug)]
pub(super) struct Cache {
    entries: usize,
    miss_ns: f64,
    /// The slot of each key. Only looked up, never iterated: its order is not deterministic.
    slots: HashMap<KeyNumber, usize>,
    /// Keys in a list from the one used last to the one used first.
    list: Vec<Entry>,
    newest: usize,
    oldest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: KeyNumber,
    newer: usize,
    older: usize,
}

impl Cache {
    pub(super) fn new(cache: &scenario::Cache) -> Self {
        Self {
            entries: cache.entries,
            miss_ns: nanoseconds(cache.miss_cost),
            slots: HashMap::new(),
            list: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Returns whether the key is here. It does not count as used.
    pub(super) fn holds(&self, key: KeyNumber) -> bool {
        self.slots.contains_key(&key)
    }

    /// Looks a key up for a query. A key that is here becomes the one used last.
    #[inline]
    pub(super) fn look_up(&mut self, key: KeyNumber) -> Found {
        if self.hits(key) {
            Found::Hit
        } else {
            Found::Missing {
                key,
                fill_ns: self.miss_ns,
            }
        }
    }

    /// Returns whether the key is here, and makes it the one used last if it is.
    #[inline]
    fn hits(&mut self, key: KeyNumber) -> bool {
        let slot = self.slots.get(&key).copied();
        if let Some(slot) = slot {
            self.unlink(slot);
            self.link(slot);
        }
        slot.is_some()
    }

    /// Adds a key as the one used last. It takes the place of the one used longest ago if the cache
    /// is full.
    #[inline]
    pub(super) fn insert(&mut self, key: KeyNumber) {
        if self.hits(key) {
            return;
        }
        let slot = if self.list.len() < self.entries {
            self.list.push(Entry {
                key,
                newer: NONE,
                older: NONE,
            });
            self.list.len() - 1
        } else {
            let slot = self.oldest;
            self.unlink(slot);
            self.slots.remove(&self.list[slot].key);
            self.list[slot].key = key;
            slot
        };
        self.slots.insert(key, slot);
        self.link(slot);
    }

    /// Empties the cache.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.list.clear();
        self.newest = NONE;
        self.oldest = NONE;
    }

    /// Puts a slot that is in no list at the newest end.
    fn link(&mut self, slot: usize) {
        let older = self.newest;
        self.list[slot].newer = NONE;
        self.list[slot].older = older;
        match self.list.get_mut(older) {
            Some(entry) => entry.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: usize) {
        let Entry { newer, older, .. } = self.list[slot];
        match self.list.get_mut(newer) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match self.list.get_mut(older) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use std::collections::VecDeque;

    fn cache(entries: usize) -> Cache {
        Cache::new(&scenario::Cache {
            entries,
            miss_cost: Duration::from_millis(20),
        })
    }

    /// A list of keys, the newest first, is the same cache.
    #[test]
    fn cache_keeps_the_keys_used_last() {
        let mut stream = Stream::new(1, Purpose::Keys, 9);
        for entries in [1, 2, 7] {
            let mut cache = cache(entries);
            let mut model: VecDeque<u32> = VecDeque::new();
            for step in 0..3_000 {
                let key = stream.below(12);
                let place = model.iter().position(|&kept| kept == key);
                assert_eq!(cache.holds(key), place.is_some());
                let is_hit = cache.hits(key);
                assert_eq!(is_hit, place.is_some(), "step {step}");
                if let Some(place) = place {
                    model.remove(place);
                } else {
                    cache.insert(key);
                    model.truncate(entries - 1);
                }
                model.push_front(key);
            }
            cache.clear();
            assert!((0..12).all(|key| !cache.hits(key)), "it is empty");
            cache.insert(3);
            assert!(cache.hits(3));
        }
    }

    #[test]
    fn keys_have_their_shares() {
        let keys = Keys {
            count: 2,
            zipf: 1.0,
            hot_share: 0.25,
        };
        let mut draws = KeyDraws::new(&keys, 1);
        let mut seen = [0_i32; 3];
        for _ in 0..40_000 {
            seen[draws.draw() as usize] += 1;
        }
        // 2/3 and 1/3 of three quarters, and a quarter; the deviation is below 100.
        for (found, expected) in seen.into_iter().zip([20_000, 10_000, 10_000]) {
            assert!((found - expected).abs() < 500, "{seen:?}");
        }
    }

    #[test]
    fn hot_key_leaves_other_keys_as_they_are() {
        let keys = |hot_share| Keys {
            count: 1_000,
            zipf: 0.9,
            hot_share,
        };
        let mut plain = KeyDraws::new(&keys(0.0), 7);
        let mut hot = KeyDraws::new(&keys(0.1), 7);
        for _ in 0..1_000 {
            let (plain, hot) = (plain.draw(), hot.draw());
            assert!(plain < 1_000);
            assert!(hot == plain || hot == 1_000, "{hot}, not {plain}");
        }
    }
}
