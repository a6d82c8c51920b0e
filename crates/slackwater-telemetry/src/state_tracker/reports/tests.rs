//! Replicas that fail all, half or none of their attempts, and what is reported of them in minutes
//! of virtual time.

use super::*;
use crate::attempt_failure::{AttemptEvidence, DownAfter, FailureKind, LastFailure};
use crate::facts::{ReplicaFacts, ServiceFacts, WorkerFacts};
use crate::state_tracker::StateTracker;
use slackwater_core::health::{HealthSettings, build};
use slackwater_core::policy::{Event, HealthState, PolicySettings, Settings, policy_named};
use slackwater_core::{Draw, Instant, NoDraw, ReplicaIds, SplitMix64};

const START: Duration = Duration::from_secs(1_000_000);

/// One replica of a service, at which one attempt follows another.
#[derive(Default)]
struct Site {
    tracker: StateTracker,
    now: Duration,
    failed_at: Vec<Duration>,
    failures: u64,
    first_at: Duration,
    answered_at: Option<Duration>,
    state: ReplicaState,
    /// How its attempts fail; `None`: refused.
    kind: Option<FailureKind>,
    /// The state that the worker's policy finds.
    judged: Option<HealthState>,
    /// The replica reports that it drains.
    draining: bool,
    /// How often the replica was found in another state.
    changes: usize,
    /// What the log has, each with its second.
    lines: Vec<(u64, String)>,
}

impl Site {
    fn attempt(&mut self, fails: bool) {
        if !fails {
            self.answered_at = Some(self.now);
            self.failed_at.clear();
            return;
        }
        if self.failed_at.is_empty() {
            self.first_at = self.now;
        }
        self.failures += 1;
        self.failed_at.push(self.now);
    }

    fn evidence(&self) -> AttemptEvidence {
        let age = |at: Duration| self.now.checked_sub(at).unwrap();
        let newest = self.failed_at.iter().rev().map(|at| age(*at));
        AttemptEvidence {
            failures: self.failures,
            in_a_row: self.failed_at.len() as u64,
            first_age: age(self.first_at),
            ages: newest.take(10).collect(),
            last: self.failed_at.last().map(|at| LastFailure {
                kind: self.kind.unwrap_or(FailureKind::Refused),
                error: String::new(),
                age: age(*at),
            }),
            answered_age: self.answered_at.map(age),
        }
    }

    /// A worker whose policy finds the replica's state.
    fn worker(&self) -> WorkerFacts {
        let config = HealthSettings::default().validate();
        let entry = policy_named("round_robin").expect("the policy");
        let mut policy = build(
            entry,
            &PolicySettings::default(),
            &config.expect("defaults"),
        );
        let id = ReplicaIds::new().allocate().expect("the first one");
        policy.handle(Instant::EPOCH, Event::Added(id), &mut NoDraw);
        let mut snapshot = policy.snapshot(Instant::EPOCH);
        snapshot.replicas[0].draining = self.draining;
        if let Some(judged) = self.judged {
            snapshot.health[0].state = judged;
        }
        WorkerFacts {
            ids: vec![vec![id]],
            snapshot,
            ..WorkerFacts::default()
        }
    }

    /// Every place looks at the states, and the log takes the news.
    fn look(&mut self) {
        let replica = ReplicaFacts {
            name: "a".to_owned(),
            weight: 1,
            ..ReplicaFacts::default()
        };
        let service = ServiceFacts {
            name: "web".to_owned(),
            workers: vec![
                WorkerFacts {
                    evidence: vec![self.evidence(), AttemptEvidence::default()],
                    ..self.worker()
                },
                WorkerFacts {
                    evidence: vec![AttemptEvidence::default(); 2],
                    ..WorkerFacts::default()
                },
            ],
            replicas: vec![
                replica.clone(),
                ReplicaFacts {
                    name: "b".to_owned(),
                    address: "b".to_owned(),
                    ..replica
                },
            ],
            ..ServiceFacts::default()
        };
        let at = SystemTime::UNIX_EPOCH + START + self.now;
        let seen = self.tracker.observe(at, || vec![service]);
        let state = seen[0].replicas[0].standing.state;
        self.changes += usize::from(core::mem::replace(&mut self.state, state) != state);
        let news = self.tracker.take_news();
        let changes = news.changes.iter().map(|it| it.standing.state.to_string());
        let failures = news
            .failures
            .iter()
            .map(|it| it.last.kind.as_str().to_owned());
        let second = self.now.as_secs();
        self.lines
            .extend(changes.chain(failures).map(|it| (second, it)));
    }

