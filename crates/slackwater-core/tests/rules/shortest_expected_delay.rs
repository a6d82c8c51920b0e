//! Shortest expected delay: RIF × mean latency, how the mean is learned and when it counts, how
//! reports age, and what stands for reports. What replicas tell of their capacity is in `capacity`.

use crate::silence::fall_silent;
use crate::world::{MS, World, load, quiet};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Event, Outcome, Pick, PickReason, Policy, Query, Settings, ShortestExpectedDelay,
    ShortestExpectedDelayConfig, ShortestExpectedDelaySettings,
};
use slackwater_core::{LoadReport, SplitMix64};

type Fleet = World<ShortestExpectedDelay>;

fn world_of(
    replicas: usize,
    settings: PrequalSettings,
    config: &ShortestExpectedDelayConfig,
) -> Fleet {
    let prequal = settings.validate().expect("in range");
    World::of(replicas, ShortestExpectedDelay::new(prequal, config))
}

fn world(replicas: usize) -> Fleet {
    world_of(replicas, quiet(), &ShortestExpectedDelayConfig::default())
}

/// Each replica reports its RIF and latency in milliseconds, `reports` times; the last time all at
/// once.
fn learned(mut world: Fleet, reports: usize, loads: &[(u32, u64)]) -> Fleet {
    for _ in 0..reports {
        world.reports(loads);
    }
    world
}

/// As [`learned`], long enough ago that the memory of a mean is full.
fn settled(world: Fleet, reports: usize, loads: &[(u32, u64)]) -> Fleet {
    let mut world = learned(world, reports, loads);
    world.now += Duration::from_secs(10);
    world.reports(loads);
    world
}

fn place(world: &Fleet, pick: &Pick) -> usize {
    let replica = pick.ticket.replica();
    let place = world.replicas.iter().position(|&other| other == replica);
    place.expect("one of the fleet")
}

/// The place of the replica that gets the next query, which ends at once.
#[track_caller]
fn chosen(world: &mut Fleet) -> usize {
    let pick = world.pick();
    assert_eq!(pick.reason, PickReason::LowestScore);
    let place = place(world, &pick);
    done(world, pick, Outcome::Success);
    place
}

fn done(world: &mut Fleet, pick: Pick, outcome: Outcome) {
    world
        .policy
        .handle_query_done(world.now, pick.ticket, outcome);
}

#[test]
fn picks_match_a_hand_worked_trace() {
    let mut world = learned(world(2), 8, &[(2, 10), (1, 30)]);
    // 10 ms and 30 ms differ from their mean, 20 ms, by more than the band: (2 + 1) · 10 ms against
    // (1 + 1) · 30 ms.
    let first = world.pick();
    assert_eq!((place(&world, &first), first.rif_limit), (0, None));
    assert_eq!(first.candidates, 2);
    assert_eq!(first.runner_up, Some(world.replicas[1]));
    assert!(first.chosen.is_some_and(|report| report.rif.count() == 2));
    // 4 · 10 ms, and then 5 · 10 ms, against 2 · 30 ms.
    let (second, third) = (world.pick(), world.pick());
    assert_eq!([place(&world, &second), place(&world, &third)], [0, 0]);
    // 6 · 10 ms, plus a little for being ahead, against 2 · 30 ms.
    let fourth = world.pick();
    assert_eq!(place(&world, &fourth), 1);
    // A query that has ended no longer counts, so this is the choice of before.
    done(&mut world, fourth, Outcome::Success);
    assert_eq!(chosen(&mut world), 1);
    done(&mut world, first, Outcome::Failed);
    // 5 · 10 ms.
    assert_eq!(chosen(&mut world), 0);
}

#[test]
fn within_the_latency_band_only_rif_decides() {
    // The mean of 10 and 13 ms is 11.5, 13 % away. That of 10 and 14 is 12, 17 % away.
    for (slower_ms, band, expected) in [
        (13, 150_000, 1),
        (14, 150_000, 0),
        (13, 0, 0),
        (20, 10_000_000, 1),
    ] {
        let settings = ShortestExpectedDelaySettings {
            latency_band_millionths: band,
            ..ShortestExpectedDelaySettings::default()
        };
        let config = settings.validate().expect("in range");
        let world = world_of(2, quiet(), &config);
        let mut world = learned(world, 8, &[(9, 10), (8, slower_ms)]);
        assert_eq!(chosen(&mut world), expected, "{slower_ms} ms, {band}");
    }
}

