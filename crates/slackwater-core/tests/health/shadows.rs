//! H4: trials that are copies of queries, for which no client waits.

use crate::fleet::{Client, KINDS, MS, Manner, SECOND};
use slackwater_core::Quantile;
use slackwater_core::health::{HealthSettings, HealthState};

/// The second of five replicas is out, for failing everything or for being slow. `copied` percent
/// of the queries may be copied.
fn with_one_out(kind: &str, manner: Manner, copied: u32) -> Client {
    let mut settings = HealthSettings::default();
    settings.shadow_trials = true;
    let mut client = Client::new(kind, 5, settings);
    client.may_be_copied = copied;
    client.run(5 * SECOND);
    client.manners[1] = manner;
    client.run(6 * SECOND);
    assert!(client.view(1).state >= HealthState::Ejected, "{kind}");
    client
}

fn failing() -> Manner {
    Manner {
        fails: 100,
        ..Manner::default()
    }
}

fn slow() -> Manner {
    Manner {
        takes: 150 * MS,
        ..Manner::default()
    }
}

#[test]
fn shadow_trials_restore_ejected_replica_without_client_queries() {
    let by_chance = [("random", slow()), ("round_robin", slow())];
    let cases = KINDS
        .map(|kind| (kind, failing()))
        .into_iter()
        .chain(by_chance);
    for (kind, manner) in cases {
        let mut client = with_one_out(kind, manner, 100);
        let shown = client.run(30 * SECOND);
        assert_eq!((shown.sent[1], shown.trials), (0, 0), "{kind}: {shown:?}");
        assert!((3..=16).contains(&shown.shadows), "{kind}: {shown:?}");
        client.manners[1] = Manner::default();
        let shown = client.run(8 * SECOND);
        assert_eq!(client.view(1).state, HealthState::Sound, "{kind}");
        assert_eq!((shown.failed, shown.trials), (0, 0), "{kind}");
    }
}

#[test]
fn shadow_copies_are_limited_by_the_trial_budget() {
    let mut settings = HealthSettings::default();
    settings.shadow_trials = true;
    (settings.back_off, settings.back_off_max) = (MS, MS);
    let mut client = Client::new("random", 5, settings);
    client.may_be_copied = 100;
    client.run(5 * SECOND);
    client.manners[1] = failing();
    let shown = client.run(60 * SECOND);
    let most = shown.queries * 3 / 1_000 + 3;
    assert!(shown.shadows <= most, "{shown:?}");
    assert!(shown.shadows > most / 2, "{shown:?}");
    assert_eq!(
        client.counters().trials,
        u64::from(shown.shadows + shown.trials)
    );
}

#[test]
fn without_copyable_queries_a_client_query_becomes_the_trial() {
    let mut client = with_one_out("random", failing(), 0);
    let shown = client.run(60 * SECOND);
    assert_eq!(shown.shadows, 0);
    // Each back-off of 4 s, plus 4 s for a copy that did not come.
    assert!((5..=8).contains(&shown.trials), "{shown:?}");
    client.manners[1] = Manner::default();
    client.run(16 * SECOND);
    assert_eq!(client.view(1).state, HealthState::Sound);
}

#[test]
fn without_shadow_trials_no_copies_are_sent() {
    let mut settings = HealthSettings::default();
    settings.trials = Quantile::ONE;
    let mut client = Client::new("random", 5, settings);
    client.may_be_copied = 100;
    client.run(5 * SECOND);
    client.manners[1] = failing();
    client.manners[3] = failing();
    client.run(2 * SECOND);
    // Now both trials are due: the query is one, and a copy of it would be the other.
    client.now += 4 * SECOND;
    let shown = client.run(client.gap);
    assert_eq!(
        (shown.trials, shown.shadows),
        (1, 0),
        "{:?}",
        client.states()
    );
    let shown = client.run(30 * SECOND);
    assert!(shown.trials >= 3 && shown.shadows == 0, "{shown:?}");
}
