//! Capacity: the share in use × the cost of a query decides, and the rule of Prequal while any
//! replica reports no capacity. `[Decision 0009]`

use crate::world::{MS, World, load, quiet, quiet_default};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Capacity, CapacityConfig, CapacitySettings, Counters, Decision, Event, Explanation, Outcome,
    PickReason, Policy, Prequal, Query, Settings,
};
use slackwater_core::{LoadReport, NoDraw, Rate, SplitMix64};

fn policy(settings: PrequalSettings, capacity: CapacitySettings) -> Capacity {
    let config = settings.validate().expect("in range");
    Capacity::new(config, &capacity.validate().expect("in range"))
}

/// Replicas that are probed only when a test does so.
fn world(replicas: usize) -> World<Capacity> {
    let quiet_capacity = CapacitySettings {
        probe_rate: Rate::ZERO,
        ..CapacitySettings::default()
    };
    World::of(replicas, policy(quiet(), quiet_capacity))
}

/// A report of `rif` in flight with this capacity and cost.
fn room(rif: u32, capacity: u32, cost_ms: u64) -> LoadReport {
    let mut report = load(rif, 0);
    report.capacity_millirif = Some(capacity * 1_000);
    report.cost = (cost_ms > 0).then(|| Duration::from_millis(cost_ms));
    report
}

fn reports(world: &mut World<Capacity>, reports: &[LoadReport]) {
    for (index, report) in reports.iter().enumerate() {
        world.report(world.replicas[index], report);
    }
}

/// The place of the replica that gets the next query.
fn next(world: &mut World<Capacity>) -> usize {
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
    assert_eq!((pick.candidates, pick.rif_limit), (3, pick.rif_limit));
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
    reports(&mut world, &[room(0, 10, 100), room(0, 10, 200)]);
    let chosen: Vec<_> = (0..10).map(|_| next(&mut world)).collect();
    assert_eq!(chosen[..9], [0; 9], "up to its capacity");
    // With 9 in flight at a capacity of 10, the tenth and eleventh would take longer than at the
    // other replica.
    assert!(chosen[9] == 1 || next(&mut world) == 1);
}