#[test]
fn least_recent_turn_breaks_ties() {
    for first in [0, 1] {
        let mut world = world(2);
        world.reports(&[(3, 9), (3, 10)]);
        let avoid = [world.replicas[1 - first]];
        let pick = world.pick_for(Query::retry(&avoid));
        done(&mut world, pick, Outcome::Success);
        // The current latency does not matter, and the choice is known in advance.
        for expected in [1 - first, first, 1 - first] {
            let next = world.policy.snapshot(world.now).next;
            assert_eq!(next, Some(world.replicas[expected]));
            assert_eq!(chosen(&mut world), expected);
        }
    }
}

#[test]
fn no_next_replica_is_shown_if_a_draw_decides() {
    let mut world = world(2);
    let next = |world: &Fleet| world.policy.snapshot(world.now).next;
    assert_eq!(next(&world), None, "no replica has reported");
    world.reports(&[(3, 9), (3, 9)]);
    assert_eq!(next(&world), None, "no replica has had a turn");
    world.reports(&[(3, 9), (2, 9)]);
    assert_eq!(next(&world), Some(world.replicas[1]));
}

#[test]
fn mean_latency_counts_from_the_eighth_report() {
    let loads = [(2, 10), (1, 20)];
    let mut world = learned(world(2), 7, &loads);
    assert_eq!(chosen(&mut world), 1, "RIF alone");
    world.reports(&loads);
    assert_eq!(chosen(&mut world), 0);
}

#[test]
fn first_eight_reports_have_equal_weight() {
    // Four times 5 ms and four times 15 ms, in either order: 10 ms against 10.
    for (first_ms, last_ms) in [(5, 15), (15, 5)] {
        let world = learned(world(2), 4, &[(1, first_ms), (2, 10)]);
        let mut world = learned(world, 4, &[(1, last_ms), (2, 10)]);
        assert_eq!(chosen(&mut world), 0);
    }
}

#[test]
fn latency_ratio_is_clamped_to_four() {
    let fleet = |rif| {
        // Seven times 10 ms, and once 1 s, which is remembered as four times the others' mean.
        let mut loads = vec![(rif, 10); 7];
        loads.push((0, 1_000));
        learned(world(8), 8, &loads)
    };
    assert_ne!(chosen(&mut fleet(2)), 7);
    assert_eq!(chosen(&mut fleet(4)), 7);
}

#[test]
fn mean_moves_with_elapsed_time_at_most_by_an_eighth() {
    let before = || settled(world(2), 8, &[(9, 10), (8, 10)]);
    // 50 ms, once: hardly any of the memory of two seconds has passed.
    let mut soon = before();
    soon.report(soon.replicas[1], &load(8, 50));
    soon.report(soon.replicas[0], &load(9, 10));
    assert_eq!(chosen(&mut soon), 1);
    // After ten seconds: 15 ms against 10.
    let mut late = before();
    late.now += Duration::from_secs(10);
    late.report(late.replicas[1], &load(8, 50));
    late.report(late.replicas[0], &load(9, 10));
    assert_eq!(chosen(&mut late), 0);
    // With 22 ms it is 11.5 ms against 10, which is within the band; 22 ms itself would not be.
    let mut little = before();
    little.now += Duration::from_secs(10);
    little.report(little.replicas[1], &load(8, 22));
    little.report(little.replicas[0], &load(9, 10));
    assert_eq!(chosen(&mut little), 1);
}

#[test]
fn before_memory_is_full_all_time_has_equal_weight() {
    // The first eight reports, which come at once, have 42 ms. The later ones have 10 ms, over half
    // of the memory's time.
    for (later, expected) in [(40, 0), (5, 1)] {
        let mut world = learned(world(2), 8, &[(0, 42), (1, 10)]);
        for _ in 0..later {
            world.now += 40 * MS;
            world.reports(&[(0, 10), (1, 10)]);
        }
        // 12 ms against 10 is within the band. The other case is 26 ms, against twice 10.
        assert_eq!(chosen(&mut world), expected, "{later} reports");
    }
}

#[test]
fn old_report_approaches_the_usual_rif() {
    for (age_ms, expected) in [(0, 0), (10, 0), (90, 1)] {
        let mut world = learned(world(2), 20, &[(10, 10), (10, 10)]);
        world.report(world.replicas[0], &load(2, 10));
        world.now += age_ms * MS;
        world.report(world.replicas[1], &load(8, 10));
        // 2, or about half of the way to the usual 10, or nine tenths; against 8.
        assert_eq!(chosen(&mut world), expected, "{age_ms} ms");
    }
}

