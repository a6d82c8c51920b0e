//! Zones: where clients and replicas are, and how far apart zones lie.

use core::time::Duration;

/// Where clients and replicas are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zones {
    /// The zone of each client, by its number: as many as there are clients.
    pub clients: Vec<usize>,
    /// The zone of each replica, by its number: as many as there are replicas.
    pub replicas: Vec<usize>,
    /// Delay of each message from one zone to another, one way, in addition to the network's.
    pub delay: Duration,
}

impl Zones {
    /// The most zones.
    pub const MAX: usize = 100;

    /// Returns this many zones of equal size: clients and replicas take turns.
    pub fn even(zones: usize, clients: usize, replicas: usize, delay: Duration) -> Self {
        let in_turn = |count: usize| (0..count).map(|number| number % zones.max(1)).collect();
        Self {
            clients: in_turn(clients),
            replicas: in_turn(replicas),
            delay,
        }
    }

    /// Returns whether a client and a replica are in different zones.
    pub(crate) fn parts(&self, client: usize, replica: usize) -> bool {
        let zone = self.clients.get(client).copied();
        zone != self.replicas.get(replica).copied()
    }
}
