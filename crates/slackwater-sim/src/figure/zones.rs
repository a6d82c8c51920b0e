//! Zones: what a query pays for leaving its zone, and what it would pay for staying.

use super::cells::latency_ms;
use super::judge::{Bounds, number};
use super::{Cell, Claim, Effort, Figure, Findings, Played, Table, Words};
use crate::policy::ZoneRule;
use crate::presets::{ZoneCase, zoned};
use crate::{Measured, PolicyChoice};
use core::time::Duration;
use slackwater_core::policy::DEFAULT_POLICY;

/// Fleets in two and three zones.
#[derive(Debug)]
pub(super) struct Zones;

const ZONES: [usize; 2] = [2, 3];
const ROUND_TRIPS_MS: [u64; 3] = [1, 5, 20];
const WARMUP_SECONDS: u64 = 20;
const SPAN_SECONDS: u64 = 20;

/// What happens, by its name in the results, at this load of all replicas together.
const CASES: [(&str, ZoneCase, f64); 6] = [
    (EVEN, ZoneCase::Even, 0.7),
    ("even, high load", ZoneCase::Even, 0.9),
    (OVERLOADED, ZoneCase::Overloaded, 0.75),
    ("a zone lost", ZoneCase::Lost, 0.75),
    ("own zone slow", ZoneCase::Slow, 0.75),
    (ONE_SLOW, ZoneCase::OneSlow, 0.7),
];

/// The case in which every zone has room.
const EVEN: &str = "even";
/// The case in which every zone has room, though one replica is slow.
const ONE_SLOW: &str = "own replica slow";
/// The case in which one has too many clients.
const OVERLOADED: &str = "own zone overloaded";
/// Ours, in the results.
const OURS: &str = "spill by load";

impl Figure for Zones {
    fn words(&self) -> Words {
        Words {
            name: "zones",
            title: "Zones: what stays, what spills, and what it costs",
            about: "Two or three zones of eight replicas with four cores and four clients each, 1 to 20 ms apart (round trip). A query takes 10 ms (exponential). \
         All rules choose within a zone by our default policy, with reported capacities; only the zone differs. Own zone: Kubernetes' hints. Zone-aware and \
         load-aware locality: Envoy's, as documented, with their defaults. Spill by load: ours. Even: 70 % or 90 % of the capacity. Own zone overloaded: the \
         clients of one zone ask for 1.3 times what it can carry, and all for 75 %. A zone lost: 75 % of what is left. Own zone slow: one zone is 1.6 times \
         slower, at 75 % of all. Own replica slow: one replica of a zone is 5 times slower, at 70 %.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (name, case, load) in CASES {
            for zones in ZONES {
                for ms in ROUND_TRIPS_MS {
                    let scenario = zoned(zones, Duration::from_millis(ms), case, load);
                    let scenario = effort.spend_on(scenario, WARMUP_SECONDS, SPAN_SECONDS);
                    let ours = PolicyChoice::shipped(DEFAULT_POLICY.name);
                    let rules = ZoneRule::ALL.map(PolicyChoice::zoned).into_iter();
                    let rules = rules.chain(ours.map(|ours| ours.called(OURS)));
                    cells.extend(rules.map(|rule| {
                        let param = format!("{zones} zones, {ms} ms");
                        Cell::of(name, load, rule, &scenario).with_param(param)
                    }));
                }
            }
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        Findings {
            claims: claims(played),
            charts: Vec::new(),
            tables: vec![table(played)],
        }
    }
}

/// Returns the numbers of two rules side by side, for each fleet of a case that both have played.
fn pairs(
    played: &[Played],
    of: [&str; 2],
    is_meant: impl Fn(&Cell) -> bool,
    value: fn(&Measured) -> f64,
) -> Vec<[f64; 2]> {
    let by = |name: &str| {
        let with_queries = played.iter().filter(|played| played.all.queries > 0);
        let named = with_queries.filter(|played| played.cell.policy.name == name);
        named
            .filter(|played| is_meant(&played.cell))
            .collect::<Vec<_>>()
    };
    let others = by(of[1]);
    let pair = |one: &Played| {
        let is_same = |other: &&&Played| {
            (&other.cell.step, &other.cell.param) == (&one.cell.step, &one.cell.param)
        };
        let other = others.iter().find(is_same)?;
        Some([value(&one.all), value(&other.all)])
    };
    by(of[0]).into_iter().filter_map(pair).collect()
}

fn p50(run: &Measured) -> f64 {
    latency_ms(run, 0.5)
}

fn p99(run: &Measured) -> f64 {
    latency_ms(run, 0.99)
}

/// Returns the share of queries that went to another zone, in percent.
fn abroad(run: &Measured) -> f64 {
    100.0 * run.queries_abroad as f64 / run.queries.max(1) as f64
}

fn ratio([one, other]: [f64; 2]) -> f64 {
    one / other
}

/// Returns the largest of some numbers, if there are any.
fn most(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    numbers.reduce(f64::max)
}

fn claims(played: &[Played]) -> Vec<Claim> {
    let ignoring = ZoneRule::Ignored.name();
    let beside = |other, case: &'static str, value| {
        let is_meant = move |cell: &Cell| case.is_empty() || cell.step == case;
        pairs(played, [OURS, other], is_meant, value)
    };
    let worst = |other, value| most(beside(other, "", value).into_iter().map(ratio));
    let judge = |bounds: Bounds, says: &str, found: Option<f64>| {
        found.map(|found| bounds.judge(says, found))
    };
    let most_abroad = |case| {
        most(
            beside(ignoring, case, abroad)
                .into_iter()
                .map(|[ours, _]| ours),
        )
    };
    let load_aware = ZoneRule::ByUtilization.name();
    let overloaded = |other| {
        let pairs = beside(other, OVERLOADED, p99);
        let times = pairs.into_iter().map(|[ours, other]| other / ours);
        times.reduce(f64::min)
    };
    let claims = [
        judge(
            Bounds::at_most(1.02, ""),
            "p99 is never above that of ignoring zones by more than 2 %",
            worst(ignoring, p99),
        ),
        judge(
            Bounds::at_most(1.02, ""),
            "p50 is never above that of ignoring zones by more than 2 %",
            worst(ignoring, p50),
        ),
        judge(
            Bounds::at_most(5.0, " %"),
            "while all zones have room, at most 5 % of the queries leave theirs",
            most_abroad(EVEN),
        ),
        judge(
            Bounds::at_most(1.1, ""),
            "p99 is never above that of load-aware locality by more than 10 %",
            worst(load_aware, p99),
        ),
        judge(
            Bounds::at_least(5.0, ""),
            "with the own zone overloaded, load-aware locality has a p99 of at least five times ours",
            overloaded(load_aware),
        ),
        judge(
            Bounds::at_least(20.0, ""),
            "and rules that count replicas one of at least twenty times ours",
            overloaded(ZoneRule::ByCounts.name()),
        ),
    ];
    claims.into_iter().flatten().collect()
}

