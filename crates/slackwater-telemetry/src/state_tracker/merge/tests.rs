//! Signs of replicas, merged from workers.

use super::*;
use crate::attempt_failure::{AttemptEvidence, FailureKind, LastFailure};
use crate::facts::{BehindFacts, HealthFacts};
use crate::replica_state::{ReplicaState, Standing, Why};
use slackwater_core::health::{HealthSettings, build};
use slackwater_core::policy::HealthState;
use slackwater_core::policy::{
    Decision, Event, Outcome, POLICIES, PolicyEntry, PolicySettings, Query, Settings,
};
use slackwater_core::{Instant, NoDraw, ReplicaIds, SplitMix64};

/// A worker after some requests, of which the ones to `bad` fail.
fn worker(ids: &[ReplicaId], bad: Option<ReplicaId>) -> WorkerFacts {
    let config = HealthSettings::default().validate();
    let entry = policy_named("round_robin").expect("the policy");
    let settings = PolicySettings::default();
    let mut policy = build(entry, &settings, &config.expect("defaults"));
    let (mut now, mut draw) = (Instant::EPOCH, SplitMix64::new(1));
    for &id in ids {
        policy.handle(now, Event::Added(id), &mut NoDraw);
    }
    for _ in 0..200 {
        let Decision::Pick(pick) = policy.choose(now, Query::first(), &mut draw, None) else {
            panic!("there are replicas");
        };
        now += Duration::from_millis(2);
        let outcome = if bad == Some(pick.ticket.replica()) {
            Outcome::Failed
        } else {
            Outcome::Success
        };
        policy.handle_query_done(now, pick.ticket, outcome);
    }
    WorkerFacts {
        // The last replica has two parts.
        ids: vec![vec![ids[0]], vec![ids[1]], ids[2..].to_vec()],
        counters: policy.counters(),
        snapshot: policy.snapshot(now),
        ..WorkerFacts::default()
    }
}

fn service(replicas: usize, workers: Vec<WorkerFacts>) -> ServiceFacts {
    let replica = ReplicaFacts {
        weight: 1,
        ..ReplicaFacts::default()
    };
    ServiceFacts {
        policy: "round_robin",
        replicas: vec![replica; replicas],
        workers,
        ..ServiceFacts::default()
    }
}

#[test]
fn merge_takes_worst_state_and_mean_share() {
    let mut ids = ReplicaIds::new();
    let ids: Vec<_> = (0..4).filter_map(|_| ids.allocate()).collect();
    let workers = vec![worker(&ids, Some(ids[3])), worker(&ids, None)];
    let all = signs(SystemTime::UNIX_EPOCH, &service(4, workers));
    let healths: Vec<_> = all.iter().filter_map(|it| it.health.as_ref()).collect();
    let found: Vec<_> = (healths.iter())
        .map(|it| (it.state, it.share_millionths))
        .collect();
    let sound = (HealthState::Sound, 1_000_000);
    assert_eq!(found, [sound, sound, (HealthState::Ejected, 750_000)]);
    assert_eq!(all[3].health, None, "no worker knows it");
    assert_eq!(healths[0].success_millionths, 1_000_000);
    assert!(healths[2].success_millionths < 1_000_000);
    assert_eq!(healths[0].latency, Some(Duration::from_millis(2)));
    assert_eq!(healths[2].median_success_millionths, 1_000_000);
    assert_eq!(healths[2].median_latency, healths[0].latency);
    assert_eq!(all[2].state(), (ReplicaState::Ejected, Why::Failures));
    assert!(!all[2].available && all[1].available);
    let judged_by = |place: usize| (healths[place].workers_agreeing, healths[place].workers);
    assert_eq!([judged_by(0), judged_by(2)], [(2, 2), (1, 2)]);
    let standing = |place: usize| {
        let (state, why) = all[place].state();
        Standing {
            state,
            why,
            signs: all[place].clone(),
            ..Standing::default()
        }
    };
    let why = "too many failures; ejected by 1 of 2 workers";
    assert_eq!(standing(2).why().as_deref(), Some(why));
    assert_eq!(standing(0).why(), None);
}

#[test]
fn a_limited_replica_says_which_of_failures_and_slowness_it_is_if_workers_agree() {
    let mut ids = ReplicaIds::new();
    let ids: Vec<_> = (0..4).filter_map(|_| ids.allocate()).collect();
    let played = worker(&ids, None);
    let view = |is_slow| {
        let mut view = played.snapshot.health[0];
        (view.state, view.is_slow) = (HealthState::HeldBack, is_slow);
        view
    };
    let why = |workers: &[bool]| {
        let views: Vec<_> = workers.iter().map(|is_slow| view(*is_slow)).collect();
        let views: Vec<_> = views.iter().map(|view| vec![view]).collect();
        let signs = Signs {
            health: health(&views),
            ..Signs::default()
        };
        signs.state().1
    };
    assert_eq!(why(&[true, true]), Why::HeldBackSlow);
    assert_eq!(why(&[false]), Why::HeldBackFailing);
    assert_eq!(why(&[true, false]), Why::HeldBack);
}

#[test]
fn without_worker_data_health_is_unknown() {
    let all = signs(
        SystemTime::UNIX_EPOCH,
        &service(2, vec![WorkerFacts::default()]),
    );
    assert!(all.iter().all(|it| it.health.is_none() && it.available));
}

