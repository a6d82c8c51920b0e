//! Recorded changes of the fleet: each client receives its own, at its own time, part by part.
//!
//! A replica of weight three has three parts in a policy, on one machine. The ids of parts are the
//! same for all clients that have them at the same time, as in one fleet. Clairvoyants receive no
//! changes: they know the machines.

use super::Engine;
use super::balancing::Balancing;
use super::query::slot_number;
use crate::machine::Time;
use crate::random::{Purpose, Stream};
use crate::scenario::{News, Replay, ReplayChange, Scenario};
use core::num::NonZeroU32;
use slackwater_core::policy::Event;
use slackwater_core::{Instant, LoadReport, ReplicaId, ReplicaIds};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The parts of the fleet that each client has.
#[derive(Debug)]
pub(super) struct KnownParts {
    replay: Arc<Replay>,
    ids: ReplicaIds,
    parts: Vec<Part>,
    /// The parts of each replica.
    of_replicas: Vec<Vec<u32>>,
    /// Draws that divide reports among parts.
    draw: Stream,
}

/// A part of a replica.
#[derive(Debug, Default)]
struct Part {
    /// Its id, while any client has it.
    id: Option<ReplicaId>,
    /// The clients that have it.
    known_to: BTreeSet<u32>,
}

impl KnownParts {
    /// Returns `None` if all of the scenario's clients receive the same changes.
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Option<Self> {
        let replay = scenario
            .replay
            .as_ref()
            .filter(|replay| !replay.news.is_empty())?;
        let mut of_replicas = vec![Vec::new(); scenario.replicas()];
        for (part, &replica) in (0..).zip(&replay.parts) {
            if let Some(parts) = of_replicas.get_mut(replica as usize) {
                parts.push(part);
            }
        }
        Some(Self {
            replay: Arc::clone(replay),
            ids: ReplicaIds::new(),
            parts: replay.parts.iter().map(|_| Part::default()).collect(),
            of_replicas,
            draw: Stream::new(seed, Purpose::Parts, 0),
        })
    }

    /// Returns the position and time of each change.
    pub(super) fn times(&self) -> Vec<(usize, Time)> {
        let news = self.replay.news.iter().enumerate();
        news.map(|(place, news)| (place, news.at_ns)).collect()
    }

    /// Returns the id of a part of the replica that the client has.
    fn name_of(&self, client: u32, replica: u32) -> Option<ReplicaId> {
        self.known(client, replica).next()?.id
    }

    /// Returns the parts of the replica that the client has.
    fn known(&self, client: u32, replica: u32) -> impl Iterator<Item = &Part> {
        let parts = self.of_replicas.get(replica as usize).into_iter().flatten();
        let parts = parts.filter_map(|part| self.parts.get(*part as usize));
        parts.filter(move |part| part.known_to.contains(&client))
    }

    /// Returns the report of each part of the replica that the client has.
    fn of_part(&mut self, client: u32, replica: u32, report: &LoadReport) -> LoadReport {
        let count = u32::try_from(self.known(client, replica).count()).unwrap_or(u32::MAX);
        let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        report.of_part(count, &mut self.draw)
    }
}

impl Engine {
    /// Returns the client's id of a replica, while it has one.
    pub(super) fn name_of(&self, client: u32, replica: u32) -> Option<ReplicaId> {
        match &self.known_parts {
            Some(known_parts) => known_parts.name_of(client, replica),
            None => self.replicas.all().get(replica as usize)?.id,
        }
    }

    /// Divides a replica's report by the number of its parts that the client has, as clients do.
    pub(super) fn divide(&mut self, client: u32, replica: u32, report: &mut LoadReport) {
        if let Some(known_parts) = &mut self.known_parts {
            *report = known_parts.of_part(client, replica, report);
        }
    }

