//! Half of a fleet is out, or more of it should be.

use crate::fleet::{Client, KINDS, MS, Manner, SECOND};
use slackwater_core::health::{HealthSettings, HealthState};

fn failing(fails: u32) -> Manner {
    Manner {
        fails,
        ..Manner::default()
    }
}

/// A fleet in which the replicas at the first places have failed everything for a while.
fn with_out(kind: &str, replicas: usize, out: usize) -> Client {
    let mut client = Client::new(kind, replicas, HealthSettings::default());
    client.run(5 * SECOND);
    for place in 0..out {
        client.manners[place] = failing(100);
        client.run(5 * SECOND);
        assert_eq!(client.view(place).state, HealthState::Ejected, "{kind}");
    }
    client
}

#[test]
fn recovered_replica_returns_if_half_of_the_fleet_was_ejected() {
    for kind in KINDS {
        for (replicas, out, healed) in [(2, 1, 1), (4, 2, 1), (4, 2, 2), (6, 3, 2)] {
            let mut client = with_out(kind, replicas, out);
            let ejections = client.counters().ejections;
            for place in 0..healed {
                client.manners[place] = failing(0);
            }
            client.run(15 * SECOND);
            for place in 0..healed {
                let state = client.view(place).state;
                assert_eq!(state, HealthState::Sound, "{kind}: {healed} of {out}");
            }
            let again = client.counters().ejections - ejections;
            assert_eq!(again, 0, "{kind}: {healed} of {out}");
        }
    }
}

#[test]
fn failing_replica_beyond_the_ejection_limit_is_limited_to_a_sixteenth() {
    for kind in ["random", "round_robin", "least_loaded", "prequal"] {
        for (replicas, out) in [(4, 2), (6, 3)] {
            for fails in [50, 100] {
                let mut client = with_out(kind, replicas, out);
                client.manners[out] = failing(fails);
                client.run(SECOND);
                let shown = client.run(20 * SECOND);
                let those = format!("{kind}: {out} of {replicas}, {fails} %: {shown:?}");
                assert!(shown.share(out) <= 8, "{those}");
                let view = client.view(out);
                assert_eq!(view.state, HealthState::HeldBack, "{those}");
                assert!(!view.is_slow, "{those}");
                for place in 0..out {
                    let state = client.view(place).state;
                    assert_eq!(state, HealthState::Ejected, "{those}");
                }
            }
        }
    }
}

#[test]
fn if_all_fail_all_are_used_and_recovered_ones_regain_full_share() {
    for kind in ["random", "round_robin", "least_loaded"] {
        let mut client = with_out(kind, 4, 2);
        client.manners[2] = failing(100);
        client.run(5 * SECOND);
        client.manners[3] = failing(100);
        client.run(20 * SECOND);
        let shown = client.run(20 * SECOND);
        for place in 0..4 {
            assert!(shown.share(place) >= 1, "{kind}: {shown:?}");
        }
        for place in 0..3 {
            client.manners[place] = failing(0);
        }
        client.run(15 * SECOND);
        for place in 0..3 {
            assert_eq!(client.view(place).state, HealthState::Sound, "{kind}");
        }
        assert_eq!(client.view(3).state, HealthState::Ejected, "{kind}");
    }
}

#[test]
fn returning_replica_is_not_ejected_for_failures_of_others() {
    let mut client = with_out("random", 2, 1);
    client.gap = 20 * MS;
    client.manners[0] = failing(0);
    client.run(30 * SECOND);
    assert_eq!(client.states(), [HealthState::Sound; 2]);
}
