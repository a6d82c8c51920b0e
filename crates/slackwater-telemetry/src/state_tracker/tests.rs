//! States over time: since when, what is news, and when all replicas of a service fail.

use super::*;
use crate::facts::{HealthFacts, ReplicaFacts};
use core::time::Duration;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A service with these replicas, each down or not.
fn fleet(replicas: &[(&str, bool)]) -> Vec<ServiceFacts> {
    let replica = |&(name, is_down): &(&str, bool)| ReplicaFacts {
        name: name.to_owned(),
        address: name.to_owned(),
        weight: 1,
        health: Some(HealthFacts {
            verdict: if is_down { "down" } else { "up" }.to_owned(),
            last_failure: Some("refused".to_owned()),
            ..HealthFacts::default()
        }),
        ..ReplicaFacts::default()
    };
    vec![ServiceFacts {
        name: "web".to_owned(),
        replicas: replicas.iter().map(replica).collect(),
        ..ServiceFacts::default()
    }]
}

fn see(tracker: &StateTracker, seconds: u64, replicas: &[(&str, bool)]) -> Vec<Standing> {
    let services = tracker.observe(at(seconds), || fleet(replicas));
    let all = services.into_iter().flat_map(|service| service.replicas);
    all.map(|replica| replica.standing).collect()
}

#[test]
fn state_has_a_reason_and_a_start_time_after_a_change() {
    let tracker = StateTracker::default();
    let first = see(&tracker, 1, &[("a", false), ("b", true)]);
    let told = |it: &Standing| (it.state, it.since, it.why());
    let refused = Some("health checks failed: refused".to_owned());
    assert_eq!(told(&first[0]), (ReplicaState::Available, None, None));
    assert_eq!(told(&first[1]), (ReplicaState::Down, None, refused.clone()));
    see(&tracker, 5, &[("a", true), ("b", true)]);
    let later = see(&tracker, 9, &[("a", true), ("b", false)]);
    assert_eq!(told(&later[0]), (ReplicaState::Down, Some(at(5)), refused));
    assert_eq!(
        told(&later[1]),
        (ReplicaState::Available, Some(at(9)), None)
    );
    // A replica that leaves is forgotten.
    see(&tracker, 10, &[("b", false)]);
    let back = see(&tracker, 11, &[("a", true), ("b", false)]);
    assert_eq!((back[0].since, back[1].since), (None, Some(at(9))));
}

#[test]
fn state_change_is_reported_once() {
    let tracker = StateTracker::default();
    let taken = || {
        let changes = tracker.take_news().changes.into_iter();
        let change = |it: StateChange| (it.replica, it.from, it.standing.state);
        changes.map(change).collect::<Vec<_>>()
    };
    see(&tracker, 1, &[("a", false), ("b", true)]);
    see(&tracker, 2, &[("a", false), ("b", true)]);
    let (up, down) = (ReplicaState::Available, ReplicaState::Down);
    assert_eq!(taken(), [("b".to_owned(), None, down)]);
    assert_eq!(taken(), []);
    see(&tracker, 3, &[("a", true), ("b", false)]);
    see(&tracker, 4, &[("a", false), ("b", false)]);
    assert_eq!(taken(), [("b".to_owned(), Some(down), up)]);
}

#[test]
fn configured_or_brief_states_are_not_reported() {
    use crate::replica_state::HealthSigns;
    use slackwater_core::policy::HealthState;

    let tracker = StateTracker::default();
    let mut services = fleet(&[("a", false)]);
    services[0].replicas[0].weight = 0;
    tracker.observe(at(1), || services);
    assert_eq!(tracker.take_news().changes, []);
    see(&tracker, 2, &[("a", false)]);
    let changes = tracker.take_news().changes;
    let from: Vec<_> = changes.iter().map(|change| change.from).collect();
    assert_eq!(from, [Some(ReplicaState::Disabled)]);
    let mut known = tracker.0.lock().unwrap();
    let standing = &mut known.replicas.values_mut().next().unwrap().standing;
    standing.signs.health = Some(HealthSigns {
        state: HealthState::PushingBack,
        workers_agreeing: 1,
        workers: 1,
        is_slow: Some(false),
        share_millionths: 500_000,
        success_millionths: 1_000_000,
        latency: None,
        median_success_millionths: 0,
        median_latency: None,
    });
    (standing.state, standing.why) = standing.signs.state();
    assert_eq!(standing.state, ReplicaState::Limited);
    drop(known);
    assert_eq!(tracker.take_news().changes, []);
}