    /// Attempts for so long at that rate, each of which fails or not; a look every second.
    fn go(&mut self, seconds: u64, rate: u64, mut fails: impl FnMut() -> bool) {
        for attempt in 0..seconds * rate {
            if attempt % rate == rate / 4 {
                self.look();
            }
            self.attempt(fails());
            self.now += Duration::from_secs(1) / u32::try_from(rate).unwrap();
        }
    }

    fn lines(&self) -> Vec<(u64, &str)> {
        let lines = self.lines.iter();
        lines.map(|(second, line)| (*second, &**line)).collect()
    }
}

/// A draw that is the same in each run.
fn draws(percent: u64) -> impl FnMut() -> bool {
    let mut draw = SplitMix64::new(7);
    move || draw.draw() % 100 < percent
}

#[test]
fn half_failing_replica_is_reported_at_most_once_a_minute() {
    for rate in [1, 2, 5, 10, 100, 1_000] {
        let mut site = Site::default();
        let minutes = 20;
        site.go(minutes * 60, rate, draws(50));
        let minutes = usize::try_from(minutes).unwrap();
        assert!(site.changes <= 2 * minutes, "{rate}: {}", site.changes);
        for kind in ["available", "down", "connection refused"] {
            let of_kind = site.lines.iter().filter(|(_, line)| line == kind);
            let count = of_kind.count();
            assert!(count <= minutes, "{rate}: {count} times {kind}");
        }
        // A streak lasts half a second only where attempts are rare.
        assert_eq!(site.changes > 0, rate < 100, "{rate}: {}", site.changes);
    }
}

#[test]
fn mostly_failing_replica_changes_more_often_than_reported() {
    let mut site = Site::default();
    site.go(600, 10, draws(90));
    assert!(site.changes > 40, "{}", site.changes);
    for kind in ["available", "down"] {
        let of_kind = site.lines.iter().filter(|(_, line)| line == kind);
        assert!((5..=11).contains(&of_kind.count()), "{:?}", site.lines);
    }
}

#[test]
fn always_failing_replica_is_down_within_two_checks() {
    let mut site = Site::default();
    site.go(10, 100, || false);
    site.go(600, 100, || true);
    assert_eq!(site.lines(), [(10, "connection refused"), (11, "down")]);
    assert_eq!(site.changes, 1);
}

#[test]
fn recovery_is_reported_at_once_and_raises_the_failure_threshold() {
    let mut site = Site::default();
    site.go(10, 10, || true);
    site.go(10, 10, || false);
    let seen = [(0, "connection refused"), (1, "down"), (10, "available")];
    assert_eq!(site.lines(), seen);
    // Nine failures in a row are too few now, and ten are enough.
    let mut left = 1..DownAfter::AGAIN.failures;
    site.go(5, 2, || left.next().is_some());
    assert_eq!((site.changes, site.lines.len()), (2, 3));
    site.go(7, 2, || true);
    assert_eq!(
        (site.changes, site.lines.last()),
        (3, Some(&(30, "down".to_owned())))
    );
    // The second end is reported a minute after the first.
    site.go(60, 10, || false);
    assert_eq!(
        (site.changes, site.lines.last()),
        (4, Some(&(70, "available".to_owned())))
    );
    // The minute is over, and three are enough again.
    site.go(40, 10, || false);
    let mut left = 0..DownAfter::FIRST.failures;
    site.go(1, 1, || true);
    site.go(3, 2, || left.next().is_some());
    assert_eq!(
        site.lines.iter().filter(|(_, line)| line == "down").count(),
        3
    );
}

/// A replica that was down and is ejected after it responded again.
fn ejected_lately() -> Site {
    let mut site = Site::default();
    site.go(5, 10, || true);
    site.go(5, 10, || false);
    let mut left = 0..DownAfter::FIRST.failures;
    site.go(1, 3, || left.next().is_some());
    site.judged = Some(HealthState::Ejected);
    site.look();
    site.look();
    assert_eq!(site.state, ReplicaState::Ejected);
    site
}

#[test]
fn an_ejected_one_whose_trials_get_no_response_is_down_although_it_was_down_lately() {
    let mut site = ejected_lately();
    site.now += Duration::from_secs(1);
    site.look();
    assert_eq!(site.state, ReplicaState::Ejected, "there was no trial yet");
    site.attempt(true);
    site.look();
    assert_eq!(site.state, ReplicaState::Down);
    assert_eq!(site.lines.last(), Some(&(11, "down".to_owned())));
}

#[test]
fn an_ejected_one_that_answered_a_trial_needs_ten_failures() {
    let mut site = ejected_lately();
    site.attempt(false);
    site.now += Duration::from_secs(1);
    let mut left = 1..DownAfter::AGAIN.failures;
    site.go(9, 1, || left.next().is_some());
    site.look();
    assert_eq!(site.state, ReplicaState::Ejected);
    site.attempt(true);
    site.look();
    assert_eq!(site.state, ReplicaState::Down);
}

