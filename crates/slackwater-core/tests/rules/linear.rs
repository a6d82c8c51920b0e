//! Linear: the weighted sum decides, over the pool and the probes of Prequal. `[Prequal §5.2]`
//! `[Prequal Appendix A]`

use crate::world::{World, load, quantile, quiet, rate};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Decision, Event, Linear, LinearConfig, LinearSettings, Outcome, PickReason, Policy, Prequal,
    Query, Settings,
};
use slackwater_core::{Draw, Instant, NoDraw, ReplicaIds, SplitMix64};

fn linear(settings: PrequalSettings, rif_millionths: u32) -> Linear {
    let weight = LinearSettings {
        rif_weight: quantile(rif_millionths),
        ..LinearSettings::default()
    };
    let config = settings.validate().expect("in range");
    Linear::new(config, &weight.validate().expect("in range"))
}

#[test]
fn picks_match_a_hand_worked_trace() {
    let policy = Linear::new(
        quiet().validate().expect("in range"),
        &LinearConfig::default(),
    );
    let mut world = World::of(4, policy);
    assert_eq!(
        world.pick().reason,
        PickReason::Fallback,
        "nothing is known"
    );

    // Twice the score is 75 · RIF + latency: 165, 200, 210, 165, the unknown latency being 90, the
    // median of the known.
    world.reports(&[(1, 90), (0, 200), (2, 60), (1, 0)]);
    let (first, second) = (world.pick(), world.pick());
    let mut places = [&first, &second].map(|pick| place(&world, pick.ticket.replica()));
    places.sort_unstable();
    assert_eq!(places, [0, 3], "equal: by chance, and then it has 75 more");
    assert_eq!(first.reason, PickReason::LowestScore);
    assert_eq!((first.candidates, first.rif_limit), (4, None));
    assert_eq!(first.runner_up, Some(second.ticket.replica()));
    assert_eq!(first.chosen.map(|report| report.rif.count()), Some(1));

    // Now 240, 200, 210, 240; then 240, 275, 210, 240; then 240, 275, 285, 240.
    assert_eq!(next(&mut world), 1);
    assert_eq!(next(&mut world), 2);
    assert!([0, 3].contains(&next(&mut world)));
}

fn place(world: &World<Linear>, replica: slackwater_core::ReplicaId) -> usize {
    let place = world.replicas.iter().position(|&other| other == replica);
    place.expect("one of the fleet")
}

fn next(world: &mut World<Linear>) -> usize {
    let pick = world.pick();
    place(world, pick.ticket.replica())
}

#[test]
fn report_with_highest_score_is_removed() {
    let settings = PrequalSettings {
        remove_rate: rate(1_000_000),
        ..quiet()
    };
    let mut world = World::of(7, linear(settings, 500_000));
    // 75 · RIF + latency: the highest is neither the highest RIF nor the highest latency.
    world.reports(&[(1, 1), (1, 2), (1, 3), (5, 1), (1, 310), (4, 200), (1, 4)]);
    let _ = world.pick();
    assert_eq!(
        world.pooled(),
        [1, 2, 3, 4, 5, 6],
        "the oldest, 0, has gone"
    );
    let _ = world.pick();
    assert_eq!(world.pooled(), [1, 2, 3, 4, 6], "the worst, 5, has gone");
}

/// The replicas that both policies choose, with the same events and the same draws.
fn in_step(ours: &mut dyn Policy, theirs: &mut dyn Policy, seed: u64) {
    let mut ids = ReplicaIds::new();
    let mut now = Instant::EPOCH;
    for _ in 0..20 {
        let replica = ids.allocate().expect("room");
        ours.handle(now, Event::Added(replica), &mut NoDraw);
        theirs.handle(now, Event::Added(replica), &mut NoDraw);
    }
    let (mut our_draw, mut their_draw) = (SplitMix64::new(seed), SplitMix64::new(seed));
    let mut chance = SplitMix64::new(seed + 1);
    for step in 0..2_000 {
        now += Duration::from_micros(700);
        let our_pick = ours.choose(now, Query::first(), &mut our_draw, None);
        let their_pick = theirs.choose(now, Query::first(), &mut their_draw, None);
        let (Decision::Pick(our_pick), Decision::Pick(their_pick)) = (our_pick, their_pick) else {
            panic!("replicas are known");
        };
        let replica = our_pick.ticket.replica();
        assert_eq!(replica, their_pick.ticket.replica(), "step {step}");
        assert_eq!(our_pick.runner_up, their_pick.runner_up, "step {step}");
        ours.handle_query_done(now, our_pick.ticket, Outcome::Success);
        theirs.handle_query_done(now, their_pick.ticket, Outcome::Success);
        while let Some(probe) = ours.poll_probe(now, &mut our_draw) {
            let report = load(below(&mut chance, 4), u64::from(below(&mut chance, 4)));
            ours.handle(now, Event::Report(probe.id, &report), &mut our_draw);
            let same = theirs.poll_probe(now, &mut their_draw);
            assert_eq!(same, Some(probe), "step {step}");
            theirs.handle(now, Event::Report(probe.id, &report), &mut their_draw);
        }
        assert_eq!(theirs.poll_probe(now, &mut their_draw), None);
        assert_eq!(our_draw.draw(), their_draw.draw(), "step {step}");
    }
}

#[test]
fn extreme_weights_match_prequal_with_one_signal() {
    for (rif_weight, rif_limit_quantile) in [(1_000_000, 0), (0, 1_000_000)] {
        for seed in 0..20 {
            let settings = PrequalSettings {
                rif_limit_quantile: quantile(rif_limit_quantile),
                ..PrequalSettings::default()
            };
            let config = settings.clone().validate().expect("in range");
            let mut linear = linear(settings, rif_weight);
            in_step(&mut linear, &mut Prequal::new(config), seed);
        }
    }
}
