//! Keys in a scenario: the key of a query, the names of replicas, and the settings.
//!
//! It has its own draws, so that a scenario without keys is the same as before.

use crate::canonical::fnv1a;
use crate::chance::Chance;
use crate::line::Object;
use crate::settings::put_field;
use core::time::Duration;
use slackwater_core::Quantile;
use slackwater_core::ReplicaId;
use slackwater_core::keys::{Identity, KeyConfig, KeyHash, KeyHasher, KeySettings};
use slackwater_core::policy::{Section, Settings};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

/// The keys of a scenario's queries, and the names of its replicas.
#[derive(Debug)]
pub(crate) struct Keys {
    chance: Chance,
    hashes: Vec<KeyHash>,
    /// The sum of the weights of the keys up to each one: by Zipf, the n-th has 1/n.
    sums: Vec<u64>,
    /// How many queries in a thousand have a key.
    keyed: u32,
    /// How many of those have the first key, besides its own weight.
    hot: u32,
    /// The most parts of a server.
    parts_max: u32,
    /// How many replicas in a thousand have no name when they join.
    unnamed: u32,
    /// How many changes of the fleet in a thousand come with a change of names.
    changes: u32,
    servers: u64,
    names: BTreeMap<ReplicaId, Identity>,
}

/// A change of names, or of all parts of a server.
#[derive(Debug)]
pub(crate) enum Change {
    Name(ReplicaId, Identity),
    Leave(Vec<ReplicaId>),
    Offer(Vec<ReplicaId>, bool),
}

impl Keys {
    /// The keys of the scenario with this name.
    pub(crate) fn of(scenario: &str) -> Self {
        let mut chance = Chance::new(fnv1a(scenario) ^ fnv1a("keys"));
        let count = chance.one_of(&[1_u64, 2, 5, 12, 40, 200]);
        let public = KeyHasher::default();
        let mut hashes: Vec<KeyHash> = (0..count)
            .map(|number| public.hash(format!("key {number}").as_bytes()))
            .collect();
        // The ends of the range, which no hasher is likely to return.
        if chance.in_1000(150) {
            hashes.extend([0, 1, u64::MAX].map(KeyHash::from_bits));
        }
        let weights = (1..=hashes.len() as u64).map(|rank| 1_000_000 / rank);
        let sums = weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self {
            sums: sums.collect(),
            hashes,
            keyed: chance.one_of(&[1_000, 1_000, 950, 500]),
            hot: chance.one_of(&[0, 0, 100, 500]),
            parts_max: chance.one_of(&[1, 1, 2, 4]),
            unnamed: chance.one_of(&[0, 0, 0, 200, 1_000]),
            changes: chance.one_of(&[0, 200, 700]),
            servers: 0,
            names: BTreeMap::new(),
            chance,
        }
    }

    /// Settings: each is the default in half of the scenarios or more.
    pub(crate) fn settings(&mut self) -> KeyConfig {
        let c = &mut self.chance;
        let factors = [1_250_000, 1_250_000, 1_250_000, 1_000_000, 0, 2_000_001];
        let mut it = KeySettings {
            balance_factor_millionths: c.one_of(&factors),
            set: c.one_of(&[4, 4, 4, 1, 2, 3, 8, 16]),
            partitions: c.one_of(&[0, 0, 1, 4, 32, 1_000, 16_384]),
            hint_homes: c.one_of(&[2, 2, 2, 0, 1, 3, 8]),
            ..KeySettings::default()
        };
        if it.partitions > 0 && c.in_1000(800) {
            it.replicate_max = c.one_of(&[2, 3, 8, 16]);
            let above = c.one_of(&[500_000, 500_000, 1, 100_000, 1_000_000]);
            it.replicate_above = Quantile::from_millionths(above).unwrap_or(it.replicate_above);
            let times = [MS, 20 * MS, 200 * MS, 1_000 * MS, 10_000 * MS];
            it.replicate_time = Duration::from_nanos(c.one_of(&times));
        }
        it.validate().unwrap_or_default()
    }

    /// The key of a query, if it has one.
    pub(crate) fn key(&mut self) -> Option<KeyHash> {
        if !self.chance.in_1000(self.keyed) {
            return None;
        }
        if self.chance.in_1000(self.hot) {
            return self.hashes.first().copied();
        }
        let all = self.sums.last().copied().unwrap_or(0);
        let drawn = self.chance.wide(all);
        let place = self.sums.partition_point(|&sum| sum <= drawn);
        self.hashes.get(place).copied()
    }

    /// The parts of a server that joins: their names, if they have one.
    pub(crate) fn server(&mut self) -> Vec<Option<Identity>> {
        let parts = self.chance.within(1, self.parts_max);
        // Sometimes it is one that was there before, or still is.
        let server = if self.servers > 0 && self.chance.in_1000(250) {
            self.chance.wide(self.servers)
        } else {
            self.servers += 1;
            self.servers - 1
        };
        let (subnet, host) = (server / 200, server % 200 + 1);
        let name = format!("10.0.{subnet}.{host}:8000");
        (0..parts)
            .map(|part| {
                let is_named = !self.chance.in_1000(self.unnamed);
                is_named.then(|| Identity::new(name.as_bytes(), part))
            })
            .collect()
    }

    /// Notes the name of a replica.
    pub(crate) fn named(&mut self, replica: ReplicaId, identity: Identity) {
        self.names.insert(replica, identity);
    }

    /// What changes besides, in a fleet of these replicas.
    pub(crate) fn change(&mut self, known: &[ReplicaId]) -> Option<Change> {
        self.names.retain(|replica, _| known.contains(replica));
        if known.is_empty() || !self.chance.in_1000(self.changes) {
            return None;
        }
        let replica = self.chance.one_of(known);
        let server = self.names.get(&replica).map(|identity| identity.name);
        let parts = || {
            let parts = self.names.iter();
            parts
                .filter(|(_, it)| Some(it.name) == server)
                .map(|(&replica, _)| replica)
                .collect()
        };
        let parts: Vec<ReplicaId> = parts();
        match self.chance.within(0, 9) {
            0 | 1 => {
                let part = self.chance.one_of(&[0, 0, 1, u32::MAX]);
                let name = self.chance.number();
                Some(Change::Name(replica, Identity { name, part }))
            }
            // One part more of another server, or a part that another replica is already.
            2 | 3 => {
                let mut identity = *self.names.get(&self.chance.one_of(known))?;
                let more = u32::from(self.chance.in_1000(500)) * 7;
                identity.part = identity.part.wrapping_add(more);
                Some(Change::Name(replica, identity))
            }
            // A replica that has left, or never was.
            4 => {
                let other = ReplicaId::from_bits(replica.to_bits() ^ 1 << 40);
                let identity = Identity { name: 1, part: 0 };
                Some(Change::Name(other, identity))
            }
            5 => Some(Change::Leave(parts)),
            _ => Some(Change::Offer(parts, self.chance.in_1000(600))),
        }
    }
}

/// The settings of keys as JSON.
pub(crate) fn text(config: &KeyConfig) -> Object {
    let mut values: KeySettings = (**config).clone();
    let mut section = Object::new();
    for field in KeySettings::FIELDS {
        put_field(&mut section, field.name, &field.kind, &mut values);
    }
    section
}
