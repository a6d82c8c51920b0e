//! Troubles of replicas: failing fast, lying about it, pausing, being suspended, starting cold,
//! being restarted one by one.
//!
//! Each function takes a scenario with its final warm-up and span, and adds trouble to its first
//! replica, or to all in turn.

use super::{at_load, els, one_replica, sized, web};
use crate::Scenario;
use crate::scenario::{Change, Cost, Event, Failure, FailureCost, Stall};
use core::time::Duration;

/// Mean cost of a query to [`services`], exponential.
const COST: Duration = Duration::from_millis(20);
/// Time in which a sinkhole fails a query.
const AT_ONCE: Duration = Duration::from_millis(1);
/// The share of queries that fail where all replicas fail, as with a shared dependency that is
/// down.
const EVERYWHERE: f64 = 0.25;
/// Time from the beginning of one replica's restart to that of the next.
const RESTARTS_APART: Duration = Duration::from_secs(6);
/// Time from draining to leaving.
const LEAVES_AFTER: Duration = Duration::from_secs(2);
/// Time from leaving, or crashing, until the replica is back.
const DOWN_FOR: Duration = Duration::from_secs(1);
/// Factor on the cost of queries at a replica that has just restarted.
const COLD_SLOWNESS: f64 = 5.0;
/// Time until a restarted replica is warm.
const WARM_AFTER: Duration = Duration::from_secs(10);

/// Returns `count` of the machines that [`els()`] has four of, and `clients` clients, at `load`
/// times the capacity of all machines.
pub fn machines(count: usize, clients: usize, load: f64) -> Scenario {
    at_load(load, sized(count, clients, els(load)))
}

/// Returns `replicas` of the replicas that [`web()`] has, with queries of 20 ms.
pub fn services(replicas: usize, clients: usize, load: f64) -> Scenario {
    let scenario = Scenario {
        cost: Cost::Exponential(COST),
        ..web(replicas, clients, load)
    };
    at_load(load, scenario)
}

/// Makes the first replica fail every query in a millisecond from `from` on, whatever the query
/// would have cost.
#[must_use]
pub fn sinkhole(scenario: Scenario, from: Duration) -> Scenario {
    fails(
        scenario,
        Failure {
            cost: FailureCost::Fixed(AT_ONCE),
            from,
            ..failure(1.0)
        },
    )
}

/// Makes all replicas fail a quarter of their queries at once.
#[must_use]
pub fn failing_everywhere(mut scenario: Scenario) -> Scenario {
    for group in &mut scenario.fleet {
        group.failure = Some(failure(EVERYWHERE));
    }
    scenario
}

/// Makes the first replica fail half of its queries at once, until `until`.
#[must_use]
pub fn healing(scenario: Scenario, until: Duration) -> Scenario {
    fails(
        scenario,
        Failure {
            until,
            ..failure(0.5)
        },
    )
}

/// Makes the first replica fail half of its queries at once. From `reported_until` on, its reports
/// claim that none fails.
#[must_use]
pub fn lying(scenario: Scenario, reported_until: Duration) -> Scenario {
    fails(
        scenario,
        Failure {
            reported_until,
            ..failure(0.5)
        },
    )
}

/// Makes the first replica pause for 2 s of every 20.
#[must_use]
pub fn pausing(scenario: Scenario) -> Scenario {
    one_replica(scenario, |replica| {
        replica.stall = Some(Stall {
            every: Duration::from_secs(18),
            regular: true,
            lasts: Duration::from_secs(2),
        });
    })
}

/// Suspends the first replica, as with SIGSTOP, for 30 s from `from` on.
#[must_use]
pub fn suspended(scenario: Scenario, from: Duration) -> Scenario {
    let suspended_for = Duration::from_secs(30);
    befalls(scenario, from, Change::Suspend { suspended_for })
}

/// Makes the first replica join at `at`, ten times as slow at first and warm within 20 s.
#[must_use]
pub fn joining_cold(scenario: Scenario, at: Duration) -> Scenario {
    let join = Change::Join {
        cold_slowness: 10.0,
        warm_after: Duration::from_secs(20),
    };
    befalls(scenario, at, join)
}

/// Restarts one replica after another from `from` on: each drains, leaves, and is back a second
/// later, cold.
#[must_use]
pub fn rolling_restart(scenario: Scenario, from: Duration) -> Scenario {
    let drain = Change::Drain {
        leaves_after: LEAVES_AFTER,
    };
    let join = Change::Join {
        cold_slowness: COLD_SLOWNESS,
        warm_after: WARM_AFTER,
    };
    in_turn(scenario, |at, replica| {
        let back_at = LEAVES_AFTER + DOWN_FOR;
        vec![
            event(from + at, replica, drain),
            event(from + at + back_at, replica, join),
        ]
    })
}

