//! Equal replicas get equal shares, of queries and of probes, under every policy.
//!
//! A small simulation: several clients, Poisson arrivals, and equal replicas that serve a few
//! queries at once, first come, first served, with work of random length. Their reports are true or
//! lack something, as while a fleet is being migrated.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use core::cmp::Reverse;
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Carried, DEFAULT_POLICY, Decision, Event, Outcome, POLICIES, Policy, PolicyEntry,
    PolicySettings, ProbeId, Query, Reports, Ticket,
};
use slackwater_core::tracker::{Arrival, End, LoadTracker, TrackerConfig};
use slackwater_core::{Draw, Instant, LoadReport, NoDraw, ReplicaId, ReplicaIds, Rif, SplitMix64};
use std::collections::BinaryHeap;

const WORK_MEAN: Duration = Duration::from_millis(40);
/// Queries that a replica serves at once, and how many of these places are used in the mean.
const WORKERS: usize = 4;
const WORKERS_USED: f64 = 2.4;
/// Delay of an answer to a probe.
const PROBE_DELAY: Duration = Duration::from_millis(2);

/// Runs of each case. Chance favours another replica in each of them, a rule that is unfair the
/// same one in all.
const SEEDS: u64 = 2;

/// How a replica, by its number, changes its true report.
type Change = fn(usize, &mut LoadReport);

struct Client {
    policy: Box<dyn Policy>,
    draw: SplitMix64,
}

/// What happens at a time.
enum Step {
    Query,
    End(usize, Ticket, Arrival),
    Answer(usize, ProbeId, usize),
}

struct World {
    now: Instant,
    clients: Vec<Client>,
    replicas: Vec<ReplicaId>,
    trackers: Vec<LoadTracker>,
    /// When each worker of each replica is free.
    free_at: Vec<[Instant; WORKERS]>,
    change: Change,
    chance: SplitMix64,
    /// What is due, by its place in `steps`.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    steps: Vec<Option<Step>>,
    /// Queries and probes so far, by replica.
    queries: Vec<u32>,
    probes: Vec<u32>,
}

impl World {
    fn new(
        entry: &PolicyEntry,
        settings: &PolicySettings,
        (replicas, clients): (usize, usize),
        change: Change,
        seed: u64,
    ) -> Self {
        let mut ids = ReplicaIds::new();
        let replicas: Vec<_> = (0..replicas).filter_map(|_| ids.allocate()).collect();
        let client = |number: u64| {
            let mut policy = (entry.build)(settings);
            for &replica in &replicas {
                policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
            }
            Client {
                policy,
                draw: SplitMix64::new(100 * seed + number),
            }
        };
        let tracker = |_: &ReplicaId| LoadTracker::new(&TrackerConfig::default());
        Self {
            now: Instant::EPOCH,
            clients: (1..).take(clients).map(client).collect(),
            trackers: replicas.iter().map(tracker).collect(),
            free_at: vec![[Instant::EPOCH; WORKERS]; replicas.len()],
            change,
            chance: SplitMix64::new(seed),
            due: BinaryHeap::new(),
            steps: Vec::new(),
            queries: vec![0; replicas.len()],
            probes: vec![0; replicas.len()],
            replicas,
        }
    }

    fn after(&mut self, span: Duration, step: Step) {
        self.due.push(Reverse((self.now + span, self.steps.len())));
        self.steps.push(Some(step));
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        let uniform = (self.chance.draw() >> 11) as f64 / (1_u64 << 53) as f64;
        mean.mul_f64(-(1.0 - uniform).ln())
    }

    fn place(&self, replica: ReplicaId) -> usize {
        let mut replicas = self.replicas.iter();
        let place = replicas.position(|&other| other == replica);
        place.expect("only the fleet is used")
    }

    fn report(&self, place: usize) -> LoadReport {
        let mut report = self.trackers[place].report(self.now);
        report.cpu_millionths = Some(500_000);
        report.query_rate_millis = Some(200_000);
        report.capacity_millirif = Some(4_000);
        report.cost = Some(WORK_MEAN);
        (self.change)(place, &mut report);
        report
    }

    /// The client's choice for its next query.
    fn choose(&mut self, client: usize) -> Ticket {
        let Client { policy, draw } = &mut self.clients[client];
        let decision = policy.choose(self.now, Query::first(), draw, None);
        let Decision::Probe(mut round) = decision else {
            return decision.pick().expect("there are replicas").ticket;
        };
        let targets: Vec<_> = round.targets().collect();
        for target in targets {
            let place = self.place(target);
            self.probes[place] += 1;
            round.handle_report(target, &self.report(place));
        }
        let query = Query {
            round: Some(&round),
            ..Query::first()
        };
        let Client { policy, draw } = &mut self.clients[client];
        let pick = policy.choose(self.now, query, draw, None).pick();
        pick.expect("there are replicas").ticket
    }

