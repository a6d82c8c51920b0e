//! Replicas that are new, or have restarted.

use crate::fleet::{Client, KINDS, MS, SECOND};
use core::time::Duration;
use slackwater_core::health::{HealthSettings, HealthState};
use slackwater_core::{LoadReport, Rif};

#[test]
fn initial_fleet_needs_no_warm_up() {
    let client = Client::new("random", 4, HealthSettings::default());
    assert_eq!(client.states(), [HealthState::Sound; 4]);
    assert_eq!(client.counters().warm_ups, 0);
}

#[test]
fn warm_replica_has_full_share_after_a_few_dozen_responses() {
    for kind in KINDS {
        let mut client = Client::new(kind, 4, HealthSettings::default());
        client.run(5 * SECOND);
        let new = client.join();
        assert_eq!(client.view(new).share_millionths, 100_000, "{kind}");
        client.manners[new].fails = 0;
        let shown = client.run(200 * MS);
        assert!(shown.share(new) < 20, "{kind}: {shown:?}");
        client.run(4 * SECOND);
        assert_eq!(client.view(new).state, HealthState::Sound, "{kind}");
        let shown = client.run(5 * SECOND);
        assert!((14..=26).contains(&shown.share(new)), "{kind}: {shown:?}");
    }
}

#[test]
fn cold_replica_keeps_a_small_share() {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    let new = client.join();
    client.manners[new].takes = 100 * MS;
    let shown = client.run(20 * SECOND);
    assert!((1..=3).contains(&shown.share(new)), "a tenth of a fifth");
    assert_eq!(client.view(new).state, HealthState::WarmingUp);
    client.manners[new].takes = 15 * MS;
    client.run(8 * SECOND);
    assert_eq!(client.view(new).state, HealthState::Sound);
}

#[test]
fn warm_up_ends_after_its_maximum_duration() {
    let mut settings = HealthSettings::default();
    settings.probation = None;
    let mut client = Client::new("random", 4, settings);
    client.run(5 * SECOND);
    let new = client.join();
    client.manners[new].takes = 100 * MS;
    client.run(Duration::from_secs(59));
    assert_eq!(client.view(new).state, HealthState::WarmingUp);
    client.run(Duration::from_secs(2));
    assert_eq!(client.view(new).state, HealthState::Sound);
}

#[test]
fn restart_starts_a_warm_up_and_clears_the_ejection() {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    let tell = |client: &mut Client, incarnation| {
        let mut report = LoadReport::new(Rif::ZERO, None);
        report.incarnation = Some(incarnation);
        client.hear(1, &report);
        client.run(2 * MS);
        client.view(1)
    };
    assert_eq!(tell(&mut client, 7).state, HealthState::Sound);
    assert_eq!(tell(&mut client, 7).state, HealthState::Sound);
    assert_eq!(tell(&mut client, 8).state, HealthState::WarmingUp);
    assert_eq!(tell(&mut client, 8).share_millionths, 100_000);
    client.run(5 * SECOND);
    client.manners[1].fails = 100;
    client.run(3 * SECOND);
    assert_eq!(client.view(1).state, HealthState::Ejected);
    client.manners[1].fails = 0;
    tell(&mut client, 9);
    client.run(100 * MS);
    assert_eq!(
        client.view(1).state,
        HealthState::Returning,
        "tried at once"
    );
}

#[test]
fn warm_up_is_skipped_if_most_replicas_are_new() {
    for (old, new, share) in [(4, 3, 10), (4, 5, 55)] {
        let mut client = Client::new("random", old, HealthSettings::default());
        client.run(5 * SECOND);
        for _ in 0..new {
            let place = client.join();
            client.manners[place].takes = 100 * MS;
        }
        let shown = client.run(10 * SECOND);
        let sent: u32 = shown.sent[old..].iter().sum();
        let percent = sent * 100 / shown.queries;
        assert!(percent.abs_diff(share) < 5, "{old} and {new}: {percent} %");
    }
}

#[test]
fn without_warm_up_new_replica_has_its_full_share() {
    let mut settings = HealthSettings::default();
    settings.warm_up = None;
    let mut client = Client::new("random", 4, settings);
    client.run(SECOND);
    let new = client.join();
    assert_eq!(client.view(new).state, HealthState::Sound);
}
