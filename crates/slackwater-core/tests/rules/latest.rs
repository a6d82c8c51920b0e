//! What all rules by the latest reports have in common: which reports count and for how long, what
//! stands for an unprobed replica, and ties. The rule here is shortest expected delay.

use crate::silence::fall_silent;
use crate::world::{MS, World, load, quiet, rate};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Event, Explanation, Outcome, Pick, Policy, Query, ShortestExpectedDelay,
    ShortestExpectedDelayConfig,
};
use slackwater_core::{Instant, LoadReport, ReplicaId, SplitMix64};

type Fleet = World<ShortestExpectedDelay>;

fn world_of(replicas: usize, settings: PrequalSettings) -> Fleet {
    let prequal = settings.validate().expect("in range");
    let config = ShortestExpectedDelayConfig::default();
    World::of(replicas, ShortestExpectedDelay::new(prequal, &config))
}

fn world(replicas: usize) -> Fleet {
    world_of(replicas, quiet())
}

/// A report of this RIF, of a capacity and of a cost.
fn room(rif: u32, capacity: u32) -> LoadReport {
    let mut report = load(rif, 10);
    report.capacity_millirif = Some(capacity * 1_000);
    report.cost = Some(10 * MS);
    report
}

/// Sends a query to this replica.
fn send(world: &mut Fleet, place: usize) -> Pick {
    let mut others = world.replicas.clone();
    others.remove(place);
    world.pick_for(Query::retry(&others))
}

fn done(world: &mut Fleet, pick: Pick, outcome: Outcome) {
    (world.policy).handle_query_done(world.now, pick.ticket, outcome);
}

/// Another client's report, without a change of the time.
fn sibling(world: &mut Fleet, place: usize, report: &LoadReport) {
    let replica = world.replicas[place];
    world.handle(Event::SiblingReport(replica, report));
}

fn rif(world: &Fleet, place: usize) -> Option<u32> {
    world.rif_of(world.replicas[place])
}

/// The value of this factor for each replica, at the next query.
fn compared(world: &mut Fleet, key: &str) -> Vec<u64> {
    let mut explanation = Explanation::new();
    let (now, draw) = (world.now, &mut world.draw);
    let decision = (world.policy).choose(now, Query::first(), draw, Some(&mut explanation));
    let pick = decision.pick().expect("there are replicas");
    done(world, pick, Outcome::Dropped);
    let factors = explanation
        .comparison()
        .expect("reports are compared")
        .factors;
    let at = factors.iter().position(|factor| factor.key == key);
    let mut candidates = explanation.candidates().to_vec();
    candidates.sort_by_key(|it| world.replicas.iter().position(|&other| other == it.replica));
    let values = candidates.iter().map(|it| it.values.at(at.expect(key)));
    values.map(|value| value.expect("known")).collect()
}

#[test]
fn report_counts_until_it_is_as_old_as_the_maximum() {
    let age_max = quiet().report_age_max;
    let mut world = world(2);
    let begin = world.now;
    sibling(&mut world, 0, &load(0, 10));
    world.now = Instant::from_nanos((begin + age_max).as_nanos() - 1);
    sibling(&mut world, 1, &load(3, 10));
    let pick = world.pick();
    assert_eq!((pick.candidates, world.pool().len()), (2, 2));
    assert_eq!(
        world.policy.snapshot(world.now).next,
        Some(world.replicas[0])
    );
    done(&mut world, pick, Outcome::Success);
    world.now = begin + age_max;
    assert_eq!(
        world.policy.snapshot(world.now).next,
        Some(world.replicas[1])
    );
    assert_eq!(world.pick().candidates, 1);
    let counters = world.policy.counters();
    assert_eq!((counters.removed_expired, counters.replaced), (1, 0));
    sibling(&mut world, 0, &load(0, 10));
    sibling(&mut world, 0, &load(0, 10));
    assert_eq!(world.policy.counters().replaced, 1);
}

#[test]
fn further_reports_are_compared_while_few_come_for_each_query() {
    for (reports, expected) in [(1, 24), (2, 16)] {
        let mut world = world(100);
        let mut newest = 0;
        for _ in 0..100 {
            for _ in 0..reports {
                newest = (newest + 1) % 100;
                world.now += MS;
                world.report(world.replicas[newest], &load(7, 10));
            }
            let pick = world.pick();
            done(&mut world, pick, Outcome::Success);
        }
        let pick = world.pick();
        assert_eq!(pick.candidates, expected, "{reports} for each query");
    }
}

