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
fn a_replica_that_streams_for_hours_is_back_by_good_heads() {
    let mut client = with_one_out();
    client.manners[1] = streaming();
    client.run(15 * SECOND);
    assert_eq!(client.view(1).state, HealthState::Sound);
    assert!(client.counters().trials_passed >= 3);
}

#[test]
fn a_streaming_replica_is_not_judged_by_its_failures_alone() {
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
fn broken_responses_are_found_as_soon_as_failed_heads() {
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
fn what_is_pushed_back_or_given_up_is_a_trial_all_the_same() {
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
fn a_reset_is_no_sign_of_life() {
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