    /// Passes a recorded change to a client.
    pub(super) fn deliver_change(&mut self, place: usize) {
        let (Some(known_parts), Balancing::Own { clients, .. }) =
            (&mut self.known_parts, &mut self.balancing)
        else {
            return;
        };
        let Some(&ReplayChange {
            client: number,
            part: place,
            news,
            ..
        }) = known_parts.replay.news.get(place)
        else {
            return;
        };
        let (Some(client), Some(part)) = (
            clients.get_mut(number as usize),
            known_parts.parts.get_mut(place as usize),
        ) else {
            return;
        };
        let now = Instant::from_nanos(self.now);
        match (news, part.id) {
            (News::Joined, known) => {
                // All clients that have the part use the same id. The first one allocates it.
                let Some(id) = known.or_else(|| known_parts.ids.allocate()) else {
                    return;
                };
                part.id = Some(id);
                if part.known_to.insert(number) {
                    client.handle(now, Event::Added(id));
                    let replica = known_parts.replay.parts.get(place as usize);
                    let replica = replica.map_or(0, |replica| *replica as usize);
                    self.replicas.name(replica, id);
                }
            }
            (_, None) => (),
            (News::Left, Some(id)) => {
                if part.known_to.remove(&number) {
                    client.handle(now, Event::Removed(id));
                }
                // The last client frees the id, so a part that joins again later gets a new one.
                if part.known_to.is_empty() {
                    part.id = None;
                    known_parts.ids.release(id);
                }
            }
            (News::Offered, Some(id)) => client.handle(now, Event::Available(id, true)),
            (News::Withdrawn, Some(id)) => client.handle(now, Event::Available(id, false)),
        }
        self.poll_client(slot_number(number as usize));
    }
}

#[cfg(test)]
mod tests {
    use crate::random::{Purpose, Stream};
    use crate::scenario::{
        Cost, Group, Load, Network, News, Replay, ReplayChange, ReplayQuery, ReplayStep, Scenario,
        Service, Sharing,
    };
    use crate::{Measured, PolicyChoice, run};
    use core::time::Duration;
    use slackwater_core::policy::Attempt;

    const MS: u64 = 1_000_000;

    /// Two replicas that can serve all queries, and a query each millisecond, at two clients in
    /// turn.
    fn scenario(parts: &[u32], news: &[(u64, u32, u32, News)]) -> Scenario {
        let news = news
            .iter()
            .map(|&(at_ms, client, part, news)| ReplayChange {
                at_ns: at_ms * MS,
                client,
                part,
                news,
            });
        let step = ReplayStep {
            from_ns: 0,
            cores: 100.0,
            fails: 0.0,
            failure_cost_ns: 0.0,
        };
        let query = |at: u32| ReplayQuery::first(u64::from(at) * MS, at % 2, 1e5);
        let replay = Replay {
            queries: (0..400).map(query).collect(),
            replicas: vec![vec![step]; 2],
            parts: parts.to_vec(),
            news: news.collect(),
            block: Duration::ZERO,
        };
        let sharing = Sharing {
            cores: 1.0,
            bucket: 0.0,
            burst: 1.0,
            contention_loss: 0.0,
        };
        Scenario {
            load: Load::even(1_000.0, 2),
            cost: Cost::Fixed(Duration::from_millis(1)),
            fleet: vec![Group::healthy(2, Service::Shared(sharing))],
            antagonists: None,
            network: Network::NONE,
            zones: None,
            events: Vec::new(),
            deadline: Duration::from_secs(10),
            cancel_expired: false,
            replay: Some(replay.into()),
            warmup: Duration::ZERO,
            span: Duration::from_millis(400),
        }
    }

    fn played(scenario: &Scenario) -> Measured {
        let policy = PolicyChoice::shipped("round_robin").expect("it is listed");
        run(scenario, &policy, 1)
    }

    fn joined(at_ms: u64, parts: core::ops::Range<u32>) -> Vec<(u64, u32, u32, News)> {
        let clients = |part| [0, 1].map(|client| (at_ms, client, part, News::Joined));
        parts.flat_map(clients).collect()
    }

    #[test]
    fn replica_share_is_proportional_to_its_parts() {
        let measured = played(&scenario(&[0, 0, 0, 1], &joined(0, 0..4)));
        assert_eq!(measured.queries_by_replica, [300, 100]);
    }

    /// A replica of weight 3 with 90 cores, and one of weight 1 with 30, at 70 % of all cores.
    /// Returns the share of the first.
    fn busy_share(policy: &str, carries_reports: bool) -> f64 {
        let mut scenario = scenario(&[0, 0, 0, 1], &joined(0, 0..4));
        let mut replay = (**scenario.replay.as_ref().expect("it has one")).clone();
        let mut costs = Stream::new(1, Purpose::Cost, 0);
        replay.queries = (0..8_000)
            .map(|at: u32| ReplayQuery::first(u64::from(at) * MS, at % 2, costs.exponential(84e6)))
            .collect();
        for (steps, cores) in replay.replicas.iter_mut().zip([90.0, 30.0]) {
            steps[0].cores = cores;
        }
        scenario.replay = Some(replay.into());
        scenario.span = Duration::from_secs(8);
        scenario.fleet[0].carries_reports = carries_reports;
        scenario.fleet[0].learns_capacity = carries_reports;
        let policy = PolicyChoice::shipped(policy).expect("it is listed");
        let by_replica = run(&scenario, &policy, 1).queries_by_replica;
        by_replica[0] as f64 / (by_replica[0] + by_replica[1]) as f64
    }

