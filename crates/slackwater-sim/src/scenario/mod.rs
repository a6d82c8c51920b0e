//! Scenarios: clients, their queries, the replicas, the network between them and their troubles.
//!
//! A scenario is plain data. [`Scenario::mistakes`] lists what is wrong with it, by field, before
//! anything runs. A scenario without mistakes can be played without an error. Its TOML form belongs
//! to the command (`slackwater sim run`), not to this crate.

mod cost;
mod demand;
mod event;
mod fleet;
mod keys;
mod load;
mod mistakes;
mod network;
mod prompts;
mod replay;
mod zones;

pub use cost::Cost;
pub(crate) use cost::{nanoseconds, sample_of};
pub use event::{Change, Event};
pub use fleet::{
    Antagonists, Batching, Failure, FailureCost, Group, Hobble, Neighbour, Order, Queueing, Quota,
    Service, Sharing, Stall,
};
pub use keys::{Cache, Keys};
pub use load::{
    Arrivals, ClassHandling, Classes, ClientCpu, Hedge, Load, Mix, Siblings, Subsets, Swing,
};
pub use mistakes::Mistake;
pub use network::{Delay, Network};
pub use prompts::{
    Answers, Burst, InferenceSettings, Probes, Prompts, Restart, Routing, TokenCount,
};
pub use replay::{News, Replay, ReplayChange, ReplayQuery, ReplayStep};
pub use zones::Zones;

use core::time::Duration;
use std::sync::Arc;

/// A fleet, its load, and its troubles.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The clients and their rates.
    pub load: Load,
    /// The cost of a query on a replica of speed 1.
    pub cost: Cost,
    /// The replicas, group by group. Replica numbers run through the groups in order, from 0.
    pub fleet: Vec<Group>,
    /// The neighbours on the replicas' machines; `None`: the machines have no other load.
    pub antagonists: Option<Antagonists>,
    /// The network between clients and replicas.
    pub network: Network,
    /// Where clients and replicas are; `None`: all are in one place.
    pub zones: Option<Zones>,
    /// Changes at given times: replicas leave, join, restart, are suspended.
    pub events: Vec<Event>,
    /// How long a client waits for an answer. After that the query is an error, and counts with
    /// this latency.
    pub deadline: Duration,
    /// Whether an expired query is cancelled at its replica, which drops it. `false`, as in the
    /// paper's testbed: the replica works on.
    pub cancel_expired: bool,
    /// Recorded queries and capacities of replicas; `None`: they are drawn. In a replay,
    /// `load.rate`, `load.arrivals` and `cost` have no effect, and replicas with a shared CPU have
    /// the recorded cores instead of neighbours.
    pub replay: Option<Arc<Replay>>,
    /// The time that is played before anything is measured.
    pub warmup: Duration,
    /// The measured span: queries that arrive within this time after the warm-up are measured.
    pub span: Duration,
}

impl Scenario {
    /// The most replicas.
    pub const REPLICAS_MAX: usize = 10_000;
    /// The most clients.
    pub const CLIENTS_MAX: usize = 10_000;

    /// Returns only a load on a fleet, for a minute: no neighbours, no network, no events, no
    /// warm-up, and clients that wait for 5 s.
    pub fn plain(load: Load, cost: Cost, fleet: Vec<Group>) -> Self {
        Self {
            load,
            cost,
            fleet,
            antagonists: None,
            network: Network::NONE,
            zones: None,
            events: Vec::new(),
            deadline: Duration::from_secs(5),
            cancel_expired: false,
            replay: None,
            warmup: Duration::ZERO,
            span: Duration::from_mins(1),
        }
    }

    /// Returns the number of replicas, including those that join later.
    pub fn replicas(&self) -> usize {
        self.fleet
            .iter()
            .fold(0, |sum: usize, group| sum.saturating_add(group.count))
    }

    /// Returns the number of the group of replica number `replica`; the number of groups if there
    /// is no such replica.
    pub fn group_of(&self, replica: usize) -> usize {
        let mut rest = replica;
        let before = self.fleet.iter().take_while(|group| {
            let beyond = rest >= group.count;
            rest = rest.saturating_sub(group.count);
            beyond
        });
        before.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_numbers_continue_across_groups() {
        let group = |count| Group::healthy(count, Service::Latency);
        let scenario = Scenario {
            load: Load::even(1.0, 1),
            cost: Cost::Fixed(Duration::from_millis(1)),
            fleet: vec![group(2), group(1), group(3)],
            antagonists: None,
            network: Network::NONE,
            zones: None,
            events: Vec::new(),
            deadline: Duration::from_secs(5),
            cancel_expired: false,
            replay: None,
            warmup: Duration::ZERO,
            span: Duration::from_secs(1),
        };
        assert_eq!(scenario.replicas(), 6);
        let groups: Vec<usize> = (0..7).map(|replica| scenario.group_of(replica)).collect();
        assert_eq!(groups, [0, 0, 1, 2, 2, 2, 3]);
    }
}
