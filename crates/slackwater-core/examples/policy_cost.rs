//! What a pick, a report, and a whole query cost each policy in fleets of any size, and a pick with
//! a key, to be counted by valgrind:
//!
//! ```text
//! cargo build --profile quick -p slackwater-core --example policy_cost
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*counted*' \
//!     target/quick/examples/policy_cost shortest_expected_delay 1000 pick 256
//! ```
//!
//! One 256th of what it collects is one pick. Every replica has reported its load and capacity many
//! times, and three more report before each pick, which comes 100 µs after the last one. Reports
//! are not counted, except where they are what is measured. Loads are random, so equal ones are
//! rare. [The numbers](../../../results/policy-cost.md).

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "an example, which ends with the first thing that is wrong"
)]

use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::keys::{Identity, KeyHash, KeyHasher, KeySettings, keyed};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Decision, Event, Outcome, Policy, PolicySettings, Query, Settings, policy_named,
};
use slackwater_core::{Instant, LoadReport, NoDraw, Rate, ReplicaId, ReplicaIds, Rif, SplitMix64};

/// From one query to the next.
const STEP: Duration = Duration::from_micros(100);
/// Reports of each replica before the count begins: more than a mean latency needs.
const REPORTS_BEFORE: usize = 10;
/// For each query.
const REPORTS: u32 = 3;

/// What is counted.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    /// A choice, and the end of its query.
    Pick,
    /// A report that has come in.
    Report,
    /// A choice, its three probes drawn, sent and answered, and its end.
    Query,
    /// A choice for one of 10,000 keys, and the end of its query.
    Key,
    /// As `Key`, where every third replica is a part of the one before it.
    WeightedKey,
    /// A choice for one of 100 keys.
    HotKey,
    /// A choice for one of 10,000 keys that are in 1,024 partitions, and the end of its query.
    Partition,
    /// A choice without a key, where others have keys.
    Unkeyed,
}

impl Of {
    const fn has_key(self) -> bool {
        matches!(
            self,
            Self::Key | Self::WeightedKey | Self::HotKey | Self::Partition
        )
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, replicas, of, times] = arguments.as_slice() else {
        println!(
            "policy_cost POLICY REPLICAS \
             pick|report|query|key|weighted_key|hot_key|partition|unkeyed TIMES"
        );
        return;
    };
    let of = match of.as_str() {
        "pick" => Of::Pick,
        "report" => Of::Report,
        "query" => Of::Query,
        "key" => Of::Key,
        "weighted_key" => Of::WeightedKey,
        "hot_key" => Of::HotKey,
        "partition" => Of::Partition,
        "unkeyed" => Of::Unkeyed,
        _ => return println!("{of:?} is nothing that is counted"),
    };
    let entry = policy_named(name).expect("a policy's name");
    let replicas = replicas.parse().expect("a number of replicas");
    let mut policy = (entry.build)(&settings(of));
    if of.has_key() || of == Of::Unkeyed {
        let keys = KeySettings {
            partitions: if of == Of::Partition { 1_024 } else { 0 },
            replicate_max: if of == Of::Partition { 4 } else { 1 },
            ..KeySettings::default()
        };
        policy = keyed(policy, &keys.validate().expect("in range"));
    }
    let mut fleet = Fleet::new(policy, replicas);
    if of == Of::WeightedKey {
        fleet.give_weights();
    }
    if of.has_key() {
        // The fleet is known, and the replicas of each partition.
        for _ in 0..20_000 {
            fleet.next_key(of);
            fleet.pick(of);
        }
    }
    let times: u32 = times.parse().expect("how many times");
    for _ in 0..times {
        fleet.play(of);
    }
    println!("{times} times");
}

/// The defaults; what probes bring in is fed by hand, unless probes are what is counted.
fn settings(of: Of) -> PolicySettings {
    let shipped = PrequalSettings::default();
    let prequal = PrequalSettings {
        probe_rate: if of == Of::Query {
            shipped.probe_rate
        } else {
            Rate::ZERO
        },
        probe_interval_min: Duration::ZERO,
        ..shipped
    };
    let mut settings = PolicySettings::default();
    settings.prequal = prequal.validate().expect("in range");
    settings
}

