//! Reported capacity and cost: the share in use and the cost of a query decide, also beside
//! replicas that report neither. `[Decision 0009]` `[Decision 0020]`

use crate::world::{MS, World, load, quiet};
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Decision, Event, Explanation, Outcome, PickReason, Policy, Query, Settings,
    ShortestExpectedDelay, ShortestExpectedDelayConfig, ShortestExpectedDelaySettings,
};
use slackwater_core::{LoadReport, Rate};

type Fleet = World<ShortestExpectedDelay>;

fn policy(
    prequal: PrequalSettings,
    settings: ShortestExpectedDelaySettings,
) -> ShortestExpectedDelay {
    let config = prequal.validate().expect("in range");
    ShortestExpectedDelay::new(config, &settings.validate().expect("in range"))
}

/// Replicas that are probed only when a test does so.
fn world(replicas: usize) -> Fleet {
    world_with(replicas, ShortestExpectedDelaySettings::default())
}

fn world_with(replicas: usize, mut settings: ShortestExpectedDelaySettings) -> Fleet {
    settings.probe_rate = Rate::ZERO;
    World::of(replicas, policy(quiet(), settings))
}

/// A report of `rif` in flight with this capacity and cost.
fn room(rif: u32, capacity: u32, cost_ms: u64) -> LoadReport {
    let mut report = load(rif, 0);
    report.capacity_millirif = Some(capacity * 1_000);
    report.cost = (cost_ms > 0).then(|| Duration::from_millis(cost_ms));
    report
}

fn reports(world: &mut Fleet, reports: &[LoadReport]) {
    for (index, report) in reports.iter().enumerate() {
        world.report(world.replicas[index], report);
    }
}

/// What each replica is compared by for the next query: the values of these factors, in order.
fn compared<const N: usize>(world: &mut Fleet, keys: [&str; N]) -> Vec<[u64; N]> {
    let mut explanation = Explanation::new();
    let (now, draw) = (world.now, &mut world.draw);
    let decision = (world.policy).choose(now, Query::first(), draw, Some(&mut explanation));
    assert!(matches!(decision, Decision::Pick(_)));
    let factors = explanation
        .comparison()
        .expect("reports are compared")
        .factors;
    let mut candidates = explanation.candidates().to_vec();
    candidates.sort_by_key(|it| world.replicas.iter().position(|&other| other == it.replica));
    let value = |values: &slackwater_core::policy::Values, key: &str| {
        let place = factors.iter().position(|factor| factor.key == key);
        values
            .at(place.unwrap_or_else(|| panic!("no {key}")))
            .expect("known")
    };
    let candidates = candidates.iter();
    candidates
        .map(|it| keys.map(|key| value(&it.values, key)))
        .collect()
}

/// The place of the replica that gets the next query.
fn next(world: &mut Fleet) -> usize {
    let pick = world.pick();
    let place = (world.replicas.iter()).position(|&replica| replica == pick.ticket.replica());
    place.expect("one of the fleet")
}

#[test]
fn lowest_utilization_is_chosen_and_grows_with_each_query() {
    let mut world = world(3);
    reports(&mut world, &[room(3, 10, 0), room(9, 40, 0), room(2, 5, 0)]);
    // With the query itself: 4 of 10, 10 of 40, 3 of 5; then 11 to 15 of 40, until 16 of 40 equal 4
    // of 10.
    let chosen: Vec<_> = (0..6).map(|_| next(&mut world)).collect();
    assert_eq!(chosen, [1; 6]);
    let pick = world.pick();
    assert_eq!(pick.reason, PickReason::LowestScore);
    assert_eq!((pick.candidates, pick.rif_limit), (3, None));
    let mut two = [
        pick.ticket.replica(),
        pick.runner_up.expect("there are others"),
    ];
    two.sort_unstable();
    assert_eq!(two, [world.replicas[0], world.replicas[1]], "equal");
}

