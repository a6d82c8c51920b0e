//! E1 to E5: replicas that fail.

use crate::fleet::{Client, KINDS, MS, Manner, SECOND};
use core::time::Duration;
use slackwater_core::LoadReport;
use slackwater_core::Rif;
use slackwater_core::health::{HealthSettings, HealthState};
use slackwater_core::policy::{Event, Outcome, POLICIES};

fn failing(fails: u32) -> Manner {
    Manner {
        fails,
        ..Manner::default()
    }
}

#[test]
fn replica_that_fails_half_gets_few_queries_under_any_policy() {
    for entry in POLICIES {
        let mut client = Client::new(entry.name, 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[2] = failing(50);
        client.run(3 * SECOND);
        let shown = client.run(60 * SECOND);
        assert!(shown.failed_per_mille() < 10, "{}: {shown:?}", entry.name);
        assert!(client.counters().ejections >= 1, "{}", entry.name);
    }
}

#[test]
fn replica_that_always_fails_gets_only_trials() {
    for kind in KINDS {
        let mut client = Client::new(kind, 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[1] = failing(100);
        client.run(SECOND);
        let shown = client.run(30 * SECOND);
        assert_eq!(shown.sent[1], shown.trials, "{kind}");
        assert!((3..=12).contains(&shown.trials), "{kind}: {shown:?}");
        assert_eq!(client.view(1).state, HealthState::Ejected);
        assert_eq!(client.counters().ejections, 1, "{kind}");
    }
}

#[test]
fn five_failures_in_a_row_eject_and_four_do_not() {
    let mut client = Client::new("round_robin", 2, HealthSettings::default());
    client.gap = 20 * MS;
    client.run(5 * SECOND);
    client.manners[0] = failing(100);
    let mut sent = 0;
    while client.view(0).state != HealthState::Ejected {
        assert!(sent <= 5, "{:?}", client.view(0));
        sent += client.run(client.gap).sent[0];
    }
    // One more has been sent when the fifth returns.
    assert!((5..=6).contains(&sent), "{sent}");
}

#[test]
fn recovered_replica_regains_its_share_within_ten_seconds() {
    for kind in KINDS {
        let mut client = Client::new(kind, 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[3] = failing(50);
        client.run(30 * SECOND);
        client.manners[3] = failing(0);
        client.run(10 * SECOND);
        assert_eq!(client.view(3).state, HealthState::Sound, "{kind}");
        let shown = client.run(10 * SECOND);
        assert!((15..=35).contains(&shown.share(3)), "{kind}: {shown:?}");
    }
}

#[test]
fn good_reports_alone_do_not_restore_a_failing_replica() {
    // Its reports are good all the time.
    let mut client = Client::new("prequal", 4, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners[3] = failing(80);
    client.run(10 * SECOND);
    let shown = client.run(60 * SECOND);
    assert!(shown.share(3) < 1, "{shown:?}");
}

#[test]
fn evenly_failing_fleet_ejects_no_replica() {
    for (fails, replicas) in [(25, 20), (25, 4), (100, 4), (2, 4), (60, 8)] {
        for kind in ["random", "least_loaded", "prequal"] {
            let mut client = Client::new(kind, replicas, HealthSettings::default());
            client.run(5 * SECOND);
            for manner in &mut client.manners {
                *manner = failing(fails);
            }
            client.run(30 * SECOND);
            let counters = client.counters();
            assert_eq!(counters.ejections, 0, "{kind}: {fails} % of {replicas}");
        }
    }
}

#[test]
fn at_most_half_of_the_fleet_is_ejected() {
    let mut client = Client::new("random", 5, HealthSettings::default());
    client.run(5 * SECOND);
    for (place, seconds) in [(0, 10), (1, 10), (2, 10), (3, 10)] {
        client.manners[place] = failing(100);
        client.run(seconds * SECOND);
        let out = client.states();
        let out = out.iter().filter(|&&state| state == HealthState::Ejected);
        assert_eq!(out.count(), 2.min(place + 1), "{place}");
    }
    let settings = HealthSettings::default();
    let mut client = Client::new("random", 1, settings);
    client.manners[0] = failing(100);
    client.run(10 * SECOND);
    assert_eq!(client.states(), [HealthState::Sound], "the only one");
}

#[test]
fn ejections_shrink_if_the_driver_disables_other_replicas() {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners[0] = failing(100);
    client.manners[1] = failing(100);
    client.run(5 * SECOND);
    assert_eq!(client.policy.fleet().available().len(), 2);
    for place in [2, 3] {
        let replica = client.replicas[place];
        client.handle(Event::Available(replica, false));
    }
    assert_eq!(
        client.policy.fleet().available().len(),
        1,
        "half of two may be out"
    );
    for place in 0..2 {
        let replica = client.replicas[place];
        client.handle(Event::Available(replica, false));
        client.handle(Event::Available(replica, true));
    }
    assert_eq!(
        client.policy.fleet().available().len(),
        2,
        "the one, and the other for now"
    );
}

#[test]
fn pushback_lowers_a_share_and_ejects_no_replica() {
    for kind in ["least_loaded", "random", "prequal"] {
        let mut client = Client::new(kind, 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[0] = Manner {
            fails: 100,
            bad: Outcome::PushedBack,
            ..Manner::default()
        };
        client.run(5 * SECOND);
        let shown = client.run(20 * SECOND);
        assert_eq!(client.counters().ejections, 0, "{kind}");
        assert!((1..10).contains(&shown.share(0)), "{kind}: {shown:?}");
        assert_eq!(client.view(0).state, HealthState::PushingBack, "{kind}");
        client.manners[0] = Manner::default();
        client.run(3 * SECOND);
        assert_eq!(client.view(0).state, HealthState::Sound, "{kind}");
    }
}

#[test]
fn reports_can_eject_but_not_restore_a_replica() {
    let mut client = Client::new("random", 3, HealthSettings::default());
    client.run(5 * SECOND);
    let mut report = LoadReport::new(Rif::ZERO, None);
    report.error_millionths = Some(600_000);
    for _ in 0..30 {
        client.hear(1, &report);
        client.run(100 * MS);
    }
    assert_eq!(client.view(1).state, HealthState::Ejected);

    let mut client = Client::new("random", 3, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners[1] = failing(100);
    report.error_millionths = Some(0);
    for _ in 0..300 {
        client.hear(1, &report);
        client.run(100 * MS);
    }
    assert_eq!(client.view(1).state, HealthState::Ejected);
}

#[test]
fn reports_with_responses_do_not_hide_the_failures_that_probes_report() {
    let mut client = Client::new("random", 3, HealthSettings::default());
    client.run(5 * SECOND);
    let carried = LoadReport::new(Rif::ZERO, None);
    let mut probed = carried.clone();
    probed.error_millionths = Some(600_000);
    for _ in 0..30 {
        client.handle(Event::SiblingReport(client.replicas[1], &probed));
        client.hear(1, &carried);
        client.run(100 * MS);
    }
    assert_eq!(client.view(1).state, HealthState::Ejected);
}

#[test]
fn client_with_few_queries_sends_few_trials() {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners[1] = failing(100);
    client.run(5 * SECOND);
    client.gap = Duration::from_millis(200);
    client.run(30 * SECOND);
    let shown = client.run(200 * SECOND);
    assert_eq!(shown.queries, 1_000);
    assert!((2..=3).contains(&shown.trials), "{shown:?}");
}

#[test]
fn failing_replica_gets_overflow_if_the_others_are_saturated() {
    // E = 10 ms + 20 · 10 ms · (1/0.5 − 1) = 210 ms.
    for (takes, least, most) in [(150, 0, 2), (400, 8, 30)] {
        let mut client = Client::new("random", 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[0] = failing(50);
        client.run(10 * SECOND);
        for place in 1..4 {
            client.manners[place].takes = takes * MS;
        }
        client.run(20 * SECOND);
        let share = client.run(20 * SECOND).share(0);
        assert!((least..=most).contains(&share), "{takes} ms: {share} %");
    }
}

#[test]
fn without_error_aversion_no_replica_is_ejected() {
    let mut settings = HealthSettings::default();
    settings.errors = None;
    let mut client = Client::new("random", 4, settings);
    client.manners[0] = failing(100);
    client.run(20 * SECOND);
    assert_eq!(client.states(), [HealthState::Sound; 4]);
}

#[test]
fn recovery_is_as_fast_at_low_load() {
    for kind in ["random", "least_loaded", "prequal"] {
        let mut client = Client::new(kind, 4, HealthSettings::default());
        client.gap = 20 * MS;
        client.run(30 * SECOND);
        client.manners[3] = failing(100);
        client.run(30 * SECOND);
        client.manners[3] = failing(0);
        client.run(10 * SECOND);
        assert_eq!(client.view(3).state, HealthState::Sound, "{kind}");
    }
}

#[test]
fn timeouts_are_failures_unless_the_fleet_is_much_slower_than_usual() {
    let timing_out = Manner {
        fails: 50,
        bad: Outcome::TimedOut,
        fails_after: 300 * MS,
        ..Manner::default()
    };
    let mut settings = HealthSettings::default();
    settings.probation = None;
    for (takes, ejections) in [(10, 1), (100, 0)] {
        let mut client = Client::new("random", 4, settings.clone());
        client.run(5 * SECOND);
        for manner in &mut client.manners {
            manner.takes = takes * MS;
        }
        client.run(5 * SECOND);
        client.manners[0] = Manner {
            takes: takes * MS,
            ..timing_out
        };
        client.run(5 * SECOND);
        let found = client.counters().ejections.min(1);
        assert_eq!(found, ejections, "{takes} ms");
    }
}

#[test]
fn late_failures_of_an_unavailable_replica_do_not_count() {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners[1] = Manner {
        fails_after: 200 * MS,
        ..failing(100)
    };
    client.run(200 * MS);
    client.handle(Event::Available(client.replicas[1], false));
    client.run(5 * SECOND);
    let counters = client.counters();
    assert_eq!((counters.ejections, counters.spared), (0, 0));
    assert_eq!(client.view(1).share_millionths, 1_000_000);
    client.manners[1] = failing(0);
    client.handle(Event::Available(client.replicas[1], true));
    client.run(20 * SECOND);
    assert_eq!(client.view(1).state, HealthState::Sound);
}
