//! The cells of the figure, and each claim on both sides of its bounds.

use super::*;
use crate::Measured;
use crate::figure::Plot;
use crate::figure::Verdict::{self, NotReproduced, Reproduced};
use crate::figure::trial::{self, verdicts};
use crate::policy::PolicyKind;
use core::time::Duration;

/// A run whose quantiles are all `us` microseconds.
fn run(cell: &Cell, us: u64) -> Measured {
    let mut run = Measured::nothing(cell.scenario.replicas());
    run.queries = 1;
    run.latency.record(Duration::from_micros(us));
    run
}

fn is(cell: &Cell, player: Player) -> bool {
    cell.policy.name == player.policy && cell.param == player.param
}

/// Plays in which everything takes 300 ms, except for one player at one step.
fn played(step: &str, player: Player, us: u64) -> Vec<Played> {
    trial::played(&Beyond, |cell| {
        let upset = cell.step == step && is(cell, player);
        run(cell, if upset { us } else { 300_000 })
    })
}

fn verdict(words: &[&str], played: &[Played]) -> Verdict {
    let verdicts = verdicts(&Beyond, played, words);
    assert_eq!(verdicts.len(), 1, "{words:?}");
    verdicts[0]
}

fn find(step: &str, player: Player) -> Cell {
    let mut cells = trial::cells(&Beyond).into_iter();
    let found = cells.find(|cell| cell.step == step && is(cell, player));
    found.expect("it is played")
}