#[test]
fn own_queries_do_not_fade() {
    let mut world = world(2);
    let out: Vec<_> = (0..8).map(|_| world.pick()).collect();
    let is_first = |pick: &Pick| place(&world, pick) == 0;
    let (on_first, on_second): (Vec<_>, Vec<_>) = out.into_iter().partition(is_first);
    assert_eq!((on_first.len(), on_second.len()), (4, 4));
    for pick in on_second {
        done(&mut world, pick, Outcome::Success);
    }
    // All at the first are the client's own; the two at the other are not.
    let mut world = learned(world, 20, &[(4, 1), (3, 1)]);
    world.now += 500 * MS;
    assert_eq!(chosen(&mut world), 1);
    drop(on_first);
}

#[test]
fn mean_returns_to_fleet_mean_without_completions() {
    let loads = [(2, 10), (1, 20)];
    let mut world = learned(world(2), 8, &loads);
    assert_eq!(chosen(&mut world), 0);
    for _ in 0..20 {
        world.now += Duration::from_secs(1);
        world.reports(&[(2, 10), (1, 0)]);
    }
    assert_eq!(chosen(&mut world), 1, "RIF alone");
}

#[test]
fn without_latencies_rif_decides_and_reports_do_not_age() {
    let mut world = world(2);
    world.reports(&[(7, 0), (7, 0)]);
    world.report(world.replicas[0], &load(5, 0));
    world.now += 500 * MS;
    world.report(world.replicas[1], &load(6, 0));
    assert_eq!(chosen(&mut world), 0);
}

#[test]
fn large_fleet_compares_the_sixteen_newest_reports() {
    for (replicas, expected) in [(16, 0), (17, 1), (64, 48), (65, 49), (200, 184)] {
        let mut world = world(replicas);
        for (index, replica) in world.replicas.clone().into_iter().enumerate() {
            // The older, the better: 0, 1, 2 and so on.
            let rif = u32::try_from(index).expect("few");
            world.now += MS;
            world.report(replica, &load(rif, 0));
        }
        let pick = world.pick();
        assert_eq!((pick.candidates, place(&world, &pick)), (16, expected));
        done(&mut world, pick, Outcome::Success);
        // Among those that the query has not tried.
        let avoid = [world.replicas[expected]];
        let retry = world.pick_for(Query::retry(&avoid));
        assert_eq!(
            (place(&world, &retry), retry.candidates),
            (expected + 1, 15)
        );
        done(&mut world, retry, Outcome::Success);
    }
}

#[test]
fn repeated_reports_count_once_and_the_next_newest_fills_a_gap() {
    let mut world = world(100);
    let report = |world: &mut World<ShortestExpectedDelay>, place: usize| {
        let (replica, report) = (
            world.replicas[place],
            load(u32::try_from(place).expect("few"), 0),
        );
        world.handle(Event::SiblingReport(replica, &report));
    };
    let chosen = |world: &mut World<ShortestExpectedDelay>| {
        let pick = world.pick();
        let chosen = (place(world, &pick), pick.candidates);
        done(world, pick, Outcome::Success);
        chosen
    };
    for place in 0..100 {
        world.now += MS;
        report(&mut world, place);
    }
    for _ in 0..20 {
        world.now += MS;
        report(&mut world, 99);
    }
    assert_eq!(chosen(&mut world), (84, 16), "99 has one report");
    let out = world.replicas[90];
    world.handle(Event::Available(out, false));
    assert_eq!(chosen(&mut world), (83, 16), "90 has none");
}

/// This holds with avoided, ejected and readmitted replicas.
#[test]
fn sixteen_newest_match_a_full_search() {
    let mut world = world(40);
    let mut draw = SplitMix64::new(5);
    let mut avoided = 0;
    for _ in 0..2_000 {
        let replicas = world.replicas.clone();
        let mut any = || replicas[below(&mut draw, 40) as usize];
        // Half of them are of replicas that are out, and are not kept.
        for _ in 0..6 {
            let probe = world.probe(any());
            world.now += MS / 10;
            world.answer(probe, &load(1, 10));
        }
        let avoid = [any(), any()];
        let out = any();
        let is_out = world.policy.fleet().is_available(out);
        world.handle(Event::Available(out, !is_out));
        let pick = world.pick_for(Query::retry(&avoid));
        let compared = usize::from(pick.candidates);
        let mut newest = world.pool();
        newest.sort_by_key(|view| view.age);
        newest.truncate(16);
        let before = newest.len();
        newest.retain(|view| !avoid.contains(&view.replica));
        done(&mut world, pick, Outcome::Success);
        // Without any report, all are compared by what is in flight.
        assert_eq!(compared, newest.len());
        avoided += before - newest.len();
    }
    assert!(avoided > 500, "{avoided}");
}