#[test]
fn an_ejected_one_that_fails_most_of_its_trials_does_not_flap() {
    let mut site = ejected_lately();
    let before = site.changes;
    // Trials are a few seconds apart.
    let mut fails = draws(80);
    for _ in 0..150 {
        site.now += Duration::from_secs(4);
        site.attempt(fails());
        site.look();
    }
    // It is down once after each minute in which it was not.
    assert!(site.changes - before <= 2 * 10, "{}", site.changes);
}

#[test]
fn an_agent_without_a_server_is_down_although_it_reports_that_it_drains() {
    let mut site = Site {
        kind: Some(FailureKind::Withdrawn),
        ..Site::default()
    };
    site.go(5, 10, || false);
    // One request is refused. After the agent's report it gets none.
    site.attempt(true);
    site.draining = true;
    site.now += Duration::from_millis(100);
    site.look();
    assert_eq!(site.state, ReplicaState::Down);
    site.now += Duration::from_mins(10);
    site.look();
    assert_eq!(site.state, ReplicaState::Down);
    // Its server is back, and it takes requests before one is answered.
    site.draining = false;
    site.look();
    assert_eq!(site.state, ReplicaState::Available);
    let down = "the agent's server cannot be connected to";
    assert!(
        !site.lines.iter().any(|(_, line)| line == down),
        "{:?}",
        site.lines
    );
    let lines: Vec<_> = site.lines.iter().map(|(_, line)| &**line).collect();
    assert_eq!(lines, ["down", "available"]);
}

#[test]
fn a_planned_drain_of_an_agent_is_no_failure() {
    for (kind, quiet) in [
        // Connections to an agent that has ended are refused.
        (FailureKind::Refused, Duration::ZERO),
        // Its server restarted long before.
        (FailureKind::Withdrawn, Duration::from_secs(11)),
    ] {
        let mut site = Site {
            kind: Some(kind),
            ..Site::default()
        };
        site.go(5, 10, || false);
        site.attempt(true);
        site.now += quiet;
        site.draining = true;
        site.look();
        assert_eq!(site.state, ReplicaState::Draining, "{kind:?}");
        if kind == FailureKind::Refused {
            site.go(5, 10, || true);
            site.look();
            assert_eq!(site.state, ReplicaState::Draining);
        }
    }
}

#[test]
fn operator_changes_and_deteriorations_are_reported_at_once() {
    use ReplicaState::{Available, Down, Draining, Ejected, Limited};

    let at = |second| SystemTime::UNIX_EPOCH + Duration::from_secs(second);
    let mut reported = Reported::default();
    let mut holds = |second, from, to| reported.holds(Some(from), to, at(second));
    assert!(!holds(1, Down, Available));
    assert!(!holds(2, Available, Down));
    assert!(holds(3, Down, Available));
    assert!(
        !holds(4, Down, Ejected),
        "better, but reported for the first time"
    );
    assert!(!holds(5, Limited, Ejected) && !holds(6, Limited, Ejected));
    assert!(!holds(7, Draining, Available) && !holds(8, Draining, Available));
    assert!(holds(60, Down, Available));
    assert!(!holds(61, Down, Available));
    assert!(!holds(0, Down, Available), "the clock was set back");
    assert!(!reported.holds(None, Available, at(62)));
}

#[test]
fn replicas_that_become_unprobed_are_reported_together() {
    let at = |second| SystemTime::UNIX_EPOCH + Duration::from_secs(second);
    let mut unprobed = Unprobed::default();
    let mut is_due = |second, count| unprobed.is_due(count, at(second));
    assert!(!is_due(1, 0));
    assert!(
        !is_due(2, 40) && !is_due(3, 99) && !is_due(4, 100),
        "some joined"
    );
    assert!(is_due(5, 100));
    assert!(!is_due(6, 0));
    assert!(!is_due(7, 1) && !is_due(8, 1) && !is_due(64, 2) && is_due(65, 2));
    // They join one by one, for minutes.
    let due: Vec<_> = (200..320)
        .filter(|second| is_due(*second, usize::try_from(*second).unwrap()))
        .collect();
    assert_eq!(due, [210, 270]);
    assert!(Unprobed::is_collected(None, ReplicaState::Unprobed));
    assert!(Unprobed::is_collected(
        Some(ReplicaState::Available),
        ReplicaState::Unprobed
    ));
    assert!(!Unprobed::is_collected(
        Some(ReplicaState::Down),
        ReplicaState::Unprobed
    ));
    assert!(!Unprobed::is_collected(None, ReplicaState::Down));
}
