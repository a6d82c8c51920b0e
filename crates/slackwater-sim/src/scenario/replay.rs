//! A recorded past: queries at their times, each replica's capacity over time, and the clients'
//! views of the fleet.

use core::time::Duration;
use slackwater_core::policy::Attempt;

/// Recorded queries, replicas and fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// Queries in the order of their times.
    pub queries: Vec<ReplayQuery>,
    /// The capacity of each replica, by its number, in the order of time. The first step holds from
    /// the beginning on.
    pub replicas: Vec<Vec<ReplayStep>>,
    /// The number of the replica of each part. A policy sees a replica as several parts, as many as
    /// its weight.
    pub parts: Vec<u32>,
    /// Changes that clients receive, in the order of time. Empty: each replica is one part, and all
    /// are in the fleet from the beginning on.
    pub news: Vec<ReplayChange>,
    /// Latencies are also recorded by blocks of this length, by the arrival of their queries; 0:
    /// they are not.
    pub block: Duration,
}

/// A recorded query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayQuery {
    /// When it arrives, in nanoseconds.
    pub at_ns: u64,
    /// The number of the client.
    pub client: u32,
    /// Its cost at speed 1, in nanoseconds.
    pub cost_ns: f64,
    /// The kind of attempt that it is for the policy.
    pub attempt: Attempt,
    /// The replica that it is pinned to, if that is available.
    pub pinned: Option<u32>,
    /// Whether it is measured. Otherwise it is only load.
    pub is_measured: bool,
}

impl ReplayQuery {
    /// Returns a measured first attempt that may go to any replica.
    pub const fn first(at_ns: u64, client: u32, cost_ns: f64) -> Self {
        Self {
            at_ns,
            client,
            cost_ns,
            attempt: Attempt::First,
            pinned: None,
            is_measured: true,
        }
    }
}

/// A change of a part that a client receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayChange {
    /// When the client receives it, in nanoseconds.
    pub at_ns: u64,
    /// The number of the client.
    pub client: u32,
    /// The part, by its index in [`Replay::parts`].
    pub part: u32,
    /// The change.
    pub news: News,
}

/// A change of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It joins.
    Joined,
    /// It leaves.
    Left,
    /// It may be chosen again.
    Offered,
    /// It may not be chosen.
    Withdrawn,
}

/// The capacity and failures of a replica from some time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayStep {
    /// The beginning, in nanoseconds.
    pub from_ns: u64,
    /// Cores, of which a query uses at most one; at least as many as the allocation.
    pub cores: f64,
    /// The share of queries that it fails, from 0 to 1.
    pub fails: f64,
    /// The cost of such a query, in nanoseconds.
    pub failure_cost_ns: f64,
}

impl Replay {
    /// Returns the index of a replica's step at `now`, which must not be before the step at
    /// `place`.
    pub(crate) fn step_at(&self, replica: usize, place: usize, now: u64) -> usize {
        let steps = self.replicas.get(replica).map_or(&[][..], Vec::as_slice);
        let later = steps.iter().skip(place + 1);
        place + later.take_while(|step| step.from_ns <= now).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyChoice;
    use crate::scenario::{Cost, Group, Load, Network, Scenario, Service, Sharing};

    #[test]
    fn step_holds_until_the_next_one() {
        let step = |from_ns| ReplayStep {
            from_ns,
            cores: 1.0,
            fails: 0.0,
            failure_cost_ns: 0.0,
        };
        let replay = Replay {
            replicas: vec![vec![step(0), step(10), step(20)]],
            ..Replay::default()
        };
        let places = [0, 9, 10, 19, 20, 99].map(|now| replay.step_at(0, 0, now));
        assert_eq!(places, [0, 0, 1, 1, 2, 2]);
        assert_eq!(replay.step_at(0, 1, 15), 1);
        assert_eq!(
            replay.step_at(7, 0, 15),
            0,
            "a replica that is not in the replay has no steps"
        );
    }

    #[test]
    fn recorded_load_is_played_exactly() {
        const MS: u64 = 1_000_000;
        let step = |from_ms: u64, cores, fails| ReplayStep {
            from_ns: from_ms * MS,
            cores,
            fails,
            failure_cost_ns: 1e6,
        };
        let query = |at_ms: u64, client, cost_ms: f64| {
            ReplayQuery::first(at_ms * MS, client, cost_ms * 1e6)
        };
        let replay = Replay {
            // One alone at full speed; one across a change to a tenth; two that share it; one that
            // fails.
            queries: vec![
                query(10, 0, 20.0),
                query(90, 1, 20.0),
                query(400, 0, 5.0),
                query(400, 1, 5.0),
                query(950, 0, 5.0),
            ],
            replicas: vec![vec![
                step(0, 1.0, 0.0),
                step(100, 0.1, 0.0),
                step(900, 1.0, 1.0),
            ]],
            ..Replay::default()
        };
        let sharing = Sharing {
            cores: 0.1,
            bucket: 0.0,
            burst: 1.0,
            contention_loss: 0.0,
        };
        let scenario = Scenario {
            load: Load::even(5.0, 2),
            cost: Cost::Fixed(Duration::from_millis(1)),
            fleet: vec![Group::healthy(1, Service::Shared(sharing))],
            antagonists: None,
            network: Network::NONE,
            zones: None,
            events: Vec::new(),
            deadline: Duration::from_secs(10),
            cancel_expired: false,
            replay: Some(replay.into()),
            warmup: Duration::ZERO,
            span: Duration::from_secs(1),
        };
        let measured = crate::run(
            &scenario,
            &PolicyChoice::shipped("random").expect("listed"),
            1,
        );
        assert_eq!((measured.queries, measured.errors), (5, 1));
        // 20 ms; 10 ms and 10 more at a tenth; two of 5 ms at a tenth, shared.
        let latencies = [0.0, 0.4, 0.9].map(|q| measured.latency.quantile(q).as_millis());
        assert_eq!(latencies, [20, 100, 110]);
    }
}