#[test]
fn forgotten_replica_does_not_count_in_the_fleet_mean() {
    let mut world = learned(world(3), 8, &[(0, 10); 3]);
    let third = world.replicas[2];
    world.handle(Event::Available(third, false));
    world.handle(Event::Available(third, true));
    // It counts with the mean, which is that of the others, and the first one's report has faded a
    // little.
    world.reports(&[(4, 10), (9, 10), (4, 10)]);
    assert_eq!(chosen(&mut world), 0);
}

#[test]
fn mean_is_relearned_after_unavailable_or_unreachable() {
    let loads = [(3, 10), (1, 25), (9, 10)];
    for unreachable in [false, true] {
        let mut world = learned(world(3), 8, &loads);
        assert_eq!(chosen(&mut world), 0);
        let second = world.replicas[1];
        if unreachable {
            let avoid = [world.replicas[0], world.replicas[2]];
            let pick = world.pick_for(Query::retry(&avoid));
            done(&mut world, pick, Outcome::NoConnection);
        } else {
            world.handle(Event::Available(second, false));
            world.handle(Event::Available(second, true));
        }
        for _ in 0..7 {
            world.reports(&loads);
            assert_eq!(chosen(&mut world), 1, "as the mean of the others");
        }
        world.reports(&loads);
        assert_eq!(chosen(&mut world), 0);
    }
}

#[test]
fn local_only_uses_own_rif_and_round_trips() {
    let settings = PrequalSettings {
        local_only: true,
        ..quiet()
    };
    let mut world = world_of(2, settings, &ShortestExpectedDelayConfig::default());
    // 10 ms at one, 30 ms at the other, again and again.
    for _ in 0..100 {
        for (avoid, ms) in [(1, 10), (0, 30)] {
            let avoid = [world.replicas[avoid]];
            let pick = world.pick_for(Query::retry(&avoid));
            world.now += ms * MS;
            done(&mut world, pick, Outcome::Success);
        }
        world.refresh();
    }
    assert!(world.pool().iter().all(|view| view.local));
    let out: Vec<_> = (0..4).map(|_| world.pick()).collect();
    let places: Vec<_> = out.iter().map(|pick| place(&world, pick)).collect();
    // One and two times 10 ms come before nearly 30 ms, and three times does not.
    assert_eq!(places, [0, 0, 1, 0]);
    assert_eq!(world.policy.counters().probes_sent, 0);
}

/// A report of `rif`, 10 ms, and this many finished queries per second.
fn at_rate(rif: u32, per_second: u32) -> LoadReport {
    let mut report = load(rif, 10);
    report.query_rate_millis = Some(per_second * 1_000);
    report
}

/// All replicas report this, `reports` times, 40 ms apart.
fn reported(mut world: Fleet, reports: usize, all: &[LoadReport]) -> Fleet {
    for _ in 0..reports {
        world.now += 40 * MS;
        for (place, report) in all.iter().enumerate() {
            world.report(world.replicas[place], report);
        }
    }
    world
}

#[test]
fn mean_latency_is_rif_over_query_rate() {
    // 4 in flight at 400 a second are 10 ms, at 100 a second 40 ms. Both report 10 ms.
    let mut world = reported(world(2), 8, &[at_rate(5, 500), at_rate(4, 100)]);
    assert_eq!(chosen(&mut world), 0, "6 times 10 ms against 5 times 40");
    // With as many queries as it has traffic for, a replica is not slow: 1 at 100 a second.
    let mut world = reported(self::world(2), 8, &[at_rate(4, 400), at_rate(1, 100)]);
    assert_eq!(chosen(&mut world), 1);
    // Without a latency, RIF and rate are enough.
    let unknown = |rif, per_second| {
        let mut report = at_rate(rif, per_second);
        report.latency = None;
        report
    };
    let all = [unknown(5, 500), unknown(4, 100)];
    assert_eq!(chosen(&mut reported(self::world(2), 8, &all)), 0);
}

#[test]
fn mean_rif_remembers_two_seconds() {
    // It was slow, at 40 ms, and is faster than the other now. Its mean RIF falls from 8 to 1: to 1
    // + 7/e after two seconds.
    let slow = [at_rate(2, 200), at_rate(8, 200)];
    let well = [at_rate(2, 200), at_rate(1, 200)];
    for (reports, expected) in [(10, 0), (75, 1)] {
        let mut world = reported(reported(world(2), 300, &slow), reports, &well);
        // 3 times 10 ms, against twice its mean latency.
        assert_eq!(chosen(&mut world), expected, "{reports} reports");
    }
}