    fn query(&mut self) {
        let clients = u64::try_from(self.clients.len()).expect("few");
        let client = usize::try_from(self.chance.draw() % clients).expect("few");
        let ticket = self.choose(client);
        let place = self.place(ticket.replica());
        self.queries[place] += 1;
        let arrival = self.trackers[place].arrive(self.now);
        let work = self.exponential(WORK_MEAN);
        let free_at = (self.free_at[place].iter_mut().min()).expect("it has workers");
        *free_at = self.now.max(*free_at) + work;
        let span = free_at.saturating_since(self.now);
        self.after(span, Step::End(client, ticket, arrival));
        let rate = WORKERS_USED * self.replicas.len() as f64;
        let gap = self.exponential(WORK_MEAN.div_f64(rate));
        self.after(gap, Step::Query);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Query => {
                self.query();
                // Often enough for polls and idle probes of all clients.
                (0..self.clients.len()).for_each(|client| self.probe(client));
            }
            Step::End(client, ticket, arrival) => {
                let place = self.place(ticket.replica());
                self.trackers[place].finish(self.now, arrival, End::Success);
                let policy = &mut self.clients[client].policy;
                policy.handle_query_done(self.now, ticket, Outcome::Success);
            }
            Step::Answer(client, probe, place) => {
                let report = self.report(place);
                let Client { policy, draw } = &mut self.clients[client];
                policy.handle(self.now, Event::Report(probe, &report), draw);
            }
        }
    }

    /// Sends the client's probes that are due.
    fn probe(&mut self, client: usize) {
        let is_due = |at| at <= self.now;
        let Client { policy, draw } = &mut self.clients[client];
        if policy.poll_timeout().is_some_and(is_due) {
            policy.handle(self.now, Event::Timeout, draw);
        }
        loop {
            let Client { policy, draw } = &mut self.clients[client];
            let Some(probe) = policy.poll_probe(self.now, draw) else {
                return;
            };
            let place = self.place(probe.replica);
            self.probes[place] += 1;
            self.after(PROBE_DELAY, Step::Answer(client, probe.id, place));
        }
    }

    /// Plays until replicas have had this many queries each in the mean. Only the last two
    /// thirds of them count.
    fn play(&mut self, queries_each: usize) {
        self.after(Duration::ZERO, Step::Query);
        let all = u32::try_from(queries_each * self.replicas.len()).expect("few");
        let mut is_begun = false;
        while self.queries.iter().sum::<u32>() < all {
            let Reverse((at, place)) = self.due.pop().expect("queries never end");
            self.now = at;
            let step = self.steps[place].take().expect("it happens once");
            self.take(step);
            if !is_begun && self.queries.iter().sum::<u32>() > all / 3 {
                is_begun = true;
                self.queries.fill(0);
                self.probes.fill(0);
            }
        }
    }
}

/// What one case has sent, over all seeds.
#[derive(Default)]
struct Sent {
    /// Queries and probes by replica.
    queries: Vec<u32>,
    probes: Vec<u32>,
    /// Queries by replica, run by run.
    runs: Vec<Vec<u32>>,
    /// Probes that a cap suppressed.
    capped: u64,
}

fn play(
    entry: &PolicyEntry,
    settings: &PolicySettings,
    sizes: (usize, usize),
    change: Change,
    queries_each: usize,
) -> Sent {
    let mut sent = Sent::default();
    for seed in 1..=SEEDS {
        let mut world = World::new(entry, settings, sizes, change, seed);
        world.play(queries_each);
        add(&mut sent.queries, &world.queries);
        add(&mut sent.probes, &world.probes);
        sent.runs.push(world.queries);
        for client in &world.clients {
            let counters = client.policy.counters();
            sent.capped += counters.probes_skipped_rate + counters.probes_skipped_cap;
        }
    }
    sent
}

fn add(sums: &mut Vec<u32>, counts: &[u32]) {
    sums.resize(counts.len(), 0);
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}

/// Each replica's count as a multiple of the mean.
fn shares(counts: &[u32]) -> Vec<f64> {
    let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    counts
        .iter()
        .map(|&count| f64::from(count) / mean)
        .collect()
}

fn assert_within(counts: &[u32], (least, most): (f64, f64), case: &str) {
    let shares = shares(counts);
    let is_within = |share: &f64| (least..=most).contains(share);
    assert!(shares.iter().all(is_within), "{case}: {shares:.2?}");
}