#[test]
fn cheaper_replica_is_preferred_until_it_is_full() {
    let mut world = world(2);
    // The second time each counts with the mean of both costs.
    for _ in 0..2 {
        reports(&mut world, &[room(0, 10, 100), room(0, 10, 200)]);
    }
    let chosen: Vec<_> = (0..10).map(|_| next(&mut world)).collect();
    assert_eq!(chosen[..9], [0; 9], "up to its capacity");
    // With 9 in flight at a capacity of 10, the tenth and eleventh would take longer than at the
    // other replica.
    assert!(chosen[9] == 1 || next(&mut world) == 1);
}

#[test]
fn costs_within_the_band_are_equal() {
    let costs = |band_millionths| {
        let settings = ShortestExpectedDelaySettings {
            cost_band_millionths: band_millionths,
            ..ShortestExpectedDelaySettings::default()
        };
        let mut world = world_with(2, settings);
        // 18 % below and above their mean.
        reports(&mut world, &[room(3, 10, 100), room(2, 10, 144)]);
        next(&mut world)
    };
    assert_eq!(costs(250_000), 1, "the share in use decides");
    assert_eq!(costs(100_000), 0, "the cost does");
}

#[test]
fn overload_penalty_needs_other_queries_in_flight() {
    // Ten at a time: the cheaper one at 1.5 times its capacity counts as three times as slow.
    let mut many = world(2);
    for _ in 0..2 {
        reports(&mut many, &[room(13, 10, 100), room(3, 10, 199)]);
    }
    assert_eq!(next(&mut many), 1);
    // One at a time: behind another query it takes twice as long, and the other replica is four
    // times as slow.
    let mut one = world(2);
    for _ in 0..2 {
        reports(&mut one, &[room(1, 1, 100), room(0, 1, 400)]);
    }
    assert_eq!(next(&mut one), 0);
}

#[test]
fn capacity_below_one_delays_only_later_queries() {
    let part = |rif, thousandths| {
        let mut report = room(rif, 1, 10);
        report.capacity_millirif = Some(thousandths);
        report
    };
    let chosen = |reported: [LoadReport; 2]| {
        let mut world = world(2);
        reports(&mut world, &reported);
        next(&mut world)
    };
    // On an idle replica, a capacity of half a query is as good as one.
    let mut idle = world(2);
    reports(&mut idle, &[part(0, 500), room(0, 1, 10)]);
    let scores = compared(&mut idle, ["score_us"]);
    assert_eq!(scores[0], scores[1]);
    assert_eq!(chosen([part(1, 100), part(1, 200)]), 1);
    assert_eq!(chosen([part(2, 400), part(1, 100)]), 0, "5 before, or 10");
    assert_eq!(chosen([part(3, 400), part(1, 200)]), 1, "7.5 before, or 5");
}

#[test]
fn old_low_report_fades_and_old_high_report_counts_fully() {
    // A capacity of ten, and 50 ms each. The mean of all reports is the usual value.
    let told = |rif| {
        let mut report = room(rif, 10, 0);
        report.latency = Some(Duration::from_millis(50));
        report
    };
    let chosen = |third: &[u32], old: u32, new: u32, after: Duration| {
        let mut world = world(3);
        let [one, other, another] = [0, 1, 2].map(|place| world.replicas[place]);
        for &rif in third {
            world.report(another, &told(rif));
        }
        world.report(one, &told(old));
        world.now += after;
        world.report(other, &told(new));
        next(&mut world)
    };
    let [once, twice, nine] = [50, 100, 450].map(Duration::from_millis);
    // With 2, 4 and 16 the usual value is 7.3: after one latency 2 counts as 3.8, after two as 4.7.
    assert_eq!(chosen(&[16], 2, 4, once), 0);
    assert_eq!(chosen(&[16], 2, 4, twice), 1);
    // With 5, 6 and 7 the usual value is 6, and 5 never counts as more than that.
    assert_eq!(chosen(&[7], 5, 6, nine), 0);
    // 12 counts fully, though the usual value is 7.4.
    assert_eq!(chosen(&[0, 0, 0, 0, 30], 12, 10, nine), 1);
}

