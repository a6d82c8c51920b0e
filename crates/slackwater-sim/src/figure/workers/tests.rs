//! The cells of the figure, and each claim on both sides of its bounds.

use super::*;
use crate::Measured;
use crate::figure::Verdict::{self, NotReproduced, Reproduced};
use crate::figure::trial::{self, verdicts};
use core::time::Duration;

/// The fleet whose results are changed.
const ONE: &str = "web0.85 10";

/// A run whose p99 is `us` microseconds.
fn run(cell: &Cell, us: u64) -> Measured {
    let mut run = Measured::nothing(cell.scenario.replicas());
    run.queries = 1;
    run.latency.record(Duration::from_micros(us));
    run
}

/// Plays in which every fleet takes 1 ms. With `clients` clients of the design `param`, the fleet
/// [`ONE`] has another p99.
fn played(clients: usize, param: &str, us: u64) -> Vec<Played> {
    let step = format!("{ONE}x{clients}");
    trial::played(&Workers, |cell| {
        let upset = cell.step == step && cell.param == param && cell.policy.name == PREQUAL;
        run(cell, if upset { us } else { 1_000 })
    })
}

fn verdict(words: &str, played: &[Played]) -> Verdict {
    let verdicts = verdicts(&Workers, played, &[words]);
    assert_eq!(verdicts.len(), 1);
    verdicts[0]
}

#[test]
fn every_fleet_is_played_with_every_variant() {
    let cells = trial::cells(&Workers);
    // Fourteen numbers of clients; five other policies at eight of them; eight designs of three
    // proxies.
    assert_eq!(cells.len(), 17 * 14 + 8 * (5 * 8 + 8 * 3));
    let findings = Workers.findings(&played(4, "", 1_000));
    let rows: Vec<usize> = findings
        .tables
        .iter()
        .map(|table| table.rows.len())
        .collect();
    assert_eq!(rows, [17 * 3, 8 * 6, 8 * (1 + 3 * 9)]);
    assert_eq!((findings.charts.len(), findings.claims.len()), (3, 4));
}

#[test]
fn each_worker_is_a_client() {
    let all = [1, 2, 4, 8, 10, 16, 20, 32, 40, 64, 80, 128, 160, 640];
    assert_eq!(clients(&PROXIES, &WORKERS), all);
    assert_eq!(some_clients(), [1, 4, 10, 16, 40, 64, 160, 640]);
}

#[test]
fn design_determines_what_workers_share() {
    let cells = trial::cells(&Workers);
    let find = |clients: usize, param: &str| {
        let step = format!("{ONE}x{clients}");
        let mut cells = cells.iter();
        let found = cells
            .find(|cell| cell.step == step && cell.param == param && cell.policy.name == PREQUAL);
        found.expect("it is played")
    };
    let load = |clients, param| &find(clients, param).scenario.load;
    assert_eq!(load(4, "").clients, [1.0; 4]);
    assert_eq!(load(4, "uneven").clients, [4.0, 3.0, 2.0, 1.0]);
    assert_eq!(load(4, "uneven").siblings, None);
    let told = |answers, queries| {
        Some(Siblings {
            workers: 16,
            answers,
            queries,
        })
    };
    assert_eq!(load(16, "answers").siblings, told(true, false));
    assert_eq!(load(16, "queries").siblings, told(false, true));
    assert_eq!(load(16, "answers and queries").siblings, told(true, true));
    assert_eq!(
        load(16, "queries, probe_rate=1").siblings,
        told(false, true)
    );
    let settings = |clients, param| {
        let kind = &find(clients, param).policy.kind;
        let crate::policy::PolicyKind::Shipped { settings, .. } = kind else {
            panic!("{kind:?}");
        };
        let prequal = &settings.prequal;
        (
            prequal.probe_rate.millionths(),
            prequal.probe_idle_max,
            prequal.probe_interval_min,
        )
    };
    let ms = Duration::from_millis;
    assert_eq!(settings(16, ""), (3_000_000, ms(100), ms(1)));
    assert_eq!(settings(16, "paced"), (3_000_000, ms(1_600), ms(16)));
    assert_eq!(
        settings(64, "queries, probe_rate=1"),
        (1_000_000, ms(100), ms(1))
    );
    assert_eq!(settings(4, "probe_rate=0.5"), (500_000, ms(100), ms(1)));
}

#[test]
fn run_has_the_stated_queries_and_seconds() {
    for cell in trial::cells(&Workers) {
        let seconds = cell.scenario.span.as_secs_f64();
        let queries = cell.scenario.load.rate * seconds;
        assert!(
            queries >= QUERIES && seconds >= SPAN_MIN_SECONDS,
            "{}",
            cell.step
        );
    }
}

#[test]
fn slowdown_falls_within_the_run() {
    let cells = trial::cells(&Workers);
    let hobbled = cells.iter().filter(|cell| cell.step.contains("hob"));
    for cell in hobbled {
        let hobble = cell.scenario.fleet[0].hobble.expect("it is hobbled");
        let run = cell.scenario.warmup + cell.scenario.span;
        assert!(cell.scenario.warmup < hobble.from && hobble.until < run);
    }
}

#[test]
fn four_independent_workers_may_cost_a_quarter() {
    for (us, expected) in [(1_250, Reproduced), (1_252, NotReproduced)] {
        assert_eq!(verdict("each its own client", &played(4, "", us)), expected);
    }
}

#[test]
fn workers_that_share_everything_may_cost_a_quarter() {
    for (us, expected) in [(1_250, Reproduced), (1_252, NotReproduced)] {
        let played = played(64, "answers and queries", us);
        assert_eq!(verdict("and where they send", &played), expected);
    }
}

#[test]
fn sharing_only_half_costs_more_than_twice() {
    for (us, expected) in [(2_004, Reproduced), (2_000, NotReproduced)] {
        for (param, words) in [
            ("answers", "but not where they send"),
            ("queries", "but not what replicas"),
        ] {
            assert_eq!(verdict(words, &played(64, param, us)), expected, "{param}");
            let other = played(64, "uneven", us);
            assert_eq!(verdict(words, &other), NotReproduced, "{param}");
        }
    }
}
