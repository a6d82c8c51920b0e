//! Fig. 9: the RIF limit quantile is raised from RIF alone to latency alone, where half of the
//! fleet is half as fast.

use super::cells::{Plays, latency_ms, paper_settings, quantile};
use super::charts::{QUANTILES, axis, line, log_axis, reference, rif_lines};
use super::judge::{Bounds, claim, number};
use super::{Cell, Chart, Claim, Effort, Figure, Findings, Played, Plot, Table, Words};
use crate::presets::{LOAD, at_load, costing, tight, unequal_halves};
use crate::{Measured, PolicyChoice};
use core::time::Duration;

/// The RIF quantile experiment of §5.3.
#[derive(Debug)]
pub(super) struct Fig9;

const PREQUAL: &str = "prequal";

/// A query's cost on the fast half. With two queries there for each one on the slow half, the
/// latencies of RIF-only control follow from it: 34.5, 93 and 162 ms at p50, p90 and p99.
const COST: Duration = Duration::from_millis(28);

/// RIF alone, the paper's first step.
const RIF_ONLY: &str = "0";
/// Latency alone, the paper's last step.
const LATENCY_ONLY: &str = "1";
/// The paper finds next to no impact on RIF up to this step: 0.9³.
const RIF_UNHARMED: &str = "0.729";

/// The paper's p50, p90, p99 and p99.9 in milliseconds, at the steps for which it has them.
const PAPER: [&[(&str, f64)]; 4] = [
    &[("0", 34.5), ("0.99", 31.0)],
    &[("0", 93.0), ("0.99", 75.0)],
    &[
        ("0", 162.0),
        ("0.99", 142.0),
        ("0.999", 148.0),
        ("1", 178.0),
    ],
    &[
        ("0", 210.0),
        ("0.99", 198.0),
        ("0.999", 210.0),
        ("1", 420.0),
    ],
];