#[test]
fn response_reports_count_until_replaced() {
    let mut world = world(6);
    let told: Vec<_> = (4..10).map(|rif| room(rif, 10, 0)).collect();
    reports(&mut world, &told);
    let carried = room(1, 10, 0);
    let third = world.replicas[2];
    world.handle(Event::CarriedReport(third, &carried));
    assert_eq!(next(&mut world), 2);
    world.handle(Event::CarriedReport(third, &load(0, 0)));
    assert_eq!(
        world.rif_of(third),
        Some(2),
        "a response report without a capacity is ignored"
    );
    world.now += Duration::from_secs(1);
    let _ = world.pick();
    assert_eq!(world.pool().len(), 0, "old ones go");
}

#[test]
fn response_reports_leave_mean_latencies_as_probes_reported_them() {
    let told = |latency_ms| {
        let mut report = room(0, 10, 0);
        report.latency = Some(latency_ms * MS);
        report
    };
    let mut world = world(3);
    for _ in 0..8 {
        // The last one reports no capacity, so its mean latency counts.
        reports(&mut world, &[told(10), told(10), load(0, 40)]);
    }
    let before = compared(&mut world, ["alone_us"]);
    for place in [0, 1] {
        let replica = world.replicas[place];
        for _ in 0..100 {
            world.now += MS;
            world.handle(Event::CarriedReport(replica, &told(400)));
        }
    }
    // It counts with the mean of all at its own report.
    world.report(world.replicas[2], &load(0, 40));
    assert_eq!(compared(&mut world, ["alone_us"]), before);
}

#[test]
fn probe_rate_is_low_while_five_of_six_responses_carry_capacities() {
    let settings = PrequalSettings {
        probe_interval_min: Duration::ZERO,
        ..PrequalSettings::default()
    };
    let settings = policy(settings, ShortestExpectedDelaySettings::default());
    let mut world = World::of(20, settings);
    let quiet_one = world.replicas[0];
    // 128 queries with all their probes answered, and as many responses with reports. By then every
    // replica has been probed.
    let probes = |world: &mut Fleet, carries: u32, others: &LoadReport, one: &LoadReport| {
        let mut sent = 0;
        for query in 0..128 {
            let pick = world.pick();
            let from = pick.ticket.replica();
            (world.policy).handle_query_done(world.now, pick.ticket, Outcome::Success);
            let of = |replica| if replica == quiet_one { one } else { others };
            if query < carries {
                world.handle(Event::CarriedReport(from, of(from)));
            }
            for probe in world.probes() {
                sent += 1;
                world.answer(probe, of(probe.replica));
            }
        }
        sent
    };
    let (told, untold) = (room(0, 10, 0), load(0, 0));
    let many = probes(&mut world, 128, &untold, &untold);
    assert_eq!(many, 384, "no capacity is known");
    probes(&mut world, 128, &told, &told);
    let few = probes(&mut world, 107, &told, &told);
    assert_eq!(few, 64, "half a probe a query");
    let half = Rate::from_millionths(500_000);
    assert_eq!(world.policy.snapshot(world.now).probe_rate, half);
    assert_eq!(probes(&mut world, 106, &told, &told), 64);
    let many = probes(&mut world, 128, &told, &told);
    assert_eq!(many, 384, "too few responses had reports");
    assert_eq!(probes(&mut world, 128, &told, &told), 64);
    probes(&mut world, 128, &told, &untold);
    let few = probes(&mut world, 128, &told, &untold);
    assert_eq!(few, 64, "although one reports no capacity");
}

#[test]
fn replica_without_capacity_counts_with_means_of_those_that_report_it() {
    let told = |capacity, cost_ms| {
        let mut report = room(0, capacity, cost_ms);
        report.latency = Some(30 * MS);
        report
    };
    let mut world = world(3);
    for _ in 0..8 {
        reports(&mut world, &[told(10, 20), told(20, 40), load(0, 60)]);
    }
    // Its mean latency is twice that of the others, whose mean cost is 30 ms.
    let found = compared(&mut world, ["capacity", "alone_us"]);
    let ms = |ms: u64| ms * 1_000_000 * 1_024;
    let expected = [[10_000, ms(20)], [20_000, ms(40)], [15_000, ms(60)]];
    for ([capacity, alone], [expected, expected_alone]) in found.into_iter().zip(expected) {
        assert_eq!(capacity, expected);
        let off = alone.abs_diff(expected_alone);
        assert!(off < ms(1) / 1_000, "{alone}, not {expected_alone}");
    }
}

