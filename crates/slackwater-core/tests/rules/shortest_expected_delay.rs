//! Shortest expected delay: RIF × mean latency, how the mean is learned and when it counts, how
//! reports fade, and their stand-ins.

use crate::silence::fall_silent;
use crate::world::{MS, World, load, quiet};
use core::time::Duration;
use slackwater_core::SplitMix64;
use slackwater_core::draw::below;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Event, Outcome, Pick, PickReason, Policy, Query, Settings, ShortestExpectedDelay,
    ShortestExpectedDelayConfig, ShortestExpectedDelaySettings,
};

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
    let mut world = learned(world(2), 8, &[(2, 10), (1, 20)]);
    // 10 ms and 20 ms differ from their mean, 15 ms, by more than the band: (2 + 1) · 10 ms against
    // (1 + 1) · 20 ms.
    let first = world.pick();
    assert_eq!((place(&world, &first), first.rif_limit), (0, None));
    assert_eq!(first.candidates, 2);
    assert_eq!(first.runner_up, Some(world.replicas[1]));
    assert!(first.chosen.is_some_and(|report| report.rif.count() == 2));
    // 4 · 10 ms against 2 · 20 ms: the other has had no turn yet.
    let second = world.pick();
    assert_eq!(place(&world, &second), 1);
    // 4 · 10 ms against 3 · 20 ms.
    let third = world.pick();
    assert_eq!(place(&world, &third), 0);
    // 5 · 10 ms against 3 · 20 ms. A query that has ended no longer counts.
    assert_eq!(chosen(&mut world), 0);
    done(&mut world, second, Outcome::Success);
    // 5 · 10 ms, plus a little for being ahead, against 2 · 20 ms.
    assert_eq!(chosen(&mut world), 1);
    done(&mut world, first, Outcome::Failed);
    done(&mut world, third, Outcome::Success);
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
        // The mean of seven times 10 ms and once 1 s is 133 ms: they count as 33 ms and 534 ms, 1
        // to 16.
        let mut loads = vec![(rif, 10); 7];
        loads.push((0, 1_000));
        learned(world(8), 8, &loads)
    };
    assert_ne!(chosen(&mut fleet(14)), 7);
    assert_eq!(chosen(&mut fleet(16)), 7);
}