    #[test]
    fn each_part_gets_its_share_of_a_report() {
        for policy in ["prequal", "prequal_sync", "shortest_expected_delay"] {
            for carries_reports in [false, true] {
                let share = busy_share(policy, carries_reports);
                assert!(
                    (share - 0.75).abs() < 0.05,
                    "{policy}, carried {carries_reports}: {share}"
                );
            }
        }
    }

    #[test]
    fn each_client_receives_its_own_fleet_changes() {
        let mut news = joined(0, 0..2);
        // Client 0 is without replica 1 for a quarter of the time. Client 1 has it in the fleet for
        // half of the time.
        news.extend([
            (100, 0, 1, News::Withdrawn),
            (200, 0, 1, News::Offered),
            (200, 1, 1, News::Left),
        ]);
        let measured = played(&scenario(&[0, 1], &news));
        assert_eq!(measured.queries_by_replica, [275, 125]);
        assert_eq!((measured.queries, measured.errors), (400, 0));

        // A replica that comes back has a new id. A client without replicas refuses queries.
        news.extend([
            (300, 1, 1, News::Joined),
            (350, 1, 0, News::Left),
            (375, 1, 1, News::Left),
        ]);
        let measured = played(&scenario(&[0, 1], &news));
        assert_eq!(measured.queries_by_replica.iter().sum::<u64>(), 387);
        assert_eq!(
            measured.errors, 13,
            "every other millisecond of the last 25"
        );
    }

    #[test]
    fn pinned_query_goes_to_its_replica_if_available() {
        let mut scenario = scenario(&[0, 1, 1], &joined(0, 0..3));
        let mut replay = (**scenario.replay.as_ref().expect("it has one")).clone();
        replay
            .queries
            .iter_mut()
            .for_each(|query| query.pinned = Some(1));
        scenario.replay = Some(replay.clone().into());
        assert_eq!(played(&scenario).queries_by_replica, [0, 400]);
        // Round robin applies where the client does not have that replica.
        replay.news.truncate(2);
        scenario.replay = Some(replay.into());
        assert_eq!(played(&scenario).queries_by_replica, [400, 0]);
    }

    #[test]
    fn unmeasured_queries_are_still_load() {
        let mut scenario = scenario(&[0], &joined(0, 0..1));
        let mut replay = (**scenario.replay.as_ref().expect("it has one")).clone();
        replay.replicas[0][0].cores = 1.0;
        // Two copies of 50 ms each are in the span, each at the same time as every 100th query.
        let copies = [0, 100, 200, 300].map(|at| ReplayQuery {
            attempt: Attempt::Hedge,
            is_measured: false,
            ..ReplayQuery::first(at * MS, 0, 50e6)
        });
        replay.queries.extend(copies);
        replay.queries.sort_by_key(|query| query.at_ns);
        scenario.replay = Some(replay.into());
        let measured = played(&scenario);
        assert_eq!(
            (measured.queries, measured.queries_by_replica[0]),
            (400, 400)
        );
        let [calm, loaded] = [0.4, 0.9].map(|q| measured.latency.quantile(q).as_micros());
        assert_eq!(
            (calm, loaded),
            (100, 200),
            "half of the time it shares with a copy"
        );
    }

    #[test]
    fn latencies_are_recorded_by_block_if_blocks_are_set() {
        let mut scenario = scenario(&[0], &joined(0, 0..1));
        assert!(played(&scenario).latency_by_block.is_empty());
        let mut replay = (**scenario.replay.as_ref().expect("it has one")).clone();
        replay.block = Duration::from_millis(150);
        scenario.replay = Some(replay.into());
        let blocks = played(&scenario).latency_by_block;
        let counts: Vec<_> = blocks
            .iter()
            .map(crate::measure::Latencies::count)
            .collect();
        assert_eq!(counts, [150, 150, 100]);
    }
}
