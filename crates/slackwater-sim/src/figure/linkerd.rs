//! Linkerd's experiment: eleven replicas, one of them slow for half of a minute, and how many
//! queries it slows down.

use super::cells::Plays;
use super::charts::log_axis;
use super::judge::{claim, number};
use super::{Cell, Chart, Claim, Effort, Figure, Findings, Line, Played, Plot, Table, Words};
use crate::presets::{frozen, linkerd};
use crate::{Measured, PolicyChoice};
use core::time::Duration;
use std::sync::Arc;

/// `[Beyond Round Robin: Load Balancing for Latency]`
#[derive(Debug)]
pub(super) struct Linkerd;

/// The article's three policies, and the share of queries that they answer within a second, in per
/// cent: what the article has, what its numbers imply for ours, and the tolerance.
const PAPER: [(&str, f64, f64, f64); 3] = [
    // One of eleven replicas is slow for half of the time: 1 - 1/22.
    ("round_robin", 95.0, 95.45, 0.15),
    ("least_loaded", 99.0, 99.5, 0.15),
    ("peak_ewma", 99.9, 99.92, 0.05),
];

/// Policies that are not in the article.
const OTHERS: [&str; 5] = ["power_of_d", "prequal", "c3", "els", "rif_then_latency"];

/// The timeout of a caller: slower queries count as failures.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Points of a line for each factor of ten in 1 / (1 − q), and the number of such factors.
const POINTS_PER_DECADE: u32 = 10;
const DECADES: u32 = 4;

impl Figure for Linkerd {
    fn words(&self) -> Words {
        Words {
            name: "linkerd",
            title: "One frozen replica of eleven: which policies detect it, and how soon",
            about: "One client sends 1,000 queries a second to 11 replicas that replay a latency of 167 ms (median; standard deviation 5 ms); \
         for the middle half of the minute one of them takes 2 s for each query [Beyond Round Robin: Load Balancing for Latency]. \
         The article replays latencies captured in production; ours are drawn from the normal distribution of the same median and \
         deviation. Its least loaded and peak EWMA are Finagle's of 2016; ours look at all replicas, and at two that are drawn. \
         There is no warm-up: the whole minute is measured, the first picks of policies that know nothing yet among it.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let scenario = Arc::unwrap_or_clone(effort.spend_on(linkerd(), 0, 60));
        let scenario = Arc::new(frozen(scenario));
        policies()
            .filter_map(PolicyChoice::named)
            .map(|policy| Cell::of("1 of 11 frozen", 0.0, policy, &scenario))
            .collect()
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        Findings {
            claims: claims(&plays),
            charts: charts(&plays),
            tables: tables(&plays),
        }
    }
}

fn policies() -> impl Iterator<Item = &'static str> {
    PAPER.into_iter().map(|(policy, ..)| policy).chain(OTHERS)
}

/// Returns the share of queries that were answered within the timeout, in per cent.
fn in_time(run: &Measured) -> f64 {
    100.0 * run.latency.share_at_most(TIMEOUT)
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let shares = |policy| {
        plays
            .of(policy)
            .iter()
            .next()
            .map(|played| in_time(&played.all))
    };
    let mut claims: Vec<Claim> = PAPER
        .into_iter()
        .filter_map(|(policy, paper, asked, tolerance)| {
            let found = shares(policy)?;
            Some(claim(
                format!("{policy}: about {paper} % of queries take less than a second"),
                format!("{found:.2} % (asked: {asked} ± {tolerance} %)"),
                (found - asked).abs() <= tolerance,
            ))
        })
        .collect();
    if let (Some(turns), Some(counts), Some(latencies)) = (
        shares("round_robin"),
        shares("least_loaded"),
        shares("peak_ewma"),
    ) {
        claims.push(claim(
            "what is known of a replica is what counts: nothing, then its queue, then its latency, too",
            format!(
                "{} %, {} % and {} % of queries take more than a second",
                number(100.0 - turns),
                number(100.0 - counts),
                number(100.0 - latencies)
            ),
            turns < counts && counts < latencies,
        ));
    }
    claims
}

fn charts(plays: &Plays<'_>) -> Vec<Chart> {
    let mut lines: Vec<Line> = plays.iter().map(by_percentile).collect();
    if lines.is_empty() {
        return Vec::new();
    }
    lines.extend(PAPER.map(|(policy, share, ..)| onset(policy, share)));
    vec![Chart {
        title: "Latency by percentile".to_owned(),
        x: log_axis("1 / (1 − q): 10 is p90, 100 is p99, 1,000 is p99.9"),
        y: log_axis("latency, ms"),
        plot: Plot::Lines(lines),
    }]
}

/// Returns a line of latency over 1 / (1 − q).
fn by_percentile(played: &Played) -> Line {
    let steps = 0..=POINTS_PER_DECADE * DECADES;
    let points = steps.map(|step| {
        let odds = 10_f64.powf(f64::from(step) / f64::from(POINTS_PER_DECADE));
        let latency = played.all.latency.quantile(1.0 - 1.0 / odds);
        (odds, latency.as_secs_f64() * 1e3)
    });
    Line {
        name: played.cell.policy.name.clone(),
        points: points.collect(),
        interval: Vec::new(),
        reference: false,
    }
}

/// Marks where the article's curve rises from the usual latency to that of the slow replica.
fn onset(policy: &str, share: f64) -> Line {
    let odds = 100.0 / (100.0 - share);
    super::charts::reference(
        format!("{policy}, article: slow from here"),
        &[(odds, 167.0), (odds, 2_000.0)],
    )
}