#[test]
fn costs_within_the_band_are_equal() {
    let costs = |band_millionths| {
        let settings = CapacitySettings {
            cost_band_millionths: band_millionths,
            probe_rate: Rate::ZERO,
        };
        let mut world = World::of(2, policy(quiet(), settings));
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
    reports(&mut many, &[room(13, 10, 100), room(3, 10, 199)]);
    assert_eq!(next(&mut many), 1);
    // One at a time: behind another query it takes twice as long, and the other replica is four
    // times as slow.
    let mut one = world(2);
    reports(&mut one, &[room(1, 1, 100), room(0, 1, 400)]);
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
    // On an idle replica, a capacity of half a query is as good as ten.
    let mut idle = [part(0, 500), room(0, 1, 10)];
    idle[0].latency = Some(Duration::from_nanos(1));
    assert_eq!(chosen(idle), 0, "equal, but for the latency");
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
    let settings = PrequalSettings {
        remove_rate: PrequalSettings::default().remove_rate,
        reuse_max: 1,
        ..quiet()
    };
    let mut world = World::of(6, policy(settings, CapacitySettings::default()));
    let told: Vec<_> = (4..10).map(|rif| room(rif, 10, 0)).collect();
    reports(&mut world, &told);
    let carried = room(1, 10, 0);
    let third = world.replicas[2];
    world.handle(Event::CarriedReport(third, &carried));
    assert_eq!(next(&mut world), 2);
    for _ in 0..200 {
        let _ = world.pick();
    }
    assert_eq!(world.pool().len(), 6, "none is spent");
    let removed = |counters: &Counters| {
        counters.removed_spent + counters.removed_oldest + counters.removed_worst
    };
    assert_eq!(removed(&world.policy.counters()), 0);
    world.handle(Event::CarriedReport(third, &load(0, 0)));
    assert_eq!(
        world.rif_of(third).map(|rif| rif > 0),
        Some(true),
        "a response report without a capacity is ignored"
    );
    world.now += Duration::from_secs(1);
    let _ = world.pick();
    assert_eq!(world.pool().len(), 0, "old ones go");
}

#[test]
fn probe_rate_is_low_while_capacities_are_known() {
    let settings = PrequalSettings {
        probe_interval_min: Duration::ZERO,
        ..PrequalSettings::default()
    };
    let mut world = World::of(20, policy(settings, CapacitySettings::default()));
    let quiet_one = world.replicas[0];
    // 128 queries with all their probes answered, and as many responses with reports. By then every
    // replica has been probed.
    let probes =
        |world: &mut World<Capacity>, carries: u32, others: &LoadReport, one: &LoadReport| {
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
    assert_eq!(probes(&mut world, 128, &untold, &untold), 384, "as Prequal");
    probes(&mut world, 128, &told, &told);
    let few = probes(&mut world, 64, &told, &told);
    assert_eq!(few, 64, "half a probe a query");
    let half = Rate::from_millionths(500_000);
    assert_eq!(world.policy.snapshot(world.now).probe_rate, half);
    assert_eq!(probes(&mut world, 63, &told, &told), 64);
    let many = probes(&mut world, 128, &told, &told);
    assert_eq!(many, 384, "too few responses had reports");
    assert_eq!(probes(&mut world, 128, &told, &told), 64);
    probes(&mut world, 128, &told, &untold);
    let many = probes(&mut world, 128, &told, &untold);
    assert_eq!(many, 384, "one reports no capacity");
    world.handle(Event::Available(quiet_one, false));
    let few = probes(&mut world, 128, &told, &untold);
    assert_eq!(few, 64, "and may not be chosen, so that it does not count");
}

/// Two policies with the same inputs.
struct Twins {
    capacity: World<Capacity>,
    prequal: World<Prequal>,
    draw: SplitMix64,
}

impl Twins {
    fn below(&mut self, bound: u32) -> u32 {
        below(&mut self.draw, bound)
    }

    fn step(&mut self) {
        self.capacity.now += MS;
        self.prequal.now += MS;
        let (mine, theirs) = (self.capacity.pick(), self.prequal.pick());
        assert_eq!(mine.ticket.replica(), theirs.ticket.replica());
        assert_eq!(
            (mine.reason, mine.rif_limit, mine.chosen, mine.runner_up),
            (
                theirs.reason,
                theirs.rif_limit,
                theirs.chosen,
                theirs.runner_up
            )
        );
        let replica = mine.ticket.replica();
        let now = self.capacity.now;
        // Both ignore reports with responses.
        let carried = room(0, 1_000, 1);
        (self.capacity.policy).handle(now, Event::CarriedReport(replica, &carried), &mut NoDraw);
        (self.prequal.policy).handle(now, Event::CarriedReport(replica, &carried), &mut NoDraw);
        (self.capacity.policy).handle_query_done(now, mine.ticket, Outcome::Success);
        (self.prequal.policy).handle_query_done(now, theirs.ticket, Outcome::Success);
        let (mine, theirs) = (self.capacity.probes(), self.prequal.probes());
        assert_eq!(mine.len(), theirs.len());
        for (mine, theirs) in mine.into_iter().zip(theirs) {
            assert_eq!(mine.replica, theirs.replica);
            let mut report = load(self.below(12), u64::from(1 + self.below(50)));
            // All but one report their capacity.
            if mine.replica != self.capacity.replicas[0] {
                report.capacity_millirif = Some(1_000 * (1 + self.below(20)));
                report.cost = Some(MS);
            }
            self.capacity.answer(mine, &report);
            self.prequal.answer(theirs, &report);
        }
    }
}

#[test]
fn matches_prequal_while_any_capacity_is_unknown() {
    let config = quiet_default().validate().expect("in range");
    let rates = PrequalSettings::default();
    let settings = PrequalSettings {
        probe_rate: rates.probe_rate,
        remove_rate: rates.remove_rate,
        ..(*config).clone()
    };
    let prequal = Prequal::new(settings.clone().validate().expect("in range"));
    let mut twins = Twins {
        capacity: World::of(30, policy(settings, CapacitySettings::default())),
        prequal: World::of(30, prequal),
        draw: SplitMix64::new(7),
    };
    // The one without a capacity reports first.
    let silent = twins.capacity.replicas[0];
    twins.capacity.report(silent, &load(1, 9));
    twins.prequal.report(silent, &load(1, 9));
    for _ in 0..3_000 {
        twins.step();
    }
    assert_eq!(
        twins.capacity.policy.counters(),
        twins.prequal.policy.counters()
    );
    assert!(twins.capacity.pool().len() > 4, "reports were pooled");
}

#[test]
fn explanation_shows_the_expected_duration() {
    let mut world = world(2);
    reports(&mut world, &[room(4, 10, 100), room(8, 10, 100)]);
    let mut explanation = Explanation::new();
    let decision = world.policy.choose(
        world.now,
        Query::first(),
        &mut world.draw,
        Some(&mut explanation),
    );
    assert!(matches!(decision, Decision::Pick(_)));
    let best = explanation.candidates().first();
    let comparison = explanation.comparison().expect("reports are compared");
    let score = comparison.factors.iter();
    let score = score.zip(0..).find(|(factor, _)| factor.key == "score_us");
    let (factor, place) = score.expect("there is a score");
    let best = best.and_then(|candidate| candidate.values.at(place));
    // 5 of 8.5 usable are in use: 100 ms × (1 + 0.3 × 5 / 8.5).
    let best_ns = best.expect("it is known") * 1_000 / factor.parts;
    assert!(best_ns.abs_diff(117_647_058) < 100, "{best_ns}");
}

#[test]
fn settings_out_of_range_are_rejected_by_name() {
    let band = CapacitySettings {
        cost_band_millionths: 10_000_001,
        ..CapacitySettings::default()
    };
    assert_eq!(
        band.validate().expect_err("out of range").field,
        "cost_band_millionths"
    );
    let rate = CapacitySettings {
        probe_rate: Rate::MAX,
        ..CapacitySettings::default()
    };
    assert_eq!(
        rate.validate().expect_err("out of range").field,
        "probe_rate"
    );
    assert_eq!(CapacityConfig::default().probe_rate.millionths(), 500_000);
}
