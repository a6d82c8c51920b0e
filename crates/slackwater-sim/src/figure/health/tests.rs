//! The claims, checked with made-up results.

use super::cases::{
    COLD, EVERYWHERE, HEALS, LIES, Means, ROLLING, SINKHOLE, STOPPED, TROUBLES, fast_step,
};
use super::*;
use crate::Measured;
use crate::figure::Verdict::{NotReproduced, Reproduced};
use crate::figure::trial::{self, verdicts};

/// A run of 1,000 queries on the cell's fleet with this number of failures, and with these
/// latencies at p50 and p99.9.
fn run(cell: &Cell, errors: u64, p999_ms: u64) -> Measured {
    let mut run = Measured::nothing(cell.scenario.replicas());
    run.queries = 1_000;
    run.errors = errors;
    for (ms, count) in [(10, 990), (p999_ms, 10)] {
        for _ in 0..count {
            run.latency.record(Duration::from_millis(ms));
        }
    }
    run
}

/// Sets the first replica's share in each second, in per cent.
fn shares(run: &mut Measured, percent: u32) {
    for second in 0..30 {
        for query in 0..100 {
            let replica = usize::from(query >= percent);
            run.by_second.record_sent(second, replica);
        }
    }
}

/// The desired results.
fn good(cell: &Cell) -> Measured {
    let off = cell.param == Means::Off.param();
    let step = cell.step.as_str();
    let errors = if off { 130 } else { 4 };
    let mut run = run(cell, errors, if off { 1_000 } else { 400 });
    run.trials = 9;
    // The ten initial copies of each of at most 100 clients do not count.
    run.hedges = 20 + 10 * cell.scenario.load.clients.len() as u64;
    shares(&mut run, if step.starts_with(HEALS) { 21 } else { 5 });
    run
}

fn upset(hit: impl Fn(&Cell) -> bool, change: impl Fn(&mut Measured)) -> Vec<Played> {
    trial::played(&Health, |cell| {
        let mut run = good(cell);
        if hit(cell) {
            change(&mut run);
        }
        run
    })
}

#[test]
fn desired_results_reproduce_every_claim() {
    let findings = Health.findings(&trial::played(&Health, good));
    for claim in &findings.claims {
        assert_eq!(claim.verdict, Reproduced, "{claim:?}");
    }
    assert_eq!(findings.claims.len(), 9 + 3 + 2 + 4 + 6);
    assert_eq!((findings.charts.len(), findings.tables.len()), (10, 2));
}

/// Asserts that the claim with these words fails once one cell's run is changed.
fn fails(words: &[&str], hit: (&str, &str, Means), change: impl Fn(&mut Measured)) {
    let (step, policy, means) = hit;
    let cell_hit = |cell: &Cell| {
        cell.step == step && cell.policy.name == policy && cell.param == means.param()
    };
    let played = upset(cell_hit, change);
    assert_eq!(
        verdicts(&Health, &played, words),
        [NotReproduced],
        "{words:?}"
    );
}

#[test]
fn error_claims_can_fail() {
    let (at_60, at_90) = (&fast_step(0.6), &fast_step(0.9));
    let many = &format!("{SINKHOLE} x100");
    for (words, step, policy, means, errors) in [
        (
            ["peak_ewma", "60 % load"],
            at_60.as_str(),
            "peak_ewma",
            Means::Errors,
            21,
        ),
        (["prequal", "60 % load"], at_60, PREQUAL, Means::All, 21),
        (["prequal", "90 % load"], at_90, PREQUAL, Means::Errors, 126),
        (["without", "aversion"], at_90, PREQUAL, Means::Off, 124),
        (["1 ms", "one client"], SINKHOLE, PREQUAL, Means::Errors, 6),
        (["1 ms", "100 clients"], many, PREQUAL, Means::All, 6),
        (["stands", "still"], STOPPED, ROUND_ROBIN, Means::All, 6),
    ] {
        fails(&words, (step, policy, means), |run| run.errors = errors);
    }
}

#[test]
fn share_claims_can_fail() {
    for (words, step, percent) in [
        (["who heals", "10 clients"], format!("{HEALS} x10"), 19),
        (["only says so", "10 clients"], format!("{LIES} x10"), 11),
    ] {
        fails(&words, (&step, PREQUAL, Means::All), |run| {
            run.by_second.sent.clear();
            shares(run, percent);
        });
    }
}

#[test]
fn health_claims_can_fail() {
    let slow = |run: &mut Measured| {
        for _ in 0..10 {
            run.latency.record(seconds(2));
        }
    };
    fails(
        &["joins ten times"],
        (COLD, ROUND_ROBIN, Means::WarmUp),
        slow,
    );
    fails(
        &["in no trouble", "a tenth"],
        (ROLLING, PREQUAL, Means::All),
        slow,
    );
    fails(
        &["in no trouble", "a quarter"],
        (STOPPED, "peak_ewma", Means::All),
        slow,
    );
    fails(
        &["none is ejected", "one client"],
        (EVERYWHERE, PREQUAL, Means::All),
        |run| run.health.ejections = 1,
    );
    fails(&["trials"], (STOPPED, PREQUAL, Means::All), |run| {
        run.trials = 11;
    });
    fails(
        &["hedging", "2 % more"],
        (STOPPED, PREQUAL, Means::Hedging),
        |run| run.hedges = 121,
    );
}

/// The time of a replica that heals counts from when it heals, not from the beginning.
#[test]
fn shares_before_the_recovery_deadline_do_not_count() {
    let early = upset(
        |cell| cell.step == HEALS,
        |run| {
            run.by_second.sent.clear();
            shares(run, 2);
            // The replica heals at 10 s, and is back from 20 s on.
            let late = run.by_second.sent.split_off(20 * run.by_second.replicas);
            run.by_second.sent.extend(late.iter().map(|_| 25));
        },
    );
    let words = ["who heals", "one client"];
    assert_eq!(verdicts(&Health, &early, &words), [Reproduced]);
}

#[test]
fn each_mechanism_runs_alone_and_all_run_together() {
    let on = Means::EACH.map(|means| {
        means.config().map(|config| {
            [
                config.errors.is_some(),
                config.probation.is_some(),
                config.warm_up.is_some(),
            ]
        })
    });
    let alone = [
        [true, false, false],
        [false, true, false],
        [false, false, true],
    ];
    assert_eq!((on[0], on[4]), (None, None));
    assert_eq!(on[1..4], alone.map(Some));
    assert_eq!(on[5..], [Some([true; 3]); 2]);
    let hedged = trial::cells(&Health).into_iter();
    let hedged = hedged.filter_map(|cell| Some((cell.scenario.load.hedge?, cell.param)));
    let hedged: Vec<_> = hedged.collect();
    for (hedge, param) in &hedged {
        assert!(param.ends_with("+hedging"), "{param}");
        assert!((hedge.after_quantile, hedge.budget) == (0.95, 0.02));
    }
    assert_eq!(hedged.len(), 2 * TROUBLES.len() * IN_TROUBLE.len());
}

#[test]
fn sinkhole_failures_start_one_second_before_measurement() {
    let cells = trial::cells(&Health);
    let mut sinkholes = cells.iter().filter(|cell| cell.step == SINKHOLE);
    assert!(sinkholes.all(|cell| {
        let failure = cell.scenario.fleet[0].failure.expect("it fails");
        failure.from + seconds(1) == cell.scenario.warmup
    }));
}