fn tables(plays: &Plays<'_>) -> Vec<Table> {
    let rows: Vec<Vec<String>> = plays.iter().map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let columns = [
        "policy",
        "under 1 s, %",
        "article, %",
        "to the frozen replica, %",
    ];
    vec![Table {
        title: "Queries that take less than a second, and queries sent to the frozen replica in the whole minute".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }]
}

fn row(played: &Played) -> Vec<String> {
    let policy = &played.cell.policy.name;
    let run = &played.all;
    let article = PAPER.iter().find(|(name, ..)| name == policy);
    let to_frozen = run.queries_by_replica.first().copied().unwrap_or(0);
    vec![
        policy.clone(),
        format!("{:.2}", in_time(run)),
        article.map_or_else(String::new, |(_, share, ..)| number(*share)),
        format!(
            "{:.2}",
            100.0 * to_frozen as f64 / run.queries.max(1) as f64
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Verdict::{NotReproduced, Reproduced};
    use crate::figure::trial::{self, verdicts};

    /// A run in which `slow` of 100,000 queries take 2 s, and the others 167 ms.
    fn run(slow: u64) -> Measured {
        let mut run = Measured::nothing(11);
        run.queries = 100_000;
        run.queries_by_replica[0] = slow;
        for (latency_ms, count) in [(167, 100_000 - slow), (2_000, slow)] {
            for _ in 0..count {
                run.latency.record(Duration::from_millis(latency_ms));
            }
        }
        run
    }

    /// Plays with these slow queries of 100,000 for the article's three policies, and none for the
    /// others.
    fn played(slow: [u64; 3]) -> Vec<Played> {
        trial::played(&Linkerd, |cell| {
            let index = PAPER
                .iter()
                .position(|(policy, ..)| *policy == cell.policy.name);
            run(index.map_or(0, |index| slow[index]))
        })
    }

    #[test]
    fn scenario_matches_the_minute_of_the_article() {
        let cells = trial::cells(&Linkerd);
        let policies: Vec<_> = cells.iter().map(|cell| cell.policy.name.as_str()).collect();
        assert_eq!(policies.len(), 8, "{policies:?}");
        let scenario = &cells[0].scenario;
        assert_eq!(
            (scenario.warmup, scenario.span),
            (Duration::ZERO, Duration::from_mins(1))
        );
        let spell = scenario.fleet[0].hobble.expect("a frozen replica");
        assert_eq!(
            (spell.from, spell.until),
            (Duration::from_secs(15), Duration::from_secs(45))
        );
        assert!((scenario.load.rate - 1_000.0).abs() < 1e-9);
    }

    #[test]
    fn shorter_run_freezes_a_replica_for_its_middle_half() {
        let cells = Linkerd.cells(&Effort {
            seeds: crate::Seeds::up_to(1),
            span: Some(Duration::from_secs(8)),
            warmup: Some(Duration::from_secs(10)),
        });
        let spell = cells[0].scenario.fleet[0].hobble.expect("a frozen replica");
        assert_eq!(
            (spell.from, spell.until),
            (Duration::from_secs(12), Duration::from_secs(16))
        );
    }

    #[test]
    fn numbers_implied_by_the_experiment_reproduce_every_claim() {
        let findings = Linkerd.findings(&played([4_545, 500, 80]));
        assert_eq!(findings.claims.len(), 4);
        for claim in findings.claims {
            assert_eq!(claim.verdict, Reproduced, "{claim:?}");
        }
    }

    /// Both sides of each bound.
    #[test]
    fn claims_hold_within_bounds_and_fail_beyond() {
        let cases: [(&str, [u64; 3], [u64; 3]); 6] = [
            ("round_robin:", [4_410, 500, 80], [4_390, 500, 80]),
            ("round_robin:", [4_690, 500, 80], [4_710, 500, 80]),
            ("least_loaded:", [4_545, 360, 80], [4_545, 340, 80]),
            ("least_loaded:", [4_545, 640, 80], [4_545, 660, 80]),
            ("peak_ewma:", [4_545, 500, 35], [4_545, 500, 25]),
            ("what is known", [4_545, 500, 499], [4_545, 500, 501]),
        ];
        for (words, within, beyond) in cases {
            assert_eq!(
                verdicts(&Linkerd, &played(within), &[words]),
                [Reproduced],
                "{words} {within:?}"
            );
            assert_eq!(
                verdicts(&Linkerd, &played(beyond), &[words]),
                [NotReproduced],
                "{words} {beyond:?}"
            );
        }
    }

    #[test]
    fn curve_is_plotted_over_odds() {
        let findings = Linkerd.findings(&played([4_545, 500, 80]));
        let Plot::Lines(lines) = &findings.charts[0].plot else {
            panic!("lines");
        };
        let at = |odds: f64| {
            let points = &lines[0].points;
            let nearest = points
                .iter()
                .min_by(|(a, _), (b, _)| (a - odds).abs().total_cmp(&(b - odds).abs()));
            nearest.map(|&(_, latency)| latency.round())
        };
        assert_eq!(
            (at(10.0), at(100.0)),
            (Some(167.0), Some(2_000.0)),
            "4.5 % of round robin's are slow"
        );
        assert_eq!(lines.iter().filter(|line| line.reference).count(), 3);
        assert_eq!(findings.tables[0].rows.len(), 8);
    }
}
