//! Replicas that crash, drain, join and restart, and what clients notice.

use super::rig::{SINGLE, everyone, ms, play, regular, same, secs, steady};
use core::time::Duration;
use slackwater_sim::scenario::{Change, Event, Group};

fn event(at: Duration, replica: usize, change: Change) -> Event {
    Event {
        at,
        replica,
        change,
    }
}

/// Two replicas, 100 queries a second in turn, for 10 s from the start. The event happens to the
/// first replica.
fn with(at: Duration, change: Change) -> slackwater_sim::Scenario {
    regular(
        100.0,
        vec![Group::healthy(2, SINGLE)],
        vec![event(at, 0, change)],
    )
}

/// A restart after which queries cost no more than before.
const fn warm_restart(down_for: Duration) -> Change {
    Change::Restart {
        down_for,
        cold_slowness: 1.0,
        warm_after: Duration::ZERO,
    }
}

#[test]
fn crash_fails_queries_until_it_is_detected() {
    let known_after = secs(2);
    let measured = play(&with(secs(3), Change::Crash { known_after }), "round_robin");
    // Half of 200 queries are refused. One more was there when it crashed, or was on its way.
    assert!(
        (100..=101).contains(&measured.errors),
        "{}",
        measured.errors
    );
    assert_eq!(
        measured.timeouts, 0,
        "a crash is noticed by its broken connections"
    );
    // Every other query for 5 s.
    assert!(measured.queries_by_replica[0].abs_diff(250) <= 1);
    let central = play(&with(secs(3), Change::Crash { known_after }), "jsq");
    assert!(
        central.errors <= 1,
        "a clairvoyant loses only what was there"
    );
}

#[test]
fn probing_policies_avoid_a_draining_replica() {
    let leaves_after = secs(2);
    let scenario = with(secs(3), Change::Drain { leaves_after });
    let deaf = play(&scenario, "round_robin");
    assert_eq!(deaf.errors, 0, "it serves what comes until it leaves");
    assert!(deaf.queries_by_replica[0].abs_diff(250) <= 1);
    let mut far = scenario.clone();
    far.network = steady(ms(15));
    let far = play(&far, "round_robin");
    assert_eq!(far.errors, 1, "one was on its way when it left");
    let listening = play(&scenario, "prequal");
    assert_eq!(listening.errors, 0);
    let mut alone = scenario.clone();
    alone.span = secs(3);
    let before = play(&alone, "prequal").queries_by_replica[0];
    // The difference is a probe in flight, one probe interval, and the reports in the pool: far
    // less than the 200 queries of two seconds.
    assert!(listening.queries_by_replica[0] - before < 20);
}

#[test]
fn joining_replica_gets_no_earlier_queries() {
    let join = Change::Join {
        cold_slowness: 3.0,
        warm_after: secs(2),
    };
    let mut scenario = with(secs(6), join);
    scenario.load.rate = 50.0;
    for policy in everyone() {
        let measured = play(&scenario, policy);
        assert_eq!(measured.errors, 0, "{policy}");
        // At most all queries after it joined. A policy may use it later, while it has no report
        // from it.
        let sent = measured.queries_by_replica[0];
        assert!(sent <= 200, "{policy}: {sent}");
    }
    let measured = play(&scenario, "round_robin");
    assert!(
        measured.queries_by_replica[0].abs_diff(100) <= 1,
        "of 200, every other"
    );
    // At first queries cost three times as much. Every other one goes there, 40 ms apart, so that
    // none waits.
    let longest = measured.latency.quantile(1.0);
    assert!(longest > ms(29) && longest <= ms(30), "{longest:?}");
    assert!(same(measured.latency.quantile(0.5), ms(10)));
}

#[test]
fn restarting_replica_refuses_queries_until_it_is_up() {
    let mut scenario = with(secs(3), warm_restart(secs(2)));
    scenario.network = steady(ms(1));
    scenario.fleet[0].count = 5;
    let measured = play(&scenario, "round_robin");
    // A fifth of two seconds. One more may have been there.
    assert!((40..=41).contains(&measured.errors), "{}", measured.errors);
    assert_eq!(measured.queries_by_replica[0], 200, "clients get no notice");
    // A policy with probes notices it, because the probes are refused.
    let prequal = play(&scenario, "prequal");
    assert!(prequal.errors < 10, "{}", prequal.errors);
    let after = prequal.queries_by_replica[0];
    scenario.span = secs(5);
    let before = play(&scenario, "prequal").queries_by_replica[0];
    assert!(after > before + 50, "it is found again: {before}, {after}");
}

#[test]
fn restarted_replica_may_be_cold() {
    let restart = |cold_slowness| {
        let mut scenario = with(
            secs(3),
            Change::Restart {
                down_for: secs(1),
                cold_slowness,
                warm_after: secs(2),
            },
        );
        scenario.load.rate = 50.0;
        play(&scenario, "round_robin").latency.quantile(1.0)
    };
    assert_eq!(restart(1.0), ms(10));
    // Every other query, 40 ms apart, so that none waits. The first one has nearly the full cold
    // cost.
    let longest = restart(3.0);
    assert!(longest > ms(29) && longest <= ms(30), "{longest:?}");
}