/// Between `callgrind`'s looks; not inlined, so that it has a name.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    work()
}

struct Fleet {
    policy: Box<dyn Policy>,
    replicas: Vec<ReplicaId>,
    now: Instant,
    draw: SplitMix64,
    /// The next query's.
    key: KeyHash,
    queries: u32,
}

impl Fleet {
    fn new(policy: Box<dyn Policy>, replicas: usize) -> Self {
        let mut ids = ReplicaIds::new();
        let mut fleet = Self {
            policy,
            replicas: (0..replicas).filter_map(|_| ids.allocate()).collect(),
            now: Instant::EPOCH,
            draw: SplitMix64::new(1),
            key: KeyHash::from_bits(0),
            queries: 0,
        };
        for &replica in &fleet.replicas {
            fleet
                .policy
                .handle(fleet.now, Event::Added(replica), &mut NoDraw);
        }
        for _ in 0..REPORTS_BEFORE {
            for place in 0..replicas {
                fleet.now += STEP / REPORTS;
                let (replica, report) = (fleet.replicas[place], report(&mut fleet.draw));
                fleet.take(replica, &report);
            }
        }
        fleet
    }

    fn give_weights(&mut self) {
        for (place, &replica) in (0_u32..).zip(&self.replicas) {
            let part = place % 3 / 2;
            let name = Identity::new(&(place - part).to_le_bytes(), part);
            let named = Event::Identified(replica, name);
            self.policy.handle(self.now, named, &mut NoDraw);
        }
    }

    fn next_key(&mut self, of: Of) {
        let keys = if of == Of::HotKey { 100 } else { 10_000 };
        self.queries = (self.queries + 1) % keys;
        self.key = KeyHasher::default().hash(&self.queries.to_le_bytes());
    }

    fn play(&mut self, of: Of) {
        self.now += STEP;
        self.next_key(of);
        if of == Of::Query {
            let reports: [LoadReport; REPORTS as usize] =
                core::array::from_fn(|_| report(&mut self.draw));
            return counted(|| {
                let decision = (self.policy).choose(self.now, Query::first(), &mut self.draw, None);
                for report in &reports {
                    if let Some(probe) = self.policy.poll_probe(self.now, &mut self.draw) {
                        let answer = Event::Report(probe.id, report);
                        (self.policy).handle(self.now, answer, &mut self.draw);
                    }
                }
                self.end(decision);
            });
        }
        for _ in 0..REPORTS {
            let replicas = u32::try_from(self.replicas.len()).expect("few");
            let replica = self.replicas[below(&mut self.draw, replicas) as usize];
            let report = report(&mut self.draw);
            if of == Of::Report {
                counted(|| self.take(replica, &report));
            } else {
                self.take(replica, &report);
            }
        }
        if of == Of::Report {
            self.pick(of);
        } else {
            counted(|| self.pick(of));
        }
    }

    fn take(&mut self, replica: ReplicaId, report: &LoadReport) {
        (self.policy).handle(
            self.now,
            Event::SiblingReport(replica, report),
            &mut self.draw,
        );
    }

    fn pick(&mut self, of: Of) {
        let mut query = Query::first();
        if of.has_key() {
            query = query.with_key(self.key);
        }
        let decision = (self.policy).choose(self.now, query, &mut self.draw, None);
        self.end(decision);
    }

    fn end(&mut self, decision: Decision) {
        if let Decision::Pick(pick) = decision {
            (self.policy).handle_query_done(self.now, pick.ticket, Outcome::Success);
        }
    }
}

/// Some requests in flight, of some that it can carry, for some time.
fn report(draw: &mut SplitMix64) -> LoadReport {
    let mut drawn = |least: u32, more: u32| least + below(draw, more);
    let latency = Duration::from_micros(drawn(10_000, 20_000).into());
    let mut report = LoadReport::new(Rif::new(drawn(0, 16)), Some(latency));
    report.capacity_millirif = Some(drawn(4_000, 8_000));
    report.cost = Some(Duration::from_micros(drawn(2_000, 2_000).into()));
    report
}
