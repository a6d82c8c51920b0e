//! Who chooses: one of the policies that users run, or a clairvoyant that no client could be.

use slackwater_core::policy::{PolicyEntry, PolicySettings};

/// A policy to play a scenario under.
#[derive(Clone, Debug)]
pub struct PolicyChoice {
    /// The name that results carry.
    pub name: String,
    /// Who decides.
    pub kind: PolicyKind,
}

/// Who decides.
#[derive(Clone, Debug)]
pub enum PolicyKind {
    /// A policy of slackwater-core; each client has one of its own.
    Shipped {
        /// Which.
        entry: &'static PolicyEntry,
        /// Its settings.
        settings: Box<PolicySettings>,
    },
    /// One balancer for all clients that sees every replica as it is now.
    Clairvoyant(Clairvoyant),
}

/// What a balancer could do that knew everything: bounds to measure policies by, not policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clairvoyant {
    /// Central join-shortest-queue: the fewest requests in flight, ties at random.
    JoinShortestQueue,
    /// The fewest requests in flight for its true capacity at this moment.
    WeightedByCapacity,
    /// Where this query would finish first, all remaining work and present capacities known.
    Greedy,
}