#[test]
fn suspended_replica_keeps_queries_and_responds_later() {
    let suspend = |suspended_for| with(secs(3), Change::Suspend { suspended_for });
    let measured = play(&suspend(secs(2)), "round_robin");
    assert_eq!(measured.errors, 0, "connections stay");
    // One query arrived every 20 ms of the two seconds, and the first waits longest.
    let longest = measured.latency.quantile(1.0);
    assert!(
        longest.abs_diff(ms(2_010)) <= ms(20),
        "the first of them waits two seconds: {longest:?}"
    );
    let late = 1.0 - measured.latency.share_at_most(ms(11));
    assert!(late > 0.1, "all that came meanwhile are late: {late}");
    // With a deadline half as long, the queries of the first second expire.
    let mut impatient = suspend(secs(2));
    impatient.deadline = secs(1);
    let measured = play(&impatient, "round_robin");
    assert_eq!(measured.errors, measured.timeouts);
    assert!(measured.errors >= 50, "{}", measured.errors);
    // It answers no probes, and Prequal notices that.
    let listening = play(&suspend(secs(2)), "prequal");
    let before = listening.by_second.shares_of(0).nth(2).flatten();
    let within = listening.by_second.shares_of(0).nth(4).flatten();
    assert!(
        before > Some(0.3) && within < Some(0.1),
        "{before:?}, then {within:?}"
    );
}

#[test]
fn crash_while_suspended_refuses_unread_queries() {
    let suspended_for = secs(4);
    let mut scenario = with(secs(3), Change::Suspend { suspended_for });
    scenario
        .events
        .push(event(secs(4), 0, warm_restart(secs(1))));
    let measured = play(&scenario, "round_robin");
    // Every other query of two seconds goes there. Queries of the first second wait, and queries of
    // the second one are refused. It is up again at 5 s.
    assert!(measured.errors.abs_diff(100) <= 1, "{}", measured.errors);
    assert_eq!(measured.timeouts, 0);
    assert_eq!(measured.latency.quantile(1.0), ms(10));
    assert_eq!(
        measured
            .by_second
            .errors
            .iter()
            .rposition(|&count| count > 0),
        Some(4)
    );
}

#[test]
fn returning_replica_has_a_new_id() {
    let events = vec![
        event(
            secs(2),
            0,
            Change::Crash {
                known_after: ms(100),
            },
        ),
        event(
            secs(3),
            1,
            Change::Crash {
                known_after: secs(10),
            },
        ),
        event(
            secs(5),
            1,
            Change::Join {
                cold_slowness: 1.0,
                warm_after: Duration::ZERO,
            },
        ),
        event(
            secs(7),
            0,
            Change::Join {
                cold_slowness: 1.0,
                warm_after: Duration::ZERO,
            },
        ),
    ];
    let scenario = regular(100.0, vec![Group::healthy(3, SINGLE)], events);
    let measured = play(&scenario, "round_robin");
    // Refused queries: a third of 0.1 s, then half of 2 s, and those that were there at a crash.
    assert!(
        measured.errors.abs_diff(3 + 100) <= 4,
        "{}",
        measured.errors
    );
    let [first, second, third] = measured.queries_by_replica[..] else {
        panic!("three replicas");
    };
    // In turn among 3 until 2.1 s, among 2 until 5 s (including the crashed one), among 2 until 7
    // s, then among 3.
    assert!(first.abs_diff(70 + 100) <= 3, "{first}");
    assert!(second.abs_diff(70 + 145 + 100 + 100) <= 3, "{second}");
    assert!(third.abs_diff(70 + 145 + 100 + 100) <= 3, "{third}");
}

#[test]
fn crash_during_a_restart_keeps_the_replica_down() {
    let mut scenario = with(secs(3), warm_restart(secs(2)));
    let known_after = secs(3);
    scenario
        .events
        .push(event(secs(4), 0, Change::Crash { known_after }));
    let measured = play(&scenario, "round_robin");
    // Half of 400 queries are refused, from 3 s until clients know of the crash at 7 s. It is not
    // up again at 5 s. One more query was there.
    assert!(
        (200..=201).contains(&measured.errors),
        "{}",
        measured.errors
    );
}

#[test]
fn restart_while_draining_cancels_the_leave() {
    let leaves_after = secs(4);
    let mut scenario = with(secs(3), Change::Drain { leaves_after });
    scenario
        .events
        .push(event(secs(4), 0, warm_restart(secs(1))));
    let measured = play(&scenario, "round_robin");
    // Every other query of 10 s. Half of the 100 queries of the second in which it was down are
    // refused, and one was there.
    assert!(measured.queries_by_replica[0].abs_diff(500) <= 1);
    assert!((50..=51).contains(&measured.errors), "{}", measured.errors);
}