#[test]
fn states_known_without_worker_data() {
    let mut fleet = service(4, Vec::new());
    fleet.replicas[0].weight = 0;
    fleet.replicas[1].drained = true;
    fleet.replicas[2].health = Some(HealthFacts {
        verdict: "down".to_owned(),
        ..HealthFacts::default()
    });
    fleet.replicas[3].behind = Some(BehindFacts {
        is_there: false,
        in_flight: 3,
    });
    let all = signs(SystemTime::UNIX_EPOCH, &fleet);
    let found: Vec<_> = all.iter().map(Signs::state).collect();
    let expected = [
        (ReplicaState::Disabled, Why::NoWeight),
        (ReplicaState::Draining, Why::Drained),
        (ReplicaState::Down, Why::ChecksFailed(None)),
        (ReplicaState::Down, Why::NotConnectable),
    ];
    assert_eq!(found, expected);
    assert_eq!(all[3].in_flight, 3);
}

/// Plays a policy on a fleet in which no replica answers probes. Returns the worker, and whether
/// the policy answers probes from its own counts.
fn when_none_answers(entry: &PolicyEntry) -> (WorkerFacts, bool) {
    let mut policy = (entry.build)(&PolicySettings::default());
    let (mut ids, mut draw) = (ReplicaIds::new(), SplitMix64::new(1));
    let mut now = Instant::EPOCH;
    let ids: Vec<_> = (0..3).filter_map(|_| ids.allocate()).collect();
    for &id in &ids {
        policy.handle(now, Event::Added(id), &mut NoDraw);
    }
    for _ in 0..1_000 {
        now += Duration::from_millis(10);
        if let Decision::Pick(pick) = policy.choose(now, Query::first(), &mut draw, None) {
            policy.handle_query_done(now, pick.ticket, Outcome::Success);
        }
        while policy.poll_probe(now, &mut draw).is_some() {}
        policy.handle(now, Event::Timeout, &mut draw);
    }
    let worker = WorkerFacts {
        ids: ids.into_iter().map(|id| vec![id]).collect(),
        counters: policy.counters(),
        snapshot: policy.snapshot(now),
        ..WorkerFacts::default()
    };
    (worker, policy.counters().probes_local > 0)
}

#[test]
fn the_reason_of_unprobed_replicas_matches_the_policy() {
    let mut told = 0;
    for entry in POLICIES {
        let (worker, local) = when_none_answers(entry);
        let service = ServiceFacts {
            policy: entry.name,
            ..service(3, vec![worker])
        };
        let all: Vec<_> = signs(SystemTime::UNIX_EPOCH, &service)
            .iter()
            .map(Signs::state)
            .collect();
        if all
            .iter()
            .all(|(state, _)| *state == ReplicaState::Unprobed)
        {
            let why = if local {
                Why::NoReport
            } else {
                Why::NoReportPolled
            };
            assert_eq!(all[0].1, why, "{}", entry.name);
            told += 1;
        }
    }
    assert!(told >= 6, "four that probe, two that poll");
}

#[test]
fn passed_checks_do_not_refute_an_agent_that_refuses_requests_and_reports_that_it_drains() {
    let failing = |kind, draining| {
        let mut ids = ReplicaIds::new();
        let ids: Vec<_> = (0..4).filter_map(|_| ids.allocate()).collect();
        let mut worker = worker(&ids, None);
        worker.snapshot.replicas[0].draining = draining;
        let age = Duration::from_mins(1);
        worker.evidence = vec![AttemptEvidence {
            failures: 1,
            in_a_row: 1,
            first_age: age,
            last: Some(LastFailure {
                kind,
                error: String::new(),
                age,
            }),
            ..AttemptEvidence::default()
        }];
        let mut fleet = service(3, vec![worker]);
        fleet.replicas[0].health = Some(HealthFacts {
            verdict: "up".to_owned(),
            checked_at_ms: Some(999_000),
            ..HealthFacts::default()
        });
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        signs(now, &fleet)[0].failing.is_some()
    };
    // A check by TCP reaches the agent, whatever its server does.
    assert!(failing(FailureKind::Withdrawn, true));
    assert!(!failing(FailureKind::Withdrawn, false));
    assert!(!failing(FailureKind::Refused, true));
}

#[test]
fn passed_checks_refute_failures_once_no_attempt_is_made() {
    let state = |failed_s: u64, checked_s: u64| {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let age = Duration::from_secs(1_000 - failed_s);
        let mut fleet = service(
            1,
            vec![WorkerFacts {
                evidence: vec![AttemptEvidence {
                    failures: 3,
                    in_a_row: 3,
                    first_age: age,
                    last: Some(LastFailure {
                        kind: FailureKind::Refused,
                        error: String::new(),
                        age,
                    }),
                    ..AttemptEvidence::default()
                }],
                ..WorkerFacts::default()
            }],
        );
        fleet.replicas[0].health = Some(HealthFacts {
            verdict: "up".to_owned(),
            checked_at_ms: Some(checked_s * 1_000),
            ..HealthFacts::default()
        });
        signs(now, &fleet)[0].state().0
    };
    assert_eq!(state(980, 999), ReplicaState::Available);
    assert_eq!(state(980, 970), ReplicaState::Down, "the check was before");
    assert_eq!(
        state(995, 999),
        ReplicaState::Down,
        "attempts go on failing"
    );
}
