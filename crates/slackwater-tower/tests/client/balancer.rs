//! The handle: leases, replicas, timeouts, unprobed replicas. Paused time, no sockets.

use crate::common::{EchoProber, HandProber, Recording, addr, pick_ready, prequal};
use core::future::{Future, poll_fn};
use core::num::NonZeroU32;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::time::Duration;
use slackwater_core::policy::{
    LeastLoaded, Outcome, PickReason, Policy, PolicySettings, PolledPowerOfD, PolledPowerOfDConfig,
    Prequal, Query, Random, RoundRobin, policy_named, prequal::PrequalSettings,
};
use slackwater_core::{LoadReport, Rate, Rif};
use slackwater_tower::client::{Balancer, InsertError, NoProber, Picked, ReplicaAddrs};
use slackwater_tower::default_policy;
use std::panic::catch_unwind;
use std::sync::Arc;

#[tokio::test(start_paused = true)]
async fn each_query_ends_exactly_once() {
    let policy = Recording::default();
    let outcomes = policy.outcomes.clone();
    let balancer = Balancer::with_seed(Box::new(policy), NoProber, 1);
    balancer.insert(addr(1)).expect("new");

    for outcome in [
        Outcome::Success,
        Outcome::Failed,
        Outcome::NoConnection,
        Outcome::Dropped,
    ] {
        let mut lease = pick_ready(&balancer);
        assert_eq!(balancer.in_flight(), 1);
        lease.head_ready(Outcome::Success);
        lease.finish(outcome);
        assert_eq!(outcomes.take(), [outcome]);
    }
    drop(pick_ready(&balancer));
    assert_eq!(outcomes.take(), [Outcome::Dropped]);

    let lease = pick_ready(&balancer);
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _held = lease;
        panic!("while it holds a lease");
    }));
    assert!(panicked.is_err());
    assert_eq!(outcomes.take(), [Outcome::Dropped]);
    assert_eq!(balancer.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn lease_outlives_its_balancer_and_replica() {
    let policy = Recording::default();
    let outcomes = policy.outcomes.clone();
    let balancer = Balancer::with_seed(Box::new(policy), NoProber, 1);
    let replica = balancer.insert(addr(1)).expect("new");
    let lease = pick_ready(&balancer);
    assert!(balancer.remove(replica));
    assert!(matches!(balancer.pick(Query::first()), Picked::NoReplica));
    drop(balancer);
    assert_eq!((lease.replica(), lease.addr()), (replica, addr(1)));
    lease.finish(Outcome::Success);
    assert_eq!(outcomes.take(), [Outcome::Success]);
}

#[tokio::test(start_paused = true)]
async fn an_address_is_in_the_fleet_once() {
    let balancer = Balancer::with_seed(Box::new(LeastLoaded::new()), NoProber, 1);
    let first = balancer.insert(addr(1)).expect("new");
    let again = ReplicaAddrs {
        query: addr(1),
        probe: addr(9),
    };
    let error = balancer.insert(again).expect_err("a duplicate");
    assert_eq!(
        error,
        InsertError::Duplicate {
            addr: addr(1),
            replica: first
        }
    );
    assert!(error.to_string().contains("127.0.0.1:1 "), "{error}");

    assert!(balancer.remove(first));
    assert!(!balancer.remove(first));
    assert_eq!(balancer.addr(first), None);
    let second = balancer.insert(again).expect("the first has left");
    assert_ne!(first, second);
    assert_eq!(balancer.addr(second), Some(addr(1)));
}

#[tokio::test(start_paused = true)]
async fn unavailable_replica_is_not_picked() {
    let balancer = Balancer::with_seed(Box::new(LeastLoaded::new()), NoProber, 1);
    let replicas = [1, 2].map(|port| balancer.insert(addr(port)).expect("new"));
    balancer.set_available(replicas[0], false);
    for _ in 0..20 {
        assert_eq!(pick_ready(&balancer).replica(), replicas[1]);
    }
    balancer.set_available(replicas[0], true);
    let _held = (0..2).map(|_| pick_ready(&balancer)).collect::<Vec<_>>();
    let in_flight: Vec<_> = balancer
        .snapshot()
        .replicas
        .iter()
        .map(|r| r.in_flight)
        .collect();
    assert_eq!(in_flight, [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_makes_the_same_picks() {
    let picks = |seed| {
        let prober = Arc::new(HandProber::default());
        let balancer = Balancer::with_seed(prequal(), Arc::clone(&prober), seed);
        for port in 1..9 {
            balancer.insert(addr(port)).expect("new");
        }
        (0..50)
            .map(|_| pick_ready(&balancer).addr().port())
            .collect::<Vec<_>>()
    };
    assert_eq!(picks(7), picks(7));
    assert_ne!(picks(7), picks(8));
}

#[tokio::test(start_paused = true)]
async fn the_drive_sends_idle_probes_and_counts_lost_ones() {
    let prober = Arc::new(HandProber::default());
    let balancer = Balancer::with_seed(prequal(), Arc::clone(&prober), 1);
    let guard = balancer.spawn_drive();
    // It sleeps without a timeout by now, as there is no replica to probe. A new timeout must wake
    // it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for port in 1..4 {
        balancer.insert(addr(port)).expect("new");
    }
    tokio::time::sleep(Duration::from_millis(2)).await;
    let first = prober.take();
    assert_eq!(first.len(), 2, "a new client does not wait to ask");
    prober
        .reports()
        .report(first[0].token, &LoadReport::new(Rif::new(1), None));

    tokio::time::sleep(Duration::from_millis(46)).await;
    assert_eq!(balancer.counters().probes_lost, 0, "the deadline is 50 ms");
    tokio::time::sleep(Duration::from_millis(5)).await;
    let counters = balancer.counters();
    assert_eq!((counters.probes_answered, counters.probes_lost), (1, 1));

    let mut idle = 0;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        for probe in prober.take() {
            idle += 1;
            let report = LoadReport::new(Rif::new(1), None);
            prober.reports().report(probe.token, &report);
        }
    }
    assert!((20..=28).contains(&idle), "two each 75 to 100 ms: {idle}");

    drop(guard);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(prober.take().len(), 0, "the guard ended it");
}

#[tokio::test(start_paused = true)]
async fn drive_wakes_once_for_each_due_poll_and_for_each_lost_one() {
    // One poll at once, one within half a second, and then one every half second, at the same
    // phase.
    let polls = |span: Duration| span.as_millis() / 500 + 1;
    let span = Duration::from_secs(10);
    let policy = PolledPowerOfD::with(PolledPowerOfDConfig::default());
    let balancer = Balancer::with_seed(Box::new(policy), EchoProber::default(), 1);
    balancer.insert(addr(1)).expect("new");
    let (mut drive, mut wakes) = (balancer.drive(), 0);
    let counted = poll_fn(|cx| {
        wakes += 1;
        Pin::new(&mut drive).poll(cx)
    });
    let ended = tokio::time::timeout(span, counted).await;
    assert!(ended.is_err(), "it goes on");
    let counters = balancer.counters();
    assert_eq!(counters.probes_sent, counters.probes_answered);
    assert!(u128::from(counters.probes_sent).abs_diff(polls(span)) <= 1);
    assert!(wakes <= polls(span) + 2, "{wakes} wakes for {counters:?}");

    // No replica answers: a poll is lost when the next one is due, only by the drive.
    let prober = Arc::new(HandProber::default());
    let policy = PolledPowerOfD::with(PolledPowerOfDConfig::default());
    let balancer = Balancer::with_seed(Box::new(policy), Arc::clone(&prober), 1);
    balancer.insert(addr(1)).expect("new");
    let _drive = balancer.spawn_drive();
    tokio::time::sleep(Duration::from_millis(498)).await;
    assert_eq!(balancer.counters().probes_lost, 0);
    tokio::time::sleep(Duration::from_millis(4)).await;
    assert_eq!(balancer.counters().probes_lost, 1);
}

#[tokio::test(start_paused = true)]
async fn the_drive_ends_with_the_last_handle() {
    let balancer = Balancer::with_seed(prequal(), NoProber, 1);
    balancer.insert(addr(1)).expect("new");
    let drive = tokio::spawn(balancer.drive());
    let lease = pick_ready(&balancer);
    drop(balancer);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!drive.is_finished(), "a lease is a handle, too");
    drop(lease);
    drive.await.expect("it ended by itself");
}

#[tokio::test(start_paused = true)]
async fn replicas_with_refused_probes_are_balanced_by_local_measurements() {
    let settings = PrequalSettings {
        probe_interval_min: Duration::ZERO,
        probe_rate: Rate::per_query(3).expect("a rate"),
        ..PrequalSettings::default()
    };
    let policy = Prequal::new(settings.validate().expect("valid"));
    let balancer = Balancer::with_seed(Box::new(policy), NoProber, 1);
    let replicas = [1, 2, 3].map(|port| balancer.insert(addr(port)).expect("new"));
    for _ in 0..10 {
        pick_ready(&balancer).finish(Outcome::Success);
    }
    assert!(balancer.snapshot().replicas.iter().all(|r| r.unprobed));
    assert_eq!(balancer.counters().probes_answered, 0);

    // However many are held, no replica falls more than a little behind, because the client's own
    // counts decide.
    let held: Vec<_> = (0..30).map(|_| pick_ready(&balancer)).collect();
    for replica in replicas {
        let count = held.iter().filter(|l| l.replica() == replica).count();
        assert!((7..=13).contains(&count), "{replica} has {count} of 30");
    }
    assert!(balancer.counters().probes_local > 0);
    let view = held.last().expect("thirty").view();
    assert!(matches!(view.reason, PickReason::Cold | PickReason::Hot));
    assert!(view.chosen.expect("a report decided").local);
}

#[tokio::test(start_paused = true)]
async fn a_draining_replica_gets_no_queries_until_it_reports_otherwise() {
    let prober = Arc::new(HandProber::default());
    let balancer = Balancer::with_seed(prequal(), Arc::clone(&prober), 1);
    let _drive = balancer.spawn_drive();
    let replicas = [1, 2, 3].map(|port| balancer.insert(addr(port)).expect("new"));
    for draining in [true, false] {
        for _ in 0..40 {
            for probe in prober.take() {
                let mut report = LoadReport::new(Rif::ZERO, Some(Duration::from_millis(1)));
                report.draining = draining && probe.replica == replicas[0];
                prober.reports().report(probe.token, &report);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let picked = (0..40).any(|_| pick_ready(&balancer).replica() == replicas[0]);
        assert_eq!(picked, !draining);
    }
}

#[test]
fn many_threads_share_one_balancer() {
    let balancer = Balancer::with_seed(prequal(), NoProber, 1);
    for port in 1..20 {
        balancer.insert(addr(port)).expect("new");
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let balancer = balancer.clone();
            scope.spawn(move || {
                for round in 0..2_000 {
                    let lease = pick_ready(&balancer);
                    if round % 2 == 0 {
                        lease.finish(Outcome::Success);
                    }
                }
            });
        }
    });
    assert_eq!(balancer.in_flight(), 0);
    assert_eq!(balancer.counters().picks.total(), 8_000);
    assert!(
        balancer
            .snapshot()
            .replicas
            .iter()
            .all(|r| r.in_flight == 0)
    );
}

#[test]
fn a_panic_in_the_policy_does_not_end_the_balancer() {
    #[derive(Debug)]
    struct Touchy;
    impl slackwater_core::policy::Choose for Touchy {
        const NAME: &'static str = "touchy";
        const REASON: PickReason = PickReason::Random;
        fn choose(
            &mut self,
            from: slackwater_core::policy::Candidates<'_>,
            draw: &mut dyn slackwater_core::Draw,
        ) -> Option<slackwater_core::ReplicaId> {
            assert!(from.in_flight(from.replicas()[0]) > 0, "touchy");
            from.random(draw)
        }
    }
    impl Default for Touchy {
        fn default() -> Self {
            Self
        }
    }
    let policy: Box<dyn Policy> = Box::new(slackwater_core::policy::Unprobed::<Touchy>::new());
    let balancer = Balancer::with_seed(policy, NoProber, 1);
    balancer.insert(addr(1)).expect("new");
    let panicked = catch_unwind(AssertUnwindSafe(|| drop(balancer.pick(Query::first()))));
    assert!(panicked.is_err());
    assert_eq!(balancer.in_flight(), 0);
    assert_eq!(balancer.snapshot().replicas.len(), 1);
}

/// Returns how many of `count` queries went to each replica.
fn shares(balancer: &Balancer, count: u32) -> [u32; 5] {
    let mut shares = [0; 5];
    for _ in 0..count {
        let lease = pick_ready(balancer);
        shares[usize::from(lease.addr().port()) - 1] += 1;
        lease.finish(Outcome::Success);
    }
    shares
}

#[tokio::test(start_paused = true)]
async fn share_of_a_new_replica_grows_to_its_full_share() {
    let policies: [Box<dyn Policy>; 3] = [
        Box::new(Recording::default()),
        Box::new(LeastLoaded::new()),
        prequal(),
    ];
    for policy in policies {
        let name = policy.name();
        let balancer = Balancer::with_seed(policy, NoProber, 1);
        for port in 1..=4 {
            balancer.insert(addr(port)).expect("new");
        }
        let warm_up = Duration::from_secs(100);
        balancer
            .insert_warming(addr(5), NonZeroU32::MIN, warm_up)
            .expect("new");
        // A fifth of 2,000 is 400, with a standard deviation of 18. The rows: after 0 s, 50 s and
        // 90 s.
        for (more_seconds, most) in [(0, 130), (50, 290), (40, 490)] {
            tokio::time::advance(Duration::from_secs(more_seconds)).await;
            let share = shares(&balancer, 2000)[4];
            assert!(share < most, "{name}: {share} of at most {most}");
            assert!(share > 0, "{name}: never none at all");
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        let share = shares(&balancer, 2000)[4];
        assert!((300..500).contains(&share), "{name}: {share} in the end");
    }
}

#[tokio::test(start_paused = true)]
async fn warming_replica_is_picked_if_no_untried_one_is_left() {
    let balancer = Balancer::with_seed(Box::new(LeastLoaded::new()), NoProber, 1);
    let old = balancer.insert(addr(1)).expect("new");
    let new = balancer
        .insert_warming(addr(2), NonZeroU32::MIN, Duration::from_hours(1))
        .expect("new")[0];
    for _ in 0..100 {
        let Picked::Ready(lease) = balancer.pick(Query::retry(&[old])) else {
            panic!("the new one is left");
        };
        assert_eq!(lease.replica(), new);
    }
    assert!(matches!(
        balancer.pick(Query::retry(&[old, new])),
        Picked::NoReplica
    ));
    assert!(balancer.remove(old));
    let alone = pick_ready(&balancer);
    assert_eq!(alone.replica(), new);
}

#[tokio::test(start_paused = true)]
async fn warming_replica_is_preferred_to_down_and_gets_pinned_queries() {
    let policies: [Box<dyn Policy>; 4] = [
        prequal(),
        Box::new(LeastLoaded::new()),
        Box::new(RoundRobin::new()),
        Box::new(Random::new()),
    ];
    for policy in policies {
        let name = policy.name();
        let balancer = Balancer::with_seed(policy, NoProber, 1);
        let old: Vec<_> = (1..=4)
            .map(|port| balancer.insert(addr(port)).expect("new"))
            .collect();
        let new: Vec<_> = (5..=8)
            .flat_map(|port| {
                let added =
                    balancer.insert_warming(addr(port), NonZeroU32::MIN, Duration::from_hours(1));
                added.expect("new")
            })
            .collect();
        for _ in 0..200 {
            let Picked::Ready(lease) = balancer.pick(Query::pinned(new[1])) else {
                panic!("{name}: it may be chosen");
            };
            assert_eq!(lease.replica(), new[1], "{name}");
        }
        for &old in &old {
            balancer.set_available(old, false);
        }
        for _ in 0..200 {
            let lease = pick_ready(&balancer);
            assert!(new.contains(&lease.replica()), "{name}: {lease:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_report_of_each_replica_outlives_the_pool() {
    let prober = Arc::new(HandProber::default());
    let balancer = Balancer::with_seed(prequal(), Arc::clone(&prober), 1);
    let _drive = balancer.spawn_drive();
    let [first, second] = [1, 2].map(|port| balancer.insert(addr(port)).expect("new"));
    assert_eq!(balancer.reported(), []);
    for rif in [7, 8] {
        tokio::time::sleep(Duration::from_secs(2)).await;
        for probe in prober.take() {
            let rif = Rif::new(rif + u32::from(probe.replica == second));
            let report = LoadReport::new(rif, Some(Duration::from_millis(3)));
            prober.reports().report(probe.token, &report);
        }
    }
    // A report that a response carried counts, too. It has no latency, so the latency of the last
    // probe stays.
    let carried = LoadReport::new(Rif::new(20), None);
    loop {
        let lease = pick_ready(&balancer);
        if lease.replica() == first {
            lease.handle_carried_report(&carried);
            break;
        }
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    let pool = balancer.snapshot().pool;
    let is_forgotten = pool.iter().all(|report| report.local);
    assert!(is_forgotten, "too old for the policy: {pool:?}");
    let told: Vec<_> = (balancer.reported().iter())
        .map(|it| (it.replica, it.rif.count(), it.latency, it.age))
        .collect();
    let (ms, minute) = (Duration::from_millis(3), Duration::from_mins(1));
    let expected = [(first, 20, Some(ms), minute), (second, 9, Some(ms), minute)];
    assert_eq!(told, expected);
    balancer.remove(second);
    assert_eq!(balancer.reported().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn reports_of_responses_on_rates_are_no_last_report() {
    let entry = policy_named("weighted_round_robin").expect("known");
    let policy = (entry.build)(&PolicySettings::default());
    let balancer = Balancer::with_seed(policy, NoProber, 1);
    balancer.insert(addr(1)).expect("new");
    let rates = LoadReport::new(Rif::ZERO, None);
    pick_ready(&balancer).handle_carried_report(&rates);
    assert_eq!(balancer.reported(), []);
}

#[tokio::test(start_paused = true)]
async fn carried_report_leaves_out_the_query_it_came_with_once() {
    let prober = Arc::new(HandProber::default());
    let balancer = Balancer::with_seed(default_policy(), Arc::clone(&prober), 1);
    let _drive = balancer.spawn_drive();
    balancer.insert(addr(1)).expect("new");
    let lease = pick_ready(&balancer);
    let report = |rif| {
        let mut report = LoadReport::new(Rif::new(rif), Some(Duration::from_millis(3)));
        report.capacity_millirif = Some(9_000);
        report
    };
    let in_flight = || balancer.snapshot().pool[0].rif.count();
    while balancer.counters().probes_answered == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for probe in prober.take() {
            prober.reports().report(probe.token, &report(6));
        }
    }
    assert_eq!(in_flight(), 6, "one is its own, five are other clients'");
    lease.handle_carried_report(&report(5));
    assert_eq!(in_flight(), 6);
    lease.finish(Outcome::Success);
    assert_eq!(in_flight(), 5);
}

#[tokio::test(start_paused = true)]
async fn lease_returns_its_time_stamps() {
    let balancer = Balancer::with_seed(Box::new(RoundRobin::default()), NoProber, 1);
    balancer.insert(addr(1)).expect("new");
    let began = balancer.clock().now();
    tokio::time::sleep(Duration::from_millis(2)).await;
    let Picked::Ready(mut lease) = balancer.pick_at(began, Query::first()) else {
        panic!("there is a replica");
    };
    let head = lease.head_ready(Outcome::Success);
    tokio::time::sleep(Duration::from_millis(3)).await;
    assert_eq!(lease.picked_at(), began);
    assert_eq!(head, began + Duration::from_millis(2));
    assert_eq!(
        lease.finish(Outcome::Success),
        began + Duration::from_millis(5)
    );
}
