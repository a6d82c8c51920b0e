//! The blocks of an inference engine's memory: those of sequences in progress, and a prefix cache
//! of what earlier sequences have left.
//!
//! A block holds keys and values of a fixed number of tokens. Its name is a hash over all tokens up
//! to its end, so equal names mean equal prefixes. Blocks that no sequence uses stay until their
//! memory is needed, and the least recently used go first.

use std::collections::HashMap;

/// The end of the list of unused blocks.
const NONE: usize = usize::MAX;

/// The memory of an engine, in blocks.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// The slot of each named block.
    named: HashMap<u64, usize>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// The ends of the list of unused blocks.
    oldest: usize,
    newest: usize,
    /// Named blocks that sequences use.
    used: usize,
    /// Blocks that sequences have reserved and not yet filled.
    reserved: usize,
    capacity: usize,
}

/// A named block.
#[derive(Clone, Copy, Debug)]
struct Slot {
    name: u64,
    /// Sequences that use it.
    users: u32,
    /// Its neighbours among unused blocks.
    older: usize,
    newer: usize,
}

impl Cache {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            named: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            used: 0,
            reserved: 0,
            capacity,
        }
    }

    /// Returns how many blocks at the beginning of the chain are here.
    pub(super) fn matched(&self, chain: &[u64]) -> usize {
        let present = chain
            .iter()
            .take_while(|name| self.named.contains_key(name));
        present.count()
    }

    /// Returns whether the block of that name is here.
    pub(super) fn has(&self, name: u64) -> bool {
        self.named.contains_key(&name)
    }

    /// Reserves memory for a sequence: it uses the blocks of `shared`, which are here, and needs
    /// `fresh` more. Returns `false`, and changes nothing, if sequences use too much.
    pub(super) fn reserve(&mut self, shared: &[u64], fresh: usize) -> bool {
        let idle = shared.iter().filter(|&&name| self.users(name) == Some(0));
        if self.used + idle.count() + self.reserved + fresh > self.capacity {
            return false;
        }
        for name in shared {
            self.begin_use(*name);
        }
        self.reserved += fresh;
        while self.named.len() + self.reserved > self.capacity {
            self.evict();
        }
        true
    }

    /// Gives reserved blocks their names, once they are filled. If another sequence has filled an
    /// equal block meanwhile, that one is used.
    pub(super) fn fill(&mut self, names: &[u64]) {
        for &name in names {
            self.reserved -= 1;
            self.begin_use(name);
        }
    }

    /// Ends a sequence that uses the blocks of `chain` and has `fresh` reserved ones. Its last
    /// block is the first to be evicted.
    pub(super) fn release(&mut self, chain: &[u64], fresh: usize) {
        self.reserved -= fresh;
        for name in chain.iter().rev() {
            let Some(&slot) = self.named.get(name) else {
                continue;
            };
            self.slots[slot].users -= 1;
            if self.slots[slot].users == 0 {
                self.used -= 1;
                self.append(slot);
            }
        }
    }

    /// Returns the share of memory that sequences use, from 0 to 1.
    pub(super) fn usage(&self) -> f64 {
        (self.used + self.reserved) as f64 / self.capacity.max(1) as f64
    }

    fn users(&self, name: u64) -> Option<u32> {
        let slot = self.named.get(&name)?;
        Some(self.slots[*slot].users)
    }

    /// Adds a user of a block, which may be new.
    fn begin_use(&mut self, name: u64) {
        if let Some(&slot) = self.named.get(&name) {
            if self.slots[slot].users == 0 {
                self.unlink(slot);
                self.used += 1;
            }
            self.slots[slot].users += 1;
            return;
        }
        let block = Slot {
            name,
            users: 1,
            older: NONE,
            newer: NONE,
        };
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(block);
        } else {
            self.slots[slot] = block;
        }
        self.named.insert(name, slot);
        self.used += 1;
    }

    /// Drops the unused block that has waited longest.
    fn evict(&mut self) {
        let slot = self.oldest;
        if slot == NONE {
            return;
        }
        self.unlink(slot);
        self.named.remove(&self.slots[slot].name);
        self.free.push(slot);
    }

    fn append(&mut self, slot: usize) {
        self.slots[slot].older = self.newest;
        self.slots[slot].newer = NONE;
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.slots[newest].newer = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: usize) {
        let Slot { older, newer, .. } = self.slots[slot];
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache of 4 blocks in which a sequence has left blocks 1 and 2.
    fn with_two() -> Cache {
        let mut cache = Cache::new(4);
        assert!(cache.reserve(&[], 2));
        cache.fill(&[1, 2]);
        cache.release(&[1, 2], 0);
        cache
    }

    #[test]
    fn only_the_beginning_of_a_chain_matches() {
        let cache = with_two();
        assert_eq!(cache.matched(&[1, 2, 3]), 2);
        assert_eq!(cache.matched(&[1, 3, 2]), 1);
        assert_eq!(cache.matched(&[3, 1, 2]), 0);
        assert!(cache.usage() < 1e-9, "unused blocks are free memory");
    }

    #[test]
    fn last_block_of_the_oldest_sequence_is_evicted_first() {
        let mut cache = with_two();
        assert!(cache.reserve(&[], 3));
        assert_eq!(cache.matched(&[1, 2]), 1, "one block had to go");
        cache.fill(&[5, 6, 7]);
        cache.release(&[5, 6, 7], 0);
        assert!(cache.reserve(&[], 1));
        assert_eq!(cache.matched(&[1]), 0, "block 1 is the oldest now");
        assert_eq!(cache.matched(&[5, 6, 7]), 3);
    }

    #[test]
    fn used_blocks_stay() {
        let mut cache = with_two();
        assert!(cache.reserve(&[1, 2], 2));
        assert!((cache.usage() - 1.0).abs() < 1e-9);
        assert!(!cache.reserve(&[], 1), "all four are in use");
        assert!(!cache.reserve(&[1, 2], 1));
        assert!(cache.reserve(&[1, 2], 0), "sharing needs no memory");
        cache.fill(&[3]);
        cache.release(&[1, 2, 3], 1);
        assert!(!cache.reserve(&[], 3), "the other sequence uses two");
        cache.release(&[1, 2], 0);
        assert!(cache.reserve(&[], 4));
    }

    #[test]
    fn equal_blocks_are_kept_once() {
        let mut cache = Cache::new(4);
        assert!(cache.reserve(&[], 2) && cache.reserve(&[], 2));
        cache.fill(&[1]);
        cache.fill(&[1]);
        assert!((cache.usage() - 0.75).abs() < 1e-9);
        cache.release(&[1], 1);
        assert_eq!(cache.matched(&[1]), 1, "the other sequence uses it");
        assert!((cache.usage() - 0.5).abs() < 1e-9);
    }
}
