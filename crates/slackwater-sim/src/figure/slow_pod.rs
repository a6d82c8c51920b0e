//! The slow pod: single-threaded pods, one of them four times as slow, behind one balancer and
//! behind six.

use super::cells::{Plays, default_settings, latency_ms, quantile};
use super::charts::{QUANTILES, axis};
use super::judge::{claim, number};
use super::{Bars, Cell, Chart, Claim, Effort, Figure, Findings, Played, Plot, Table, Words};
use crate::PolicyChoice;
use crate::presets::slow_pod;

/// `[Power of two choices (P2C)]`
#[derive(Debug)]
pub(super) struct SlowPod;

const RANDOM: &str = "random";
/// The chapter's P2C: one balancer's own counts of two randomly drawn pods.
const TWO: &str = "power_of_d";
/// The chapter's full least-connections: one balancer's own counts of all pods.
const ALL: &str = "least_loaded";
const RIF_ONLY: &str = "prequal q=0";
const POLICIES: [&str; 8] = [
    RANDOM,
    "round_robin",
    TWO,
    ALL,
    "prequal",
    "peak_ewma",
    "rif_then_latency",
    "jsq",
];

/// Pods and balancers: the chapter's simulator, and the fleet that it describes.
const FLEETS: [(usize, usize); 2] = [(16, 1), (64, 6)];
const ONE: &str = "16x1";
const SIX: &str = "64x6";

/// The chapter's numbers for 16 pods, at p50, p99 and p99.9.
const PRINTED: [(&str, [f64; 3]); 3] = [
    (RANDOM, [44.3, 814.8, 1_276.4]),
    (TWO, [41.6, 219.2, 408.8]),
    (ALL, [40.8, 204.7, 381.5]),
];

/// The upper end of bars in the chart, in milliseconds.
const CHART_LIMIT_MS: f64 = 2_000.0;

