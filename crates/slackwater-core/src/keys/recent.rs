//! The servers of keys that had queries lately, so that a hot key is not compared with every
//! part each time.

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
    /// The servers of each slot, as many as `width`.
    servers: Vec<u32>,
    width: usize,
}

impl Recent {
    /// No keys. Each will have this many servers.
    pub(super) fn new(width: usize) -> Self {
        Self {
            slots: alloc::vec![Slot::default(); KEYS],
            servers: alloc::vec![0; KEYS * width],
            width,
        }
    }

    /// The first servers for a key.
    pub(super) fn first(&mut self, key: u64, order: &Order) -> First {
        #[expect(clippy::cast_possible_truncation, reason = "the lower bits")]
        let place = key as usize % KEYS;
        let servers = place * self.width..(place + 1) * self.width;
        let (Some(slot), Some(kept)) = (self.slots.get_mut(place), self.servers.get_mut(servers))
        else {
            return order.first(key, self.width);
        };
        if slot.key != key || slot.version != Some(order.version()) {
            let first = order.first(key, self.width);
            let servers = first.as_slice();
            kept[..servers.len()].copy_from_slice(servers);
            *slot = Slot {
                key,
                version: Some(order.version()),
                len: u8::try_from(servers.len()).unwrap_or(0),
            };
            return first;
        }
        First::of(&kept[..kept.len().min(slot.len.into())])
    }
}
