//! Spotify's experiment: round robin, the shortest queue and ELS, with and without a machine that
//! fails half of its queries fast.

use super::cells::{Plays, latency_ms, whole};
use super::charts::{axis, line, log_axis, reference};
use super::judge::{Bounds, claim, number};
use super::{Cell, Chart, Claim, Effort, Figure, Findings, Line, Played, Plot, Words};
use crate::presets::{ELS_CAPACITY, els, failing_fast};
use crate::{Measured, PolicyChoice};

/// `[ELS: latency based load balancer, part 1]`
#[derive(Debug)]
pub(super) struct Els;

const ROUND_ROBIN: &str = "round_robin";
/// The article's JSQ: one router's own counts.
const SHORTEST: &str = "least_loaded";
const ELS: &str = "els";
const PREQUAL: &str = "prequal";
const POLICIES: [&str; 4] = [ROUND_ROBIN, SHORTEST, ELS, PREQUAL];

/// Load as a share of what all four machines can serve.
const LOADS: [(&str, f64); 8] = [
    ("0.05", 0.05),
    ("0.15", 0.15),
    ("0.30", 0.3),
    ("0.50", 0.5),
    ("0.65", 0.65),
    ("0.75", 0.75),
    ("0.85", 0.85),
    ("0.95", 0.95),
];
const LOWEST: &str = "0.05";
const HIGHEST: &str = "0.95";

/// The two benchmarks, by the parameter that distinguishes their cells.
const HEALTHY: &str = "failing=0";
const FAILING: &str = "failing=1";

/// Queries of one run. The error share of a policy that picks one of four blindly is then known to
/// 0.1 % of all queries.
const QUERIES: f64 = 60_000.0;
const WARMUP_QUERIES: f64 = 5_000.0;

/// Errors of the shortest queue where the failing machine takes no more work. It has as many
/// requests in flight as each other machine, answers twice as fast, and so gets two queries of
/// five, of which half fail.
const SHORTEST_LIMIT_PERCENT: f64 = 20.0;

/// The article's "very low" has no number. We take a quarter of what round robin shows at any load.
const VERY_LOW_PERCENT: f64 = 3.1;

