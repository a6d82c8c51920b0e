//! The first replica to return, and what health and the policy forget of it.

use crate::fleet::{Client, KINDS, MS, Manner, SECOND};
use slackwater_core::health::{HealthSettings, HealthState};
use slackwater_core::policy::Event;
use slackwater_core::{LoadReport, Rif};

fn failing(fails: u32) -> Manner {
    Manner {
        fails,
        ..Manner::default()
    }
}

/// `[E3]`
#[test]
fn less_bad_replica_returns_if_fewer_may_be_ejected() {
    for (worse, better) in [(0, 1), (1, 0)] {
        let mut client = Client::new("random", 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[worse] = failing(100);
        client.manners[better] = failing(40);
        while client.counters().ejections < 2 {
            client.run(100 * MS);
        }
        let success = |place| client.view(place).success_millionths;
        assert!(success(worse) < success(better));
        for place in [2, 3] {
            let replica = client.replicas[place];
            client.handle(Event::Available(replica, false));
        }
        let available = client.policy.fleet().available();
        assert_eq!(available, [client.replicas[better]]);
        let view = client.view(better);
        assert_eq!(view.state, HealthState::HeldBack);
        assert_eq!(view.share_millionths, 62_500);
    }
}

/// `[E3]`
#[test]
fn replica_returns_although_every_query_is_pinned() {
    for (kind, shadow_trials) in KINDS.map(|kind| [(kind, false), (kind, true)]).concat() {
        let mut settings = HealthSettings::default();
        settings.shadow_trials = shadow_trials;
        let mut client = Client::new(kind, 2, settings);
        client.is_sticky = true;
        client.run(5 * SECOND);
        client.manners[1] = failing(100);
        client.run(SECOND);
        assert_eq!(client.view(1).state, HealthState::Ejected, "{kind}");
        client.manners[1] = failing(0);
        client.run(20 * SECOND);
        assert_eq!(client.view(1).state, HealthState::Sound, "{kind}");
        assert_eq!(client.run(5 * SECOND).share(1), 50, "{kind}");
    }
}

/// `[E3]`
#[test]
fn returning_replica_is_not_judged_by_failures_from_before() {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners[1] = failing(100);
    client.run(SECOND);
    client.manners[1] = failing(0);
    while client.view(1).state != HealthState::Returning {
        client.run(client.gap);
    }
    client.run(100 * MS);
    let view = client.view(1);
    assert_eq!(view.success_millionths, 1_000_000);
    assert_eq!(view.state, HealthState::Returning);
}

/// The policy avoids slow replicas itself, and forgets a peak only slowly.
#[test]
fn policy_forgets_what_it_learned_of_a_replica_that_returns() {
    let mut client = Client::new("peak_ewma", 4, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners[1] = Manner {
        fails_after: 3 * SECOND,
        ..failing(100)
    };
    client.run(10 * SECOND);
    client.manners[1] = failing(0);
    while client.view(1).state != HealthState::Sound {
        client.run(100 * MS);
    }
    let shown = client.run(5 * SECOND);
    assert!((10..=35).contains(&shown.share(1)), "{shown:?}");
}

/// `[E1]` `[E5]`
#[test]
fn report_of_few_failures_does_not_clear_a_replica_that_fails_half() {
    for reported in [0, 1, 10_000, 100_000] {
        let mut client = Client::new("random", 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[1] = failing(50);
        let mut report = LoadReport::new(Rif::ZERO, None);
        report.error_millionths = Some(reported);
        for _ in 0..50 {
            client.hear(1, &report);
            client.run(100 * MS);
        }
        assert_eq!(client.view(1).state, HealthState::Ejected, "{reported}");
    }
}
