//! A13: replicas that answer no probes neither starve nor flood beside others that do.
//!
//! Some clients and ten equal replicas of four workers each, first come, first served, at 70 % of
//! their capacity. Some of the replicas answer no probes. Virtual time, a seed or two, and the real
//! tracker on the replicas.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a simulation for one test"
)]

use core::cmp::Reverse;
use core::ops::Range;
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Decision, Event, Outcome, Policy, Prequal, PrequalConfig, Probe, Query, RifThenLatency,
    RifThenLatencyConfig, ShortestExpectedDelay, ShortestExpectedDelayConfig, Ticket,
};
use slackwater_core::tracker::{Arrival, End, LoadTracker};
use slackwater_core::{Instant, NoDraw, ReplicaId, ReplicaIds, SplitMix64};
use std::collections::BinaryHeap;

const CLIENTS: usize = 5;
const REPLICAS: usize = 10;
const SILENT: usize = 3;
const WORKERS: usize = 4;
const BUSY: f64 = 0.7;
const MS: Duration = Duration::from_millis(1);
const ROUND_TRIP: Duration = Duration::from_micros(300);

enum Step {
    Query {
        client: usize,
    },
    Done {
        client: usize,
        ticket: Ticket,
        arrival: Arrival,
    },
    Answer {
        client: usize,
        probe: Probe,
    },
}

struct Replica {
    tracker: LoadTracker,
    /// When each worker is free again.
    free_at: [Instant; WORKERS],
    queries: u32,
}

/// Builds the policy of a client.
type NewPolicy = fn() -> Box<dyn Policy>;

struct Fleet {
    now: Instant,
    clients: Vec<Box<dyn Policy>>,
    service_mean_ns: f64,
    round_trip: Duration,
    replicas: Vec<Replica>,
    names: Vec<ReplicaId>,
    silent: usize,
    draw: SplitMix64,
    /// Events to come, by time and then by number.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    events: Vec<Option<Step>>,
}

impl Fleet {
    fn new(policy: NewPolicy, clients: usize, silent: usize, seed: u64) -> Self {
        let mut ids = ReplicaIds::new();
        let names: Vec<_> = (0..REPLICAS).filter_map(|_| ids.allocate()).collect();
        let replica = |_| Replica {
            tracker: LoadTracker::default(),
            free_at: [Instant::EPOCH; WORKERS],
            queries: 0,
        };
        let client = |_| {
            let mut policy = policy();
            for &name in &names {
                policy.handle(Instant::EPOCH, Event::Added(name), &mut NoDraw);
            }
            policy
        };
        let mut fleet = Self {
            now: Instant::EPOCH,
            clients: (0..clients).map(client).collect(),
            service_mean_ns: 10e6,
            round_trip: ROUND_TRIP,
            replicas: (0..REPLICAS).map(replica).collect(),
            names,
            silent,
            draw: SplitMix64::new(seed),
            due: BinaryHeap::new(),
            events: Vec::new(),
        };
        for client in 0..clients {
            fleet.next_query(client);
        }
        fleet
    }

    /// An exponential span with this mean.
    fn exponential(&mut self, mean_ns: f64) -> Duration {
        let uniform = f64::from(below(&mut self.draw, 1 << 24) + 1) / f64::from(1 << 24);
        Duration::from_nanos((-uniform.ln() * mean_ns) as u64)
    }

    fn after(&mut self, span: Duration, event: Step) {
        self.due.push(Reverse((self.now + span, self.events.len())));
        self.events.push(Some(event));
    }

    fn next_query(&mut self, client: usize) {
        let capacity = (REPLICAS * WORKERS) as f64 / self.service_mean_ns;
        let rate = BUSY * capacity / self.clients.len() as f64;
        let span = self.exponential(1.0 / rate);
        self.after(span, Step::Query { client });
    }

    fn query(&mut self, client: usize) {
        self.next_query(client);
        let decision = self.clients[client].choose(self.now, Query::first(), &mut self.draw, None);
        let Decision::Pick(pick) = decision else {
            panic!("{decision:?}")
        };
        let name = pick.ticket.replica();
        let index = self
            .names
            .iter()
            .position(|&other| other == name)
            .expect("known");
        let service = self.exponential(self.service_mean_ns);
        let replica = &mut self.replicas[index];
        replica.queries += 1;
        let arrival = replica.tracker.arrive(self.now);
        let worker = replica.free_at.iter_mut().min().expect("some");
        *worker = (*worker).max(self.now) + service;
        let span = worker.saturating_since(self.now);
        self.after(
            span,
            Step::Done {
                client,
                ticket: pick.ticket,
                arrival,
            },
        );
        self.send_probes(client);
    }

    fn send_probes(&mut self, client: usize) {
        while let Some(probe) = self.clients[client].poll_probe(self.now, &mut self.draw) {
            self.after(self.round_trip, Step::Answer { client, probe });
        }
    }

    fn index_of(&self, name: ReplicaId) -> usize {
        self.names
            .iter()
            .position(|&other| other == name)
            .expect("known")
    }