#[test]
fn replica_without_capacity_counts_as_at_most_four_times_as_fast() {
    let mut world = world(4);
    for _ in 0..8 {
        world.reports(&[(0, 100), (0, 100), (0, 100), (0, 1)]);
    }
    // The mean of all is 75.25 ms.
    let found = compared(&mut world, ["mean_latency_us"]);
    assert_eq!(found[3], [75_250_000 * 1_024 / 4]);
}

#[test]
fn capacity_of_an_unavailable_replica_no_longer_counts() {
    let mut world = world(3);
    reports(&mut world, &[room(1, 10, 10), load(2, 10), load(2, 10)]);
    let name = |world: &Fleet| {
        world
            .policy
            .snapshot(world.now)
            .comparison
            .map(|it| it.name)
    };
    assert_eq!(name(&world), Some("capacity_in_use"));
    world.handle(Event::Available(world.replicas[0], false));
    assert_eq!(name(&world), Some("expected_delay"));
}

#[test]
fn usual_load_is_learned_anew_with_the_first_capacity() {
    let mut world = world(2);
    for _ in 0..32 {
        world.reports(&[(20, 50), (20, 50)]);
    }
    let told = |rif| {
        let mut report = room(rif, 10, 0);
        report.latency = Some(50 * MS);
        report
    };
    let [one, other] = [0, 1].map(|place| world.replicas[place]);
    world.report(one, &told(2));
    world.now += 100 * MS;
    world.report(other, &told(4));
    // The old report of 3 in 8.5 fades to the mean of these two, not to that of 21 requests.
    assert_eq!(next(&mut world), 0);
}

#[test]
fn score_follows_from_share_in_use_and_capacity() {
    for (rif, capacity) in [(0, 1), (1, 1), (4, 10), (8, 10), (13, 10), (99, 40)] {
        let mut world = world(2);
        reports(
            &mut world,
            &[room(rif, capacity, 100), room(rif, capacity, 100)],
        );
        let found = compared(&mut world, ["in_use", "score_us"])[0];
        let capacity = f64::from(capacity);
        let in_use = f64::from(rif + 1) / (0.85 * capacity);
        let overload = 1.0 + 1.5 * (capacity - 1.0) / capacity;
        let longer = (1.0 + overload * (in_use - 1.0).max(0.0)) * (1.0 + 0.3 * in_use);
        let expected = [in_use * 1e6, longer * 100e6 * 1_024.0];
        for (found, expected) in found.into_iter().zip(expected) {
            let off = (found as f64 - expected).abs() / expected;
            assert!(off < 1e-5, "{rif} of {capacity}: {found}, not {expected}");
        }
    }
}

#[test]
fn largest_reports_do_not_overflow_and_come_last() {
    let mut most = room(u32::MAX, 1, 0);
    most.capacity_millirif = Some(1);
    most.cost = Some(Duration::MAX);
    let mut world = world(2);
    reports(&mut world, &[most, room(50, 10, 10)]);
    assert!(compared(&mut world, ["in_use"])[0][0] > 1 << 40);
    assert_eq!(next(&mut world), 1);
}

#[test]
fn settings_out_of_range_are_rejected_by_name() {
    let usual = ShortestExpectedDelaySettings::default;
    let refused = |settings: ShortestExpectedDelaySettings| {
        settings.validate().expect_err("out of range").field
    };
    let cost_band_millionths = 10_000_001;
    let band = ShortestExpectedDelaySettings {
        cost_band_millionths,
        ..usual()
    };
    assert_eq!(refused(band), "cost_band_millionths");
    let with_rate = |millionths| ShortestExpectedDelaySettings {
        probe_rate: Rate::from_millionths(millionths).expect("a rate"),
        ..usual()
    };
    assert_eq!(refused(with_rate(16_000_001)), "probe_rate");
    assert!(with_rate(16_000_000).validate().is_ok());
    let shipped = ShortestExpectedDelayConfig::default();
    assert_eq!(shipped.probe_rate.millionths(), 500_000);
    let bands = (
        shipped.latency_band_millionths,
        shipped.cost_band_millionths,
    );
    assert_eq!(bands, (150_000, 250_000));
}
