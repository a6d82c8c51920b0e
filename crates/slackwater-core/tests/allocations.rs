//! A1, T5: once warm, no pick, report, probe or tracker on a query's path allocates or frees.
//!
//! This is a test binary of its own, because it counts through the global allocator. It counts only
//! what the test's own thread does between two readings. (Allowed to allocate: a fleet that grows,
//! a snapshot, and a replica that falls silent, which gets a tracker at the client.)

#![expect(clippy::panic, reason = "tests and their helpers")]

#[path = "support/counting_allocator.rs"]
mod counting_allocator;

use core::time::Duration;
use counting_allocator::calls_of;
use slackwater_core::draw::below;
use slackwater_core::health::{self, HealthConfig, HealthSettings};
use slackwater_core::keys::{Identity, KeyHasher, KeySettings, keyed};
use slackwater_core::overload::{
    Admission, Admit, Asks, ConcurrencyLimit, GradientConfig, Left, Priority, QueueConfig, Started,
};
use slackwater_core::policy::{
    Decision, Event, Explanation, Outcome, POLICIES, Policy, PolicySettings, Query, Settings,
};
use slackwater_core::tail::{HedgeConfig, Hedger, WatchEnd};
use slackwater_core::tracker::{End, LoadTracker};
use slackwater_core::{Instant, LoadReport, NoDraw, ReplicaIds, Rif, SplitMix64};

fn fleet(policy: &mut dyn Policy, replicas: usize) -> ReplicaIds {
    let mut ids = ReplicaIds::new();
    join(policy, &mut ids, replicas, Instant::EPOCH);
    ids
}

fn join(policy: &mut dyn Policy, ids: &mut ReplicaIds, replicas: usize, now: Instant) {
    for _ in 0..replicas {
        if let Some(name) = ids.allocate() {
            policy.handle(now, Event::Added(name), &mut NoDraw);
        }
    }
}

/// A thousand explained queries, with retries that are not explained; probes answered, lost and
/// forgotten; timeouts; and idle times.
fn traffic(
    policy: &mut dyn Policy,
    now: &mut Instant,
    draw: &mut SplitMix64,
    explanation: &mut Explanation,
) {
    for round in 0..1_000_u32 {
        *now += Duration::from_micros(if round % 100 == 99 { 200_000 } else { 150 });
        let mut first = pick(policy, *now, Query::first(), draw, Some(explanation));
        policy.handle_head(*now, &mut first, Outcome::Success);
        let avoid = [first.replica()];
        let second = pick(policy, *now, Query::retry(&avoid), draw, None);
        policy.handle_query_done(*now, first, Outcome::Dropped);
        // One replica fails now and then, so that health has something to do.
        let is_bad = second.replica().index() == 1 && round % 4 < 3;
        let outcome = if is_bad {
            Outcome::Failed
        } else {
            Outcome::Success
        };
        policy.handle_query_done(*now, second, outcome);
        policy.handle(*now, Event::Timeout, draw);
        while let Some(probe) = policy.poll_probe(*now, draw) {
            let latency = Duration::from_micros(u64::from(below(draw, 9_000)));
            let mut report = LoadReport::new(Rif::new(below(draw, 9)), Some(latency));
            report.query_rate_millis = Some(100_000);
            report.cpu_millionths = Some(1 + below(draw, 1_000_000));
            // Few enough that no replica loses three in a row: one that falls silent gets a
            // tracker.
            match below(draw, 60) {
                0 => {}
                1 => policy.handle(*now, Event::ProbeLost(probe.id), draw),
                _ => policy.handle(*now, Event::Report(probe.id, &report), draw),
            }
        }
    }
}

fn pick(
    policy: &mut dyn Policy,
    now: Instant,
    query: Query<'_>,
    draw: &mut SplitMix64,
    mut explanation: Option<&mut Explanation>,
) -> slackwater_core::policy::Ticket {
    let explained = explanation.as_deref_mut();
    let mut round = match policy.choose(now, query, draw, explained) {
        Decision::Pick(pick) => return pick.ticket,
        Decision::Probe(round) => round,
        Decision::NoReplica => panic!("replicas are known"),
    };
    for target in round.clone().targets() {
        round.handle_report(target, &LoadReport::new(Rif::new(below(draw, 9)), None));
    }
    let round = Some(&round);
    let decision = policy.choose(now, Query { round, ..query }, draw, explanation);
    let Some(pick) = decision.pick() else {
        panic!("replicas are known")
    };
    pick.ticket
}