/// One of 84 that are not among the newest is idle. Each choice looks at eight of them.
#[test]
fn idle_replica_with_an_old_report_is_found_while_few_reports_come() {
    let mut world = world(100);
    let idle = world.replicas[50];
    for replica in world.replicas.clone() {
        world.report(replica, &load(if replica == idle { 0 } else { 7 }, 10));
    }
    for _ in 0..48 {
        let pick = world.pick();
        assert_ne!(pick.ticket.replica(), idle, "enough have come");
        done(&mut world, pick, Outcome::Success);
    }
    let picks: Vec<_> = (0..12).map(|_| world.pick()).collect();
    let to_idle = picks.iter().filter(|pick| pick.ticket.replica() == idle);
    assert_eq!(to_idle.count(), 1);
    // Explanations show the same candidates.
    let mut explanation = Explanation::new();
    let (now, draw) = (world.now, &mut world.draw);
    let decision = (world.policy).choose(now, Query::first(), draw, Some(&mut explanation));
    let pick = decision.pick().expect("there are replicas");
    assert_eq!(explanation.candidates().len(), 24);
    let mut candidates = explanation.candidates().iter();
    assert!(candidates.any(|it| it.replica == pick.ticket.replica()));
}

#[test]
fn further_reports_that_are_too_old_are_not_compared() {
    let mut world = world(40);
    let replicas = world.replicas.clone();
    for (age, candidates) in [(quiet().report_age_max, 16), (MS, 24)] {
        for &replica in &replicas {
            world.report(replica, &load(7, 10));
        }
        for _ in 0..49 {
            let pick = world.pick();
            done(&mut world, pick, Outcome::Success);
        }
        world.now += age;
        for &replica in &replicas[..16] {
            world.report(replica, &load(7, 10));
        }
        let pick = world.pick();
        assert_eq!(pick.candidates, candidates, "after {age:?}");
        done(&mut world, pick, Outcome::Success);
    }
}

#[test]
fn a11_rif_is_that_of_others_at_the_report_and_own_queries_now() {
    let mut world = world(2);
    let picks = [0, 0].map(|place| send(&mut world, place));
    sibling(&mut world, 0, &load(5, 10));
    assert_eq!(rif(&world, 0), Some(5), "two are its own");
    for pick in picks {
        done(&mut world, pick, Outcome::Success);
    }
    assert_eq!(rif(&world, 0), Some(3));
}

#[test]
fn reported_rif_counts_as_at_least_the_own_queries() {
    let mut world = world(2);
    let _out = [0; 3].map(|place| send(&mut world, place));
    for _ in 0..8 {
        for place in [0, 1] {
            // The queries have not arrived.
            let mut report = load(0, 10);
            report.query_rate_millis = Some(300_000);
            if place == 1 {
                report = load(0, 10);
            }
            sibling(&mut world, place, &report);
        }
    }
    // Three at 300 a second take 10 ms, as the other's, and both count as the mean.
    let latencies = compared(&mut world, "mean_latency_us");
    let off = latencies[0].abs_diff(latencies[1]);
    assert!(off * 1_000 < latencies[1], "{latencies:?}");
}

#[test]
fn response_report_without_latency_leaves_the_latency() {
    let mut world = world(2);
    let latency = |world: &Fleet| world.pool()[0].latency;
    sibling(&mut world, 0, &room(1, 10));
    let mut carried = room(1, 10);
    carried.latency = None;
    let replica = world.replicas[0];
    world.handle(Event::CarriedReport(replica, &carried));
    assert_eq!(latency(&world), Some(10 * MS));
    sibling(&mut world, 0, &carried);
    assert_eq!(latency(&world), None);
}

#[test]
fn each_replica_counts_with_what_was_known_when_it_reported() {
    let mut world = world(2);
    let [slow, fast] = [1, 0];
    for _ in 0..8 {
        sibling(&mut world, slow, &load(1, 30));
    }
    for _ in 0..8 {
        sibling(&mut world, fast, &load(2, 10));
    }
    // The slow one counts as the mean of that time, which was its own: 2 against 3/2.
    let pick = world.pick();
    assert_eq!(pick.ticket.replica(), world.replicas[fast]);
    done(&mut world, pick, Outcome::Success);
    sibling(&mut world, fast, &load(4, 10));
    let pick = world.pick();
    assert_eq!(pick.ticket.replica(), world.replicas[slow], "2 against 5/2");
    done(&mut world, pick, Outcome::Success);
    sibling(&mut world, slow, &load(1, 30));
    let pick = world.pick();
    assert_eq!(pick.ticket.replica(), world.replicas[fast], "3 against 5/2");
}