/// A service whose replicas have this many failures in a row, the last one at this age.
fn failing(replicas: &[(&str, u64, FailureKind)]) -> Vec<ServiceFacts> {
    use crate::attempt_failure::AttemptEvidence;
    use crate::facts::WorkerFacts;

    let names: Vec<_> = replicas.iter().map(|(name, ..)| (*name, false)).collect();
    let mut services = fleet(&names);
    for replica in &mut services[0].replicas {
        replica.health = None;
    }
    let evidence = |&(_, failures, kind): &(&str, u64, FailureKind)| AttemptEvidence {
        failures,
        in_a_row: failures,
        first_age: Duration::from_secs(1),
        ages: Vec::new(),
        last: (failures > 0).then(|| LastFailure {
            kind,
            error: "in full".to_owned(),
            age: Duration::ZERO,
        }),
        answered_age: None,
    };
    services[0].workers = vec![WorkerFacts {
        evidence: replicas.iter().map(evidence).collect(),
        ..WorkerFacts::default()
    }];
    services
}

#[test]
fn failure_is_reported_once_a_minute_per_kind() {
    let tracker = StateTracker::default();
    let news = |seconds, failures, kind| {
        tracker.observe(at(seconds), || failing(&[("a", failures, kind)]));
        let failures = tracker.take_news().failures.into_iter();
        failures.map(|it| it.last.kind).collect::<Vec<_>>()
    };
    let (refused, late) = (FailureKind::Refused, FailureKind::ConnectTimedOut);
    assert_eq!(news(1, 0, refused), []);
    assert_eq!(news(2, 1, refused), [refused]);
    assert_eq!(news(3, 1, refused), []);
    assert_eq!(news(4, 2, refused), []);
    assert_eq!(news(5, 3, late), [], "the change of state says so");
    assert_eq!(news(6, 4, refused), [], "each kind has a minute of its own");
    assert_eq!(news(65, 5, refused), []);
    assert_eq!(news(125, 6, refused), [refused]);
    // The service was built again.
    assert_eq!(news(126, 1, late), [late]);
}

#[test]
fn old_failure_is_not_reported_when_another_kind_occurs() {
    let tracker = StateTracker::default();
    let news = |seconds, closed: u64| {
        let workers = [
            (1, FailureKind::Refused, 1_000),
            (closed, FailureKind::Closed, 0),
        ];
        tracker.observe(at(seconds), || {
            let mut services = failing(&[("a", 0, FailureKind::Refused)]);
            services[0].workers = workers
                .map(|(failures, kind, age)| {
                    let mut one = failing(&[("a", failures, kind)])[0].workers[0].clone();
                    for last in one.evidence.iter_mut().filter_map(|it| it.last.as_mut()) {
                        last.age = Duration::from_secs(age);
                    }
                    one.evidence[0].in_a_row = 0;
                    one
                })
                .into();
            services
        });
        tracker.take_news().failures.len()
    };
    assert_eq!(news(2_000, 0), 1, "seen for the first time");
    assert_eq!(news(2_100, 1), 0);
    assert_eq!(news(2_200, 2), 0);
}

#[test]
fn outage_of_all_replicas_and_its_end_are_reported_once() {
    let tracker = StateTracker::default();
    let refused = FailureKind::Refused;
    let news = |seconds, a, b| {
        tracker.observe(at(seconds), || {
            failing(&[("a", a, refused), ("b", b, refused)])
        });
        tracker.take_news().services
    };
    assert_eq!(news(1, 0, 0), []);
    assert_eq!(news(2, 3, 2), [], "one is not down yet");
    let began = news(3, 4, 3);
    assert_eq!(began.len(), 1);
    let standing = &began[0].standing;
    assert!(standing.all_fail && began[0].lasted.is_none());
    assert_eq!((standing.wanted, standing.taking), (2, 0));
    assert_eq!(
        (&*standing.why, standing.since),
        ("connection refused", Some(at(3)))
    );
    assert_eq!(news(4, 9, 9), []);
    let ended = news(10, 0, 9);
    assert_eq!(ended[0].lasted, Some(Duration::from_secs(7)));
    assert_eq!(
        (ended[0].standing.taking, ended[0].standing.since),
        (1, None)
    );
    // A second outage is reported at once, its end a minute after the first end.
    assert!(news(11, 12, 12)[0].standing.all_fail);
    assert_eq!(news(12, 0, 13), []);
    assert_eq!(news(20, 14, 14), []);
    assert_eq!(news(30, 0, 15), []);
    assert_eq!(news(70, 0, 16)[0].lasted, Some(Duration::from_secs(19)));
}