#[test]
fn a1_no_policy_allocates_during_a_query() {
    for entry in POLICIES {
        for replicas in [2, 10, 1_000] {
            for config in [HealthSettings::off(), HealthSettings::default()] {
                let Ok(config) = config.validate() else {
                    panic!("in range")
                };
                let mut policy = health::build(entry, &PolicySettings::default(), &config);
                fleet(&mut *policy, replicas);
                let (mut now, mut draw) = (Instant::EPOCH, SplitMix64::new(9));
                let mut explanation = Explanation::new();
                traffic(&mut *policy, &mut now, &mut draw, &mut explanation);
                let count =
                    calls_of(|| traffic(&mut *policy, &mut now, &mut draw, &mut explanation)).0;
                let is_watched = !config.is_off();
                let name = entry.name;
                assert_eq!(count, 0, "{name} at {replicas} replicas, {is_watched}");
            }
        }
    }
}

/// Queries with keys, retries with them, and reports; a replica is out now and then.
fn keyed_traffic(policy: &mut dyn Policy, now: &mut Instant, draw: &mut SplitMix64) {
    let some = policy.fleet().available().first().copied();
    for round in 0..2_000_u32 {
        *now += Duration::from_micros(150);
        let key = KeyHasher::default().hash(&below(draw, 200).to_le_bytes());
        let first = pick(policy, *now, Query::first().with_key(key), draw, None);
        let avoid = [first.replica()];
        let second = pick(policy, *now, Query::retry(&avoid).with_key(key), draw, None);
        if let Some(replica) = some.filter(|_| round % 50 < 2) {
            policy.handle(*now, Event::Available(replica, round % 2 == 1), draw);
        }
        policy.handle_query_done(*now, first, Outcome::Dropped);
        policy.handle_query_done(*now, second, Outcome::Success);
        policy.handle(*now, Event::Timeout, draw);
        while let Some(probe) = policy.poll_probe(*now, draw) {
            let report = LoadReport::new(Rif::new(below(draw, 9)), Some(Duration::from_millis(1)));
            policy.handle(*now, Event::Report(probe.id, &report), draw);
        }
    }
}

#[test]
fn a1_no_pick_with_a_key_allocates() {
    for entry in POLICIES {
        for (replicas, partitions) in [(3, 0), (100, 0), (100, 64)] {
            let settings = KeySettings {
                partitions,
                replicate_max: if partitions > 0 { 8 } else { 1 },
                replicate_time: Duration::from_millis(10),
                ..KeySettings::default()
            };
            let Ok(config) = settings.validate() else {
                panic!("in range")
            };
            let inner = health::build(entry, &PolicySettings::default(), &HealthConfig::default());
            let mut policy = keyed(inner, &config);
            fleet(&mut *policy, replicas);
            for (name, replica) in (0..).zip(policy.fleet().available().to_vec()) {
                let identity = Identity { name, part: 0 };
                let event = Event::Identified(replica, identity);
                policy.handle(Instant::EPOCH, event, &mut NoDraw);
            }
            let (mut now, mut draw) = (Instant::EPOCH, SplitMix64::new(9));
            keyed_traffic(&mut *policy, &mut now, &mut draw);
            let count = calls_of(|| keyed_traffic(&mut *policy, &mut now, &mut draw)).0;
            let name = entry.name;
            assert_eq!(count, 0, "{name} at {replicas} replicas, {partitions}");
        }
    }
}

#[test]
fn a1_no_pick_allocates_after_later_joins() {
    // This is longer than a blackout of weighted round robin: by then every replica has a weight.
    const ROUNDS: u32 = 7;
    for entry in POLICIES {
        let settings = PolicySettings::default();
        let mut policy = health::build(entry, &settings, &HealthConfig::default());
        let mut ids = fleet(&mut *policy, 10);
        let (mut now, mut draw) = (Instant::EPOCH, SplitMix64::new(9));
        let mut explanation = Explanation::new();
        for _ in 0..ROUNDS {
            traffic(&mut *policy, &mut now, &mut draw, &mut explanation);
        }
        join(&mut *policy, &mut ids, 20, now);
        let (count, ()) = calls_of(|| {
            for _ in 0..ROUNDS {
                traffic(&mut *policy, &mut now, &mut draw, &mut explanation);
            }
        });
        assert_eq!(count, 0, "{}", entry.name);
    }
}