#[test]
fn first_and_last_capacity_change_what_all_replicas_count_with() {
    let mut world = world(3);
    for place in 0..3 {
        sibling(&mut world, place, &load(4, 10));
    }
    sibling(&mut world, 2, &room(4, 20));
    assert_eq!(compared(&mut world, "capacity"), [20_000; 3]);
    // 5 of 17 in use.
    assert_eq!(compared(&mut world, "in_use")[..2], [294_116; 2]);
    let last = world.replicas[2];
    world.handle(Event::Available(last, false));
    let counted = compared(&mut world, "in_flight");
    assert_eq!(counted, [5_000_000; 2], "requests, and not shares");
}

#[test]
fn usual_load_is_learned_anew_without_capacities() {
    let mut world = world(3);
    for _ in 0..64 {
        sibling(&mut world, 2, &room(0, 1_000));
    }
    let last = world.replicas[2];
    world.handle(Event::Available(last, false));
    for _ in 0..2 {
        sibling(&mut world, 0, &load(9, 10));
        sibling(&mut world, 1, &load(1, 10));
    }
    // Six are usual, and after two latencies 2 count as 4.
    world.now += 20 * MS;
    assert_eq!(compared(&mut world, "in_flight"), [10_000_000, 4_000_000]);
}

/// Replica 0 reports this RIF, and the others answer no probes.
fn unprobed(replicas: usize, others: u32) -> Fleet {
    let mut world = world(replicas);
    for place in 1..replicas {
        fall_silent(&mut world, place);
    }
    for _ in 0..70 {
        world.report(world.replicas[0], &load(others, 10));
    }
    world.refresh();
    world
}

#[test]
fn a13_assumed_load_of_an_unprobed_replica_is_in_proportion_to_own_queries() {
    let mut world = unprobed(3, 8);
    assert_eq!([1, 2].map(|place| rif(&world, place)), [Some(8); 2]);
    // Usually none is in flight. With one, others have twice as many.
    let pick = send(&mut world, 1);
    assert_eq!([1, 2].map(|place| rif(&world, place)), [Some(17), Some(8)]);
    done(&mut world, pick, Outcome::Success);
    // Where one is in flight at each report, none is half as many.
    let out = [0, 1, 2].map(|place| send(&mut world, place));
    for _ in 0..70 {
        world.report(world.replicas[0], &load(9, 10));
    }
    world.refresh();
    assert_eq!([1, 2].map(|place| rif(&world, place)), [Some(9); 2]);
    for pick in out {
        done(&mut world, pick, Outcome::Success);
    }
    assert_eq!([1, 2].map(|place| rif(&world, place)), [Some(4); 2]);
    // Reports with responses come where queries end, and show no usual number.
    for _ in 0..70 {
        let replica = world.replicas[0];
        world.handle(Event::CarriedReport(replica, &room(8, 10)));
    }
    assert_eq!([1, 2].map(|place| rif(&world, place)), [Some(4); 2]);
}

#[test]
fn a13_load_of_an_unprobed_replica_is_spread_as_reports_are() {
    let mut world = world(4);
    for place in [2, 3] {
        fall_silent(&mut world, place);
    }
    let refresh = |world: &mut World<_>| {
        world.reports(&[(2, 10), (12, 10)]);
        world.refresh();
    };
    for _ in 0..20 {
        refresh(&mut world);
    }
    let (mut lower, mut alike) = (0, 0);
    for _ in 0..200 {
        refresh(&mut world);
        let drawn = [2, 3].map(|place| rif(&world, place));
        assert!(drawn.iter().all(|&rif| rif == Some(2) || rif == Some(12)));
        lower += u32::from(drawn[0] == Some(2));
        alike += u32::from(drawn[0] == drawn[1]);
    }
    // Each is drawn for itself.
    assert!((70..=130).contains(&lower), "{lower}");
    assert!((70..=130).contains(&alike), "{alike}");
}

#[test]
fn a13_failed_queries_to_an_unprobed_replica_show_no_latency() {
    let settings = PrequalSettings {
        local_only: true,
        ..quiet()
    };
    let mut world = world_of(2, settings);
    for _ in 0..10 {
        for (place, span, outcome) in [
            (0, 10, Outcome::Success),
            (1, 10, Outcome::Success),
            (1, 1, Outcome::Failed),
        ] {
            let pick = send(&mut world, place);
            world.now += span * MS;
            done(&mut world, pick, outcome);
        }
        world.refresh();
    }
    let latencies = compared(&mut world, "mean_latency_us");
    assert_eq!(latencies[0], latencies[1]);
}