fn table(played: &[Played]) -> Table {
    let columns = [
        "case",
        "zones",
        "rule",
        "p50, ms",
        "p99, ms",
        "to other zones, %",
    ];
    let rows = played.iter().map(|played| {
        let run = &played.all;
        vec![
            played.cell.step.clone(),
            played.cell.param.clone(),
            played.cell.policy.name.clone(),
            number(p50(run)),
            number(p99(run)),
            number(abroad(run)),
        ]
    });
    Table::new("Zones".to_owned(), &columns, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Verdict::{NotReproduced, Reproduced};
    use crate::figure::trial::{self, verdicts};

    /// Returns a play in which ours has these latencies in milliseconds at p50 and p99 and this
    /// number of 10,000 queries abroad, and each other rule 10 and `other`.
    fn played((p50, p99, abroad): (f64, f64, u64), other: f64) -> Vec<Played> {
        trial::played(&Zones, |cell| {
            let is_ours = cell.policy.name == OURS;
            let [low, high] = match cell.policy.name.as_str() {
                OURS => [p50, p99],
                name if name == ZoneRule::Ignored.name() => [10.0, 50.0],
                _ => [10.0, other],
            };
            let mut run = trial::run([low, low, high, high]);
            if is_ours {
                run.queries_abroad = abroad;
            }
            run
        })
    }

    #[test]
    fn claims_hold_up_to_their_bounds() {
        let judged = |ours, other, words| verdicts(&Zones, &played(ours, other), &[words]);
        for (words, holds, fails) in [
            (
                "p99 is never above that of ignoring",
                (10.0, 50.8, 1),
                (10.0, 51.4, 1),
            ),
            (
                "p50 is never above that of ignoring",
                (10.1, 50.0, 1),
                (10.3, 50.0, 1),
            ),
            ("at most 5 %", (10.0, 50.0, 490), (10.0, 50.0, 510)),
            (
                "load-aware locality by more than 10 %",
                (10.0, 54.0, 1),
                (10.0, 56.0, 1),
            ),
        ] {
            assert_eq!(judged(holds, 50.0, words), [Reproduced], "{words}");
            assert_eq!(judged(fails, 50.0, words), [NotReproduced], "{words}");
        }
        for (words, times) in [("at least five", 5.0), ("at least twenty", 20.0)] {
            let ours = (10.0, 50.0, 1);
            assert_eq!(judged(ours, 51.0 * times, words), [Reproduced], "{words}");
            assert_eq!(
                judged(ours, 49.0 * times, words),
                [NotReproduced],
                "{words}"
            );
            // A single fleet below the bound is enough to miss it.
            let mut one_below = played(ours, 51.0 * times);
            let below = played(ours, 49.0 * times);
            for (one, below) in one_below.iter_mut().zip(below) {
                if one.cell.step == OVERLOADED && one.cell.param == "3 zones, 5 ms" {
                    *one = below;
                }
            }
            let judged = verdicts(&Zones, &one_below, &[words]);
            assert_eq!(judged, [NotReproduced], "{words}");
        }
    }
}
