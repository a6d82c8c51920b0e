//! The balancers: each has its policy, its own counts, and what it remembers of engines.

use super::engines::Scraped;
use crate::PolicyChoice;
use crate::policy::PolicyKind;
use crate::random::{Purpose, Stream};
use crate::scenario::{Prompts, Routing};
use slackwater_core::Instant;
use slackwater_core::health::build;
use slackwater_core::keys::{KeyConfig, keyed};
use slackwater_core::policy::{Event, Policy};
use std::collections::{BTreeMap, HashMap};

/// One balancer.
#[derive(Debug)]
pub(super) struct Balancer {
    pub(super) policy: Box<dyn Policy>,
    /// The policy's draws.
    pub(super) draw: Stream,
    /// The rule's draws.
    pub(super) chance: Stream,
    /// Its own requests in flight at each engine.
    pub(super) sent: Vec<u32>,
    /// The last scrape of each engine, and the work that was sent there since, in nanoseconds.
    pub(super) scraped: Vec<Scraped>,
    pub(super) sent_since_ns: Vec<f64>,
    /// The prefixes that it has sent to each engine.
    pub(super) remembered: Vec<Remembered>,
}

impl Balancer {
    /// Returns a balancer; `None` for a clairvoyant, which no balancer of conversations can be.
    pub(super) fn new(
        choice: &PolicyChoice,
        prompts: &Prompts,
        engines: usize,
        number: u64,
        seed: u64,
    ) -> Option<Self> {
        let PolicyKind::Shipped {
            entry,
            settings,
            health,
            ..
        } = &choice.kind
        else {
            return None;
        };
        let policy = match health {
            Some(config) => build(entry, settings, config),
            None => (entry.build)(settings),
        };
        let policy = match prompts.routing {
            Routing::Keyed { .. } => keyed(policy, &KeyConfig::default()),
            _ => policy,
        };
        Some(Self {
            policy,
            draw: Stream::new(seed, Purpose::Policy, number),
            chance: Stream::new(seed, Purpose::Clairvoyant, number),
            sent: vec![0; engines],
            scraped: vec![Scraped::default(); engines],
            sent_since_ns: vec![0.0; engines],
            remembered: (0..engines)
                .map(|_| Remembered::new(prompts.engine.blocks))
                .collect(),
        })
    }

    /// Passes an event to the policy.
    pub(super) fn handle(&mut self, now: Instant, event: Event<'_>) {
        self.policy.handle(now, event, &mut self.draw);
    }
}

/// The prefixes that one engine should have in its cache: the names of blocks, the least recently
/// used of which are forgotten.
#[derive(Debug)]
pub(super) struct Remembered {
    capacity: usize,
    stamps: HashMap<u64, u64>,
    by_stamp: BTreeMap<u64, u64>,
    next: u64,
}

impl Remembered {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            stamps: HashMap::new(),
            by_stamp: BTreeMap::new(),
            next: 0,
        }
    }

    /// Returns how many blocks at the beginning of the chain it has.
    pub(super) fn matched(&self, chain: &[u64]) -> usize {
        let known = chain
            .iter()
            .take_while(|name| self.stamps.contains_key(name));
        known.count()
    }

    /// Adds a chain.
    pub(super) fn add(&mut self, chain: &[u64]) {
        for &name in chain {
            self.next += 1;
            if let Some(old) = self.stamps.insert(name, self.next) {
                self.by_stamp.remove(&old);
            }
            self.by_stamp.insert(self.next, name);
        }
        while self.stamps.len() > self.capacity {
            let Some((_, name)) = self.by_stamp.pop_first() else {
                return;
            };
            self.stamps.remove(&name);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.stamps.clear();
        self.by_stamp.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_sent_blocks_are_forgotten() {
        let mut remembered = Remembered::new(3);
        remembered.add(&[1, 2]);
        remembered.add(&[3]);
        remembered.add(&[1, 4]);
        assert_eq!(remembered.matched(&[1, 4]), 2);
        assert_eq!(remembered.matched(&[1, 2]), 1, "2 was the oldest");
        assert_eq!(remembered.matched(&[3, 4]), 2);
        remembered.clear();
        assert_eq!(remembered.matched(&[1]), 0);
    }
}
