//! H4: replicas that are slow, or have stopped.

use crate::fleet::{Client, KINDS, MS, Manner, SECOND};
use slackwater_core::health::{HealthSettings, HealthState};
use slackwater_core::policy::{Event, Outcome, POLICIES};

fn taking(ms: u32) -> Manner {
    Manner {
        takes: ms * MS,
        ..Manner::default()
    }
}

#[test]
fn stopped_replica_is_put_on_probation_before_timeouts() {
    for entry in POLICIES {
        let mut client = Client::new(entry.name, 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[2].is_stopped = true;
        client.run(SECOND);
        let stuck = client.stuck.len();
        assert!(stuck < 70, "{}: {stuck}", entry.name);
        client.run(10 * SECOND);
        let more = client.stuck.len() - stuck;
        assert!(more <= 5, "{}: {more} after it was found", entry.name);
        client.resume(2);
        client.run(4 * SECOND);
        assert_eq!(client.view(2).state, HealthState::Sound, "{}", entry.name);
        // These policies remember its slow answers themselves.
        let remembers = ["peak_ewma", "c3", "els"].contains(&entry.name);
        let least = if remembers { 0 } else { 15 };
        assert!(client.run(5 * SECOND).share(2) >= least, "{}", entry.name);
    }
}

#[test]
fn much_slower_replica_is_on_probation_and_twice_as_slow_is_not() {
    for (ms, state) in [
        (20, HealthState::Sound),
        (90, HealthState::Sound),
        (150, HealthState::OnProbation),
    ] {
        let mut client = Client::new("random", 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[1] = taking(ms);
        client.run(6 * SECOND);
        assert_eq!(client.view(1).state, state, "{ms} ms");
    }
    // With 60 ms each, 200 ms is less than four times as much.
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.manners = vec![taking(60), taking(60), taking(60), taking(200)];
    client.run(20 * SECOND);
    assert_eq!(client.counters().probations, 0);
}

/// A queue makes a replica slow, and disappears with half of the queries: a replica that is slow
/// because of its queue is healthy.
#[test]
fn briefly_slow_replica_is_limited_and_not_on_probation() {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners[1] = taking(150);
    let mut shares = Vec::new();
    for tick in 0..40 {
        if tick == 3 {
            client.manners[1] = taking(10);
        }
        client.run(100 * MS);
        let view = client.view(1);
        shares.push(view.share_millionths);
        assert_eq!(
            view.is_slow,
            view.share_millionths < 1_000_000,
            "{shares:?}"
        );
    }
    assert_eq!(client.counters().probations, 0, "{shares:?}");
    let least = shares.iter().min().expect("forty");
    assert!((30_000..=500_000).contains(least), "{shares:?}");
    let fell = shares.windows(2).filter(|pair| pair[1] < pair[0]);
    assert!(fell.clone().count() >= 2, "{shares:?}");
    for pair in fell {
        assert_eq!(pair[1], pair[0] / 2, "{shares:?}");
    }
    assert_eq!(client.view(1).state, HealthState::Sound, "{shares:?}");
}

#[test]
fn replica_that_is_fast_again_regains_its_share() {
    for kind in KINDS {
        let mut client = Client::new(kind, 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[1] = taking(600);
        client.run(20 * SECOND);
        client.manners[1] = taking(10);
        client.run(8 * SECOND);
        assert_eq!(client.view(1).state, HealthState::Sound, "{kind}");
    }
}

#[test]
fn no_probation_if_the_whole_fleet_is_slow_or_stopped() {
    let mut client = Client::new("least_loaded", 6, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners = vec![taking(2_000); 6];
    client.run(20 * SECOND);
    for manner in &mut client.manners {
        manner.is_stopped = true;
    }
    client.run(5 * SECOND);
    assert_eq!(client.counters().probations, 0);
}

#[test]
fn single_slow_query_is_not_a_stall() {
    let mut client = Client::new("random", 3, HealthSettings::default());
    client.gap = 100 * MS;
    client.run(20 * SECOND);
    client.manners[0].is_stopped = true;
    while client.stuck.is_empty() {
        client.run(100 * MS);
    }
    // The next queries go elsewhere.
    let replica = client.replicas[0];
    client.handle(Event::Available(replica, false));
    client.run(SECOND);
    client.handle(Event::Available(replica, true));
    client.run(client.gap);
    assert!(client.stuck.len() <= 2);
    assert_eq!(client.counters().probations, 0, "a second one is new");
}

#[test]
fn at_most_half_of_the_fleet_is_on_probation() {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners = vec![taking(2_000), taking(2_000), taking(10), taking(10)];
    client.run(10 * SECOND);
    for _ in 0..100 {
        client.run(100 * MS);
        assert!(client.policy.fleet().available().len() >= 2);
    }
    let shown = client.run(20 * SECOND);
    assert!(shown.share(0) + shown.share(1) <= 10, "{shown:?}");
}

#[test]
fn without_probation_slow_replica_stays_available() {
    let mut settings = HealthSettings::default();
    settings.probation = None;
    let mut client = Client::new("random", 4, settings);
    client.manners[0] = taking(5_000);
    client.run(20 * SECOND);
    assert_eq!(client.states(), [HealthState::Sound; 4]);
}

#[test]
fn resumed_replica_returns_at_once_with_half_its_share() {
    let mut client = Client::new("random", 4, HealthSettings::default());
    client.run(5 * SECOND);
    client.manners[1].is_stopped = true;
    client.run(2 * SECOND);
    assert_eq!(client.view(1).state, HealthState::OnProbation);
    client.resume(1);
    let view = client.view(1);
    assert_eq!(view.state, HealthState::Returning);
    assert_eq!(view.share_millionths, 500_000);
    client.run(SECOND);
    assert_eq!(client.view(1).state, HealthState::Sound);
}

/// The client got its answer from a second copy elsewhere.
#[test]
fn trial_dropped_late_has_failed_and_dropped_early_has_no_result() {
    for (after, more) in [(100 * MS, 0), (5 * MS, 1)] {
        let mut client = Client::new("random", 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners[1].is_stopped = true;
        while client.counters().trials == 0 {
            client.run(2 * MS);
        }
        let trial = client.stuck.pop().expect("it has stopped");
        let dropped_at = client.now + after;
        (client.policy).handle_query_done(dropped_at, trial, Outcome::Dropped);
        client.now = dropped_at;
        // Longer than the back-off, and less than twice as long.
        client.run(1_500 * MS);
        assert_eq!(client.counters().trials, 1 + more, "{after:?}");
    }
}

#[test]
fn stall_must_exceed_long_latencies_of_other_replicas() {
    for (longest, state) in [(20, HealthState::OnProbation), (400, HealthState::Sound)] {
        let mut client = Client::new("random", 4, HealthSettings::default());
        client.run(5 * SECOND);
        // A few answers of each replica take long.
        client.manners = vec![taking(longest); 4];
        client.run(20 * MS);
        client.manners = vec![taking(10); 4];
        client.run(2 * SECOND);
        client.manners[1].is_stopped = true;
        client.run(600 * MS);
        assert_eq!(client.view(1).state, state, "{longest} ms");
    }
}

#[test]
fn slow_replica_keeps_its_share_if_the_others_are_loaded() {
    for (others, shares) in [(20, 0..=6), (60, 20..=30)] {
        let mut client = Client::new("random", 4, HealthSettings::default());
        client.run(5 * SECOND);
        client.manners = vec![taking(others); 4];
        client.run(3 * SECOND);
        // It slows down step by step, and never falls silent.
        for ms in 1..10 {
            client.manners[1] = taking(100 * ms);
            client.run(300 * MS);
        }
        client.run(3 * SECOND);
        let share = client.run(10 * SECOND).share(1);
        assert!(shares.contains(&share), "{others} ms: {share} %");
    }
}
