//! A cache of keys that evicts the least recently used.

use std::collections::{BTreeMap, HashMap};

/// The keys, each with the time of its last use.
#[derive(Debug)]
pub(crate) struct Cache {
    capacity: usize,
    /// Counts uses; a later use has a higher number.
    uses: u64,
    last_use: HashMap<Vec<u8>, u64>,
    by_use: BTreeMap<u64, Vec<u8>>,
}

impl Cache {
    /// An empty cache for at least one key.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            uses: 0,
            last_use: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// Whether the key is there; if so, this is its last use.
    pub(crate) fn touch(&mut self, key: &[u8]) -> bool {
        let Some(last_use) = self.last_use.get_mut(key) else {
            return false;
        };
        self.uses += 1;
        if let Some(key) = self.by_use.remove(last_use) {
            self.by_use.insert(self.uses, key);
        }
        *last_use = self.uses;
        true
    }

    /// Stores the key.
    pub(crate) fn insert(&mut self, key: &[u8]) {
        if self.touch(key) {
            return;
        }
        if self.last_use.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.last_use.remove(&oldest);
        }
        self.uses += 1;
        self.last_use.insert(key.to_vec(), self.uses);
        self.by_use.insert(self.uses, key.to_vec());
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.last_use.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_key_is_evicted() {
        let mut cache = Cache::new(2);
        assert!(!cache.touch(b"a"));
        cache.insert(b"a");
        cache.insert(b"b");
        assert!(cache.touch(b"a"));
        cache.insert(b"c");
        assert!(!cache.touch(b"b"));
        assert!(cache.touch(b"a") && cache.touch(b"c"));
        cache.insert(b"a");
        cache.insert(b"d");
        assert!(!cache.touch(b"c"));
        assert_eq!(cache.len(), 2);
    }
}
