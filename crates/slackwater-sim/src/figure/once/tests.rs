//! The cells of the figure, and each claim on both sides of its bounds.

use super::cases::{Kind, Variant};
use super::rules::{Player, Quantity, Rule, rules};
use super::*;
use crate::Measured;
use crate::figure::Plot;
use crate::figure::Verdict::{self, NotReproduced, Reproduced};
use crate::figure::judge::number;
use crate::figure::trial;
use crate::scenario::{ClassHandling, Order};
use core::time::Duration;

/// A run in which everything is `scale` times the usual.
fn run(cell: &Cell, scale: f64) -> Measured {
    let mut run = Measured::nothing(cell.scenario.replicas());
    let took = Duration::from_secs(1).mul_f64(scale);
    run.queries = 1_000_000_000;
    run.errors = crate::figure::cells::whole(1e6 * scale);
    run.latency.record(took);
    for latency in &mut run.latency_by_class {
        latency.record(took);
    }
    #[expect(clippy::cast_possible_truncation, reason = "a made-up utilization")]
    run.utilization.by_second.push(scale as f32);
    run
}

fn is_one(cell: &Cell, world: &str, (player, variant): (Player, Variant)) -> bool {
    let plays = match player {
        Player::Default => cell.policy.name == DEFAULT,
        Player::Counting => cell.policy.name == COUNTING,
        Player::Sizing => cell.policy.name == SIZING,
        Player::Clairvoyant => cell.policy.name != DEFAULT,
    };
    plays && cell.step == world && cell.param == variant.param()
}

/// Returns the verdict on a claim if its first result is `ratio` times the second, which is as
/// everything else.
fn verdict(rule: &Rule, ratio: f64) -> Verdict {
    let played = trial::played(&Once, |cell| {
        let is_it = is_one(cell, rule.world, rule.of);
        run(cell, if is_it { ratio } else { 1.0 })
    });
    let place = rules().iter().position(|other| {
        (other.world, other.quantity, other.of, other.over)
            == (rule.world, rule.quantity, rule.of, rule.over)
    });
    Once.findings(&played).claims[place.expect("it is one of them")].verdict
}

#[test]
fn each_claim_holds_within_its_bounds_only() {
    for rule in rules() {
        let (low, high) = (*rule.range.start(), *rule.range.end());
        for (bound, inside, outside) in [(low, 1.01, 0.99), (high, 0.99, 1.01)] {
            if bound > 0.0 && bound.is_finite() {
                let verdicts = [inside, outside].map(|by| verdict(&rule, bound * by));
                assert_eq!(verdicts, [Reproduced, NotReproduced], "{rule:?}");
            }
        }
    }
}

#[test]
fn each_world_is_played_and_shown_in_each_variant() {
    let played = trial::played(&Once, |cell| run(cell, 1.0));
    let findings = Once.findings(&played);
    assert_eq!(findings.claims.len(), rules().len());
    let variants: usize = WORLDS.iter().map(|world| world.variants().len()).sum();
    let in_classes = |cell: &Cell| cell.scenario.load.classes.is_some();
    let of_classes = played.iter().filter(|played| in_classes(&played.cell));
    let rows: Vec<usize> = findings.tables.iter().map(|it| it.rows.len()).collect();
    assert_eq!(rows, [variants, of_classes.count(), WORLDS.len()]);
    for table in &findings.tables {
        let columns = table.columns.len();
        assert!(table.rows.iter().all(|row| row.len() == columns));
    }
    let [chart] = &findings.charts[..] else {
        panic!("one chart");
    };
    let Plot::Bars { groups, .. } = &chart.plot else {
        panic!("bars");
    };
    assert_eq!(groups.len(), WORLDS.len());
}

/// The better of the two clairvoyants counts, seed by seed.
#[test]
fn clairvoyant_is_the_better_one_of_each_seed() {
    let mut played = trial::played(&Once, |cell| run(cell, 1.0));
    for played in &mut played {
        let scales = match played.cell.policy.name.as_str() {
            COUNTING => [0.5, 1.0],
            SIZING => [1.0, 0.5],
            _ => [1.0, 1.0],
        };
        played.runs = scales.map(|scale| run(&played.cell, scale)).to_vec();
    }
    let claims = Once.findings(&played).claims;
    let near = claims
        .iter()
        .find(|claim| claim.says.contains("p99.9 is that"));
    let found = &near.expect("it is judged").found;
    assert!(found.starts_with(&format!("{} (", number(2.0))), "{found}");
}

#[test]
fn seeds_without_errors_are_compared_all_together() {
    let rule = rules().into_iter().find(|rule| {
        rule.quantity == Quantity::Errors && matches!(rule.of.1, Variant::Rejecting(_))
    });
    assert_eq!(verdict(&rule.expect("it is judged"), 0.0), Reproduced);
}

#[test]
fn variants_change_what_their_names_say() {
    for world in WORLDS {
        let plain = world.scenario(Variant::Once);
        for variant in world.variants() {
            let scenario = world.scenario(variant);
            let queue = scenario.fleet[0].queue;
            let handling = scenario.load.classes.map(|classes| classes.handling);
            let hedge = scenario.load.hedge.map(|hedge| hedge.needs_room);
            let has = |word: &str| variant.param().contains(word);
            assert_eq!(queue.is_some(), has("queue="));
            assert_eq!(queue.is_some_and(|it| it.drops_late), has("late=rejected"));
            let remaining = queue.is_some_and(|it| it.order == Order::ShortestRemaining);
            assert_eq!(remaining, has("remaining"));
            let charged = matches!(handling, Some(ClassHandling::Charged { .. }));
            assert_eq!(charged, has("charged"));
            let apart = matches!(handling, Some(ClassHandling::Apart { .. }));
            assert_eq!(apart, has("apart"));
            assert_eq!(scenario.load.tie.is_some(), has("tied"));
            assert_eq!(hedge, (has("hedged") || has("room")).then_some(has("room")));
            assert_eq!(scenario.cancel_expired, has("cancelled"));
            assert!((scenario.load.rate - plain.load.rate).abs() < 1e-9);
        }
        assert_eq!(plain.fleet[0].queue, None);
        assert_eq!(handled(&plain), matches!(world.kind, Kind::Classes { .. }));
    }
}

/// Returns whether classes are measured, and nothing else is done with them.
fn handled(scenario: &crate::Scenario) -> bool {
    let handling = scenario.load.classes.map(|classes| classes.handling);
    handling == Some(ClassHandling::Ignored)
}
