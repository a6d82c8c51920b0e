//! What chooses replicas in a run: a policy for each client, or one clairvoyant for all.

use super::clairvoyant::Central;
use crate::measure::Health;
use crate::peers;
use crate::policy::{PolicyChoice, PolicyKind};
use crate::random::{Purpose, Stream};
use crate::scenario::{Scenario, Zones};
use slackwater_core::health::{HealthCounters, build};
use slackwater_core::keys::{Identity, keyed};
use slackwater_core::policy::{Event, Policy};
use slackwater_core::{Instant, ReplicaId, ReplicaIds};

/// A client's policy, and the draws for it.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) policy: Box<dyn Policy>,
    pub(super) draw: Stream,
}

impl Client {
    /// Passes an event to the policy.
    #[inline]
    pub(super) fn handle(&mut self, now: Instant, event: Event<'_>) {
        self.policy.handle(now, event, &mut self.draw);
    }
}

/// All balancers of a run.
#[derive(Debug)]
pub(super) enum Balancing {
    /// Each client has its own policy with its own state. The ids of replicas are the same for all.
    Own {
        clients: Vec<Client>,
        ids: ReplicaIds,
        /// Where replicas are, for policies that are told which of them are far.
        zones: Option<Zones>,
    },
    /// One balancer for all clients.
    Central(Central),
}

impl Balancing {
    pub(super) fn new(
        choice: &PolicyChoice,
        scenario: &Scenario,
        clients: usize,
        seed: u64,
    ) -> Self {
        let zones = scenario.zones.as_ref();
        match &choice.kind {
            PolicyKind::Shipped {
                entry,
                settings,
                health,
                keys,
            } => Self::own(clients, seed, zones, |_| {
                let policy = match health {
                    Some(config) => build(entry, settings, config),
                    None => (entry.build)(settings),
                };
                match keys {
                    Some(keys) => keyed(policy, &keys.config),
                    None => policy,
                }
            }),
            PolicyKind::Peer(rule) => Self::own(clients, seed, None, |_| peers::build(*rule)),
            PolicyKind::Zoned(rule) => Self::own(clients, seed, None, |client| {
                peers::zones::build(*rule, zones, client)
            }),
            PolicyKind::Clairvoyant(rule) => {
                Self::Central(Central::new(*rule, scenario.replicas(), seed))
            }
        }
    }

    /// Gives each client a policy.
    fn own(
        clients: usize,
        seed: u64,
        zones: Option<&Zones>,
        policy: impl Fn(usize) -> Box<dyn Policy>,
    ) -> Self {
        let client = |client| Client {
            policy: policy(client),
            draw: Stream::new(seed, Purpose::Policy, client as u64),
        };
        Self::Own {
            clients: (0..clients).map(client).collect(),
            ids: ReplicaIds::new(),
            zones: zones.cloned(),
        }
    }

    /// Returns a client's own policy; `None` where a clairvoyant chooses.
    #[inline]
    pub(super) fn client(&mut self, client: u32) -> Option<&mut Client> {
        match self {
            Self::Own { clients, .. } => clients.get_mut(client as usize),
            Self::Central(_) => None,
        }
    }

    #[inline]
    pub(super) fn central(&mut self) -> Option<&mut Central> {
        match self {
            Self::Own { .. } => None,
            Self::Central(central) => Some(central),
        }
    }

    /// Returns the sum of all clients' health counters.
    pub(super) fn health(&self) -> Health {
        let Self::Own { clients, .. } = self else {
            return Health::default();
        };
        let mut all = Health::default();
        for client in clients {
            let HealthCounters {
                ejections,
                probations,
                readmissions,
                ..
            } = client.policy.counters().health;
            all.ejections += ejections;
            all.probations += probations;
            all.readmissions += readmissions;
        }
        all
    }

    /// Adds a replica at all clients that have it, by number, and passes on its stable name if
    /// queries have keys, and how far it is. Returns its id; `None` where a clairvoyant chooses.
    pub(super) fn add(
        &mut self,
        now: Instant,
        replica: usize,
        identity: Option<Identity>,
        has_it: impl Fn(u32) -> bool,
    ) -> Option<ReplicaId> {
        let Self::Own {
            clients,
            ids,
            zones,
        } = self
        else {
            return None;
        };
        let id = ids.allocate()?;
        for (client, number) in clients.iter_mut().zip(0..) {
            if has_it(number) {
                client.handle(now, Event::Added(id));
                if let Some(identity) = identity {
                    client.handle(now, Event::Identified(id, identity));
                }
                if let Some(zones) = zones
                    && zones.parts(number as usize, replica)
                {
                    client.handle(now, Event::Far(id, zones.delay * 2));
                }
            }
        }
        Some(id)
    }

    /// Removes a replica at all clients.
    pub(super) fn remove(&mut self, now: Instant, id: ReplicaId) {
        if let Self::Own { clients, ids, .. } = self {
            for client in clients {
                client.handle(now, Event::Removed(id));
            }
            ids.release(id);
        }
    }
}
