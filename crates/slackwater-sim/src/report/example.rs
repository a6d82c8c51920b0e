//! Made-up cells and findings for tests of reports: no numbers of any policy.
//!
//! Names and texts contain characters that HTML, XML and CSV have to escape.

use crate::figure::{
    Axis, Bars, Cell, Chart, Claim, Effort, Figure, Findings, Line, Played, Plot, Table, Verdict,
    Words,
};
use crate::scenario::{Cost, Group, Load, Service};
use crate::{Measured, PolicyChoice, Scenario};
use core::time::Duration;
use std::sync::Arc;

/// A run of 10 s with 1,000 queries that all took `latency_ms`, of which 2 failed, and `rif`
/// requests always in flight.
pub(super) fn run(rif: u64, latency_ms: u64) -> Measured {
    let mut run = Measured::nothing(2);
    run.queries = 1_000;
    run.errors = 2;
    run.probes = 3_000;
    run.events = 6_000;
    run.span = Duration::from_secs(10);
    for _ in 0..run.queries {
        run.latency.record(Duration::from_millis(latency_ms));
    }
    run.rif.record_n(rif, 2_000);
    run.utilization.by_second = vec![0.5, 1.0];
    run
}

/// A cell with these runs.
pub(super) fn played(step: &str, load: f64, policy: &str, runs: Vec<Measured>) -> Played {
    let scenario = Scenario {
        warmup: Duration::from_secs(5),
        span: Duration::from_secs(10),
        ..Scenario::plain(
            Load::even(100.0, 2),
            Cost::Fixed(Duration::from_millis(80)),
            vec![Group::healthy(2, Service::Fifo { workers: 4 })],
        )
    };
    Played {
        cell: Cell {
            step: step.to_owned(),
            load,
            policy: PolicyChoice::named("random")
                .expect("it is shipped")
                .called(policy),
            param: String::new(),
            scenario: Arc::new(scenario),
        },
        all: Measured::together(&runs).unwrap_or_else(|| Measured::nothing(2)),
        runs,
    }
}

/// A figure with a name that needs care in markup.
#[derive(Debug)]
pub(super) struct Example;

impl Figure for Example {
    fn words(&self) -> Words {
        Words {
            name: "made-up",
            title: "A <made-up> figure",
            about: "Nothing & more.",
        }
    }

    fn cells(&self, _effort: &Effort) -> Vec<Cell> {
        Vec::new()
    }

    fn findings(&self, _played: &[Played]) -> Findings {
        findings()
    }
}

/// Two claims, two charts and a table.
pub(super) fn findings() -> Findings {
    let claim = |says: &str, found: &str, verdict| Claim {
        says: says.to_owned(),
        found: found.to_owned(),
        verdict,
    };
    Findings {
        claims: vec![
            claim("p99 < 1 & \"more\"", "0.5", Verdict::Reproduced),
            claim("<b>p50</b> is 80", "90", Verdict::NotReproduced),
        ],
        charts: vec![
            chart(
                "Lines",
                Plot::Lines(vec![line("prequal", &[(1.0, 2.0), (2.0, 4.0)])]),
            ),
            chart(
                "Bars",
                bars(&["a", "b"], &[("random", &[1.0, 7.0])], Some(5.0)),
            ),
        ],
        tables: vec![Table {
            title: "Extra".to_owned(),
            columns: vec!["what".to_owned(), "much".to_owned()],
            rows: vec![vec!["tea".to_owned(), "1,000".to_owned()]],
        }],
    }
}

/// A chart on linear axes.
pub(super) fn chart(title: &str, plot: Plot) -> Chart {
    let axis = |label: &str| Axis {
        label: label.to_owned(),
        log: false,
    };
    Chart {
        title: title.to_owned(),
        x: axis("load"),
        y: axis("p99, ms"),
        plot,
    }
}

/// A line of ours without intervals.
pub(super) fn line(name: &str, points: &[(f64, f64)]) -> Line {
    Line {
        name: name.to_owned(),
        points: points.to_vec(),
        interval: Vec::new(),
        reference: false,
    }
}

/// Bars without marks.
pub(super) fn bars(groups: &[&str], series: &[(&str, &[f64])], limit: Option<f64>) -> Plot {
    Plot::Bars {
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        series: series
            .iter()
            .map(|(name, values)| Bars {
                name: (*name).to_owned(),
                values: values.to_vec(),
                marks: vec![None; values.len()],
            })
            .collect(),
        limit,
    }
}