/// Kills one replica after another from `from` on. Each is back a second later, cold. Clients get
/// no notice.
#[must_use]
pub fn rolling_kill(scenario: Scenario, from: Duration) -> Scenario {
    let restart = Change::Restart {
        down_for: DOWN_FOR,
        cold_slowness: COLD_SLOWNESS,
        warm_after: WARM_AFTER,
    };
    in_turn(scenario, |at, replica| {
        vec![event(from + at, replica, restart)]
    })
}

/// Returns how long a rolling restart takes until the last replica is warm.
pub fn rolling_takes(replicas: usize) -> Duration {
    let turns = u32::try_from(replicas.saturating_sub(1)).unwrap_or(u32::MAX);
    RESTARTS_APART * turns + LEAVES_AFTER + DOWN_FOR + WARM_AFTER
}

/// Returns failures of this share of queries from the start, at once and at no cost, which reports
/// include.
const fn failure(share: f64) -> Failure {
    Failure {
        share,
        cost: FailureCost::Share(0.0),
        from: Duration::ZERO,
        until: Duration::MAX,
        reported_until: Duration::MAX,
    }
}

fn fails(scenario: Scenario, failure: Failure) -> Scenario {
    one_replica(scenario, |replica| replica.failure = Some(failure))
}

fn befalls(mut scenario: Scenario, at: Duration, change: Change) -> Scenario {
    scenario.events.push(event(at, 0, change));
    scenario
}

fn in_turn(mut scenario: Scenario, events: impl Fn(Duration, usize) -> Vec<Event>) -> Scenario {
    let mut at = Duration::ZERO;
    for replica in 0..scenario.replicas() {
        scenario.events.extend(events(at, replica));
        at += RESTARTS_APART;
    }
    scenario
}

const fn event(at: Duration, replica: usize, change: Change) -> Event {
    Event {
        at,
        replica,
        change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::ELS_CAPACITY;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn fleets_have_the_given_size_and_the_same_load() {
        let rate = |scenario: Scenario| scenario.load.rate;
        assert!((rate(machines(20, 3, 0.5)) / ELS_CAPACITY - 2.5).abs() < 1e-4);
        assert_eq!(machines(20, 3, 0.5).load.clients.len(), 3);
        // 0.7 of 10 times 4 cores, 20 ms a query.
        assert!((rate(services(10, 1, 0.7)) - 1_400.0).abs() < 1e-6);
    }

    #[test]
    fn troubles_are_valid_and_affect_the_first_replica() {
        let services = || services(10, 1, 0.7);
        for scenario in [
            sinkhole(services(), SECOND),
            healing(services(), SECOND),
            lying(services(), SECOND),
            pausing(services()),
        ] {
            assert_eq!(scenario.mistakes(), []);
            let counts: Vec<_> = scenario.fleet.iter().map(|group| group.count).collect();
            assert_eq!(counts, [1, 9]);
            let [first, others] = &scenario.fleet[..] else {
                panic!("two groups");
            };
            assert!(first.failure.is_some() || first.stall.is_some());
            assert!(others.failure.is_none() && others.stall.is_none());
        }
        for scenario in [
            suspended(services(), SECOND),
            joining_cold(services(), SECOND),
        ] {
            assert_eq!(scenario.mistakes(), []);
            let [event] = &scenario.events[..] else {
                panic!("one event");
            };
            assert_eq!((event.at, event.replica), (SECOND, 0));
        }
        let everywhere = failing_everywhere(sinkhole(services(), SECOND));
        let failing = everywhere.fleet.iter().filter_map(|group| group.failure);
        assert!(failing.map(|failure| failure.share).eq([0.25, 0.25]));
    }

    #[test]
    fn rolling_restart_restarts_replicas_one_by_one() {
        for (scenario, events_each) in [
            (rolling_restart(services(10, 1, 0.7), SECOND), 2),
            (rolling_kill(services(10, 1, 0.7), SECOND), 1),
        ] {
            assert_eq!(scenario.mistakes(), []);
            assert_eq!(scenario.events.len(), 10 * events_each);
            assert_eq!(scenario.events[0].at, SECOND);
            for (number, event) in scenario.events.iter().enumerate() {
                assert_eq!(event.replica, number / events_each);
                let turn = RESTARTS_APART * u32::try_from(event.replica).unwrap();
                assert!(event.at >= SECOND + turn && event.at < SECOND + turn + RESTARTS_APART);
            }
        }
        assert_eq!(rolling_takes(10), 67 * SECOND);
    }
}