    fn run(&mut self, until: Instant) {
        while let Some(&Reverse((at, number))) = self.due.peek() {
            if at > until {
                break;
            }
            self.due.pop();
            self.now = at;
            match self.events[number].take().expect("each comes once") {
                Step::Query { client } => self.query(client),
                Step::Done {
                    client,
                    ticket,
                    arrival,
                } => {
                    let index = self.index_of(ticket.replica());
                    self.replicas[index]
                        .tracker
                        .finish(self.now, arrival, End::Success);
                    self.clients[client].handle_query_done(self.now, ticket, Outcome::Success);
                }
                Step::Answer { client, probe } => {
                    let index = self.index_of(probe.replica);
                    if index >= self.silent {
                        let report = self.replicas[index].tracker.report(self.now);
                        let policy = &mut self.clients[client];
                        policy.handle(self.now, Event::Report(probe.id, &report), &mut self.draw);
                    }
                }
            }
        }
        self.now = until;
    }

    /// Each replica's share of the queries in the time of a thousand on one worker, silent replicas
    /// first, after 2 s in which they are found.
    fn shares(mut self) -> Vec<f64> {
        let found_out = Instant::from_nanos(2_000_000_000);
        self.run(found_out);
        for replica in &mut self.replicas {
            replica.queries = 0;
        }
        let mean = Duration::from_nanos(self.service_mean_ns as u64);
        self.run(found_out + 1_000 * mean);
        let total: u32 = self.replicas.iter().map(|replica| replica.queries).sum();
        for client in &self.clients {
            let views = client.snapshot(self.now).replicas;
            assert_eq!(
                views.iter().filter(|view| view.unprobed).count(),
                self.silent,
                "found out"
            );
        }
        let share = |replica: &Replica| f64::from(replica.queries) / f64::from(total);
        self.replicas.iter().map(share).collect()
    }
}

/// The share of each in an even split is 0.1; the band is a fifth more or less.
fn in_band(shares: &[f64]) -> bool {
    shares.iter().all(|share| (0.08..0.12).contains(share))
}

fn prequal() -> Box<dyn Policy> {
    Box::new(Prequal::new(PrequalConfig::default()))
}

fn rif_then_latency() -> Box<dyn Policy> {
    let settings = RifThenLatencyConfig::default();
    Box::new(RifThenLatency::new(PrequalConfig::default(), &settings))
}

fn shortest_expected_delay() -> Box<dyn Policy> {
    let settings = ShortestExpectedDelayConfig::default();
    Box::new(ShortestExpectedDelay::new(
        PrequalConfig::default(),
        &settings,
    ))
}

#[test]
fn a13_unprobed_replicas_get_a_fair_share_in_a_mixed_fleet() {
    // An even share is 0.3. The lowest of some drawn loads is a little too low, so a policy that
    // compares with each of them may send them more.
    let rows: [(NewPolicy, Range<f64>); 3] = [
        (prequal, 0.28..0.32),
        (rif_then_latency, 0.32..0.36),
        (shortest_expected_delay, 0.28..0.32),
    ];
    for (policy, expected) in rows {
        for seed in 1..=2 {
            let fleet = Fleet::new(policy, CLIENTS, SILENT, seed);
            let name = fleet.clients[0].name();
            let shares = fleet.shares();
            let silent: f64 = shares[..SILENT].iter().sum();
            assert!(
                expected.contains(&silent),
                "{silent} of the queries, not {expected:?}: {name}"
            );
            let is_even = |shares: &[f64], of: f64| {
                let fair = of / shares.len() as f64;
                shares
                    .iter()
                    .all(|share| (0.9 * fair..1.1 * fair).contains(share))
            };
            let (silents, others) = shares.split_at(SILENT);
            assert!(
                is_even(silents, silent) && is_even(others, 1.0 - silent),
                "{name}: {shares:?}"
            );
        }
    }
}

#[test]
fn a13_fully_unprobed_fleet_is_balanced_evenly() {
    for policy in [prequal, rif_then_latency, shortest_expected_delay] as [NewPolicy; 3] {
        let shares = Fleet::new(policy, CLIENTS, REPLICAS, 1).shares();
        assert!(in_band(&shares), "{shares:?}");
    }
}

/// A replica that a lone client probes answers at most once a millisecond, or once per round trip
/// if that is longer. The same pace applies to a replica that is answered for.
#[test]
fn a13_local_reports_do_not_crowd_the_pool() {
    let paper = || -> Box<dyn Policy> {
        let config = PrequalSettings::paper().validate();
        Box::new(Prequal::new(config.expect("in range")))
    };
    let rows: [(NewPolicy, Duration); 4] = [
        (prequal, ROUND_TRIP),
        (prequal, 5 * MS),
        (paper, ROUND_TRIP),
        (paper, 5 * MS),
    ];
    for (policy, round_trip) in rows {
        let mut fleet = Fleet::new(policy, 1, REPLICAS / 2, 1);
        fleet.service_mean_ns = 2e6;
        fleet.round_trip = round_trip;
        let shares = fleet.shares();
        let silent: f64 = shares[..REPLICAS / 2].iter().sum();
        assert!(
            (0.47..0.53).contains(&silent),
            "{silent} of the queries, not 0.5, with round trips of {round_trip:?}"
        );
    }
}
