//! Answers that begin well and run for long, or break off.

use crate::fleet::{Client, MS, Manner, SECOND};
use core::time::Duration;
use slackwater_core::health::{HealthSettings, HealthState};
use slackwater_core::policy::Outcome;

fn streaming() -> Manner {
    Manner {
        takes: Duration::from_hours(1),
        head_after: Some(10 * MS),
        ..Manner::default()
    }
}

/// The second of four replicas has been ejected.
fn with_one_out() -> Client {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners[1].fails = 100;
    client.run(5 * SECOND);
    assert_eq!(client.view(1).state, HealthState::Ejected);
    client
}

#[test]
fn streaming_replica_returns_by_successful_heads() {
    let mut client = with_one_out();
    client.manners[1] = streaming();
    client.run(15 * SECOND);
    assert_eq!(client.view(1).state, HealthState::Sound);
    assert!(client.counters().trials_passed >= 3);
}

#[test]
fn open_streams_count_as_successes_beside_failures() {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    for manner in &mut client.manners {
        manner.fails_rarely = 20;
    }
    client.manners[1] = Manner {
        fails_rarely: 20,
        ..streaming()
    };
    client.run(60 * SECOND);
    let counters = client.counters();
    assert_eq!((counters.ejections, counters.spared), (0, 0));
}

#[test]
fn broken_responses_eject_like_failed_heads() {
    for (after, most) in [(11, 12), (60, 60), (1_500, 600)] {
        let mut client = Client::new("random", 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[1] = Manner {
            fails: 100,
            bad: Outcome::Broken,
            fails_after: after * MS,
            head_after: Some(10 * MS),
            ..Manner::default()
        };
        let shown = client.run(30 * SECOND);
        assert_eq!(client.view(1).state, HealthState::Ejected, "{after} ms");
        let untried = shown.failed - shown.trials.min(shown.failed);
        assert!(untried <= most, "{after} ms: {shown:?}");
        assert_eq!(client.counters().ejections, 1, "{after} ms");
    }
}

#[test]
fn pushed_back_and_dropped_queries_count_as_trials() {
    for (bad, most) in [(Outcome::PushedBack, 18), (Outcome::Dropped, 32)] {
        let mut client = with_one_out();
        client.manners[1] = Manner {
            fails: 100,
            bad,
            ..Manner::default()
        };
        let shown = client.run(60 * SECOND);
        assert!((10..=most).contains(&shown.trials), "{bad:?}: {shown:?}");
        assert_eq!(client.view(1).state, HealthState::Ejected);
    }
}

#[test]
fn connection_reset_does_not_end_probation() {
    for (outcome, state) in [
        (Outcome::Broken, HealthState::OnProbation),
        (Outcome::Failed, HealthState::Returning),
    ] {
        let mut client = Client::new("round_robin", 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[1].is_stopped = true;
        client.run(2 * SECOND);
        assert_eq!(client.view(1).state, HealthState::OnProbation);
        let ticket = client.stuck.pop().expect("one");
        client.policy.handle_query_done(client.now, ticket, outcome);
        assert_eq!(client.view(1).state, state);
    }
}