impl Figure for Fig9 {
    fn words(&self) -> Words {
        Words {
            name: "fig9",
            title: "RIF limit quantile, from RIF alone to latency alone",
            about: "Prequal at 75 % of the allocation, half of the replicas burning twice the CPU for each query, among the antagonists of \
         Fig. 7 [Prequal §5.3 \"RIF Quantile\", Fig. 9]. The load is the CPU utilization if both halves had the same, as about they \
         have under RIF alone; queries cost 28 ms on the fast half: the paper's RIF of 5 and its latencies at Q = 0 imply both. At Q = 1 the paper's p99.9 fluctuates between 337 and 502 ms; its middle is drawn.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let scenario = at_load(LOAD, unequal_halves(costing(COST, tight())));
        let scenario = effort.spend_on(scenario, 30, 60);
        steps()
            .filter_map(|(step, q)| {
                let settings = paper_settings(|prequal| prequal.rif_limit_quantile = quantile(q))?;
                let policy = PolicyChoice::with_settings(PREQUAL, settings)?;
                let param = format!("rif_limit_quantile={step}");
                Some(Cell::of(step, LOAD, policy, &scenario).with_param(param))
            })
            .collect()
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        Findings {
            claims: claims(&plays),
            charts: charts(&plays),
            tables: vec![halves(&plays)],
        }
    }
}

/// Returns each step's name and quantile: 0, 0.9¹⁰ to 0.9 in steps of 10/9, then values that
/// approach 1.
fn steps() -> impl Iterator<Item = (String, f64)> {
    let powers = (1..=10).rev().map(|power| 0.9_f64.powi(power));
    let steps = core::iter::once(0.0)
        .chain(powers)
        .chain([0.99, 0.999, 1.0]);
    steps.map(|q| (rounded(q), q))
}

/// Formats with at most three decimals.
fn rounded(q: f64) -> String {
    let text = format!("{q:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let at = |step: &str| plays.measured(step, PREQUAL);
    let Some((rif_only, latency_only)) = at(RIF_ONLY).zip(at(LATENCY_ONLY)) else {
        return Vec::new();
    };
    let mut claims = falls(plays, rif_only);
    claims.extend(lowest(plays, 0.99).map(|(step, q, lowest)| {
        let lowest = number(lowest);
        claim(
            "p99 is lowest near the end of the range, at Q = 0.99",
            format!("{lowest} ms at Q = {step} (asked: Q from 0.85 to 0.999)"),
            (0.85..=0.999).contains(&q),
        )
    }));
    let p99_against = |step, base| Some(latency_ms(at(step)?, 0.99) / latency_ms(at(base)?, 0.99));
    claims.extend(p99_against("0.99", RIF_ONLY).map(|found| {
        let says = "at Q = 0.99 p99 is below that of RIF alone, 142 against 162 ms";
        Bounds::at_most(0.95, " times").judge(says, found)
    }));
    claims.extend(p99_against("0.999", "0.99").map(|found| {
        let says = "at Q = 0.999 p99 begins to edge up, by 4 % against Q = 0.99";
        Bounds::between(1.0, 1.1, " times").judge(says, found)
    }));
    claims.extend(lowest(plays, 0.999).map(|(_, _, lowest)| {
        let says = "with latency alone p99.9 rises sharply, to 1.6 to 2.4 times that before";
        let found = latency_ms(latency_only, 0.999) / lowest;
        Bounds::at_least(1.6, " times the lowest").judge(says, found)
    }));
    claims.extend(at(RIF_UNHARMED).map(|unharmed| {
        let rif_p99 = |run: &Measured| run.rif_quantile(0.99) as f64;
        let says = "up to Q = 0.73 there is next to no impact on RIF: p99 of RIF against RIF alone";
        Bounds::at_most(1.25, " times").judge(says, rif_p99(unharmed) / rif_p99(rif_only))
    }));
    claims.extend(bands_cross(plays));
    claims
}

/// Checks by how much each quantile of latency falls from RIF alone to its lowest value.
fn falls(plays: &Plays<'_>, rif_only: &Measured) -> Vec<Claim> {
    let paper = [
        ("p99", 0.99, "12 %", Bounds::between(10.0, 35.0, " %")),
        ("p90", 0.9, "19 %", Bounds::between(10.0, 35.0, " %")),
        ("p50", 0.5, "10 %", Bounds::between(5.0, 20.0, " %")),
    ];
    paper
        .into_iter()
        .filter_map(|(name, q, fall, bounds)| {
            let (_, _, lowest) = lowest(plays, q)?;
            let found = 100.0 * (1.0 - lowest / latency_ms(rif_only, q));
            let says = format!("{name} falls by {fall} from RIF alone to its lowest");
            Some(bounds.judge(says, found))
        })
        .collect()
}

/// Returns the step with the lowest latency at quantile `of`, its Q, and that latency.
fn lowest(plays: &Plays<'_>, of: f64) -> Option<(String, f64, f64)> {
    steps()
        .filter_map(|(step, q)| {
            let latency = latency_ms(plays.measured(&step, PREQUAL)?, of);
            Some((step, q, latency))
        })
        .min_by(|(_, _, a), (_, _, b)| a.total_cmp(b))
}

/// Returns the CPU of the fast and of the slow half, as a multiple of the allocation.
fn used_by_halves(run: &Measured) -> (f64, f64) {
    let replicas = run.utilization.by_replica_mean();
    let (fast, slow) = replicas.split_at(replicas.len() / 2);
    let mean = |half: &[f64]| half.iter().sum::<f64>() / half.len().max(1) as f64;
    (mean(fast), mean(slow))
}

fn bands_cross(plays: &Plays<'_>) -> Option<Claim> {
    let at = |step| {
        let run = plays.measured(step, PREQUAL);
        let run = run.filter(|run| run.utilization.seconds() > 0);
        run.map(used_by_halves)
    };
    let ((fast_first, slow_first), (fast_last, slow_last)) = at(RIF_ONLY).zip(at("0.99"))?;
    let shown = |fast, slow| format!("{} and {}", number(fast), number(slow));
    Some(claim(
        "CPU of the fast half rises with Q and that of the slow half falls: their bands cross",
        format!(
            "fast and slow: {} of the allocation at Q = 0, {} at Q = 0.99",
            shown(fast_first, slow_first),
            shown(fast_last, slow_last)
        ),
        fast_first <= slow_first && fast_last > slow_last,
    ))
}

/// Makes a table of how the two halves share the load, which has no column in the CSV.
fn halves(plays: &Plays<'_>) -> Table {
    let rows = plays.iter().map(|played| {
        let (fast, slow) = used_by_halves(&played.all);
        let queries = &played.all.queries_by_replica;
        let on_fast: u64 = queries.iter().take(queries.len() / 2).sum();
        let share = 100.0 * on_fast as f64 / played.all.queries.max(1) as f64;
        vec![
            played.cell.step.clone(),
            number(share),
            number(fast),
            number(slow),
        ]
    });
    Table {
        title: "The two halves of the fleet".to_owned(),
        columns: [
            "Q",
            "queries on the fast half, %",
            "CPU of the fast half",
            "CPU of the slow half",
        ]
        .map(String::from)
        .into(),
        rows: rows.collect(),
    }
}

fn charts(plays: &Plays<'_>) -> Vec<Chart> {
    let steps = plays.steps();
    let index = |step: &str| steps.iter().position(|known| known == step);
    let x = |played: &Played| index(&played.cell.step).map_or(f64::NAN, |index| index as f64);
    let paper = |points: &[(&str, f64)]| -> Vec<(f64, f64)> {
        let known = |&(step, ms)| Some((index(step)? as f64, ms));
        points.iter().filter_map(known).collect()
    };
    let ours_and_theirs = QUANTILES.into_iter().zip(PAPER);
    let latencies = ours_and_theirs.flat_map(|((name, q), points)| {
        [
            line(name, plays, x, |run| latency_ms(run, q)),
            reference(format!("{name}, paper"), &paper(points)),
        ]
    });
    let cpu = vec![
        line("fast half", plays, x, |run| used_by_halves(run).0),
        line("slow half", plays, x, |run| used_by_halves(run).1),
    ];
    let chart = |title: &str, y, lines| Chart {
        title: title.to_owned(),
        x: axis("RIF limit quantile Q: 0 is RIF alone, 1 is latency alone"),
        y,
        plot: Plot::Steps {
            steps: steps.clone(),
            lines,
        },
    };
    let (latencies, rif) = (latencies.collect(), rif_lines(plays, x));
    vec![
        chart("Latency by Q", log_axis("latency, ms"), latencies),
        chart("RIF by Q", axis("requests in flight at a replica"), rif),
        chart(
            "CPU by Q",
            axis("CPU, as a multiple of the allocation"),
            cpu,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Verdict::{NotReproduced, Reproduced};
    use crate::figure::trial::{self, verdicts};

    fn run(latencies: [f64; 4], rif_p99: u64, (fast, slow): (f32, f32)) -> Measured {
        let mut run = trial::run(latencies);
        run.rif.record_n(rif_p99, 100);
        run.utilization.by_second = [[fast; 50], [slow; 50]].concat();
        run
    }

    fn paper(cell: &Cell) -> Measured {
        match cell.step.as_str() {
            "0.99" => run([31.0, 75.0, 142.0, 198.0], 14, (1.0, 0.3)),
            "0.999" => run([31.5, 76.0, 148.0, 210.0], 15, (1.0, 0.3)),
            "1" => run([33.0, 90.0, 178.0, 420.0], 30, (1.1, 0.2)),
            _ => run([34.5, 93.0, 162.0, 210.0], 10, (0.75, 0.75)),
        }
    }

    #[test]
    fn steps_match_the_fourteen_of_the_paper() {
        let steps: Vec<_> = steps().map(|(step, _)| step).collect();
        assert_eq!(
            steps,
            [
                "0", "0.349", "0.387", "0.43", "0.478", "0.531", "0.59", "0.656", "0.729", "0.81",
                "0.9", "0.99", "0.999", "1"
            ]
        );
        assert_eq!(trial::cells(&Fig9).len(), 14);
        // 4.8 cores for each half: queries of 30.3 ms on one, of 60.7 ms on the other.
        let rate = trial::cells(&Fig9)[0].scenario.load.rate;
        assert!(
            (rate - 240.0 / 0.030_33 - 240.0 / 0.060_66).abs() < 10.0,
            "{rate}"
        );
    }

    #[test]
    fn paper_numbers_reproduce_every_claim() {
        let findings = Fig9.findings(&trial::played(&Fig9, paper));
        assert_eq!(findings.claims.len(), 3 + 1 + 2 + 1 + 1 + 1);
        for claim in findings.claims {
            assert_eq!(claim.verdict, Reproduced, "{claim:?}");
        }
    }

    #[test]
    fn each_claim_can_fail() {
        let late = |latencies| run(latencies, 14, (1.0, 0.3));
        let early = |rif_p99, halves| run([34.5, 93.0, 162.0, 210.0], rif_p99, halves);
        let upsets = [
            ("p99 falls", "0.99", late([31.0, 75.0, 104.0, 198.0])),
            ("p90 falls", "0.99", late([31.0, 60.0, 142.0, 198.0])),
            ("p50 falls", "0.99", late([27.0, 75.0, 142.0, 198.0])),
            ("p99 is lowest", "0.81", late([31.0, 75.0, 141.0, 198.0])),
            ("p99 is lowest", "1", late([31.0, 75.0, 141.0, 420.0])),
            ("against 162", "0.99", late([31.0, 75.0, 155.0, 198.0])),
            ("edge up", "0.999", late([31.5, 76.0, 160.0, 210.0])),
            ("edge up", "0.999", late([31.5, 76.0, 140.0, 210.0])),
            ("rises sharply", "1", late([33.0, 90.0, 178.0, 316.0])),
            ("impact on RIF", "0.729", early(13, (0.75, 0.75))),
            ("bands cross", "0", early(10, (0.9, 0.75))),
            ("bands cross", "0.99", early(14, (0.7, 0.75))),
        ];
        for (words, step, upset) in upsets {
            let played = trial::played(&Fig9, |cell| {
                if cell.step == step {
                    upset.clone()
                } else {
                    paper(cell)
                }
            });
            assert_eq!(
                verdicts(&Fig9, &played, &[words]),
                [NotReproduced],
                "{words} {step}"
            );
        }
    }
}
