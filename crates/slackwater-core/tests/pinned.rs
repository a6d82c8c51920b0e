//! Queries that may not go to every replica, with every policy: their replica is already chosen, or
//! they have tried others.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

use core::time::Duration;
use slackwater_core::policy::{
    Decision, Event, Outcome, POLICIES, Pick, PickReason, Policy, PolicySettings, Query,
};
use slackwater_core::{Instant, LoadReport, NoDraw, ReplicaId, ReplicaIds, Rif, SplitMix64};

/// Each policy with a fleet of five that has answered some probes.
fn each(mut test: impl FnMut(&mut dyn Policy, &[ReplicaId])) {
    for entry in POLICIES {
        let mut policy = (entry.build)(&PolicySettings::default());
        let mut ids = ReplicaIds::new();
        let mut draw = SplitMix64::new(7);
        let replicas: Vec<_> = (0..5).map(|_| ids.allocate().unwrap()).collect();
        for &replica in &replicas {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        }
        for ms in 1..200 {
            let now = Instant::EPOCH + Duration::from_millis(ms);
            policy.handle(now, Event::Timeout, &mut draw);
            while let Some(probe) = policy.poll_probe(now, &mut draw) {
                let report = LoadReport::new(Rif::new(2), Some(Duration::from_millis(5)));
                policy.handle(now, Event::Report(probe.id, &report), &mut draw);
            }
        }
        test(policy.as_mut(), &replicas);
    }
}

const NOW: Instant = Instant::from_nanos(200_000_000);

fn pick(policy: &mut dyn Policy, query: Query<'_>) -> Option<Pick> {
    match policy.choose(NOW, query, &mut SplitMix64::new(3), None) {
        Decision::Pick(pick) => Some(pick),
        Decision::Probe(round) => policy
            .choose(
                NOW,
                Query {
                    round: Some(&round),
                    ..query
                },
                &mut SplitMix64::new(3),
                None,
            )
            .pick(),
        Decision::NoReplica => None,
    }
}

fn in_flight(policy: &dyn Policy, replica: ReplicaId) -> u32 {
    let views = policy.snapshot(NOW).replicas;
    let view = views.iter().find(|view| view.replica == replica);
    view.expect("a known replica").in_flight
}

#[test]
fn pinned_query_goes_to_its_replica_and_counts_there() {
    each(|policy, replicas| {
        for &replica in replicas {
            let before = policy.counters().picks;
            let pick = pick(policy, Query::pinned(replica)).expect("a replica");
            assert_eq!(pick.ticket.replica(), replica, "{}", policy.name());
            assert_eq!(pick.reason, PickReason::Pinned);
            assert_eq!(in_flight(policy, replica), 1, "{}", policy.name());
            let count = |picks: slackwater_core::policy::ReasonCounts| {
                picks
                    .iter()
                    .find(|(reason, _)| *reason == PickReason::Pinned)
                    .unwrap()
                    .1
            };
            assert_eq!(count(policy.counters().picks), count(before) + 1);
            policy.handle_query_done(NOW, pick.ticket, Outcome::Success);
            assert_eq!(in_flight(policy, replica), 0);
        }
    });
}

#[test]
fn policy_chooses_if_the_pinned_replica_is_excluded() {
    each(|policy, replicas| {
        let (pinned, others) = replicas.split_first().expect("five");
        let avoiding = Query {
            avoid: &[*pinned],
            ..Query::pinned(*pinned)
        };
        let elsewhere = |pick: Option<Pick>, why: &str, policy: &dyn Policy| {
            let pick = pick.expect("there are others");
            assert!(
                others.contains(&pick.ticket.replica()),
                "{} {why}",
                policy.name()
            );
            assert_ne!(pick.reason, PickReason::Pinned);
        };
        let avoided = pick(policy, avoiding);
        elsewhere(avoided, "avoids it", policy);
        policy.handle(NOW, Event::Available(*pinned, false), &mut NoDraw);
        let ejected = pick(policy, Query::pinned(*pinned));
        elsewhere(ejected, "was marked as unavailable", policy);
        policy.handle(NOW, Event::Available(*pinned, true), &mut NoDraw);
        policy.handle(NOW, Event::Removed(*pinned), &mut NoDraw);
        let gone = pick(policy, Query::pinned(*pinned));
        elsewhere(gone, "no longer has it", policy);
    });
}

#[test]
fn pin_is_ignored_in_panic() {
    each(|policy, replicas| {
        for &replica in replicas {
            policy.handle(NOW, Event::Available(replica, false), &mut NoDraw);
        }
        let pick = pick(policy, Query::pinned(replicas[0])).expect("all are better than none");
        assert_ne!(pick.reason, PickReason::Pinned, "{}", policy.name());
    });
}

#[test]
fn pinned_query_is_added_to_the_pooled_report() {
    each(|policy, replicas| {
        let pooled = policy.snapshot(NOW).pool;
        let keeps = [
            "prequal",
            "linear",
            "c3",
            "rif_then_latency",
            "shortest_expected_delay",
        ];
        assert_eq!(!pooled.is_empty(), keeps.contains(&policy.name()));
        let Some(report) = pooled.first() else {
            return;
        };
        let pinned = Query {
            attempt: slackwater_core::policy::Attempt::Retry,
            ..Query::pinned(report.replica)
        };
        let _out = pick(policy, pinned).expect("a replica");
        let after = policy.snapshot(NOW).pool;
        let charged = after.iter().find(|other| other.replica == report.replica);
        let rif = charged.expect("still pooled").rif;
        assert_eq!(rif.count(), report.rif.count() + 1, "{}", policy.name());
        let _ = replicas;
    });
}

#[test]
fn retry_may_use_unavailable_replica_and_hedge_may_not() {
    each(|policy, replicas| {
        let (&out, tried) = replicas.split_last().unwrap();
        policy.handle(NOW, Event::Available(out, false), &mut NoDraw);
        let name = policy.name();
        assert!(pick(policy, Query::hedge(tried)).is_none(), "{name}");
        let retry = pick(policy, Query::retry(tried)).expect("a replica");
        assert_eq!(retry.ticket.replica(), out, "{name}");
        let hedge = pick(policy, Query::hedge(&tried[1..])).expect("a replica");
        assert_eq!(hedge.ticket.replica(), tried[0], "{name}");
    });
}