/// Queries are spread evenly over all runs together, and no run starves or floods a replica.
fn assert_fair(entry: &PolicyEntry, sent: &Sent, case: &str) {
    let (all, each) = if *entry == DEFAULT_POLICY {
        ((0.88, 1.12), (0.8, 1.22))
    } else {
        ((0.75, 1.25), (0.65, 1.4))
    };
    assert_within(&sent.queries, all, case);
    for run in &sent.runs {
        assert_within(run, each, &format!("one run, {case}"));
    }
}

/// A report as it is.
fn truth(_place: usize, _report: &mut LoadReport) {}

#[test]
fn equal_replicas_get_equal_shares_in_fleets_of_any_size() {
    for entry in POLICIES {
        // Fleets of every size with the default; the others in some.
        let fleets = if *entry == DEFAULT_POLICY {
            &(1..=17).collect::<Vec<_>>()[..]
        } else {
            &[1, 2, 3, 7, 17]
        };
        for &replicas in fleets {
            let sizes = (replicas, 1 + replicas % 4);
            let sent = play(entry, &PolicySettings::default(), sizes, truth, 300);
            assert_fair(entry, &sent, &format!("{} of {sizes:?}", entry.name));
        }
    }
}

#[test]
fn replicas_get_equal_shares_of_probes_with_any_cap() {
    let rated = PrequalSettings {
        probes_per_second_max: 300,
        ..PrequalSettings::default()
    };
    let few_out = PrequalSettings {
        probes_outstanding_max: 2,
        ..PrequalSettings::default()
    };
    let caps = [PrequalSettings::default(), rated, few_out];
    for (entry, cap) in POLICIES.iter().flat_map(|entry| {
        let caps = caps.iter().map(move |cap| (entry, cap));
        caps.filter(|(entry, _)| entry.has_probes())
    }) {
        let mut settings = PolicySettings::default();
        settings.prequal = cap.clone().validate().expect("in range");
        let sent = play(entry, &settings, (12, 2), truth, 300);
        let case = format!(
            "{}, {} a second, {} outstanding",
            entry.name, cap.probes_per_second_max, cap.probes_outstanding_max
        );
        assert_within(&sent.probes, (0.8, 1.2), &case);
        // The cap really binds, where it applies.
        let is_asynchronous = matches!(entry.reports, Reports::Pool | Reports::Latest);
        let is_capped = *cap != PrequalSettings::default() && is_asynchronous;
        assert_eq!(sent.capped > 0, is_capped, "{case}: {}", sent.capped);
    }
}

/// Replica 0 has 30 more in flight than it should. It and all others report a latency of zero.
fn zero_latency(place: usize, report: &mut LoadReport) {
    report.latency = Some(Duration::ZERO);
    if place == 0 {
        report.rif = Rif::new(report.rif.count() + 30);
    }
}

/// Changes replica 0 as [`zero_latency`] does, and no replica reports a latency.
fn no_latency(place: usize, report: &mut LoadReport) {
    zero_latency(place, report);
    report.latency = None;
}

#[test]
fn rif_decides_where_all_latencies_are_zero_or_unknown() {
    for entry in POLICIES {
        // A policy by rates has no use for RIF.
        if !entry.has_probes() || entry.carried == Carried::Rates {
            continue;
        }
        let counts = [zero_latency, no_latency].map(|change: Change| {
            let sent = play(entry, &PolicySettings::default(), (8, 3), change, 300);
            let shares = shares(&sent.queries);
            assert!(shares[0] < 0.5, "{}: {shares:.2?}", entry.name);
            assert_within(&sent.queries[1..], (0.75, 1.25), entry.name);
            sent.runs
        });
        assert_eq!(counts[0], counts[1], "{}: zero is unknown", entry.name);
    }
}

/// The changes of a fleet of which every second replica, or each, reports less.
const MIXED: [(&str, Change); 4] = [
    ("latency 0", |place, report| {
        if place % 2 == 0 {
            report.latency = Some(Duration::ZERO);
        }
    }),
    ("no latency", |place, report| {
        if place % 2 == 0 {
            report.latency = None;
        }
    }),
    ("no capacity", |place, report| {
        if place % 2 == 0 {
            report.capacity_millirif = None;
            report.cost = None;
        }
    }),
    ("no capacity, as all", |_place, report| {
        report.capacity_millirif = None;
        report.cost = None;
    }),
];

#[test]
fn equal_replicas_get_equal_shares_whatever_half_of_them_report() {
    for entry in POLICIES {
        for (name, change) in MIXED {
            for sizes in [(2, 1), (8, 3)] {
                let sent = play(entry, &PolicySettings::default(), sizes, change, 300);
                let case = format!("{}, half with {name}, of {sizes:?}", entry.name);
                assert_fair(entry, &sent, &case);
                let halves = [0, 1].map(|first| sent.queries.iter().skip(first).step_by(2).sum());
                assert_within(&halves, (0.85, 1.15), &format!("halves, {case}"));
            }
        }
    }
}