#[test]
fn long_queue_of_the_past_is_soon_forgotten() {
    let queue = [at_rate(2, 200), at_rate(2, 200), at_rate(2_000, 200)];
    let well = [at_rate(2, 200), at_rate(2, 200), at_rate(1, 200)];
    // Its mean latency is remembered as 40 ms, not as ten seconds.
    let mut world = reported(reported(world(3), 300, &queue), 100, &well);
    assert_eq!(chosen(&mut world), 2, "four seconds later");
}

#[test]
fn replica_that_stood_still_is_chosen_again_within_seconds() {
    let mut world = settled(world(3), 8, &[(2, 10), (2, 10), (2, 5_000)]);
    assert_ne!(chosen(&mut world), 2);
    for _ in 0..50 {
        world.now += 100 * MS;
        world.reports(&[(2, 10), (2, 10), (1, 10)]);
    }
    assert_eq!(chosen(&mut world), 2);
}

#[test]
fn memory_of_reported_latencies_is_two_seconds() {
    // One report has 30 ms more, of which an eighth counts, or a ninth: 13.75 ms against 10 is
    // beyond the band, 13.3 is not.
    for (gap_ms, expected) in [(290, 0), (240, 1)] {
        let mut world = settled(world(2), 8, &[(9, 10), (8, 10)]);
        world.now += gap_ms * MS;
        let [first, second] = world.replicas[..] else {
            panic!("two replicas")
        };
        let fresh = world.now;
        let (a, b) = (world.probe(first), world.probe(second));
        world.now = fresh;
        world.answer(b, &load(8, 40));
        world.answer(a, &load(9, 10));
        assert_eq!(chosen(&mut world), expected, "{gap_ms} ms");
    }
}

#[test]
fn replica_whose_latency_is_unknown_is_tried_as_the_others() {
    let mut world = settled(world(2), 8, &[(2, 10), (1, 40)]);
    assert_eq!(chosen(&mut world), 0);
    world.report(world.replicas[1], &load(1, 0));
    world.report(world.replicas[0], &load(2, 10));
    assert_eq!(chosen(&mut world), 1, "RIF alone");
}

#[test]
fn a13_unprobed_replica_leaves_the_reports_of_others_as_they_are() {
    let mut world = learned(world(3), 8, &[(2, 10), (1, 20)]);
    assert_eq!(chosen(&mut world), 0);
    fall_silent(&mut world, 2);
    let mut world = learned(world, 8, &[(2, 10), (1, 20)]);
    world.refresh();
    let views = world.pool();
    let local: Vec<_> = views.iter().map(|view| view.local).collect();
    assert_eq!(local.iter().filter(|&&local| local).count(), 1);
    // Its load is one that another has reported, 1 or 2, and its latency is the mean of all: it
    // takes its place among them, and what they report still counts.
    let pick = world.pick();
    done(&mut world, pick, Outcome::Success);
    let rif = world.rif_of(world.replicas[2]).expect("it has a stand-in");
    assert!((1..=2).contains(&rif), "{rif}");
    world.reports(&[(90, 10), (90, 20)]);
    assert_eq!(chosen(&mut world), 2);
    world.reports(&[(0, 10), (90, 20)]);
    assert_eq!(chosen(&mut world), 0);
}

#[test]
fn a13_mean_latency_of_an_unprobed_replica_is_that_of_its_last_64_queries() {
    let mut world = learned(world(2), 8, &[(1, 10)]);
    fall_silent(&mut world, 1);
    let mut world = learned(world, 8, &[(3, 10)]);
    let own = |world: &mut Fleet, ms| {
        world.refresh();
        let avoid = [world.replicas[0]];
        let pick = world.pick_for(Query::retry(&avoid));
        world.now += ms * MS;
        done(world, pick, Outcome::Success);
    };
    // 40 ms against 10 ms: behind three others it would wait as long elsewhere.
    for _ in 0..7 {
        own(&mut world, 40);
    }
    world.report(world.replicas[0], &load(0, 10));
    assert_eq!(chosen(&mut world), 0);
    own(&mut world, 40);
    world.report(world.replicas[0], &load(2, 10));
    world.refresh();
    assert_eq!(chosen(&mut world), 0, "three times 10 ms against 40");
    for _ in 0..200 {
        own(&mut world, 10);
    }
    world.report(world.replicas[0], &load(9, 10));
    world.refresh();
    assert_eq!(chosen(&mut world), 1, "it has become as fast");
}