impl Figure for SlowPod {
    fn words(&self) -> Words {
        Words {
            name: "slow-pod",
            title: "One slow pod: random, two choices, all choices, and probes",
            about: "16 single-threaded pods with exponential costs of 50 ms, one of them four times as slow, 250 queries a second for 40 s from \
         an empty start: 82 % of what they can do; and four times that, four slow pods among 64, with 6 balancers [Power of two choices (P2C)]. \
         The chapter's own numbers cannot be reproduced, by anybody: its simulator lowers a pod's count of queries in flight before \
         the next pick, so every pick sees zeros and all three of its pickers choose at random; and at random the slow pod is \
         offered three times what it can do, so its queue grows as long as the run lasts, and p99 with it: more than a minute, not \
         815 ms. So its numbers are shown beside ours, but are no claims; what is held against ours is what the chapter concludes. There is no deadline to speak of: 1,000 s.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        FLEETS
            .into_iter()
            .flat_map(|(pods, balancers)| {
                let scenario = effort.spend_on(slow_pod(pods, balancers), 0, 40);
                choices().map(move |policy| {
                    Cell::of(format!("{pods}x{balancers}"), 0.82, policy, &scenario)
                })
            })
            .collect()
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        let steps = plays.steps();
        Findings {
            claims: claims(&plays),
            charts: steps
                .iter()
                .map(|step| chart(step, &plays.at(step)))
                .collect(),
            tables: tables(&plays),
        }
    }
}

fn choices() -> impl Iterator<Item = PolicyChoice> {
    let rif_only = default_settings(|prequal| prequal.rif_limit_quantile = quantile(0.0))
        .and_then(|settings| PolicyChoice::with_settings("prequal", settings))
        .map(|policy| policy.called(RIF_ONLY));
    POLICIES
        .into_iter()
        .filter_map(PolicyChoice::named)
        .chain(rif_only)
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let p99 = |step, policy| Some(latency_ms(plays.measured(step, policy)?, 0.99));
    let mut claims = Vec::new();
    if let (Some(random), Some(two), Some(all)) = (p99(ONE, RANDOM), p99(ONE, TWO), p99(ONE, ALL)) {
        claims.push(claim(
            "16 pods: two choices and all choices are both far better than random, by p99 (asked: at least 3 times)",
            format!("{} and {} times better", number(random / two), number(random / all)),
            random >= 3.0 * two.max(all),
        ));
        claims.push(claim(
            "16 pods: two choices are within 7 % of all choices, by p99",
            format!(
                "{} ms against {} ms: {} times",
                number(two),
                number(all),
                number(two / all)
            ),
            two <= 1.07 * all,
        ));
    }
    if let (Some(two), Some(all)) = (p99(SIX, TWO), p99(SIX, ALL)) {
        claims.push(claim(
            "64 pods, 6 balancers: two choices beat all choices, as balancers that see all herd",
            format!("p99 {} ms against {} ms", number(two), number(all)),
            two < all,
        ));
    }
    claims.extend(counts_go_blind(plays));
    claims
}

/// The chapter is right that a balancer's own counts are worth less, the more balancers there are.
fn counts_go_blind(plays: &Plays<'_>) -> Option<Claim> {
    let behind = |step| {
        let p99 = |policy| Some(latency_ms(plays.measured(step, policy)?, 0.99));
        Some(p99(ALL)? / p99("jsq")?)
    };
    let (one, six) = (behind(ONE)?, behind(SIX)?);
    Some(claim(
        "a balancer's own counts tell less, the more balancers there are",
        format!(
            "least loaded's p99 is {} times that of a balancer that sees all queries with one balancer, {} times with six",
            number(one),
            number(six)
        ),
        six >= 1.5 * one,
    ))
}

fn chart(step: &str, plays: &Plays<'_>) -> Chart {
    let values = |q: f64| {
        plays
            .iter()
            .map(|played| latency_ms(&played.all, q))
            .collect()
    };
    let mut series: Vec<Bars> = QUANTILES
        .into_iter()
        .map(|(name, q)| bars(name.to_owned(), values(q)))
        .collect();
    if step == ONE {
        let printed = plays.iter().map(|played| {
            let printed = PRINTED
                .iter()
                .find(|(policy, _)| *policy == played.cell.policy.name);
            printed.map_or(0.0, |(_, [_, p99, _])| *p99)
        });
        series.push(bars("p99, as printed".to_owned(), printed.collect()));
    }
    Chart {
        title: format!("Latency, {step}"),
        x: axis("policy"),
        y: axis("latency, ms"),
        plot: Plot::Bars {
            groups: plays
                .iter()
                .map(|played| played.cell.policy.name.clone())
                .collect(),
            series,
            limit: Some(CHART_LIMIT_MS),
        },
    }
}

fn bars(name: String, values: Vec<f64>) -> Bars {
    Bars {
        name,
        marks: vec![None; values.len()],
        values,
    }
}

fn tables(plays: &Plays<'_>) -> Vec<Table> {
    let rows: Vec<Vec<String>> = plays.iter().map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let columns = [
        "pods x balancers",
        "policy",
        "p50, ms",
        "p99, ms",
        "p99.9, ms",
        "to one slow pod, %",
    ];
    vec![Table {
        title: "Latency, and the share of queries that a slow pod gets (it has 1.6 % of the capacity of 16 pods, 0.4 % of that of 64)".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }]
}

fn row(played: &Played) -> Vec<String> {
    let run = &played.all;
    let to_slow = run.queries_by_replica.first().copied().unwrap_or(0);
    let mut row = vec![played.cell.step.clone(), played.cell.policy.name.clone()];
    row.extend([0.5, 0.99, 0.999].map(|q| number(latency_ms(run, q))));
    row.push(number(100.0 * to_slow as f64 / run.queries.max(1) as f64));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measured;
    use crate::figure::Verdict::{NotReproduced, Reproduced};
    use crate::figure::trial::{self, verdicts};

    fn of_p99(p99: f64) -> Measured {
        trial::run([p99 / 5.0, p99 / 2.0, p99, 2.0 * p99])
    }

    /// Results as in the chapter.
    fn chapter(cell: &Cell) -> Measured {
        of_p99(match (cell.step.as_str(), cell.policy.name.as_str()) {
            (ONE, RANDOM) => 815.0,
            (ONE, TWO) => 219.0,
            (ONE, _) => 205.0,
            (_, TWO) => 220.0,
            (_, ALL) => 2_400.0,
            _ => 200.0,
        })
    }

    #[test]
    fn scenarios_match_the_chapter() {
        let cells = trial::cells(&SlowPod);
        assert_eq!(cells.len(), 2 * 9);
        let scenario = &cells[0].scenario;
        assert!(
            (scenario.load.rate - 250.0).abs() < 1e-9,
            "{}",
            scenario.load.rate
        );
        assert!((scenario.load.rate / 305.0 - 0.82).abs() < 0.001);
        assert_eq!(
            (scenario.warmup.as_secs(), scenario.span.as_secs()),
            (0, 40)
        );
        let large = &cells[9].scenario;
        assert_eq!((large.replicas(), large.load.clients.len()), (64, 6));
        assert!((large.load.rate / 1_220.0 - 0.82).abs() < 0.001);
    }

    #[test]
    fn chapter_numbers_reproduce_every_claim() {
        let findings = SlowPod.findings(&trial::played(&SlowPod, chapter));
        assert_eq!(findings.claims.len(), 4);
        for claim in &findings.claims {
            assert_eq!(claim.verdict, Reproduced, "{claim:?}");
        }
        assert_eq!(
            (findings.charts.len(), findings.tables[0].rows.len()),
            (2, 18)
        );
    }

    #[test]
    fn each_claim_can_fail() {
        let cases: [(&[&str], &str, &str, f64); 4] = [
            (&["far better"], ONE, TWO, 280.0),
            (&["within 7 %"], ONE, TWO, 221.0),
            (&["two choices beat"], SIX, TWO, 2_410.0),
            (&["tell less"], SIX, ALL, 290.0),
        ];
        for (words, step, policy, p99) in cases {
            let played = trial::played(&SlowPod, |cell| {
                if cell.step == step && cell.policy.name == policy {
                    of_p99(p99)
                } else {
                    chapter(cell)
                }
            });
            assert_eq!(
                verdicts(&SlowPod, &played, words),
                [NotReproduced],
                "{words:?}"
            );
        }
    }
}