fn settings(cell: &Cell) -> &PolicySettings {
    match &cell.policy.kind {
        PolicyKind::Shipped { settings, .. } => settings,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_case_is_played_by_all_policies_and_shown() {
    let cells = trial::cells(&Beyond);
    assert_eq!(cells.len(), 21 * 14 + 45 * 15);
    let findings = Beyond.findings(&played("", OURS, 0));
    let rows = findings.tables.iter().map(|table| table.rows.len());
    assert!(rows.eq([66, 66, 66 * 7]));
    let groups: Vec<usize> = findings
        .charts
        .iter()
        .map(|chart| match &chart.plot {
            Plot::Bars { groups, .. } => groups.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(groups, [10, 11, 15, 15, 15]);
    assert_eq!(findings.claims.len(), 2 + 21 + 3);
    for table in &findings.tables {
        let columns = table.columns.len();
        assert!(table.rows.iter().all(|row| row.len() == columns));
    }
}

#[test]
fn policy_settings_match_their_names() {
    let step = "homogeneous-1.27";
    let q = |player| {
        let cell = find(step, player);
        settings(&cell).prequal.rif_limit_quantile.millionths()
    };
    assert_eq!(q(PAPER) / 10_000, 84);
    assert_eq!(q(RIF_ONLY), 0);
    assert_ne!(q(OUR_DEFAULTS), q(PAPER));
    let rates = VARIANTS.map(|player| {
        let cell = find(step, player);
        settings(&cell)
            .shortest_expected_delay
            .probe_rate
            .millionths()
    });
    let expected = [3_000_000, 1_000_000, 500_000, 100_000, 500_000, 500_000];
    assert_eq!(rates, expected);
    for clients in ["10", "400"] {
        let cell = find(&format!("{clients}-clients"), C3);
        assert_eq!(settings(&cell).c3.clients.to_string(), clients);
    }
}

#[test]
fn replica_signals_match_each_variant() {
    let signals = |player| {
        let cell = find("noisy-reports", player);
        let mut groups = cell.scenario.fleet.iter();
        let signals = groups
            .next()
            .map(|group| {
                (
                    group.learns_capacity,
                    group.carries_reports,
                    group.tells_cpu,
                )
            })
            .expect("a group");
        assert!(groups.all(|group| group.learns_capacity == signals.0));
        signals
    };
    // That one is not played in large fleets.
    for player in OTHERS.into_iter().filter(|&it| it != RIF_THEN_LATENCY) {
        assert_eq!(signals(player), (false, false, true), "{player:?}");
    }
    let all = (true, true, true);
    let told = VARIANTS.map(signals);
    assert_eq!(
        told,
        [all, all, all, all, (true, false, true), (true, true, false)]
    );
}

/// The numbers follow from the paper's mean cost of 86.3 ms and 640 cores.
#[test]
fn scenarios_match_their_names() {
    let scenario = |step: &str| find(step, OURS).scenario;
    for step in [
        "homogeneous-1.27",
        "fast-antagonists",
        "lognormal-1.5",
        "lognormal-2",
        "pareto-1.5",
        "10-clients",
        "400-clients",
        "stalls",
    ] {
        let rate = scenario(step).load.rate;
        assert!(
            (rate - 1.27 * 640.0 / 0.086_34).abs() < 15.0,
            "{step}: {rate}"
        );
    }
    let slow = |step: &str| scenario(step).fleet.get(1).map(|group| group.slowness);
    for step in [
        "unequal-1.03",
        "tight-unequal",
        "packed-unequal",
        "noisy-reports",
    ] {
        assert_eq!(slow(step), Some(2.0), "{step}");
    }
    assert_eq!(slow("tight"), None);
    let shares = scenario("fast-antagonists")
        .antagonists
        .map(|it| it.fast_share);
    assert_eq!(shares, Some(0.5));
    assert_eq!(scenario("10-clients").load.clients.len(), 10);
    assert_eq!(scenario("400-clients").load.clients.len(), 400);
    assert_eq!(scenario("restarting").events.len(), 200);
    let noise = |step: &str| scenario(step).fleet[0].report_noise > 0.0;
    assert!(noise("noisy-reports") && !noise("unequal-1.27"));
    assert!(scenario("stalls").fleet[0].stall.is_some());
    assert!(!scenario("io-waits").fleet[0].io_wait.is_zero());
    // Half of the queries, and then seven in ten, cost a tenth: 0.46 in the mean, so more queries
    // arrive.
    let rate = scenario("mix").load.rate;
    assert!(
        (rate * 0.46 - 1.27 * 640.0 / 0.086_34).abs() < 15.0,
        "{rate}"
    );
    let small = scenario("web0.60hob 8x4");
    assert_eq!((small.replicas(), small.load.clients.len()), (8, 4));
    let hobble = small.fleet[0].hobble.expect("it is hobbled");
    assert!(small.warmup < hobble.from && hobble.until < small.warmup + small.span);
    let slowness = scenario("fifo0.75 8x4").fleet[0].slowness;
    assert!((slowness - 4.0).abs() < 1e-9);
}

#[test]
fn runs_of_small_fleets_have_the_stated_number_of_queries() {
    let cells = trial::cells(&Beyond).into_iter();
    for cell in cells.filter(|cell| cell.step.contains(' ')) {
        let seconds = cell.scenario.span.as_secs_f64();
        let queries = cell.scenario.load.rate * seconds;
        assert!(queries >= QUERIES && seconds >= 6.0, "{}", cell.step);
    }
}

#[test]
fn p999_is_compared_with_its_target() {
    for (step, bound_us) in [("homogeneous-1.74", 360_000), ("unequal-1.27", 410_000)] {
        let words = [step, "is at most"];
        let of = |us| verdict(&words, &played(step, OURS, us));
        assert_eq!(of(bound_us - 1_000), Reproduced, "{step}");
        assert_eq!(of(bound_us + 1_000), NotReproduced, "{step}");
    }
}

#[test]
fn default_is_compared_with_the_better_rival_in_each_case() {
    for (us, expected) in [(314_000, Reproduced), (316_000, NotReproduced)] {
        for step in ["homogeneous-1.03", "tight-unequal", "stalls"] {
            let words = [step, "are at most"];
            assert_eq!(verdict(&words, &played(step, OURS, us)), expected);
        }
    }
    // Either of the two may be the better one. A worse one changes nothing.
    for rival in [PAPER, RIF_ONLY] {
        let words = ["tight:", "are at most"];
        assert_eq!(
            verdict(&words, &played("tight", rival, 280_000)),
            NotReproduced
        );
        assert_eq!(
            verdict(&words, &played("tight", rival, 900_000)),
            Reproduced
        );
    }
    let words = ["tight:", "are at most"];
    let other = played("tight", VARIANTS[3], 900_000);
    assert_eq!(
        verdict(&words, &other),
        Reproduced,
        "half a probe is judged"
    );
}

#[test]
fn one_small_fleet_can_fail_the_claim() {
    for (us, expected) in [(314_000, Reproduced), (316_000, NotReproduced)] {
        for workload in ["web0.85", "web0.60hob", "fifo0.75"] {
            let played = played(&format!("{workload} 8x4"), OURS, us);
            assert_eq!(verdict(&[&format!("{workload}:")], &played), expected);
            let other = if workload == "web0.85" {
                "fifo0.75:"
            } else {
                "web0.85:"
            };
            assert_eq!(verdict(&[other], &played), Reproduced);
        }
    }
}

#[test]
fn ratios_are_paired_by_seed_with_an_interval() {
    let mut played = played("", OURS, 0);
    for played in &mut played {
        if played.cell.step == "tight" {
            let ours = is(&played.cell, OURS);
            let of_seed = |us| run(&played.cell, if ours { us / 10 * 9 } else { us });
            played.runs = vec![of_seed(200_000), of_seed(400_000), of_seed(800_000)];
        }
    }
    let claims = Beyond.findings(&played).claims;
    let mut claims = claims.iter();
    let tight = claims.find(|claim| claim.says.contains(" tight:"));
    let found = &tight.expect("it is judged").found;
    // The seeds' common factor cancels out. A histogram is off by 0.1 %.
    assert!(found.starts_with("p99.9: 0.9"), "{found}");
    assert!(found.contains(" to 0.90"), "{found}");
}

#[test]
fn timed_out_results_are_marked() {
    let findings = Beyond.findings(&played("packed-unequal", RIF_ONLY, 5_000_000));
    let row = &findings.tables[0].rows[9];
    assert_eq!((row[0].as_str(), row[4].as_str()), ("packed-unequal", "TO"));
    let Plot::Bars { series, .. } = &findings.charts[0].plot else {
        panic!("bars");
    };
    assert_eq!(series[2].marks[9].as_deref(), Some("TO"));
    assert_eq!(series[0].marks[9], None);
}
