//! The servers of keys that had queries lately, so that a hot key is not compared with every
//! server each time.

use super::order::{First, Order};
use alloc::vec::Vec;

/// How many keys are remembered: a power of two.
const KEYS: usize = 1 << 10;

/// A key, and the version of the order that its servers are of.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: u64,
    version: Option<u32>,
    len: u8,
}

/// The first servers of some keys. Each key has one place, which the newest of those that share it
/// takes.
#[derive(Debug)]
pub(super) struct Recent {
    slots: Vec<Slot>,
    /// The servers of each slot, at most `width`.
    servers: Vec<u32>,
    width: usize,
}

impl Recent {
    /// No keys. Each will have at most this many servers.
    pub(super) fn new(width: usize) -> Self {
        Self {
            slots: alloc::vec![Slot::default(); KEYS],
            servers: alloc::vec![0; KEYS * width],
            width,
        }
    }

    /// The first servers for a key: at least `count`, if a key has as many.
    pub(super) fn first(&mut self, key: u64, count: usize, order: &Order) -> First {
        let count = count.min(self.width);
        #[expect(clippy::cast_possible_truncation, reason = "the lower bits")]
        let place = key as usize % KEYS;
        let servers = place * self.width..(place + 1) * self.width;
        let (Some(slot), Some(kept)) = (self.slots.get_mut(place), self.servers.get_mut(servers))
        else {
            return order.first(key, count);
        };
        let is_known = slot.key == key && slot.version == Some(order.version());
        let len = usize::from(slot.len);
        if is_known && len >= count.min(order.servers()) {
            return First::of(&kept[..len]);
        }
        let first = order.first(key, count);
        let servers = first.as_slice();
        for (kept, &server) in kept.iter_mut().zip(servers) {
            *kept = server;
        }
        *slot = Slot {
            key,
            version: Some(order.version()),
            len: u8::try_from(servers.len()).unwrap_or(0),
        };
        first
    }
}