/// This client has ten of 300 queries a second elsewhere, and half a query in flight at the silent
/// replica. Others have 29 times as much there, though but 3 elsewhere.
#[test]
fn a13_others_at_an_unprobed_replica_follow_littles_law() {
    for (rate, expected) in [(None, 3), (Some(100_000), 4), (Some(300_000), 14)] {
        let mut world = world(2);
        fall_silent(&mut world, 1);
        for _ in 0..100 {
            let pick = send(&mut world, 1);
            world.now += 50 * MS;
            done(&mut world, pick, Outcome::Success);
            let pick = send(&mut world, 0);
            done(&mut world, pick, Outcome::Success);
            world.now += 49 * MS;
            let mut report = load(3, 10);
            report.query_rate_millis = rate;
            world.report(world.replicas[0], &report);
            world.refresh();
        }
        assert_eq!(rif(&world, 1), Some(expected), "{rate:?}");
    }
}

#[test]
fn a13_way_is_no_part_of_an_own_latency_but_at_most_half() {
    for (own_ms, counted_ms) in [(44, 34), (32, 22), (2, 1)] {
        let mut world = world(2);
        fall_silent(&mut world, 1);
        for _ in 0..70 {
            let probe = world.probe(world.replicas[0]);
            world.now += 10 * MS;
            world.answer(probe, &load(0, 10));
        }
        world.refresh();
        for _ in 0..6 {
            let pick = send(&mut world, 1);
            world.now += own_ms * MS;
            done(&mut world, pick, Outcome::Success);
        }
        let latencies = compared(&mut world, "mean_latency_us");
        // The other replica's 10 ms count as four queries.
        let expected_us = (4 * 10 + 6 * counted_ms) * 100;
        let counted_us = latencies[1] / (1_024 * 1_000);
        assert!(
            counted_us.abs_diff(expected_us) < 10,
            "{own_ms} ms: {counted_us}"
        );
    }
}

#[test]
fn a13_latency_of_an_own_query_counts_at_once() {
    let settings = PrequalSettings {
        local_only: true,
        ..quiet()
    };
    let mut world = world_of(2, settings);
    world.refresh();
    for _ in 0..8 {
        for (place, span) in [(0, 10), (1, 30)] {
            let pick = send(&mut world, place);
            world.now += span * MS;
            done(&mut world, pick, Outcome::Success);
        }
    }
    // No other local report has come. What counts last is 10 ms of 20, and 30 ms of 20.
    let latencies = compared(&mut world, "mean_latency_us");
    assert!(latencies[0] * 5 < latencies[1] * 3, "{latencies:?}");
}

#[test]
fn equal_replicas_are_drawn_evenly_with_another_as_the_runner_up() {
    let mut drawn = [0; 3];
    for seed in 0..300 {
        let mut world = world(4);
        for place in 0..4 {
            sibling(&mut world, place, &load(u32::from(place == 3), 10));
        }
        world.draw = SplitMix64::new(seed);
        let pick = world.pick();
        let place = |replica: ReplicaId| world.replicas.iter().position(|&it| it == replica);
        let chosen = place(pick.ticket.replica()).expect("one of the fleet");
        let runner_up = pick.runner_up.and_then(place).expect("there are equals");
        assert!(
            runner_up < 3 && runner_up != chosen,
            "{chosen}, {runner_up}"
        );
        drawn[chosen] += 1;
    }
    assert!(
        drawn.iter().all(|&count| (80..=120).contains(&count)),
        "{drawn:?}"
    );
}

#[test]
fn retries_do_not_lower_the_rate_of_response_reports() {
    let settings = PrequalSettings {
        probe_rate: rate(3_000_000),
        ..quiet()
    };
    let mut world = world_of(4, settings);
    for query in 0..256 {
        let pick = world.pick();
        let replica = pick.ticket.replica();
        let retry = world.pick_for(Query::retry(&[replica]));
        done(&mut world, pick, Outcome::Success);
        done(&mut world, retry, Outcome::Success);
        if query % 8 > 0 {
            world.handle(Event::CarriedReport(replica, &room(0, 10)));
        }
    }
    // Seven reports for eight queries, or for sixteen attempts.
    let probe_rate = world.policy.snapshot(world.now).probe_rate;
    assert_eq!(probe_rate, Some(rate(500_000)));
}