#[test]
fn mean_moves_with_elapsed_time_at_most_by_an_eighth() {
    let before = || settled(world(2), 8, &[(9, 10), (8, 10)]);
    // 50 ms, once: hardly any of the memory of 32 queries' time has passed.
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
fn memory_is_longer_at_low_rif() {
    for (usual, expected) in [(0, 1), (8, 0)] {
        let mut world = settled(world(2), 100, &[(usual, 10), (usual, 10)]);
        world.now += 400 * MS;
        // One report has 40 ms more, of which 1/8 or 1/14 counts: 15 ms against 10 is beyond the
        // band, 13 is not.
        world.report(world.replicas[1], &load(8, 50));
        world.report(world.replicas[0], &load(9, 10));
        assert_eq!(chosen(&mut world), expected, "usually {usual}");
    }
}

/// After `gap`, the second of two replicas reports 50 ms, with a mean of 10 before. Returns whether
/// its mean is beyond the band then.
fn is_moved_beyond_the_band(mut world: Fleet, gap: Duration) -> bool {
    world.now += gap;
    world.report(world.replicas[1], &load(8, 50));
    world.report(world.replicas[0], &load(9, 10));
    chosen(&mut world) == 0
}

#[test]
fn memory_is_longer_if_latency_varies() {
    let even = [[10; 5]; 2];
    // The mean is 10 ms here, too: differences of four means, two times in five.
    let uneven = [[2, 2, 42, 2, 2], [42, 2, 2, 2, 2]];
    let fleet = |turns: [[u64; 5]; 2]| {
        let mut world = world(2);
        // Ten seconds.
        for turn in (0..5).cycle().take(500) {
            world.now += 20 * MS;
            world.reports(&[(8, turns[0][turn]), (8, turns[1][turn])]);
        }
        world
    };
    // With a memory of 128 queries, 0.3 s, an eighth of 40 ms more counts; with 2,048, 5 s, much
    // less.
    assert!(is_moved_beyond_the_band(fleet(even), 200 * MS));
    assert!(!is_moved_beyond_the_band(fleet(uneven), 200 * MS));
    // A ninth counts. With the 3,300 queries that such differences would need it would be a
    // fourteenth.
    assert!(is_moved_beyond_the_band(fleet(uneven), 600 * MS));
}

#[test]
fn outlier_latency_is_clamped_to_sixteen_means() {
    let mut world = settled(world(3), 100, &[(8, 10); 3]);
    let third = world.replicas[2];
    world.report(third, &load(8, 10_000));
    world.handle(Event::Available(third, false));
    // The memory is 440 queries, of 43 ms by then: an eighth still counts. Without the cap it would
    // be 2,048 queries, and a 37th.
    assert!(is_moved_beyond_the_band(world, 600 * MS));
}

#[test]
fn variation_extends_memory_to_at_most_one_minute() {
    // The mean is half a second, and latencies differ by 1.6 means: 1,310 queries, four at a time,
    // would be 160 s.
    let turns = [[100, 900], [900, 100]];
    let mut world = world(2);
    for turn in (0..2).cycle().take(400) {
        world.now += Duration::from_secs(1);
        world.reports(&[(8, turns[0][turn]), (8, turns[1][turn])]);
    }
    world.now += Duration::from_secs(8);
    // An eighth of two seconds more counts, not a 21st.
    world.report(world.replicas[1], &load(8, 2_500));
    world.report(world.replicas[0], &load(9, 500));
    assert_eq!(chosen(&mut world), 0);
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
    for (replicas, expected, next) in [
        (16, 0, 1),
        (17, 1, 0),
        (64, 48, 47),
        (65, 49, 48),
        (200, 184, 183),
    ] {
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
        // Among replicas that the query has not tried.
        let avoid = [world.replicas[expected]];
        let retry = world.pick_for(Query::retry(&avoid));
        assert_eq!(
            (place(&world, &retry), retry.candidates),
            (next, if replicas == 16 { 15 } else { 16 })
        );
        done(&mut world, retry, Outcome::Success);
    }
}

#[test]
fn repeated_reports_count_once_and_ties_in_age_are_all_compared() {
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
    // Five more arrive together with the last of sixteen.
    world.now += MS;
    for place in 10..15 {
        report(&mut world, place);
    }
    report(&mut world, 10);
    for place in 0..15 {
        world.now += MS;
        report(&mut world, place + 20);
    }
    assert_eq!(chosen(&mut world), (10, 20));
    world.now += MS;
    for place in (0..100).filter(|&place| place != 90) {
        report(&mut world, place);
    }
    assert_eq!(chosen(&mut world), (0, 99), "all came at once");
}

/// This holds with avoided, ejected and readmitted replicas, and with reports that arrive together.
#[test]
fn sixteen_newest_match_a_full_search() {
    let mut world = world(40);
    let mut draw = SplitMix64::new(5);
    let mut at_once = 0;
    for _ in 0..2_000 {
        let replicas = world.replicas.clone();
        let mut any = || replicas[below(&mut draw, 40) as usize];
        let (first, second, avoid) = (any(), any(), [any(), any()]);
        let (first, second) = (world.probe(first), world.probe(second));
        world.answer(first, &load(1, 10));
        if second.replica != first.replica {
            world.answer(second, &load(1, 10));
        }
        let out = any();
        let is_out = world.policy.fleet().is_available(out);
        world.handle(Event::Available(out, !is_out));
        let pick = world.pick_for(Query::retry(&avoid));
        let compared = usize::from(pick.candidates);
        let mut ages: Vec<_> = (world.pool().iter())
            .filter(|view| !avoid.contains(&view.replica))
            .map(|view| view.age)
            .collect();
        done(&mut world, pick, Outcome::Success);
        ages.sort_unstable();
        let Some(&sixteenth) = ages.get(15).or(ages.last()) else {
            continue;
        };
        let newest = ages.iter().filter(|&&age| age <= sixteenth).count();
        assert_eq!(compared, newest);
        at_once += u32::from(newest > 16);
    }
    assert!(at_once > 20, "{at_once}");
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
    for _ in 0..10 {
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
    // One and two times 10 ms come before 30 ms. At three times 10 ms they are equal, and the
    // other's last turn is longer ago.
    assert_eq!(places, [0, 0, 1, 0]);
    assert_eq!(world.policy.counters().probes_sent, 0);
}

#[test]
fn a13_one_unprobed_replica_switches_all_to_local_measurements() {
    let mut world = learned(world(3), 8, &[(2, 10), (1, 20)]);
    assert_eq!(chosen(&mut world), 0);
    fall_silent(&mut world, 2);
    // Their reports about others do not count, nor the latencies learned from reports.
    world.reports(&[(90, 10), (0, 20)]);
    world.refresh();
    let out: Vec<_> = (0..3).map(|_| world.pick()).collect();
    let mut places: Vec<_> = out.iter().map(|pick| place(&world, pick)).collect();
    places.sort_unstable();
    assert_eq!(places, [0, 1, 2], "one each");
    for pick in out {
        done(&mut world, pick, Outcome::Dropped);
    }
    // When all answer, reports count again, and latencies are learned again.
    world.report(world.replicas[2], &load(9, 10));
    let loads = [(2, 10), (1, 20), (9, 10)];
    let mut world = learned(world, 7, &loads);
    assert_eq!(chosen(&mut world), 1, "RIF alone");
    world.reports(&loads);
    assert_eq!(chosen(&mut world), 0);
}

/// Whether a third replica is chosen before two others that have reported 10 ms and have two
/// queries each. It has reported `learned_ms` and then, idle, `newest_ms`.
fn is_believed(learned_ms: u64, newest_ms: u64) -> bool {
    let mut world = settled(world(3), 8, &[(2, 10), (2, 10), (2, learned_ms)]);
    world.reports(&[(2, 10), (2, 10), (0, newest_ms)]);
    chosen(&mut world) == 2
}

#[test]
fn resumed_replica_counts_normally_after_a_normal_report() {
    assert!(is_believed(1_000, 10), "it goes on");
    assert!(is_believed(1_000, 30), "and is a little slow yet");
    assert!(
        is_believed(1_000, 0),
        "none of its queries are known: one is tried"
    );
    assert!(!is_believed(1_000, 1_000), "it stands still");
    assert!(!is_believed(1_000, 50), "or does next to nothing");
    assert!(is_believed(170, 10));
    assert!(
        !is_believed(120, 10),
        "twelve times slower: it is learned as usual"
    );
    assert!(!is_believed(120, 0));
}

#[test]
fn two_of_four_stalled_replicas_are_both_detected() {
    let stands = |ms| [(2, 10), (2, 10), (2, ms), (2, ms)];
    let mut world = settled(world(4), 8, &stands(5_000));
    for _ in 0..8 {
        world.reports(&[(2, 10), (2, 10), (0, 10), (0, 5_000)]);
    }
    assert_eq!(chosen(&mut world), 2);
}

#[test]
fn repeatedly_stalled_replica_is_retried_after_each_stall() {
    let mut world = settled(world(3), 8, &[(2, 10), (2, 10), (2, 10)]);
    for time in 0..5 {
        world = settled(world, 30, &[(2, 10), (2, 10), (0, 1_000)]);
        assert_ne!(chosen(&mut world), 2, "{time}");
        world.reports(&[(2, 10), (2, 10), (0, 10)]);
        assert_eq!(chosen(&mut world), 2, "{time}");
    }
}