impl Figure for Els {
    fn words(&self) -> Words {
        Words {
            name: "els",
            title: "One of four machines fails half of its queries fast: which policies send it more",
            about: "One client, four CPU-bound machines with log-normal costs that can do 1,030 queries a second, from a twentieth of that up; \
         in the second benchmark one of them fails half of its queries at once [ELS: latency based load balancer, part 1]. \
         The article does not say how a machine serves its queries nor how wide their costs spread: here one at a time, and σ = 1, \
         with which round robin falls behind as it does there. ELS is our reading of an article that keeps its formula to itself. \
         Its JSQ counts a router's own queries, which is our least_loaded. Prequal is the paper's rule alone: without error aversion, as \
         its section 4 stands, it takes fast failures for a short queue (sinkholing). In a proxy, ejection stands before it.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (step, load) in LOADS {
            let seconds = |queries: f64| whole((queries / (load * ELS_CAPACITY)).ceil());
            for (param, scenario) in [(HEALTHY, els(load)), (FAILING, failing_fast(els(load)))] {
                let scenario = effort.spend_on(scenario, seconds(WARMUP_QUERIES), seconds(QUERIES));
                cells.extend(POLICIES.into_iter().filter_map(|policy| {
                    let policy = PolicyChoice::named(policy)?;
                    Some(Cell::of(step, load, policy, &scenario).with_param(param))
                }));
            }
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        let of = |benchmark: &str| plays.only(|cell| cell.param == benchmark);
        let (healthy, failing) = (of(HEALTHY), of(FAILING));
        let mut claims = of_errors(&failing);
        claims.extend(of_latency(&healthy));
        Findings {
            claims,
            charts: charts(&healthy, &failing),
            tables: Vec::new(),
        }
    }
}

fn error_percent(run: &Measured) -> f64 {
    100.0 * run.error_share()
}

/// Returns the claims about the second benchmark, in per cent of queries.
fn of_errors(failing: &Plays<'_>) -> Vec<Claim> {
    let errors = |policy| -> Vec<f64> {
        let plays = failing.of(policy);
        plays
            .iter()
            .map(|played| error_percent(&played.all))
            .collect()
    };
    let at = |step, policy| failing.measured(step, policy).map(error_percent);
    let worst = |policy, from: f64| {
        let distances = errors(policy).into_iter();
        distances.max_by(|a, b| (a - from).abs().total_cmp(&(b - from).abs()))
    };
    let mut claims = Vec::new();
    claims.extend(worst(ROUND_ROBIN, 12.5).map(|found| {
        Bounds::about(12.5, 0.4, " %").judge(
            "round robin keeps its error rate at 12.5 %, at any load",
            found,
        )
    }));
    claims.extend(at(LOWEST, SHORTEST).map(|found| {
        Bounds::about(12.5, 1.5, " %").judge(
            "JSQ begins at about 12.5 % when there is hardly any load",
            found,
        )
    }));
    if let (Some(first), Some(last)) = (at(LOWEST, SHORTEST), at(HIGHEST, SHORTEST)) {
        let rising = errors(SHORTEST)
            .windows(2)
            .all(|pair| pair[1] > pair[0] - 0.3);
        claims.push(claim(
            "JSQ's errors rise with load, to about 17.5 %; their limit is 20 %",
            format!(
                "from {} % to {} %, {}",
                number(first),
                number(last),
                if rising {
                    "step by step"
                } else {
                    "not at every step"
                }
            ),
            rising && last > first + 2.0 && last <= SHORTEST_LIMIT_PERCENT + 0.4,
        ));
    }
    if let (Some(first), Some(last)) = (at(LOWEST, ELS), at(HIGHEST, ELS)) {
        claims.push(claim(
            "ELS begins with a very low error rate, which rises steadily",
            format!(
                "from {} % to {} % (asked: at most {VERY_LOW_PERCENT} % at first)",
                number(first),
                number(last)
            ),
            first <= VERY_LOW_PERCENT && last > first,
        ));
    }
    claims.extend(below_both(failing));
    claims.extend(at(HIGHEST, PREQUAL).map(|found| {
        Bounds::at_least(12.5, " %").judge(
            "(ours) Prequal without error aversion sinkholes: near capacity it sends the failing machine more than its share",
            found,
        )
    }));
    claims
}

/// Compares ELS with the better of the other two, where it comes nearest to them.
fn below_both(failing: &Plays<'_>) -> Option<Claim> {
    let at = |step: &str, policy| failing.measured(step, policy).map(error_percent);
    let nearest = failing.steps().into_iter().filter_map(|step| {
        let others = at(&step, ROUND_ROBIN)?.min(at(&step, SHORTEST)?);
        Some((step.clone(), at(&step, ELS)?, others))
    });
    let (step, found, others) = nearest
        .min_by(|(_, a, a_others), (_, b, b_others)| (a_others - a).total_cmp(&(b_others - b)))?;
    Some(claim(
        "ELS has fewer errors than round robin and JSQ at every load",
        format!(
            "they are nearest at {step}: {} % against {} %",
            number(found),
            number(others)
        ),
        found < others,
    ))
}

/// Returns the claims about the first benchmark.
fn of_latency(healthy: &Plays<'_>) -> Vec<Claim> {
    // How much slower one policy is than another, in per cent.
    let slower = |step: &str, q, slow, fast| {
        let of = |policy| Some(latency_ms(healthy.measured(step, policy)?, q));
        Some(100.0 * (of(slow)? / of(fast)? - 1.0))
    };
    // How much slower it is where it is farthest from `middle`, at loads from `least` to 0.85: a
    // claim about a range must hold in all of it.
    let farthest = |least: f64, q, slow, fast, middle: f64| {
        let within = LOADS.iter().filter(|(_, load)| (least..0.9).contains(load));
        let found = within.filter_map(|(step, _)| slower(step, q, slow, fast));
        found.max_by(|a, b| (a - middle).abs().total_cmp(&(b - middle).abs()))
    };
    let judged = [
        slower("0.50", 0.75, ROUND_ROBIN, SHORTEST).map(|found| {
            Bounds::between(15.0, 60.0, " %").judge("p75 at 50 % of capacity: round robin is 30 % slower", found)
        }),
        slower("0.75", 0.75, ROUND_ROBIN, SHORTEST).map(|found| {
            Bounds::between(60.0, 250.0, " %").judge("p75 at 75 % of capacity: round robin is 100 % slower, up to 250 %", found)
        }),
        slower("0.30", 0.99, ROUND_ROBIN, SHORTEST).map(|found| {
            Bounds::between(25.0, 75.0, " %").judge("p99 at 30 % of capacity: round robin is 50 % slower", found)
        }),
        farthest(0.5, 0.99, ROUND_ROBIN, SHORTEST, 50.0).map(|found| {
            Bounds::between(40.0, 60.0, " %").judge("p99 up to 90 % of capacity: round robin stays 40 to 60 % slower (the farthest from that, 0.50 to 0.85)", found)
        }),
        farthest(0.0, 0.75, ELS, SHORTEST, 0.0).map(|found| {
            Bounds::between(-15.0, 15.0, " %").judge("p75 of ELS and JSQ hardly differs (the most, up to 0.85)", found)
        }),
        farthest(0.5, 0.99, ELS, SHORTEST, 27.5).map(|found| {
            Bounds::between(10.0, 45.0, " %").judge("p99 between 50 and 90 % of capacity: ELS is slower than JSQ by a fourth to two fifths (the farthest from that)", found)
        }),
    ];
    judged.into_iter().flatten().collect()
}

fn charts(healthy: &Plays<'_>, failing: &Plays<'_>) -> Vec<Chart> {
    if healthy.iter().next().is_none() && failing.iter().next().is_none() {
        return Vec::new();
    }
    let mut errors = lines(failing, error_percent);
    errors.push(reference(
        "round_robin, article",
        &[(0.05, 12.5), (0.95, 12.5)],
    ));
    errors.push(reference(
        "least_loaded, article",
        &[(0.05, 12.5), (0.95, 17.5)],
    ));
    let mut charts = vec![Chart {
        title: "Errors, one machine failing half of its queries".to_owned(),
        x: axis(LOAD_AXIS),
        y: axis("errors, % of queries"),
        plot: Plot::Lines(errors),
    }];
    for (benchmark, plays) in [
        ("all machines well", healthy),
        ("one machine failing", failing),
    ] {
        for (name, q) in [("p75", 0.75), ("p99", 0.99)] {
            charts.push(Chart {
                title: format!("{name} of latency, {benchmark}"),
                x: axis(LOAD_AXIS),
                y: log_axis("latency, ms"),
                plot: Plot::Lines(lines(plays, |run| latency_ms(run, q))),
            });
        }
    }
    charts
}

const LOAD_AXIS: &str = "load, as a share of what four machines can do";

fn lines(plays: &Plays<'_>, quantity: impl Fn(&Measured) -> f64) -> Vec<Line> {
    let load = |played: &Played| played.cell.load;
    POLICIES
        .into_iter()
        .map(|policy| line(policy, &plays.of(policy), load, &quantity))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Verdict::{NotReproduced, Reproduced};
    use crate::figure::trial::{self, verdicts};
    use core::time::Duration;

    /// A run with these errors, in tenths of a per cent. A quarter of its latencies each is below
    /// p75 and beyond it.
    fn run(errors_per_mille: u64, p75_ms: u64, p99_ms: u64) -> Measured {
        let mut run = Measured::nothing(4);
        run.queries = 1_000;
        run.errors = errors_per_mille;
        for (latency_ms, count) in [(p75_ms, 800), (p99_ms, 200)] {
            for _ in 0..count {
                run.latency.record(Duration::from_millis(latency_ms));
            }
        }
        run
    }

    /// The results that the article shows.
    fn article(cell: &Cell) -> Measured {
        let rising = whole(cell.load * 50.0);
        let errors = match (cell.param.as_str(), cell.policy.name.as_str()) {
            (HEALTHY, _) => 0,
            (_, ROUND_ROBIN) => 125,
            (_, SHORTEST) => 125 + rising,
            (_, ELS) => 10 + rising,
            _ => 130 + rising,
        };
        let (p75, p99) = match (cell.policy.name.as_str(), cell.load) {
            (ROUND_ROBIN, load) if load > 0.7 => (200, 1_500),
            (ROUND_ROBIN, load) if load > 0.4 => (130, 1_500),
            (ROUND_ROBIN, _) => (100, 1_500),
            (ELS, _) => (102, 1_250),
            _ => (100, 1_000),
        };
        run(errors, p75, p99)
    }

    fn upset(policy: &str, step: &str, param: &str, instead: &Measured) -> Vec<Played> {
        trial::played(&Els, |cell| {
            let hit = (
                cell.policy.name.as_str(),
                cell.step.as_str(),
                cell.param.as_str(),
            ) == (policy, step, param);
            if hit { instead.clone() } else { article(cell) }
        })
    }

    #[test]
    fn cells_have_the_loads_and_failures_of_the_article() {
        let cells = trial::cells(&Els);
        assert_eq!(cells.len(), 2 * 8 * 4);
        for cell in &cells {
            let scenario = &cell.scenario;
            assert!((scenario.load.rate - cell.load * 1_030.0).abs() < 0.01);
            let failing = scenario
                .fleet
                .iter()
                .filter(|group| group.failure.is_some());
            let failing: usize = failing.map(|group| group.count).sum();
            assert_eq!(
                (failing, scenario.replicas()),
                (usize::from(cell.param == FAILING), 4)
            );
            let queries = scenario.load.rate * scenario.span.as_secs_f64();
            assert!((60_000.0..61_100.0).contains(&queries), "{queries}");
        }
    }

    #[test]
    fn article_numbers_reproduce_every_claim() {
        let findings = Els.findings(&trial::played(&Els, article));
        assert_eq!(findings.claims.len(), 6 + 6);
        for claim in findings.claims {
            assert_eq!(claim.verdict, Reproduced, "{claim:?}");
        }
    }

    /// Each claim, and one cell that contradicts it.
    #[test]
    fn each_claim_can_fail() {
        let errors = |per_mille| run(per_mille, 100, 1_000);
        let cases: [(&str, &str, &str, &str, Measured); 18] = [
            (
                "keeps its error rate",
                ROUND_ROBIN,
                "0.65",
                FAILING,
                errors(130),
            ),
            (
                "keeps its error rate",
                ROUND_ROBIN,
                "0.95",
                FAILING,
                errors(120),
            ),
            ("JSQ begins", SHORTEST, LOWEST, FAILING, errors(150)),
            ("JSQ's errors rise", SHORTEST, "0.50", FAILING, errors(130)),
            ("JSQ's errors rise", SHORTEST, HIGHEST, FAILING, errors(206)),
            ("JSQ's errors rise", SHORTEST, LOWEST, FAILING, errors(155)),
            ("very low", ELS, LOWEST, FAILING, errors(32)),
            ("very low", ELS, HIGHEST, FAILING, errors(12)),
            (
                "fewer errors than round robin",
                ELS,
                "0.75",
                FAILING,
                errors(125),
            ),
            ("sinkholes", PREQUAL, HIGHEST, FAILING, errors(124)),
            (
                "p75 at 50 %",
                ROUND_ROBIN,
                "0.50",
                HEALTHY,
                run(0, 110, 1_500),
            ),
            (
                "p75 at 75 %",
                ROUND_ROBIN,
                "0.75",
                HEALTHY,
                run(0, 150, 1_500),
            ),
            (
                "p99 at 30 %",
                ROUND_ROBIN,
                "0.30",
                HEALTHY,
                run(0, 100, 1_200),
            ),
            (
                "p99 up to 90 %",
                ROUND_ROBIN,
                "0.65",
                HEALTHY,
                run(0, 130, 1_700),
            ),
            ("p75 of ELS", ELS, LOWEST, HEALTHY, run(0, 120, 1_250)),
            ("p75 of ELS", ELS, "0.85", HEALTHY, run(0, 80, 1_250)),
            ("p99 between", ELS, "0.85", HEALTHY, run(0, 102, 1_050)),
            ("p99 between", ELS, "0.50", HEALTHY, run(0, 102, 1_500)),
        ];
        for (words, policy, step, param, instead) in cases {
            let played = upset(policy, step, param, &instead);
            assert_eq!(
                verdicts(&Els, &played, &[words]),
                [NotReproduced],
                "{words} {policy} {step}"
            );
        }
    }

    #[test]
    fn charts_cover_errors_and_latencies_of_both_benchmarks() {
        let findings = Els.findings(&trial::played(&Els, article));
        assert_eq!(findings.charts.len(), 5);
        let Plot::Lines(lines) = &findings.charts[0].plot else {
            panic!("lines");
        };
        assert_eq!((lines.len(), lines[0].points.len()), (4 + 2, 8));
    }
}