#[test]
fn a1_first_queries_do_not_allocate() {
    let mut draw = SplitMix64::new(9);
    for entry in POLICIES {
        let settings = PolicySettings::default();
        let mut policy = health::build(entry, &settings, &HealthConfig::default());
        fleet(&mut *policy, 10);
        let (count, ()) = calls_of(|| {
            for _ in 0..2 {
                let ticket = pick(
                    &mut *policy,
                    Instant::EPOCH,
                    Query::first(),
                    &mut draw,
                    None,
                );
                while let Some(probe) = policy.poll_probe(Instant::EPOCH, &mut draw) {
                    let report = LoadReport::new(Rif::ZERO, Some(Duration::from_millis(1)));
                    policy.handle(Instant::EPOCH, Event::Report(probe.id, &report), &mut draw);
                }
                policy.handle_query_done(Instant::EPOCH, ticket, Outcome::Success);
            }
        });
        assert_eq!(count, 0, "{}", entry.name);
    }
}

#[test]
fn t5_tracker_never_allocates() {
    let tracker = LoadTracker::default();
    let (count, ()) = calls_of(|| {
        let mut now = Instant::EPOCH;
        for _ in 0..1_000 {
            now += Duration::from_micros(70);
            let mut first = tracker.arrive(now);
            let second = tracker.arrive(now);
            tracker.head_ready(now, &mut first, End::Success);
            tracker.finish(now, second, End::Cancelled);
            assert_eq!(tracker.report(now).rif, Rif::new(1));
            tracker.finish(now, first, End::Success);
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn h1_hedger_never_allocates() {
    let mut hedger = Hedger::new(HedgeConfig::default(), 3);
    let (count, ()) = calls_of(|| {
        let mut now = Instant::EPOCH;
        for number in 0..10_000_u16 {
            now += Duration::from_millis(10);
            let mut watch = hedger.begin(now, usize::from(number % 3));
            // One query in sixty-one is stuck, which is rarer than what the budget pays for.
            let is_stuck = number % 61 == 0;
            now += Duration::from_millis(if is_stuck {
                500
            } else {
                u64::from(number % 23)
            });
            let end = if hedger.handle_due(now, &mut watch) {
                WatchEnd::Superseded
            } else {
                WatchEnd::Answered
            };
            hedger.end(now, watch, end);
        }
        assert!(hedger.counters().won > 0, "{:?}", hedger.counters());
    });
    assert_eq!(count, 0);
}

/// A queue with its limit, which is full all the time: it allocates only at construction.
#[test]
fn admission_queue_does_not_allocate() {
    let mut draw = SplitMix64::new(5);
    let limit = ConcurrencyLimit::gradient(GradientConfig::default());
    let mut admission: Admission<u64> = Admission::new(QueueConfig::default(), limit);
    let mut in_flight: Vec<Started> = Vec::with_capacity(4096);
    let mut waited = 0_u64;
    let (calls, ()) = calls_of(|| {
        for step in 0..50_000_u64 {
            let now = Instant::from_nanos(step * 100_000);
            let asks = Asks {
                priority: Priority::ALL[below(&mut draw, 3) as usize],
                deadline: (step % 3 == 0).then_some(now + Duration::from_millis(300)),
            };
            match admission.arrive(now, asks, step) {
                Admit::Start(started, _) => in_flight.push(started),
                Admit::Wait(waits) => {
                    waited += 1;
                    // The other copy of every second one starts sooner.
                    if waited.is_multiple_of(2) {
                        admission.copy_started(waits.place);
                    }
                }
                Admit::Shed(_) => {}
            }
            if step % 2 == 0
                && let Some(started) = in_flight.pop()
            {
                admission.finish(now, started, End::Success);
            }
            while let Some(left) = admission.poll(now) {
                if let Left::Start(started, _) = left {
                    in_flight.push(started);
                }
            }
        }
    });
    assert!(waited > 10_000, "{waited}");
    assert!(admission.view(Instant::EPOCH).shed.iter().sum::<u64>() > 1_000);
    assert_eq!(calls, 0);
}
